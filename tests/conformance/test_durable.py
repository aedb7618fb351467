"""Nothing is said before the commit that it promises: commits are held back, and the answer must wait.

In memory only; that the disk keeps what a commit says is proven by the crash tests, and by every ``restart`` here.
"""

from collections.abc import Iterator

import pytest

from tests.conformance.client import Client
from tests.conformance.peer import MemoryHost, Peer
from tests.memory import MemoryBroker


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> MemoryBroker:
    marker = request.node.get_closest_marker("settings")
    return MemoryBroker(marker.args[0] if marker else {})


@pytest.fixture
def peer(broker: MemoryBroker) -> Iterator[Peer]:
    made = Peer(MemoryHost(broker), "d")
    yield made
    made.close()


def subscriber(peer: Peer, qos: int = 2, **options: int) -> Client:
    client = peer.connect("s", clean=False, expiry=1000, **options)
    if not client.connack.session_present:
        client.subscribe(f"{peer.topic}/#", qos=qos)
    return client


@pytest.mark.parametrize(("qos", "answer"), [(1, "PUBACK"), (2, "PUBREC")])
@pytest.mark.parametrize("online", [False, True])
def test_the_publisher_waits_for_the_commit(
    peer: Peer, broker: MemoryBroker, qos: int, answer: str, online: bool
) -> None:
    """PUBACK and PUBREC when a persistent session must get the message [MQTT-4.3.2-4], [MQTT-4.3.3-8]."""
    client = subscriber(peer)
    if not online:
        client.drop()
    publisher = peer.connect("p")
    broker.hold()
    publisher.publish(f"{peer.topic}/a", b"x", qos=qos)
    publisher.expect_nothing()
    peer.advance(5)
    publisher.expect_nothing()
    broker.release()
    publisher.expect(answer)


def test_a_held_message_dies_with_the_broker(peer: Peer, broker: MemoryBroker) -> None:
    """The other half: what was not acknowledged may be lost, and its packet id is new again."""
    subscriber(peer).drop()
    publisher = peer.connect("p", expiry=1000)
    broker.hold()
    publisher.publish(f"{peer.topic}/a", b"x", qos=2, pid=7)
    publisher.expect_nothing()
    peer.restart()
    publisher = peer.connect("p", clean=False, expiry=1000)
    publisher.publish(f"{peer.topic}/a", b"x", qos=2, pid=7, dup=True)
    publisher.expect("PUBREC", pid=7, reason=0)
    client = subscriber(peer)
    client.take(payload=b"x", qos=2)
    client.expect_nothing()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_retained_message_is_durable_though_nobody_subscribes(peer: Peer, broker: MemoryBroker, qos: int) -> None:
    """[MQTT-3.3.1-5] with the acknowledgement as the promise; so for an empty payload that clears."""
    publisher = peer.connect("p")
    for payload in (b"kept", b""):
        broker.hold()
        publisher.publish(peer.topic, payload, qos=qos, retain=True)
        publisher.expect_nothing()
        broker.release()
        publisher.expect("PUBACK" if qos == 1 else "PUBREC")


def test_nobody_waits_where_nothing_is_kept(peer: Peer, broker: MemoryBroker) -> None:
    """Memory sessions only: the answer needs no disk, at QoS 1 and 2."""
    client = peer.connect("s")
    client.subscribe(f"{peer.topic}/#", qos=2)
    publisher = peer.connect("p")
    broker.hold()
    publisher.put(f"{peer.topic}/a", b"one", qos=1)
    publisher.put(f"{peer.topic}/a", b"two", qos=2)
    client.take(payload=b"one")
    client.take(payload=b"two")


def test_the_incoming_id_is_durable_before_pubrec_though_nobody_subscribes(peer: Peer, broker: MemoryBroker) -> None:
    """A persistent publisher's QoS 2 id must outlive a crash [MQTT-4.3.3-10]."""
    publisher = peer.connect("p", expiry=1000)
    broker.hold()
    publisher.publish(peer.topic, b"x", qos=2, pid=7)
    publisher.expect_nothing()
    broker.release()
    publisher.expect("PUBREC", pid=7)
    peer.restart()
    publisher = peer.connect("p", clean=False, expiry=1000)
    publisher.ack("PUBREL", 7)
    publisher.expect("PUBCOMP", pid=7, reason=0)


