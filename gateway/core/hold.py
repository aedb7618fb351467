"""Delivered before durable: the insert of a message is held back while its receivers are about to acknowledge.

When the last of them has, nothing is written at all and the publisher is answered.
Only for QoS 1 that is not retained: its publisher sends again what was not acknowledged.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.commits import commit, in_order, left, sid_of
from gateway.core.fifo import Fifo
from gateway.core.message import Message
from gateway.core.model import Delivery, Session, Target
from gateway.core.ranks import idle
from gateway.core.state import Core

PROMPT: Final = 20  # acknowledgements within the window that clear the slow flag
RATE_MS: Final = 100


def may_hold(core: Core, targets: list[Target]) -> bool:
    """For a message of QoS 1: every target can answer within the window.

    It is connected, has nothing on disk ahead and room, and is not known as slow.
    """
    limits = core.limits
    window_ms: i64 = limits.commit_window_ms
    if window_ms == 0 or core.hold_bytes >= limits.hold_bytes_max or limits.log_keep_bytes:
        return False
    for t in targets:
        s = t.owner
        if s is None or s.slow or t.qos == 0 or (t.qos == 2 and limits.upgrade_qos):
            return False  # a QoS 2 delivery has its own way to the disk
        c = s.client
        b = t.backlog
        if c is None or b is None or not b.live or not c.connected or c.congested or s.staged or s.resend:
            return False
        if s.ranks is not None and (s.used >= c.window or not idle(s)):
            return False
        ahead: i64 = len(b.ram)
        if ahead and b.ram.head().message.waits:
            return False
        if s.used >= c.window and (ahead + 1) * 2000 > s.rate * window_ms:
            return False
    return True


def keep(core: Core, m: Message, now: i64) -> None:
    m.until = now + core.limits.commit_window_ms
    if not core.hold:
        core.wake(m.until)
    core.hold.append(m)
    core.hold_bytes += m.size


def expire(core: Core, now: i64) -> None:
    """The window of the oldest is over: those who have not answered are slow, and it goes to the disk."""
    hold = core.hold
    late = False
    longer: list[Message] = []
    while hold and (hold.head().missing == 0 or hold.head().until <= now):
        m = hold.popleft()
        if m.missing and core.engine.client is not None and only_engine(core, m):
            longer.append(m)
            continue
        core.hold_bytes -= m.size
        if m.missing == 0:
            continue
        for t in left(m):
            s = t.owner
            if s is not None and s is not core.engine.writer:
                s.slow = True
                s.prompt = 0
        commit(core, m)
        late = True
    if late:
        in_order(core)
    for m in longer:
        m.until = now + core.limits.commit_window_ms
        hold.append(m)


def only_engine(core: Core, m: Message) -> bool:
    """Whether nobody else is waited for: as long as the engine is up it has to say itself that it has the message."""
    for t in left(m):
        if t.owner is not core.engine.writer:
            return False
    return True


def commit_all(core: Core) -> None:
    """Nothing is held back any longer."""
    while core.hold:
        m = core.hold.popleft()
        core.hold_bytes -= m.size
        if m.missing:
            commit(core, m)
    in_order(core)


def harvest(core: Core, sid: int) -> None:
    """This session cannot answer any more: what it has not acknowledged goes to the disk now."""
    kept: Fifo[Message] = Fifo()
    for m in core.hold:
        waits = False
        if m.missing:
            for t in left(m):
                if sid_of(t) == sid:
                    waits = True
        if waits:
            core.hold_bytes -= m.size
            commit(core, m)
        else:
            kept.append(m)
    core.hold = kept
    in_order(core)


def answered(core: Core, s: Session, d: Delivery, now: i64) -> None:
    """Learn from an acknowledgement how fast this session is."""
    if s.slow:
        if now - d.sent_at <= core.limits.commit_window_ms:
            s.prompt += 1
            if s.prompt >= PROMPT:
                s.slow = False
        else:
            s.prompt = 0
    s.rate_n += 1
    passed: i64 = now - s.rate_at
    if passed >= RATE_MS:
        s.rate = s.rate_n * 1000 // passed
        s.rate_n = 0
        s.rate_at = now
