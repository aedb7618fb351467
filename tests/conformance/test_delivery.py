"""QoS 1 and 2 in both directions: handshakes, resend after a reconnect, order, packet ids."""

import pytest

from tests.conformance.client import Client
from tests.conformance.peer import Peer


def subscriber(peer: Peer, *, qos: int = 1, version: int = 5, receive_maximum: int | None = None) -> Client:
    client = peer.connect("s", version=version, clean=False, expiry=1000, receive_maximum=receive_maximum)
    if not client.connack.session_present:
        client.subscribe(f"{peer.topic}/#", qos=qos)
    return client


@pytest.mark.parametrize("version", [4, 5])
def test_a_reconnect_resends_at_once_with_the_same_id(peer: Peer, version: int) -> None:
    """DUP 1 and the original packet id, not after a timer [MQTT-4.4.0-1], [MQTT-3.3.1-1]."""
    client = subscriber(peer, qos=2, version=version)
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"one", qos=1)
    publisher.put(f"{peer.topic}/a", b"two", qos=2)
    first, second = client.expect("PUBLISH", qos=1, dup=False), client.expect("PUBLISH", qos=2, dup=False)
    client.drop()
    back = subscriber(peer, qos=2, version=version)
    back.expect("PUBLISH", payload=b"one", qos=1, dup=True, pid=first.pid)
    back.expect("PUBLISH", payload=b"two", qos=2, dup=True, pid=second.pid)
    back.expect_nothing()


def test_a_resend_keeps_the_order_before_newer_messages(peer: Peer) -> None:
    """[MQTT-4.6.0-1], and one FIFO: what came while the client was away follows."""
    client = subscriber(peer)
    publisher = peer.connect("p")
    for payload in (b"1", b"2", b"3", b"4"):
        publisher.put(f"{peer.topic}/{int(payload) % 2}", payload)
    got = [client.expect("PUBLISH") for _ in range(4)]
    client.ack("PUBACK", got[1].pid)
    client.drop()
    peer.settle()
    for payload in (b"5", b"6"):
        publisher.put(f"{peer.topic}/{int(payload) % 2}", payload)
    back = subscriber(peer)
    again = [back.expect("PUBLISH") for _ in range(5)]
    assert [(p.payload, p.dup) for p in again] == [
        (b"1", True),
        (b"3", True),
        (b"4", True),
        (b"5", False),
        (b"6", False),
    ]
    assert [p.pid for p in again[:3]] == [got[0].pid, got[2].pid, got[3].pid]
    assert len({p.pid for p in again}) == 5


def test_the_order_survives_a_crash(peer: Peer) -> None:
    """One FIFO over topics and QoS, what was in flight first; nothing is lost [MQTT-4.6.0-5]."""
    client = subscriber(peer, qos=2, receive_maximum=3)
    publisher = peer.connect("p")
    for number in range(8):
        publisher.put(f"{peer.topic}/{number % 3}", str(number).encode(), qos=1 + number % 2)
    for _ in range(3):
        client.expect("PUBLISH")
    peer.restart()
    back = subscriber(peer, receive_maximum=3)
    assert [back.take().payload for _ in range(8)] == [str(n).encode() for n in range(8)]
    back.expect_nothing()


@pytest.mark.parametrize("crash", [False, True])
def test_after_pubrec_the_pubrel_is_resent_never_the_publish(peer: Peer, crash: bool) -> None:
    """[MQTT-4.3.3-6], [MQTT-4.4.0-1]; QoS 2 keeps its ids over a crash."""
    client = subscriber(peer, qos=2)
    peer.connect("p").put(f"{peer.topic}/a", b"once", qos=2)
    pid = client.expect("PUBLISH", qos=2).pid
    client.ack("PUBREC", pid)
    client.expect("PUBREL", pid=pid)
    if crash:
        peer.restart()
    else:
        client.drop()
    back = subscriber(peer, qos=2)
    back.expect("PUBREL", pid=pid)
    back.expect_nothing()
    back.ack("PUBCOMP", pid)
    peer.settle()
    back.drop()
    subscriber(peer, qos=2).expect_nothing()