def test_a_repeated_publish_waits_for_the_same_commit(peer: Peer, broker: MemoryBroker) -> None:
    """PUBREC to a duplicate must not overtake the commit of the first."""
    subscriber(peer).drop()
    publisher = peer.connect("p", expiry=1000)
    broker.hold()
    publisher.publish(f"{peer.topic}/a", b"x", qos=2, pid=7)
    publisher.publish(f"{peer.topic}/a", b"x", qos=2, pid=7, dup=True)
    publisher.expect_nothing()
    broker.release_one()
    publisher.expect("PUBREC", pid=7)
    publisher.expect("PUBREC", pid=7)


def test_pubcomp_waits_for_the_removal_of_the_id(peer: Peer, broker: MemoryBroker) -> None:
    """After PUBCOMP the id is free for good [MQTT-4.3.3-12]."""
    publisher = peer.connect("p", expiry=1000)
    publisher.publish(peer.topic, b"x", qos=2, pid=7)
    publisher.expect("PUBREC", pid=7)
    broker.hold()
    publisher.ack("PUBREL", 7)
    publisher.expect_nothing()
    broker.release()
    publisher.expect("PUBCOMP", pid=7, reason=0)


def test_a_qos_2_publish_leaves_after_its_id_is_durable(peer: Peer, broker: MemoryBroker) -> None:
    """Message and packet id are on disk before the subscriber sees them; QoS 1 does not wait."""
    client = subscriber(peer)
    publisher = peer.connect("p")
    broker.hold()
    publisher.publish(f"{peer.topic}/a", b"two", qos=2)
    client.expect_nothing()
    while broker.release_one():
        pass
    client.expect("PUBLISH", payload=b"two", qos=2)


def test_pubrel_leaves_after_pubrec_is_durable(peer: Peer, broker: MemoryBroker) -> None:
    """So that a crash never sends the PUBLISH again [MQTT-4.3.3-6]."""
    client = subscriber(peer)
    peer.connect("p").put(f"{peer.topic}/a", b"x", qos=2)
    pid = client.expect("PUBLISH").pid
    broker.hold()
    client.ack("PUBREC", pid)
    client.expect_nothing()
    broker.release()
    client.expect("PUBREL", pid=pid)


def test_a_crash_between_pubrec_and_its_commit_sends_the_publish_again(peer: Peer, broker: MemoryBroker) -> None:
    """PUBREL did not leave, so the client still holds the id: it drops the duplicate [MQTT-4.3.3-10]."""
    client = subscriber(peer)
    peer.connect("p").put(f"{peer.topic}/a", b"x", qos=2)
    pid = client.expect("PUBLISH").pid
    broker.hold()
    client.ack("PUBREC", pid)
    peer.restart()
    subscriber(peer).expect("PUBLISH", pid=pid, dup=True)


@pytest.mark.parametrize("expiry", [1000, None])
def test_connack_waits_for_a_new_persistent_session(peer: Peer, broker: MemoryBroker, expiry: int | None) -> None:
    """A client that was told of its session finds it after a crash; a memory session needs no disk."""
    broker.hold()
    client = peer.open()
    client.send_connect("d-s", clean=True, expiry=expiry)
    if expiry is None:
        client.expect("CONNACK", reason=0)
        return
    client.expect_nothing()
    broker.release()
    client.expect("CONNACK", reason=0)
    peer.restart()
    assert peer.connect("s", clean=False, expiry=1000).connack.session_present


def test_connack_of_a_clean_start_waits_until_the_old_session_is_gone(peer: Peer, broker: MemoryBroker) -> None:
    """Session present 0 is a promise too: nothing of the old session comes back after a crash [MQTT-3.1.2-4]."""
    subscriber(peer).drop()
    broker.hold()
    client = peer.open()
    client.send_connect("d-s", clean=True)
    client.expect_nothing()
    broker.release()
    client.expect("CONNACK", session_present=False)
    peer.restart()
    assert not peer.connect("s", clean=False).connack.session_present


@pytest.mark.parametrize("expiry", [1000, None])
def test_suback_and_unsuback_wait(peer: Peer, broker: MemoryBroker, expiry: int | None) -> None:
    """For a persistent session; a memory session is answered at once [MQTT-3.8.4-1], [MQTT-3.10.4-4]."""
    client = peer.connect("s", expiry=expiry)
    for packet, answer in (("8206000100", "SUBACK"), ("a205000200", "UNSUBACK")):
        topic = b"\x00\x01a" + (b"\x01" if answer == "SUBACK" else b"")
        head = bytearray.fromhex(packet)
        head[1] = len(head) - 2 + len(topic)
        broker.hold()
        client.send(bytes(head) + topic)
        if expiry is not None:
            client.expect_nothing()
        broker.release()
        client.expect(answer)


