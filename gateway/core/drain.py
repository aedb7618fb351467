"""The pace at which a queue is drained: held to a rate where one is set, and measured for those who ask how long."""

from typing import Final

from mypy_extensions import i64

from gateway.core.model import Session
from gateway.core.pace import next_credit
from gateway.core.pump import pump
from gateway.core.state import Core, Drain

SMOOTH: Final = 0.3  # weight of the newest second


def run(core: Core, due: i64, now: i64) -> i64:
    """Those that waited for their rate go on; returns ``due``, or when one has to be looked at before (gateway ms)."""
    waiting = core.apps.paced
    core.apps.paced = {}
    for s in waiting:
        pump(core, s, now)
    for s in core.apps.paced:
        due = min(due, next_credit(s))
    return due


def measure(core: Core, now: i64) -> None:
    """Once a second: how fast the queues of those that are connected get shorter."""
    gone = [s for s in core.apps.drains if s.client is None or not waits(s)]
    for s in gone:
        del core.apps.drains[s]
    for c in core.clients:
        reader = c.session
        if reader is None or not c.connected or not waits(reader):
            continue
        drain = core.apps.drains.get(reader)
        if drain is None:
            core.apps.drains[reader] = Drain(now, reader.settled, reader.owed())
        else:
            step(drain, reader, now)


def waits(s: Session) -> bool:
    """More is queued than is in flight."""
    count = s.owed()
    return count > 0 and count > sum([len(b.held) for b in s.backlogs()])


def step(drain: Drain, s: Session, now: i64) -> None:
    passed: i64 = now - drain.at
    if passed <= 0:
        return
    count = s.owed()
    rate = 1000.0 * float(s.settled - drain.settled) / float(passed)
    shrinks = 1000.0 * float(drain.count - count) / float(passed)
    if drain.rate < 0:
        drain.rate = rate
        drain.shrinks = shrinks
    else:
        drain.rate += SMOOTH * (rate - drain.rate)
        drain.shrinks += SMOOTH * (shrinks - drain.shrinks)
    drain.at = now
    drain.settled = s.settled
    drain.count = count


def rate_of(core: Core, s: Session) -> int | None:
    """Messages per second that it takes from its queue; None = nothing waits, or it was not measured yet."""
    drain = core.apps.drains.get(s)
    return None if drain is None or drain.rate < 0 else round(drain.rate)


def eta_s(core: Core, s: Session) -> int | None:
    """Seconds until its queue is empty, if all goes on as it does; None = never, or not known."""
    drain = core.apps.drains.get(s)
    if drain is None or drain.rate < 0 or drain.shrinks < 0.5:
        return None
    return int(float(s.owed()) / drain.shrinks) + 1