def test_qos_2_in_flight_keeps_its_id_over_a_crash(peer: Peer) -> None:
    """The PUBLISH that was not yet received is resent with its id [MQTT-4.4.0-1]."""
    client = subscriber(peer, qos=2)
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"1", qos=2)
    publisher.put(f"{peer.topic}/a", b"2", qos=2)
    first, second = client.expect("PUBLISH"), client.expect("PUBLISH")
    client.ack("PUBREC", second.pid)
    client.expect("PUBREL", pid=second.pid)
    peer.restart()
    back = subscriber(peer, qos=2)
    got = {p.type: p for p in (back.recv(), back.recv())}
    assert (got["PUBLISH"].pid, got["PUBLISH"].payload, got["PUBLISH"].dup) == (first.pid, b"1", True)
    assert got["PUBREL"].pid == second.pid


def test_a_duplicate_qos_2_publish_is_delivered_once(peer: Peer) -> None:
    """PUBREC each time, before and after a reconnect; after PUBCOMP the id is new [MQTT-4.3.3-10], [MQTT-4.3.3-12]."""
    client = subscriber(peer, qos=2)
    publisher = peer.connect("p", expiry=1000)
    for dup in (False, True, True):
        publisher.publish(f"{peer.topic}/a", b"once", qos=2, pid=7, dup=dup)
        publisher.expect("PUBREC", pid=7)
    publisher.drop()
    publisher = peer.connect("p", clean=False, expiry=1000)
    for _ in range(2):
        publisher.publish(f"{peer.topic}/a", b"once", qos=2, pid=7, dup=True)
        publisher.expect("PUBREC", pid=7)
    for _ in range(2):
        publisher.ack("PUBREL", 7)
        publisher.expect("PUBCOMP", pid=7)
    client.take(payload=b"once", qos=2)
    client.expect_nothing()
    publisher.publish(f"{peer.topic}/a", b"new", qos=2, pid=7, dup=True)
    publisher.expect("PUBREC", pid=7)
    client.take(payload=b"new", qos=2)


def test_the_incoming_qos_2_id_is_durable(peer: Peer) -> None:
    """A duplicate after kill -9 is still a duplicate, and its PUBREL is still known [MQTT-4.3.3-10]."""
    client = subscriber(peer, qos=2)
    publisher = peer.connect("p", expiry=1000)
    publisher.publish(f"{peer.topic}/a", b"once", qos=2, pid=7)
    publisher.expect("PUBREC", pid=7)
    client.take(payload=b"once", qos=2)
    peer.restart()
    publisher = peer.connect("p", clean=False, expiry=1000)
    assert publisher.connack.session_present
    publisher.publish(f"{peer.topic}/a", b"once", qos=2, pid=7, dup=True)
    publisher.expect("PUBREC", pid=7, reason=0)
    publisher.ack("PUBREL", 7)
    publisher.expect("PUBCOMP", pid=7, reason=0)
    assert subscriber(peer, qos=2).take_all() == []


def test_a_completed_qos_2_id_stays_completed_after_a_crash(peer: Peer) -> None:
    """PUBCOMP is a promise too: the id is free, a PUBLISH with it is a new message [MQTT-4.3.3-12]."""
    client = subscriber(peer, qos=2)
    publisher = peer.connect("p", expiry=1000)
    publisher.put(f"{peer.topic}/a", b"first", qos=2, pid=7)
    client.take(payload=b"first")
    peer.restart()
    publisher = peer.connect("p", clean=False, expiry=1000)
    publisher.put(f"{peer.topic}/a", b"second", qos=2, pid=7)
    assert [got.payload for got in subscriber(peer, qos=2).take_all()] == [b"second"]


