"""The log of an APPLICATION: what falls off, at which pace it is read, and who of a group gets what."""

import pytest

from tests.conformance.peer import Peer

BOUNDED = {"client_type": "*app=application;max_bytes=200", "store.commit_window_ms": 0}


@pytest.mark.settings(BOUNDED)
def test_unread_messages_above_the_bytes_fall_off_counted(peer: Peer) -> None:
    app = peer.connect("app", clean=False, expiry=1000)
    app.subscribe(f"{peer.topic}/#", qos=1)
    app.drop()
    giver = peer.connect("p")
    for number in range(40):
        giver.put(f"{peer.topic}/a", b"%020d" % number)
    fell = 0
    for _ in range(50):
        peer.advance(0.2)
        fell = peer.session("app")["drops"].get("retention", 0)
        if fell and peer.session("app")["queue_bytes"] <= 200:
            break
    assert fell
    back = peer.connect("app", clean=False, expiry=1000)
    got = [int(packet.payload) for packet in back.take_all()]
    assert got == list(range(40))[fell:]


@pytest.mark.settings({"client_type": "*app=application;drain_rate=100", "store.commit_window_ms": 0})
def test_a_backlog_comes_at_its_rate_and_whole(peer: Peer) -> None:
    app = peer.connect("app", clean=False, expiry=1000)
    app.subscribe(f"{peer.topic}/#", qos=1)
    app.drop()
    giver = peer.connect("p")
    for number in range(60):
        giver.put(f"{peer.topic}/a", b"%d" % number)
    back = peer.connect("app", clean=False, expiry=1000)
    assert peer.session("app")["queue_messages"] > 20  # all at once would be in flight or gone
    got: list[int] = []
    while len(got) < 60:
        got.append(int(back.take().payload))
    assert got == list(range(60))


@pytest.mark.settings({"mqtt.shared_subscription_strategy": "hash_topic"})
def test_a_topic_of_a_group_has_one_reader(peer: Peer) -> None:
    members = [peer.connect(name, clean=False, expiry=1000) for name in ("a", "b")]
    for member in members:
        member.subscribe(f"$share/{peer.prefix}/{peer.topic}/#", qos=1)
    giver = peer.connect("p")
    topics = [f"{peer.topic}/{number % 10}" for number in range(40)]
    for number, topic in enumerate(topics):
        giver.put(topic, b"%d" % number)
    owner: dict[str, set[int]] = {}
    for index, member in enumerate(members):
        got = [int(packet.payload) for packet in member.take_all()]
        assert got == sorted(got)
        for number in got:
            owner.setdefault(topics[number], set()).add(index)
    assert len(owner) == 10
    assert all(len(who) == 1 for who in owner.values())


EARLIEST = {"client_type": "*app*=application;start=earliest", "application_log.keep_bytes": "10MiB"}


@pytest.mark.settings(EARLIEST)
@pytest.mark.parametrize("crash", [False, True])
def test_a_new_application_begins_with_the_earliest(peer: Peer, crash: bool) -> None:
    """Also with what everybody has already, and its filter says what is its own."""
    device = peer.connect("device", clean=False, expiry=1000)
    device.subscribe(f"{peer.topic}/#", qos=1)
    giver = peer.connect("p")
    for number in range(30):
        giver.put(f"{peer.topic}/{number % 3}", b"%d" % number)
    assert len(device.take_all()) == 30
    if crash:
        peer.restart()
    app = peer.connect("app", clean=False, expiry=1000)
    app.subscribe(f"{peer.topic}/0", f"{peer.topic}/1", qos=1)
    giver = peer.connect("p")
    giver.put(f"{peer.topic}/1", b"30")
    want = [number for number in range(30) if number % 3 != 2]
    assert [int(got.payload) for got in app.take_all()] == [*want, 30]
    late = peer.connect("device2", clean=False, expiry=1000)
    late.subscribe(f"{peer.topic}/#", qos=1)
    late.expect_nothing()


@pytest.mark.settings(EARLIEST)
def test_a_crash_while_it_reads_the_time_before(peer: Peer) -> None:
    device = peer.connect("device", clean=False, expiry=1000)
    device.subscribe(f"{peer.topic}/#", qos=1)
    giver = peer.connect("p")
    for number in range(60):
        giver.put(f"{peer.topic}/a", b"%d" % number)
    device.drop()
    app = peer.connect("app", clean=False, expiry=1000, receive_maximum=5)
    app.subscribe(f"{peer.topic}/#", qos=1)
    got = [int(app.take().payload) for _ in range(20)]
    peer.restart()
    giver = peer.connect("p")
    giver.put(f"{peer.topic}/a", b"60")
    app = peer.connect("app", clean=False, expiry=1000)
    rest = [int(packet.payload) for packet in app.take_all()]
    assert got == list(range(20))
    assert rest == list(range(rest[0], 61))
    assert rest[0] <= 20
