"""The queue of a memory session: its limits and what goes first when it is full."""

import pytest

from gateway.core.limits import PUSH_BACK
from gateway.core.queue import SHARE_BYTES
from gateway.core.ranks import in_memory
from tests.core_rig import broker, connect, core_of, fill, session_of


def test_the_queue_of_a_memory_session_drops_qos_0_first() -> None:
    b = broker(max_mqueue_len=2, out_high_bytes=20)
    client = connect(b, "s", clean=True, expiry=0, receive_maximum=1)
    client.subscribe("t", qos=1)
    fill(b, "t", 1, qos=1)
    client.stall()
    fill(b, "t", 6, qos=0)
    s = session_of(b, "s")
    assert s.queue0
    fill(b, "t", 2, qos=1, start=7)
    assert len(s.queue) == 2
    assert not s.queue0
    fill(b, "t", 1, qos=1, start=9)
    assert [d.message.payload for d in s.queue] == [b"8", b"9"]


def test_all_queues_in_memory_together_are_bounded_at_the_cost_of_the_long_ones() -> None:
    """Who has little waiting loses nothing; the long ones lose their oldest, counted."""
    b = broker(waiting_bytes_max=400_000)
    publisher = connect(b, "p", clean=True, expiry=0)
    hogs = [connect(b, f"hog{n}", clean=True, expiry=0, receive_maximum=1) for n in range(4)]
    for hog in hogs:
        hog.subscribe("big/#", qos=1)
    small = connect(b, "small", clean=True, expiry=0, receive_maximum=1)
    small.subscribe("small", qos=1)
    for number in range(100):
        publisher.put("big/x", bytes(5000))
        publisher.put("small", str(number).encode())
        assert core_of(b).waiting <= 400_000 + 4 * SHARE_BYTES
    assert core_of(b).waiting == sum(int(s.queue_bytes) for s in core_of(b).by_sid.values())
    assert core_of(b).ledger.drops(session_of(b, "small").sid) == {}
    assert [int(got.payload) for got in small.take_all()] == list(range(100))
    for hog in hogs:
        s = session_of(b, hog.client_id)
        lost = core_of(b).ledger.drops(s.sid)["queue_full"]
        assert lost + len(in_memory(s)) == 99
        hog.drop()
    assert core_of(b).waiting == 0


def test_the_bytes_of_a_session_count_over_its_priorities_and_the_lowest_gives_next() -> None:
    b = broker(mqueue_priorities=[("high", 9)], max_mqueue_bytes=3000)
    b.crash()
    client = connect(b, "s", clean=True, expiry=0, receive_maximum=1)
    client.subscribe("#", qos=1)
    publisher = connect(b, "p", clean=True, expiry=0)
    publisher.put("other", b"first")
    publisher.put("other", bytes(1000))
    publisher.put("other", bytes(1000))
    for size in (500, 1400):
        publisher.put("high", bytes(size))
    s = session_of(b, "s")
    left = [(d.message.topic, len(d.message.payload)) for d in in_memory(s)]
    assert left == [(b"high", 1400), (b"other", 1000)], "its own oldest first, then that of the lowest"
    assert s.queue_bytes <= 3000


@pytest.mark.parametrize("version", [4, 5])
def test_subscriptions_of_a_client_are_bounded(version: int) -> None:
    b = broker(max_subscriptions=3)
    client = connect(b, "s", version)
    assert client.subscribe("a", "b", "c", "d", qos=1) == [1, 1, 1, 0x97 if version == 5 else 0x80]
    assert client.subscribe("a", qos=0) == [0], "one that it has"
    client.unsubscribe("b")
    assert client.subscribe("d", qos=1) == [1]


def test_what_cannot_push_back_is_bounded_all_the_same() -> None:
    """Nobody waits for an answer to QoS 0: a flood of it must not gather without an end."""
    b = broker(mqueue_policy=PUSH_BACK, max_mqueue_len=5, out_high_bytes=20)
    client = connect(b, "s", clean=True, expiry=0, receive_maximum=1)
    client.subscribe("t", qos=1)
    fill(b, "t", 1)
    client.stall()
    fill(b, "t", 50, qos=0)
    s = session_of(b, "s")
    assert [d.message.payload for d in in_memory(s)] == [str(n).encode() for n in range(45, 50)]
    assert core_of(b).ledger.drops(s.sid) == {"queue_full": int(s.matched) - 6 - int(s.settled)}


def test_a_group_of_memory_members_is_bounded_with_push_back_too() -> None:
    b = broker(mqueue_policy=PUSH_BACK, max_mqueue_len=5)
    client = connect(b, "s", clean=True, expiry=0, receive_maximum=1)
    client.subscribe("$share/g/t", qos=1)
    fill(b, "t", 50)
    assert len(in_memory(session_of(b, "s"))) == 5