@pytest.mark.parametrize("version", [4, 5])
def test_pubrel_for_an_unknown_id_is_answered(peer: Peer, version: int) -> None:
    """PUBCOMP (5.0: 0x92), and the connection is kept [MQTT-4.3.3-11]."""
    client = peer.connect("s", version=version)
    client.ack("PUBREL", 99)
    client.expect("PUBCOMP", pid=99, reason=0x92 if version == 5 else 0)
    client.ping()


@pytest.mark.parametrize("version", [4, 5])
def test_acknowledgements_of_unknown_ids_do_no_harm(peer: Peer, version: int) -> None:
    """PUBACK and PUBCOMP are ignored, PUBREC is answered (5.0: PUBREL 0x92) so that the peer can end [MQTT-4.3.3-4]."""
    client = peer.connect("s", version=version)
    client.ack("PUBACK", 99)
    client.ack("PUBCOMP", 99)
    client.ping()
    client.ack("PUBREC", 99)
    client.expect("PUBREL", pid=99, reason=0x92 if version == 5 else 0)
    client.ping()


@pytest.mark.parametrize(("qos", "wrong"), [(2, "PUBACK"), (1, "PUBREC")])
def test_the_wrong_acknowledgement_is_a_protocol_error(peer: Peer, qos: int, wrong: str) -> None:
    """A PUBACK for a QoS 2 message, a PUBREC for a QoS 1 message [MQTT-3.3.4-1], section 4.13."""
    client = subscriber(peer, qos=2)
    peer.connect("p").put(f"{peer.topic}/a", b"x", qos=qos)
    pid = client.expect("PUBLISH", qos=qos).pid
    client.ack(wrong, pid)
    client.expect_closed(0x82)
    subscriber(peer, qos=2).take(payload=b"x", qos=qos)


def test_pubrec_with_an_error_ends_the_delivery(peer: Peer) -> None:
    """No PUBREL, the id and the window are free, no resend [MQTT-4.3.3-4], [MQTT-4.4.0-2]."""
    client = subscriber(peer, qos=2, receive_maximum=1)
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"refused", qos=2)
    publisher.put(f"{peer.topic}/a", b"next", qos=2)
    client.ack("PUBREC", client.expect("PUBLISH", payload=b"refused").pid, reason=0x83)
    following = client.expect("PUBLISH", payload=b"next")
    client.drop()
    back = subscriber(peer, qos=2, receive_maximum=1)
    back.expect("PUBLISH", payload=b"next", pid=following.pid, dup=True)
    back.expect_nothing()


def test_puback_with_an_error_counts_as_acknowledged(peer: Peer) -> None:
    """It is not resent [MQTT-4.4.0-2]."""
    client = subscriber(peer, receive_maximum=1)
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"refused")
    publisher.put(f"{peer.topic}/a", b"next")
    client.ack("PUBACK", client.expect("PUBLISH", payload=b"refused").pid, reason=0x83)
    client.expect("PUBLISH", payload=b"next")
    client.drop()
    back = subscriber(peer, receive_maximum=1)
    back.take(payload=b"next")
    back.expect_nothing()


def test_nothing_is_resent_on_a_live_connection(peer: Peer) -> None:
    """However long the acknowledgement takes [MQTT-4.4.0-1]."""
    client = subscriber(peer, qos=2)
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"one", qos=1)
    publisher.put(f"{peer.topic}/a", b"two", qos=2)
    first, second = client.expect("PUBLISH"), client.expect("PUBLISH")
    peer.advance(3600, tcp=1)
    client.expect_nothing()
    client.ack("PUBACK", first.pid)
    client.ack("PUBREC", second.pid)
    client.expect("PUBREL", pid=second.pid)
    peer.advance(3600, tcp=0.5)
    client.expect_nothing()


