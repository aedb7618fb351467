"""Nothing is lost in silence: every drop is counted with its reason, for the broker, for the session and in $SYS."""

from collections.abc import Callable

import pytest

from tests.conformance.peer import Peer


def overflow(peer: Peer) -> None:
    client = peer.connect("s", receive_maximum=1)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    for number in range(7):
        publisher.put(peer.topic, str(number).encode())
    assert len(client.take_all()) == 4


def expire(peer: Peer) -> None:
    client = peer.connect("s", expiry=1000)
    client.subscribe(peer.topic, qos=1)
    client.drop()
    publisher = peer.connect("p")
    for number in range(3):
        publisher.put(peer.topic, str(number).encode(), message_expiry_interval=1)
    publisher.put(peer.topic, b"kept")
    peer.advance(2.2)
    back = peer.connect("s", clean=False, expiry=1000)
    assert [got.payload for got in back.take_all()] == [b"kept"]


def offline(peer: Peer) -> None:
    client = peer.connect("s", expiry=1000)
    client.subscribe(peer.topic, qos=1)
    client.drop()
    publisher = peer.connect("p")
    for number in range(3):
        publisher.put(peer.topic, str(number).encode(), qos=0)


def too_large(peer: Peer) -> None:
    client = peer.connect("s", expiry=1000, maximum_packet_size=100)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    for _ in range(3):
        publisher.put(peer.topic, bytes(200))


def ended(peer: Peer) -> None:
    client = peer.connect("s", expiry=1000)
    client.subscribe(peer.topic, qos=1)
    client.drop()
    publisher = peer.connect("p")
    for number in range(3):
        publisher.put(peer.topic, str(number).encode())
    peer.connect("s", clean=True)


def shared(peer: Peer) -> None:
    client = peer.connect("s", expiry=1000)
    client.subscribe(f"$share/g/{peer.topic}", qos=2)
    peer.connect("other", expiry=1000).subscribe(f"$share/g/{peer.topic}", qos=2)
    publisher = peer.connect("p")
    for number in range(6):
        publisher.put(peer.topic, str(number).encode(), qos=2)
    assert len(client.drain()) == 3
    client.disconnect(expiry=0)


CASES = [
    (overflow, "queue_full", False),
    (expire, "expired", True),
    (offline, "qos0_offline", True),
    (too_large, "too_large", True),
    (ended, "session_end", False),
    (shared, "shared_qos2", False),
]


@pytest.mark.settings({"mqtt.max_mqueue_len": 3, "sys_interval": "200ms"})
@pytest.mark.parametrize(("happen", "reason", "lasting"), CASES, ids=[reason for _, reason, _ in CASES])
def test_a_drop_is_counted(peer: Peer, happen: Callable[[Peer], None], reason: str, lasting: bool) -> None:
    """Three of each, in status, in $SYS and, while the session lasts, with the session; and after a crash."""
    before = peer.status()["drops"].get(reason, 0)
    happen(peer)
    assert peer.status()["drops"][reason] == before + 3
    if lasting:
        assert peer.session("s")["drops"] == {reason: 3}
    peer.connect("any", expiry=1000)  # the counts ride with any commit, at the latest with one of their own
    peer.restart()
    assert peer.status()["drops"][reason] == before + 3
    if lasting:
        assert peer.session("s")["drops"] == {reason: 3}
    reader = peer.connect("sys")
    wanted = {f"$SYS/broker/dropped/{reason}": before + 3}
    if lasting:
        wanted[f"$SYS/broker/sessions/{peer.prefix}-s/dropped/{reason}"] = 3
    reader.subscribe(*wanted)
    peer.advance(0.5)
    assert {got.topic: int(got.payload) for got in reader.recv_many("PUBLISH", len(wanted))} == wanted


def test_nothing_is_counted_where_nothing_was_dropped(peer: Peer) -> None:
    """Live, queued, resent, retained: no drop, and the books of the session balance."""
    before = peer.status()["drops"]
    client = peer.connect("s", expiry=1000, receive_maximum=2)
    client.subscribe(peer.topic, qos=2)
    publisher = peer.connect("p")
    for number in range(6):
        publisher.put(peer.topic, str(number).encode(), qos=1 + number % 2)
    client.recv_many("PUBLISH", 2)
    client.drop()
    row = peer.session("s")
    assert row["inflight"] == 2
    assert row["queue_messages"] == 4
    back = peer.connect("s", clean=False, expiry=1000)
    assert len(back.take_all()) == 6
    row = peer.session("s")
    assert (row["matched"], row["acknowledged"], row["inflight"], row["queue_messages"]) == (6, 6, 0, 0)
    assert row["drops"] == {}
    assert peer.status()["drops"] == before


def test_status_shows_a_queue(peer: Peer) -> None:
    """Depth, bytes and the age of the oldest, for a session that is away; so after a crash."""
    client = peer.connect("s", expiry=1000)
    client.subscribe(peer.topic, qos=1)
    client.drop()
    publisher = peer.connect("p")
    for _ in range(5):
        publisher.put(peer.topic, bytes(1000))
    peer.advance(1.0)
    for crash in (False, True):
        if crash:
            peer.restart()
        row = peer.session("s")
        assert row["connected"] is False
        assert row["queue_messages"] == 5
        assert 5000 <= row["queue_bytes"] <= 6000
        assert 900 <= row["oldest_ms"] <= 8000
