"""What waits goes on when there is room, in order, and once."""

from tests.conformance.client import Client
from tests.core_rig import broker, connect, fill, session_of


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
