"""Windows, packet sizes, queue limits, keep alive: who may send how much, and what happens to the rest."""

import pytest

from tests.conformance.peer import Peer


def test_receive_maximum_of_one_is_one_in_flight(peer: Peer) -> None:
    """Strictly, for QoS 1 and for QoS 2 until PUBCOMP [MQTT-3.3.4-9], [MQTT-4.9.0-2]."""
    client = peer.connect("s", receive_maximum=1)
    client.subscribe(peer.topic, qos=2)
    publisher = peer.connect("p")
    for number, qos in enumerate((1, 2, 2, 1)):
        publisher.put(peer.topic, str(number).encode(), qos=qos)
    first = client.expect("PUBLISH", payload=b"0")
    client.expect_nothing()
    client.ack("PUBACK", first.pid)
    second = client.expect("PUBLISH", payload=b"1")
    client.expect_nothing()
    client.ack("PUBREC", second.pid)
    client.expect("PUBREL", pid=second.pid)
    client.expect_nothing()
    client.ack("PUBCOMP", second.pid)
    client.take(payload=b"2")
    client.take(payload=b"3")


def test_the_window_counts_what_is_resent(peer: Peer) -> None:
    """A reconnect with a smaller Receive Maximum gets no more than that at a time [MQTT-3.3.4-9]."""
    client = peer.connect("s", expiry=100, receive_maximum=10)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    for number in range(5):
        publisher.put(peer.topic, str(number).encode())
    client.recv_many("PUBLISH", 5)
    client.drop()
    back = peer.connect("s", clean=False, expiry=100, receive_maximum=2)
    first, second = back.expect("PUBLISH", payload=b"0", dup=True), back.expect("PUBLISH", payload=b"1", dup=True)
    back.expect_nothing()
    back.ack("PUBACK", first.pid)
    third = back.expect("PUBLISH", payload=b"2", dup=True)
    back.expect_nothing()
    back.ack_many("PUBACK", [second.pid, third.pid])
    back.take(payload=b"3")
    back.take(payload=b"4")


@pytest.mark.settings({"mqtt.max_inflight": 3})
@pytest.mark.parametrize("version", [4, 5])
def test_max_inflight_bounds_every_client(peer: Peer, version: int) -> None:
    """3.1.1 has no Receive Maximum, and a 5.0 client may offer more than the broker wants to use."""
    client = peer.connect("s", version=version, receive_maximum=100)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    for number in range(5):
        publisher.put(peer.topic, str(number).encode())
    got = client.recv_many("PUBLISH", 3)
    client.expect_nothing()
    client.ack("PUBACK", got[1].pid)
    client.expect("PUBLISH", payload=b"3")
    client.expect_nothing()


def test_acknowledgements_out_of_order_open_the_window(peer: Peer) -> None:
    """Each PUBACK frees its own place, whichever it is [MQTT-4.9.0-2]."""
    client = peer.connect("s", receive_maximum=3)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    for number in range(6):
        publisher.put(peer.topic, str(number).encode())
    got = client.recv_many("PUBLISH", 3)
    for index, following in ((2, b"3"), (0, b"4"), (1, b"5")):
        client.ack("PUBACK", got[index].pid)
        client.expect("PUBLISH", payload=following)
        client.ack("PUBACK", got[index].pid)  # a second time: settles nothing
    client.expect_nothing()


def test_other_packets_flow_at_a_full_window(peer: Peer) -> None:
    """QoS 0, SUBACK, PINGRESP are not held up [MQTT-3.3.4-10], [MQTT-4.9.0-3]."""
    client = peer.connect("s", receive_maximum=1)
    client.subscribe(f"{peer.topic}/#", qos=1)
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"1")
    publisher.put(f"{peer.topic}/a", b"2")
    client.expect("PUBLISH", payload=b"1")
    publisher.put(f"{peer.topic}/a", b"zero", qos=0)
    client.expect("PUBLISH", payload=b"zero", qos=0)
    client.ping()
    client.subscribe(f"{peer.topic}/other", qos=1)
    client.expect_nothing()


