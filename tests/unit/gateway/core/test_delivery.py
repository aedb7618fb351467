"""The window, packet ids, topic aliases, and packets that are too large."""

from gateway.core.delivery import ID_BLOCK_MAX
from gateway.core.model import ID_BLOCK
from tests.conformance.client import Client
from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of


def test_the_window_is_the_smaller_of_both_maxima() -> None:
    b = broker(max_inflight=3)
    wide, narrow = connect(b, "wide", receive_maximum=10), connect(b, "narrow", receive_maximum=2)
    old = connect(b, "old", 4)
    for client in (wide, narrow, old):
        client.subscribe("t", qos=1)
    fill(b, "t", 5)
    assert [len(client.drain()) for client in (wide, narrow, old)] == [3, 2, 3]


def aliased(client: Client, count: int) -> list[str]:
    """The topics that the aliases stand for."""
    known: dict[int, str] = {}
    found = []
    for _ in range(count):
        got = client.take()
        alias = got.props.get("topic_alias", 0)
        topic = got.topic or known[alias]
        if alias:
            known[alias] = topic
        found.append(topic)
    return found


def test_an_alias_is_told_before_it_is_used() -> None:
    """Also where the size was asked for first."""
    b = broker()
    client = connect(b, "s", topic_alias_maximum=2, maximum_packet_size=100)
    client.subscribe("#", qos=1)
    topics = ["a", "b", "a", "c", "b", "c"]
    for n, topic in enumerate(topics):
        fill(b, topic, 1, start=n)
    assert aliased(client, 6) == topics


def test_a_message_that_is_too_large_takes_no_alias_from_another_topic() -> None:
    b = broker()
    client = connect(b, "s", topic_alias_maximum=3, maximum_packet_size=60)
    client.subscribe("#", qos=1)
    publisher = connect(b, "p", clean=True)
    for topic, size in (("a", 1), ("b", 1), ("a", 100), ("c", 1), ("a", 2), ("b", 1)):
        publisher.put(topic, b"x" * size)
    assert aliased(client, 5) == ["a", "b", "c", "a", "b"]
    assert core_of(b).ledger.drops(session_of(b, "s").sid) == {"too_large": 1}
    assert backlog_of(b, "s").count == 0


def test_packet_ids_wait_for_their_block_and_never_come_again_after_a_crash() -> None:
    b = broker(max_inflight=65_535)
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    s = session_of(b, "s")
    assert s.id_end == ID_BLOCK
    s.next_id = ID_BLOCK - 2
    b.hold()
    publisher = connect(b, "p", clean=True, expiry=0)
    for n in range(4):
        publisher.publish("t", str(n).encode(), 1)
    assert [got.pid for got in client.drain()] == [ID_BLOCK - 1, ID_BLOCK]
    b.release()
    assert [got.pid for got in client.drain()] == [ID_BLOCK + 1, ID_BLOCK + 2]
    b.crash()
    again = connect(b, "s")
    assert all(got.pid > ID_BLOCK + 2 for got in again.drain())


def test_three_crashes_in_a_row_at_the_highest_rate_give_no_packet_id_again() -> None:
    b = broker()
    publisher = connect(b, "p", clean=True, expiry=0)
    connect(b, "s").subscribe("t", qos=1)
    skipped = 0
    for _ in range(3):
        s = session_of(b, "s")
        for _ in range(10):  # half a block after the other, each in no time
            s.next_id = s.id_end - s.id_block // 2 + 1
            publisher.publish("t", b"x", 1)
        before = s.next_id
        b.crash()
        skipped += session_of(b, "s").next_id - before
        publisher = connect(b, "p", clean=True, expiry=0)
        connect(b, "s")
    assert 2 * ID_BLOCK_MAX < skipped < 65_535 - b.limits.max_inflight


def test_ids_that_are_free_again_wake_a_group() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("$share/g/t", qos=1)
    s = session_of(b, "s")
    s.next_id = s.id_end
    fill_held = connect(b, "p", clean=True, expiry=0)
    b.hold()
    fill_held.publish("t", b"x", 1)
    client.expect_nothing()
    b.release()
    client.take(payload=b"x")
