"""The dead letter of an uplink: what its remote refuses for good is kept here, and only then leaves the queue.

A copy is published below the uplink's dead topic, where a persistent session waits for somebody who reads it.
"""

from mypy_extensions import i64

from gateway.core.backlog import settle
from gateway.core.fanout import deliver_all
from gateway.core.links import Dead
from gateway.core.message import Message
from gateway.core.origin import pair
from gateway.core.pump import pump
from gateway.core.resident import grave
from gateway.core.routes import route_of
from gateway.core.stall import must_wait
from gateway.core.state import Core


def publish(core: Core, now: i64) -> None:
    """Make the copies, with the open commit; where nobody is to have one the message is dropped at once."""
    if must_wait(core):
        return
    fresh = core.uplinks.dead
    core.uplinks.dead = []
    for one in fresh:
        s = one.session
        uplink = s.uplink
        m = one.delivery.message
        # a copy that its own rules lead to the remote, and that is refused as well, would be copied without end
        if uplink is not None and uplink.dead_topic and pair(b"uplink", uplink.name.encode()) not in m.props:
            name = f"{uplink.dead_topic}/{m.topic.decode()}"
            if len(name.encode()) <= 65_535:
                grave(core, uplink)
                copy(core, one, name, uplink.name, now)
        if one.copy is None:
            end(core, one, now)
        else:
            core.uplinks.buried.append(one)


def copy(core: Core, one: Dead, name: str, uplink: str, now: i64) -> None:
    m = one.delivery.message
    why = one.reason if one.code == 0 else f"0x{one.code:02X}"
    props = m.forwarded() + pair(b"uplink", uplink.encode()) + pair(b"uplink-refused", why.encode())
    route = route_of(core, name)
    made = Message(route.topic, m.payload, max(m.qos, 1), False, props, 0)
    deliver_all(core, route, made, None, False, now)
    if made.seq:
        one.copy = made


def kept(core: Core, now: i64) -> None:
    """A commit is on disk: originals whose copies are kept, or were read already, leave their queues."""
    waiting: list[Dead] = []
    for one in core.uplinks.buried:
        made = one.copy
        assert made is not None
        segment = made.segment
        if made.missing == 0 or (segment is not None and segment.committed):
            end(core, one, now)
        else:
            waiting.append(one)
    core.uplinks.buried = waiting


def end(core: Core, one: Dead, now: i64) -> None:
    """It is settled, and counted as dropped by its uplink."""
    s = one.session
    d = one.delivery
    b = d.backlog
    if b is None or b.ended or not d.held:
        return  # its session has ended, and with it all that was there
    core.ledger.drop(b.sid, one.reason, 1)
    settle(core, b, d, now)
    pump(core, s, now)