def test_one_publisher_does_not_wait_for_another(peer: Peer, broker: MemoryBroker) -> None:
    """Only what goes to a persistent session waits; the order holds for each connection alone."""
    subscriber(peer).drop()
    slow, quick = peer.connect("slow"), peer.connect("quick")
    broker.hold()
    slow.publish(f"{peer.topic}/a", b"x", qos=1, pid=1)
    slow.publish("nobody", b"x", qos=1, pid=2)
    quick.put("nobody", b"x")
    slow.expect_nothing()
    broker.release()
    slow.expect("PUBACK", pid=1)
    slow.expect("PUBACK", pid=2)


def test_qos_2_never_holds_qos_1(peer: Peer, broker: MemoryBroker) -> None:
    """PUBACK and PUBREC have each their own order [MQTT-4.6.0-2], [MQTT-4.6.0-3]."""
    publisher = peer.connect("p", expiry=1000)
    broker.hold()
    publisher.publish("nobody", b"x", qos=2, pid=1)  # waits: its id must be durable
    publisher.publish("nobody", b"x", qos=1, pid=2)
    publisher.expect("PUBACK", pid=2)
    publisher.expect_nothing()
    broker.release()
    publisher.expect("PUBREC", pid=1)


def test_a_failed_commit_acknowledges_nothing_and_is_tried_again(peer: Peer, broker: MemoryBroker) -> None:
    """Disk trouble: the publish stays pending; once the disk works it is kept and answered."""
    subscriber(peer).drop()
    publisher = peer.connect("p")
    broker.hold()
    publisher.publish(f"{peer.topic}/a", b"x", qos=1, pid=1)
    broker.fail()
    publisher.expect_nothing()
    peer.advance(2)
    publisher.expect_nothing()
    broker.release()
    peer.advance(2)
    publisher.expect("PUBACK", pid=1, reason=0)
    peer.restart()
    subscriber(peer).take(payload=b"x")


@pytest.mark.settings({"store.error_hold_s": 5})
@pytest.mark.parametrize("version", [4, 5])
def test_a_disk_that_stays_broken_refuses_in_the_end(peer: Peer, broker: MemoryBroker, version: int) -> None:
    """After store.error_hold_s: 5.0 gets 0x97, 3.1.1 is closed so that it sends again; never an acknowledgement."""
    subscriber(peer).drop()
    publisher = peer.connect("p", version=version, clean=True)
    bystander = peer.connect("b")
    broker.hold()
    publisher.publish(f"{peer.topic}/a", b"x", qos=1, pid=1)
    for _ in range(8):
        if broker.submitted is not None:
            broker.fail()
        bystander.put("nobody", b"x")
        peer.advance(1)
    if version == 5:
        publisher.expect("PUBACK", pid=1, reason=0x97)
        publisher.ping()
    else:
        publisher.expect_closed(silent=True)


def test_a_will_and_the_end_of_its_waiting_are_one_transaction(peer: Peer, broker: MemoryBroker) -> None:
    """Whichever commit is the last before a crash: the will is sent exactly once [MQTT-3.1.2-10]."""
    for commits in range(4):
        subscriber(peer).drop()
        mortal = peer.connect("m", expiry=1000, will=(f"{peer.topic}/w", b"gone", 1, False, {"will_delay_interval": 1}))
        mortal.drop()
        broker.hold()
        peer.advance(1.5)
        for _ in range(commits):
            broker.release_one()
        peer.restart()
        peer.advance(1.5)
        client = subscriber(peer)
        client.take(payload=b"gone")
        client.expect_nothing()
        client.drop()
        peer.connect("m", clean=True).disconnect()


def test_packet_ids_of_a_block_are_not_used_before_it_is_reserved(peer: Peer, broker: MemoryBroker) -> None:
    """Deliveries with a crash in between: no id of before names another message after it [MQTT-2.2.1-4]."""
    client = subscriber(peer, qos=1)
    publisher = peer.connect("p")
    before: dict[int, bytes] = {}
    for number in range(1500):
        publisher.put(f"{peer.topic}/a", str(number).encode())
        got = client.take(payload=str(number).encode())
        before[got.pid] = got.payload
    assert len(before) == 1500
    broker.hold()
    for number in range(1500, 4000):
        publisher.buffer_publish(f"{peer.topic}/a", str(number).encode(), qos=1)
    publisher.flush()
    early = {got.pid for got in client.take_all()}  # delivered before durable, but only as far as ids are reserved
    assert len(early) > 100
    peer.restart()
    publisher = peer.connect("p")
    client = subscriber(peer, qos=1)
    client.take_all()
    for number in range(2000, 2600):
        publisher.put(f"{peer.topic}/a", str(number).encode())
        got = client.take(payload=str(number).encode())
        assert got.pid not in before
        assert got.pid not in early


