"""Where a queue stands, and what waits on a connection."""

from gateway.core.message import Message
from gateway.core.model import Backlog, Client, Delivery


def delivery(seq: int) -> Delivery:
    m = Message(b"t", b"", 1, False)
    m.seq = seq
    return Delivery(m, 1, False, None, None)


def test_the_lowest_position_that_is_not_settled() -> None:
    b = Backlog(1, 10)
    assert b.lowest(50) == 50  # all that there is
    b.ram.append(delivery(30))
    assert b.lowest(50) == 30
    b.held.add(delivery(20))
    assert b.lowest(50) == 20
    b.held.add(delivery(15))  # an older one after it: given back and taken again
    assert b.lowest(50) == 15


def test_behind_the_window_all_is_owed() -> None:
    b = Backlog(1, 10)
    b.live = False
    b.loaded = 12
    assert b.lowest(50) == 13


def test_take_gives_all_bytes_once() -> None:
    c = Client(None, "peer", 1000, 0)
    c.out.write(b"a")
    c.out.write(b"b")
    assert c.take() == b"ab"
    assert c.take() == b""
    assert c.out.size == 0


def test_only_a_plain_connection_takes_frames_as_they_came() -> None:
    c = Client(None, "peer", 1000, 0)
    c.version, c.connected = 5, True
    c.set_quick()
    assert c.quick == 5
    for name, value in (("congested", True), ("closing", True), ("simple", False), ("behind0", True)):
        was = getattr(c, name)
        setattr(c, name, value)
        c.set_quick()
        assert c.quick == 0, name
        setattr(c, name, was)
    c.version = 3
    c.set_quick()
    assert c.quick == 4  # 3.1 and 3.1.1 have the same PUBLISH
