"""What waits goes on when there is room, in order, and once."""

import pytest

from gateway.core.ranks import in_memory
from tests.conformance.client import Client
from tests.core_rig import broker, connect, fill, session_of
from tests.memory import MemoryLink


def test_qos_1_does_not_overtake_a_qos_2_that_is_on_its_way_to_the_disk() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=2)
    publisher = connect(b, "p", clean=True)
    b.hold()
    publisher.publish("t", b"2", 2)
    publisher.publish("t", b"1", 1)
    client.expect_nothing()
    b.release()
    assert [client.expect("PUBLISH").payload for _ in range(2)] == [b"2", b"1"]


def test_a_staged_delivery_goes_out_once_however_the_connection_changes() -> None:
    """Its commit ends while the CONNACK is outstanding."""
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=2)
    publisher = connect(b, "p", clean=True)
    b.hold()
    publisher.publish("t", b"x", 2)
    b.release_one()  # the message; the packet id follows
    client.drop()
    client = Client(b.open(), 5)
    client.send_connect("s", clean=False, expiry=1000)
    b.release()
    client.expect("CONNACK")
    client.expect("PUBLISH", payload=b"x")
    client.expect_nothing()
    assert session_of(b, "s").used == 1


def test_congestion_keeps_back_and_goes_on() -> None:
    b = broker(out_high_bytes=20)
    client = connect(b, "s", clean=True, expiry=0)
    client.subscribe("t", qos=0)
    client.stall()
    fill(b, "t", 10, qos=0)
    assert 0 < len(session_of(b, "s").queue0) < 10
    link = client.link
    assert hasattr(link, "read_on")
    link.read_on()
    assert [int(got.payload) for got in client.drain()] == list(range(10))
    assert session_of(b, "s").queue_bytes == 0


def test_what_was_in_flight_before_a_crash_keeps_the_order_of_sending() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=2)
    publisher = connect(b, "p", clean=True)
    for n in range(4):
        publisher.put("t", str(n).encode(), qos=1 + n % 2)
    assert len(client.drain()) == 4
    b.advance(2000)
    b.crash()
    for _ in range(2):  # once from the disk, once from RAM
        client = connect(b, "s")
        assert [got.payload for got in client.drain()] == [b"0", b"1", b"2", b"3"]
        client.drop()


@pytest.mark.parametrize("ranked", [False, True])
@pytest.mark.parametrize("qos", [0, 1])
def test_between_the_marks_free_slots_bound_what_goes(ranked: bool, qos: int) -> None:
    """Above the high mark nothing goes, below half of it all; else an acknowledgement brings what the slots allow."""
    b = broker(out_high_bytes=1000, max_inflight=4, mqueue_priorities=[("t", 3)] if ranked else [])
    b.crash()
    client = connect(b, "s", clean=True, expiry=0)
    client.subscribe("t", qos=1)
    fill(b, "t", 4)
    window = client.recv_many("PUBLISH", 4)
    client.stall()
    link = client.link
    assert isinstance(link, MemoryLink)
    publisher = connect(b, "p", clean=True, expiry=0)
    for _ in range(12):
        publisher.publish("t", bytes(90), 0)
    for number in range(10):
        publisher.publish("t", bytes([number]), qos)
    s = session_of(b, "s")
    waiting = len(in_memory(s))
    assert waiting >= 10
    client.ack("PUBACK", window[0].pid)
    assert len(in_memory(s)) == waiting, "above the mark"
    link.read_some(len(link.unsent) - 700)
    assert len(in_memory(s)) == waiting, "still congested"
    for acknowledged, allowed in ((1, 2), (2, 3)):
        before, taken = len(in_memory(s)), len(link.unsent)
        client.ack("PUBACK", window[acknowledged].pid)
        assert 0 < before - len(in_memory(s)) <= allowed
        assert len(link.unsent) > taken
        link.read_some(len(link.unsent) - 700)
    link.read_on()
    assert all(one.qos or ranked for one in in_memory(s))
    client.ack("PUBACK", window[3].pid)
    assert len(client.take_all()) == 22
    assert not in_memory(s)