@pytest.mark.settings({"mqtt.receive_maximum": 3})
def test_a_311_client_is_read_no_further_while_its_window_is_full(peer: Peer, broker: MemoryBroker) -> None:
    """Reading pauses at the receive maximum and goes on with the commit."""
    subscriber(peer).drop()
    publisher = peer.connect("p", version=4)
    broker.hold()
    publisher.send(b"".join(publisher.wire.publish(f"{peer.topic}/a", b"x", 1, pid=n) for n in range(1, 9)))
    connection = next(link.client for link in broker.links.values() if link.client.peer.endswith(":2"))
    assert connection.blocked
    publisher.expect_nothing()
    broker.release()
    assert [got.pid for got in publisher.recv_many("PUBACK", 8)] == list(range(1, 9))
    assert not connection.blocked


def test_a_new_router_finds_all_its_segments(peer: Peer, broker: MemoryBroker) -> None:
    """Settled segments are deleted, and only those."""
    client = subscriber(peer, qos=1)
    publisher = peer.connect("p")
    for number in range(300):
        publisher.put(f"{peer.topic}/a", bytes(2000))
        client.take()
        if number % 100 == 99:
            peer.advance(2)
    peer.advance(2)
    assert broker.store.used_bytes() < 20_000
    publisher.put(f"{peer.topic}/a", b"last")
    peer.restart()
    subscriber(peer, qos=1).take_all()


def test_delivered_to_all_needs_no_disk(peer: Peer, broker: MemoryBroker) -> None:
    """QoS 1 is acknowledged once every persistent target has it: by its own PUBACK, though no commit ends."""
    first = subscriber(peer, qos=1)
    second = peer.connect("t", expiry=1000)
    second.subscribe(f"{peer.topic}/#", qos=1)
    publisher = peer.connect("p")
    broker.hold()
    publisher.publish(f"{peer.topic}/a", b"x", qos=1, pid=1)
    first.take(payload=b"x")
    assert publisher.link.receive(0) is None
    second.take(payload=b"x")
    publisher.expect("PUBACK", pid=1)


@pytest.mark.parametrize("way", ["drop", "takeover", "disconnect"])
def test_a_target_that_goes_away_before_its_acknowledgement_needs_the_disk(
    peer: Peer, broker: MemoryBroker, way: str
) -> None:
    """Its held messages go to the next commit in that moment; the publisher is answered after it and not before."""
    client = subscriber(peer, qos=1)
    publisher = peer.connect("p")
    broker.hold()
    publisher.publish(f"{peer.topic}/a", b"x", qos=1, pid=1)
    client.expect("PUBLISH", payload=b"x")
    if way == "drop":
        client.drop()
    elif way == "disconnect":
        client.disconnect()
    else:
        again = peer.open()
        again.send_connect(client.client_id, clean=False, expiry=1000)
    assert broker.submitted is not None, "it waits for the end of its hold"
    publisher.expect_nothing()
    broker.release()
    publisher.expect("PUBACK", pid=1)
    peer.restart()
    assert [got.payload for got in subscriber(peer, qos=1).take_all()] == [b"x"]


def test_rows_only_for_the_targets_that_have_not_acknowledged(peer: Peer, broker: MemoryBroker) -> None:
    """After a crash the one that has it does not get it again because of the other."""
    quick, slow = subscriber(peer, qos=1), peer.connect("slow", expiry=1000)
    slow.subscribe(f"{peer.topic}/#", qos=1)
    publisher = peer.connect("p")
    publisher.publish(f"{peer.topic}/a", b"x", qos=1, pid=1)
    quick.take(payload=b"x")
    publisher.expect("PUBACK", pid=1)  # the hold has expired and the commit has come
    peer.restart()
    subscriber(peer, qos=1).expect_nothing()
    peer.connect("slow", clean=False, expiry=1000).take(payload=b"x")


def test_the_end_of_the_last_target_is_a_counted_drop_and_an_answer(peer: Peer, broker: MemoryBroker) -> None:
    """A session that ends has nothing to be kept for: the publisher is answered, the drop is in the books."""
    client = subscriber(peer, qos=1)
    publisher = peer.connect("p")
    publisher.publish(f"{peer.topic}/a", b"x", qos=1, pid=1)
    client.expect("PUBLISH", payload=b"x")
    client.disconnect(expiry=0)
    publisher.expect("PUBACK", pid=1)
    assert peer.status()["drops"] == {"session_end": 1}