@pytest.mark.settings({"mqtt.max_inflight": 65_535})
def test_no_id_in_flight_is_reused_after_the_wrap(peer: Peer) -> None:
    """Ids run from 1 to 65,535 and pass by what is still in flight [MQTT-2.2.1-4]."""
    client = peer.connect("s", receive_maximum=65_535)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    held = {1, 2, 3, 700, 20_000}
    seen: list[int] = []
    while len(seen) < 67_000:
        for _ in range(1000):
            publisher.buffer_publish(peer.topic, b"x", qos=1)
        publisher.flush()
        publisher.recv_many("PUBACK", 1000)
        pids = [got.pid for got in client.recv_many("PUBLISH", 1000)]
        client.ack_many("PUBACK", [pid for pid in pids if pid not in held])
        seen += pids
    lap = 65_535
    assert seen[:lap] == list(range(1, lap + 1))
    assert seen[lap:] == [pid for pid in range(1, 67_000) if pid not in held][: len(seen) - lap]


@pytest.mark.parametrize(("publish", "subscribe"), [(1, 0), (2, 0), (2, 1), (0, 2), (1, 2)])
def test_the_lower_qos_is_delivered(peer: Peer, publish: int, subscribe: int) -> None:
    """The minimum of the published and the granted QoS [MQTT-3.8.4-8]."""
    client = peer.connect("s")
    assert client.subscribe(peer.topic, qos=subscribe) == [subscribe]
    peer.connect("p").put(peer.topic, b"x", qos=publish)
    client.take(payload=b"x", qos=min(publish, subscribe))


@pytest.mark.settings({"mqtt.upgrade_qos": True})
def test_upgrade_qos_delivers_the_higher(peer: Peer) -> None:
    """With upgrade_qos a subscription lifts what was published lower; the setting is off by default."""
    client = peer.connect("s", expiry=1000)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"live", qos=0)
    client.take(payload=b"live", qos=1)
    client.drop()
    peer.settle()
    publisher.put(peer.topic, b"queued", qos=0)
    publisher.put(peer.topic, b"two", qos=2)
    peer.restart()
    back = peer.connect("s", clean=False, expiry=1000)
    back.take(payload=b"queued", qos=1)
    back.take(payload=b"two", qos=2)


def test_acknowledged_means_kept(peer: Peer) -> None:
    """What was answered with PUBACK or PUBREC is there after a crash in that moment [MQTT-4.3.2-4], [MQTT-4.3.3-8]."""
    subscriber(peer, qos=2).disconnect()
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"one", qos=1)
    publisher.publish(f"{peer.topic}/a", b"two", qos=2)
    publisher.expect("PUBREC")
    publisher.put(f"{peer.topic}/kept", b"retained", qos=1, retain=True)
    peer.restart()
    back = subscriber(peer, qos=2)
    back.take(payload=b"one", qos=1)
    back.take(payload=b"two", qos=2)
    back.take(payload=b"retained", qos=1)
    back.expect_nothing()
    reader = peer.connect("r")
    reader.subscribe(f"{peer.topic}/kept", qos=1)
    reader.take(payload=b"retained", retain=True)


def test_a_subscription_is_kept_once_it_was_acknowledged(peer: Peer) -> None:
    """SUBACK and UNSUBACK of a persistent session are promises too [MQTT-3.8.4-1], [MQTT-3.10.4-4]."""
    client = peer.connect("s", expiry=1000)
    client.subscribe(f"{peer.topic}/a", qos=1)
    client.subscribe(f"{peer.topic}/b", qos=1)
    client.unsubscribe(f"{peer.topic}/a")
    peer.restart()
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"not wanted")
    publisher.put(f"{peer.topic}/b", b"wanted")
    back = peer.connect("s", clean=False, expiry=1000)
    back.take(payload=b"wanted")
    back.expect_nothing()


