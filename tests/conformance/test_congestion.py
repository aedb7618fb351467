"""A connection that takes less than it is sent: what waits for slots, what for the socket, and QoS 0 in both cases."""

import pytest

from tests.conformance.client import Client, Got
from tests.conformance.peer import Peer
from tests.memory import MemoryLink

PRIORITIES = "+/high=2,+/low=1"
SIZE = 100_000  # ten make a megabyte, the mark; a stalled socket swallows some megabytes more
MANY = 120
keeps = pytest.mark.settings({"mqtt.max_inflight": 4, "mqtt.max_mqueue_len": 5000, "sys_interval": 0})
drops = pytest.mark.settings({"mqtt.mqueue_store_qos0": False, "mqtt.max_inflight": 4, "sys_interval": 0})


def stalled(peer: Peer, *, persistent: bool = False, qos: int = 1) -> Client:
    """A subscriber that has stopped to read and is congested."""
    client = peer.connect("s", expiry=100 if persistent else None)
    client.subscribe(f"{peer.prefix}/#", qos=qos)
    client.stall()
    publisher = peer.connect("flood")
    for number in range(MANY):
        publisher.publish(f"{peer.prefix}/flood", str(number).encode().ljust(SIZE), 0)
    publisher.ping()
    return client


def read_on(client: Client) -> None:
    link = client.link
    if isinstance(link, MemoryLink):
        link.read_on()


def put(peer: Peer, topic: str, payload: bytes, qos: int) -> None:
    publisher = peer.connect("p")
    publisher.put(f"{peer.prefix}/{topic}", payload, qos)
    publisher.disconnect()


def of(got: list[Got], topic: str) -> list[bytes]:
    return [one.payload.strip() for one in got if one.topic.endswith("/" + topic)]


# Not congested


@pytest.mark.settings({"mqtt.max_inflight": 2})
@pytest.mark.parametrize("persistent", [False, True], ids=["memory", "persistent"])
def test_qos_1_and_2_wait_at_a_full_window_and_go_on_with_a_free_slot(peer: Peer, persistent: bool) -> None:
    client = peer.connect("s", expiry=100 if persistent else None)
    client.subscribe(peer.topic, qos=2)
    publisher = peer.connect("p")
    for number, qos in enumerate((1, 2, 1, 2)):
        publisher.put(peer.topic, str(number).encode(), qos)
    first, second = client.expect("PUBLISH", payload=b"0"), client.expect("PUBLISH", payload=b"1")
    client.expect_nothing()
    client.ack("PUBACK", first.pid)
    client.expect("PUBLISH", payload=b"2")
    client.expect_nothing()
    client.ack("PUBREC", second.pid)
    client.expect("PUBREL", pid=second.pid)
    client.expect_nothing()
    client.ack("PUBCOMP", second.pid)
    client.expect("PUBLISH", payload=b"3")


@pytest.mark.settings({"mqtt.max_inflight": 1})
@pytest.mark.parametrize("persistent", [False, True], ids=["memory", "persistent"])
def test_qos_0_flows_past_a_full_window(peer: Peer, persistent: bool) -> None:
    """It needs no slot, so it is not behind what waits for one."""
    client = peer.connect("s", expiry=100 if persistent else None)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    for number in range(3):
        publisher.put(peer.topic, str(number).encode(), 1)
    client.expect("PUBLISH", payload=b"0")
    for number in range(5):
        publisher.put(peer.topic, str(number).encode(), 0)
        client.expect("PUBLISH", payload=str(number).encode(), qos=0)
    client.expect_nothing()


# Congested


@keeps
def test_what_comes_while_congested_is_queued_and_goes_on_in_order(peer: Peer) -> None:
    """Per topic and QoS; QoS 0 is stored (mqueue_store_qos0), and nothing is lost."""
    client = stalled(peer)
    for number in range(3):
        put(peer, "one", str(number).encode(), 1)
        put(peer, "zero", str(number).encode(), 0)
    assert peer.session("s")["queue_messages"] >= 6
    read_on(client)
    got = client.take_all()
    assert of(got, "flood") == [str(n).encode() for n in range(MANY)]
    assert of(got, "one") == of(got, "zero") == [b"0", b"1", b"2"]
    assert peer.session("s")["drops"] == {}