def test_a_slow_subscriber_does_not_slow_others(peer: Peer) -> None:
    """One acknowledges nothing, one reads nothing at all, the third gets everything at once."""
    slow = peer.connect("slow", receive_maximum=1)
    stalled = peer.connect("stalled")
    quick = peer.connect("quick")
    for client in (slow, stalled, quick):
        client.subscribe(f"{peer.topic}/#", qos=1)
    stalled.stall()
    publisher = peer.connect("p")
    for number in range(20):
        publisher.put(f"{peer.topic}/one", str(number).encode())
        quick.take(payload=str(number).encode())
    for _ in range(40):
        publisher.put(f"{peer.topic}/zero", bytes(100_000), qos=0)
        quick.take(qos=0)
    slow.ping()


def test_receive_maximum_of_zero_is_refused(peer: Peer) -> None:
    """[MQTT-3.1.2.11.3]: a protocol error."""
    client = peer.open(version=5)
    client.send_connect(f"{peer.prefix}-s", receive_maximum=0)
    client.expect_refused(0x82)


@pytest.mark.settings({"mqtt.receive_maximum": 3})
def test_a_client_over_the_receive_maximum_is_disconnected(peer: Peer) -> None:
    """Told in CONNACK; one QoS 2 exchange too many is 0x93 [MQTT-3.3.4-7], section 4.9."""
    publisher = peer.connect("p")
    assert publisher.connack.props["receive_maximum"] == 3
    for pid in (1, 2, 3):
        publisher.publish(peer.topic, b"x", qos=2, pid=pid)
        publisher.expect("PUBREC", pid=pid)
    publisher.ack("PUBREL", 2)
    publisher.expect("PUBCOMP", pid=2)
    publisher.publish(peer.topic, b"x", qos=2, pid=2)
    publisher.expect("PUBREC", pid=2)
    publisher.publish(peer.topic, b"x", qos=1, pid=9)
    publisher.expect_closed(0x93)


@pytest.mark.settings({"mqtt.receive_maximum": 3})
@pytest.mark.parametrize("qos", [1, 2])
def test_a_311_client_over_the_receive_maximum_is_only_paused(peer: Peer, qos: int) -> None:
    """It cannot know the limit: everything is answered in the end, in order, and nothing locks up."""
    watcher = peer.connect("w")
    watcher.subscribe(peer.topic, qos=2)
    publisher = peer.connect("p", version=4)
    pids = list(range(1, 21))
    publisher.send(b"".join(publisher.wire.publish(peer.topic, str(n).encode(), qos, pid=n) for n in pids))
    answers = publisher.recv_many("PUBACK" if qos == 1 else "PUBREC", len(pids))
    assert [got.pid for got in answers] == pids
    if qos == 2:
        publisher.ack_many("PUBREL", pids)
        assert [got.pid for got in publisher.recv_many("PUBCOMP", len(pids))] == pids
    publisher.ping()
    assert [watcher.take(qos=qos).payload for _ in pids] == [str(n).encode() for n in pids]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_too_large_for_one_client_is_dropped_for_it_alone(peer: Peer, qos: int) -> None:
    """As if it had been sent; the queue goes on [MQTT-3.1.2-24], [MQTT-3.1.2-25]."""
    small = peer.connect("small", maximum_packet_size=200, receive_maximum=1)
    large = peer.connect("large")
    for client in (small, large):
        client.subscribe(peer.topic, qos=qos)
    publisher = peer.connect("p")
    for payload in (b"before", bytes(300), b"after"):
        publisher.put(peer.topic, payload, qos=qos)
    for payload in (b"before", bytes(300), b"after"):
        large.take(payload=payload)
    small.take(payload=b"before")
    small.take(payload=b"after")
    small.ping()


