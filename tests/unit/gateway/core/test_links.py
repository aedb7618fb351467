"""What the core notes of dialled connections."""

from gateway.core.links import Dead, Uplinks
from gateway.core.message import Message
from gateway.core.model import Delivery, Session
from gateway.core.uplink import BEAT


def test_refusals_are_counted_by_session_and_reason() -> None:
    links = Uplinks()
    one, other = Session(1, "$uplink/one"), Session(2, "$uplink/other")
    for s, code in ((one, 0x87), (one, 0x87), (one, 0x97), (other, 0x99)):
        links.count(s, code)
    assert links.refused == {"$uplink/one": {0x87: 2, 0x97: 1}, "$uplink/other": {0x99: 1}}


def test_a_heartbeat_is_an_event() -> None:
    links = Uplinks()
    links.came_back("one", b"7")
    (event,) = links.events
    assert (event.kind, event.uplink, event.data) == (BEAT, "one", b"7")


def test_a_message_is_dead_before_its_copy_is_made() -> None:
    d = Delivery(Message(b"t", b"", 1, False), 1, False, None, None)
    assert Dead(Session(1, "s"), d, "refused", 0x87).copy is None
