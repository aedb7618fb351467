"""The broker at the other end does not know the session: what was in flight is sent again as new, in its old place.

What it had received of QoS 2 is over (its PUBREL would be for an id that it does not know), and ids that came from
it mean nothing any more [MQTT-3.2.2-4].
"""

from gateway.core.backlog import give_back
from gateway.core.model import SENT, STAGED, WAITING, Delivery, Session
from gateway.core.state import Core


def begin_anew(core: Core, s: Session) -> None:
    """Call it while the session has no connection."""
    for d in list(s.inflight.values()):
        b = d.backlog
        if d.state == STAGED:
            s.staged -= 1
        if d.state > SENT:
            s.settled += 1
        elif b is not None and d.held:
            give_back(b, d)
        elif b is not None:
            forget_id(s, d)
    s.inflight = {}
    s.resend.clear()
    s.awaiting = {}
    s.awaiting_since = {}
    core.dirty_session(s)


def forget_id(s: Session, d: Delivery) -> None:
    """A QoS 2 message of before a restart that has not come into flight again: it is like any other of its queue."""
    b = d.backlog
    assert b is not None
    seq: int = d.message.seq
    b.restored.pop(seq, None)
    d.packet_id = 0
    d.state = WAITING