@drops
def test_qos_0_is_dropped_and_counted_where_it_is_not_stored(peer: Peer) -> None:
    """mqueue_store_qos0 = false: QoS 1 waits all the same."""
    client = stalled(peer)
    put(peer, "one", b"kept", 1)
    put(peer, "zero", b"lost", 0)
    read_on(client)
    got = client.take_all()
    assert of(got, "one") == [b"kept"]
    assert of(got, "zero") == []
    lost = peer.session("s")["drops"]
    assert lost == {"congested": MANY - len(of(got, "flood")) + 1}


@pytest.mark.settings({"sys_interval": 0})
def test_a_persistent_session_stores_no_qos_0_unless_told(peer: Peer) -> None:
    client = stalled(peer, persistent=True)
    put(peer, "one", b"kept", 1)
    read_on(client)
    got = client.take_all()
    assert of(got, "one") == [b"kept"]
    assert peer.session("s")["drops"] == {"congested": MANY - len(of(got, "flood"))}


@pytest.mark.settings({"mqtt.mqueue_store_qos0_persistent": True, "sys_interval": 0})
def test_a_persistent_session_stores_qos_0_on_disk_where_told(peer: Peer) -> None:
    """While congested, and in order with what comes after."""
    client = stalled(peer, persistent=True)
    read_on(client)
    got = client.take_all()
    put(peer, "flood", b"last", 0)
    got.append(client.take())
    assert of(got, "flood") == [*(str(n).encode() for n in range(MANY)), b"last"]
    assert peer.session("s")["drops"] == {}


@pytest.mark.settings({"mqtt.mqueue_store_qos0_persistent": True})
@pytest.mark.parametrize("old", [False, True])
def test_stored_qos_0_keeps_its_order_over_a_restart(peer: Peer, old: bool) -> None:
    version = 4 if old else 5
    client = peer.connect("s", version=version, clean=False, expiry=100)
    client.subscribe(peer.topic, qos=1)
    client.disconnect()
    publisher = peer.connect("p")
    for number in range(30):
        publisher.put(peer.topic, str(number).encode(), 0)
    publisher.put(peer.topic, b"end", 1)  # what is acknowledged is on disk, and so is what came before
    peer.restart()
    back = peer.connect("s", version=version, clean=False, expiry=100)
    publisher = peer.connect("p")
    for number in range(30, 60):
        publisher.put(peer.topic, str(number).encode(), 0)
    got = back.take_all()
    assert [one.payload for one in got if one.qos == 0] == [str(n).encode() for n in range(60)]


@keeps
def test_free_slots_bound_what_a_congested_connection_is_sent(peer: Peer) -> None:
    """Whatever the QoS: it is full, so an acknowledgement brings nothing but what the slots allow."""
    client = peer.connect("s")
    client.subscribe(f"{peer.prefix}/#", qos=1)
    publisher = peer.connect("p")
    for number in range(4):
        publisher.put(f"{peer.prefix}/one", str(number).encode(), 1)
    window = client.recv_many("PUBLISH", 4)
    client.stall()
    for number in range(MANY):
        publisher.publish(f"{peer.prefix}/flood", str(number).encode().ljust(SIZE), 0)
    publisher.ping()
    queued = peer.session("s")["queue_messages"]
    assert queued > 10
    client.ack_many("PUBACK", [got.pid for got in window[:1]])
    peer.settle()
    assert peer.session("s")["queue_messages"] >= queued - 4
    assert peer.session("s")["inflight"] == 3


# With priorities


@pytest.mark.settings(
    {"mqtt.max_inflight": 1, "mqtt.mqueue_priorities": PRIORITIES, "mqtt.max_mqueue_len": 5000, "sys_interval": 0}
)
def test_a_full_window_stops_at_the_priority_whose_turn_it_is(peer: Peer) -> None:
    """A lower one has QoS 0, the current one has none: nothing goes. It goes on with the acknowledgement."""
    client = stalled(peer)
    for number in range(2):
        put(peer, "high", str(number).encode(), 1)
    put(peer, "low", b"zero", 0)
    read_on(client)
    got = client.drain()
    assert of(got, "high") == [b"0"]
    assert of(got, "low") == []
    assert len(of(got, "flood")) < MANY
    while (waiting := [one for one in got if one.qos]) and len(of(got, "flood")) < MANY:
        client.ack("PUBACK", waiting[-1].pid)
        more = client.drain()
        if not more:
            break
        got += more
    assert of(got, "high") == [b"0", b"1"]
    assert of(got, "low") == [b"zero"]
    assert of(got, "flood") == [str(n).encode() for n in range(MANY)]