def test_maximum_packet_size_holds_for_what_was_queued(peer: Peer) -> None:
    """The size is that of the connection that gets the message, not of the one that subscribed [MQTT-3.1.2-24]."""
    first = peer.connect("s", expiry=100)
    first.subscribe(peer.topic, qos=1)
    first.disconnect()
    publisher = peer.connect("p")
    for payload in (bytes(300), b"small"):
        publisher.put(peer.topic, payload)
    back = peer.connect("s", clean=False, expiry=100, maximum_packet_size=100)
    back.take(payload=b"small")
    back.disconnect()
    again = peer.connect("s", clean=False, expiry=100)
    again.expect_nothing()


def test_the_exact_packet_size_still_goes(peer: Peer) -> None:
    """The limit counts the whole packet [MQTT-3.1.2.11.4]."""
    size = 2 + 2 + len(peer.topic) + 2 + 1 + 100
    fits, short = peer.connect("fits", maximum_packet_size=size), peer.connect("short", maximum_packet_size=size - 1)
    for client in (fits, short):
        client.subscribe(peer.topic, qos=1)
    peer.connect("p").put(peer.topic, bytes(100))
    assert len(fits.take().raw) == size
    short.expect_nothing()


@pytest.mark.settings({"mqtt.max_packet_size": 1000})
def test_a_packet_over_the_limit_of_the_broker(peer: Peer) -> None:
    """Told in CONNACK; 0x95 as soon as the length is known, before the rest has come [MQTT-3.2.2-15]."""
    publisher = peer.connect("p")
    assert publisher.connack.props["maximum_packet_size"] == 1000
    head = len(publisher.wire.publish(peer.topic, b"", 1))
    fits = publisher.wire.publish(peer.topic, bytes(1000 - head - 1), 1, pid=5)
    assert len(fits) == 1000
    publisher.send(fits)
    publisher.expect("PUBACK", pid=5)
    publisher.send(b"\x30\xff\xff\xff\x7f\x00\x05")
    publisher.expect_closed(0x95)
    old = peer.connect("old", version=4)
    old.send(b"\x30\xff\xff\xff\x7f\x00\x05")
    old.expect_closed(silent=True)


@pytest.mark.settings({"mqtt.max_packet_size": 1000})
def test_a_connect_over_the_limit_is_not_waited_for(peer: Peer) -> None:
    """256 MB announced as the first packet: closed at once."""
    client = peer.open(version=5)
    client.send(b"\x10\xff\xff\xff\x7f\x00\x04MQTT\x05")
    client.expect_refused(0x95)


@pytest.mark.settings({"mqtt.max_mqueue_len": 3})
def test_a_full_queue_drops_the_oldest(peer: Peer) -> None:
    """The default policy of a memory session; the newest three are left."""
    client = peer.connect("s", receive_maximum=1)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    for number in range(7):
        publisher.put(peer.topic, str(number).encode())
    assert [client.take().payload for _ in range(4)] == [b"0", b"4", b"5", b"6"]
    client.expect_nothing()