@pytest.mark.parametrize("answer", ["PUBACK", "PUBREC"])
def test_a_late_acknowledgement_settles_nothing_else(peer: Peer, answer: str) -> None:
    """A delivery of before the crash, acknowledged after it, must not settle another message [MQTT-2.2.1-4].

    The client still holds the ids of before the crash; its answers leave in one segment with its CONNECT.
    """
    qos = 1 if answer == "PUBACK" else 2
    client = subscriber(peer, qos=qos)
    publisher = peer.connect("p")
    for number in range(3):
        publisher.put(f"{peer.topic}/a", f"before {number}".encode(), qos=qos)
    old = [client.expect("PUBLISH").pid for _ in range(3)]
    peer.restart()
    publisher = peer.connect("p")
    for number in range(3):
        publisher.put(f"{peer.topic}/a", f"after {number}".encode(), qos=qos)
    back = peer.open(version=5)
    late = b"".join(back.wire.ack(answer, pid) for pid in old)
    back.send(back.wire.connect(client.client_id, clean=False, expiry=1000) + late)
    back.expect("CONNACK", session_present=True)
    back.drain()
    back.drop()
    again = subscriber(peer, qos=qos)
    payloads = [p.payload for p in again.drain() if p.type == "PUBLISH"]
    assert [p for p in payloads if p.startswith(b"after")] == [b"after 0", b"after 1", b"after 2"]


def test_ids_after_a_crash_are_not_those_of_before(peer: Peer) -> None:
    """Allocation goes on behind the reserved block: an id that was out before the crash names no other message."""
    client = subscriber(peer, receive_maximum=10)
    publisher = peer.connect("p")
    for number in range(5):
        publisher.put(f"{peer.topic}/a", str(number).encode())
    before = {}
    for _ in range(5):
        got = client.expect("PUBLISH")
        before[got.pid] = got.payload
    for pid in before:
        client.ack("PUBACK", pid)
    client.ping()
    peer.restart()
    publisher = peer.connect("p")
    for number in range(5, 10):
        publisher.put(f"{peer.topic}/a", str(number).encode())
    back = subscriber(peer, receive_maximum=10)
    got_after = [p for p in back.drain() if p.type == "PUBLISH"]
    assert [p.payload for p in got_after][-5:] == [str(n).encode() for n in range(5, 10)]
    assert all(before.get(p.pid, p.payload) == p.payload for p in got_after)


@pytest.mark.parametrize("version", [4, 5])
def test_acknowledgements_leave_in_the_order_of_the_publishes(peer: Peer, version: int) -> None:
    """One order for PUBACK, one for PUBREC; mixed targets do not change it [MQTT-4.6.0-2], [MQTT-4.6.0-3]."""
    subscriber(peer).disconnect()
    publisher = peer.connect("p", version=version)
    data = b""
    for pid in range(1, 41):
        topic = f"{peer.topic}/a" if pid % 4 < 2 else f"nobody/{peer.topic}"
        data += publisher.wire.publish(topic, b"x", qos=1 + pid % 2, pid=pid)
    publisher.send(data)
    got = [publisher.recv() for _ in range(40)]
    assert [p.pid for p in got if p.type == "PUBACK"] == list(range(2, 41, 2))
    assert [p.pid for p in got if p.type == "PUBREC"] == list(range(1, 41, 2))


def test_dup_of_the_publisher_is_not_passed_on(peer: Peer) -> None:
    """DUP of a delivery says only whether that delivery is a repeat [MQTT-3.3.1-3]."""
    client = subscriber(peer)
    publisher = peer.connect("p")
    publisher.publish(f"{peer.topic}/a", b"x", qos=1, pid=3, dup=True)
    publisher.expect("PUBACK", pid=3)
    client.expect("PUBLISH", payload=b"x", dup=False)


def test_qos_2_sequence_goes_on_after_expiry(peer: Peer) -> None:
    """A message that was sent is not expired any more: PUBREL follows its PUBREC [MQTT-4.3.3-7]."""
    client = subscriber(peer, qos=2)
    peer.connect("p").put(f"{peer.topic}/a", b"x", qos=2, message_expiry_interval=1)
    pid = client.expect("PUBLISH").pid
    peer.advance(1.5)
    client.ack("PUBREC", pid)
    client.expect("PUBREL", pid=pid, reason=0)
    client.ack("PUBCOMP", pid)
    client.ping()