@pytest.mark.settings({"mqtt.max_mqueue_len": 3, "mqtt.mqueue_policy": "drop_newest"})
def test_a_full_queue_drops_the_newest_where_told(peer: Peer) -> None:
    """mqueue_policy drop_newest: what came first stays."""
    client = peer.connect("s", receive_maximum=1)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    for number in range(7):
        publisher.put(peer.topic, str(number).encode())
    assert [client.take().payload for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    client.expect_nothing()


@pytest.mark.settings({"mqtt.max_mqueue_len": 3, "mqtt.mqueue_policy": "push_back"})
def test_a_full_queue_pushes_the_publisher_back_where_told(peer: Peer) -> None:
    """mqueue_policy push_back: nothing is lost, the publisher waits until the subscriber has made room."""
    client = peer.connect("s", receive_maximum=1)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    publisher.send(b"".join(publisher.wire.publish(peer.topic, str(n).encode(), 1, pid=n) for n in range(1, 21)))
    assert [client.take().payload for _ in range(20)] == [str(n).encode() for n in range(1, 21)]
    assert [got.pid for got in publisher.recv_many("PUBACK", 20)] == list(range(1, 21))


@pytest.mark.settings({"mqtt.max_mqueue_len": "unlimited"})
def test_unlimited_is_a_word(peer: Peer) -> None:
    """More than the default limit waits, and nothing is dropped."""
    queue_beyond_the_default(peer)


@pytest.mark.settings({"mqtt.max_mqueue_len": 0})
def test_zero_means_unlimited(peer: Peer) -> None:
    """Never "drop all"."""
    queue_beyond_the_default(peer)


def queue_beyond_the_default(peer: Peer) -> None:
    client = peer.connect("s", receive_maximum=1)
    client.subscribe(peer.topic, qos=1)
    publish_numbers(peer, 1200)
    assert [int(client.take().payload) for _ in range(1200)] == list(range(1200))


def publish_numbers(peer: Peer, count: int) -> None:
    publisher = peer.connect("p")
    for number in range(count):
        publisher.buffer_publish(peer.topic, str(number).encode(), qos=1)
        if number % 100 == 99:
            publisher.flush()
            publisher.recv_many("PUBACK", 100)


def test_a_persistent_session_has_no_count_limit(peer: Peer) -> None:
    """Its queue is on disk: 1,500 messages wait while the client is away, in order."""
    client = peer.connect("s", expiry=1000)
    client.subscribe(peer.topic, qos=1)
    client.disconnect()
    publish_numbers(peer, 1500)
    back = peer.connect("s", clean=False, expiry=1000)
    assert [int(back.take().payload) for _ in range(1500)] == list(range(1500))


@pytest.mark.settings({"mqtt.server_keepalive": 1})
def test_server_keep_alive_overrides(peer: Peer) -> None:
    """Told in CONNACK, cut off at one and a half times, with 0x8D [MQTT-3.2.2-21], [MQTT-3.1.2-22]."""
    client = peer.connect("s", keep_alive=600)
    assert client.connack.props["server_keep_alive"] == 1
    peer.advance(1.0)
    client.ping()
    peer.advance(1.1)
    client.expect_nothing()
    peer.advance(1.2)
    client.expect_closed(0x8D)


@pytest.mark.parametrize("version", [4, 5])
def test_silence_is_cut_at_one_and_a_half_times_keep_alive(peer: Peer, version: int) -> None:
    """As if the network had failed: the will is sent [MQTT-3.1.2-22]."""
    watcher = peer.connect("w")
    watcher.subscribe(f"{peer.topic}/will", qos=0)
    client = peer.connect("s", version=version, keep_alive=1, will=(f"{peer.topic}/will", b"dead", 0, False))
    peer.advance(1.2)
    client.expect_nothing()
    peer.advance(1.4)
    client.expect_closed(0x8D if version == 5 else None, silent=version == 4)
    watcher.take(payload=b"dead")


def test_only_what_the_client_sends_counts_for_keep_alive(peer: Peer) -> None:
    """Deliveries of QoS 0 do not keep a silent client alive [MQTT-3.1.2-22]."""
    client = peer.connect("s", keep_alive=1)
    client.subscribe(peer.topic, qos=0)
    publisher = peer.connect("p")
    for _ in range(6):
        publisher.publish(peer.topic, b"x")
        peer.advance(0.4)
    got = client.drain()
    assert client.closed
    assert got[-1].type == "DISCONNECT"
    assert got[-1].reason == 0x8D


def test_keep_alive_zero_is_never_cut(peer: Peer) -> None:
    """[MQTT-3.1.2.10]."""
    client = peer.connect("s", keep_alive=0)
    peer.advance(100_000, tcp=2)
    client.expect_nothing()
    client.ping()
