"""Ranks of a session: queues on the log by priority, and what a change of the table leaves in order."""

from gateway.core.limits import ClientRule
from gateway.core.model import LANE, ZERO
from gateway.core.ranks import META_CHANGES, META_TABLE, drops, idle, in_memory, restored, sids
from tests.conformance.client import Client
from tests.core_rig import broker, connect, core_of, fill, session_of
from tests.memory import MemoryBroker

TABLE = [("high", 9), ("low", 1)]


def payloads(client: Client) -> list[bytes]:
    return [got.payload for got in client.take_all()]


def away(b: MemoryBroker, *filled: tuple[str, int], qos: int = 1) -> None:
    """A durable session that is not there while these topics get so many messages, numbered from 0."""
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("#", qos=qos)
    client.drop()
    for topic, count in filled:
        fill(b, topic, count, qos=qos)


def test_without_priorities_there_are_no_ranks() -> None:
    b = broker()
    connect(b, "s")
    assert session_of(b, "s").ranks is None


def test_each_rank_on_the_log_has_its_own_sid_and_cursor() -> None:
    b = broker(mqueue_priorities=TABLE)
    b.crash()  # with these limits
    away(b, ("high", 2), ("low", 1), ("none", 3))
    s = session_of(b, "s")
    assert [(q.sid, q.count) for q in s.backlogs()] == [(s.sid, 3), (s.sid + 9 * LANE, 2), (s.sid + LANE, 1)]
    assert all(q.sid in b.store.cursors for q in s.backlogs())
    assert set(sids(s)) == {s.sid + LANE * n for n in (9, 9 + ZERO, 1, 1 + ZERO, ZERO)}


def test_an_ended_session_leaves_no_rank_behind() -> None:
    b = broker(mqueue_priorities=TABLE)
    b.crash()
    away(b, ("high", 2), ("low", 1))
    s = session_of(b, "s")
    b.router.remove_session("s", b.now)
    b.advance(2000)
    assert not [sid for sid in b.store.cursors if sid % LANE == s.sid]
    assert not [sid for sid, _ in b.store.counters if sid % LANE == s.sid]
    assert not b.store.segments


def test_a_slow_low_rank_holds_no_position_of_a_high_one() -> None:
    """Where one cursor served both, all that was settled past the low one would have to be remembered."""
    b = broker(mqueue_priorities=TABLE, max_inflight=2)
    b.crash()
    away(b, ("low", 200), ("high", 200))
    client = connect(b, "s", receive_maximum=1)
    for _ in range(100):
        assert client.take().topic == "high"
    s = session_of(b, "s")
    assert all(len(q.ahead) <= 1 for q in s.backlogs())


def test_messages_of_before_a_new_table_are_not_overtaken() -> None:
    b = broker(mqueue_priorities=[("t", 1), ("u", 9)])
    b.crash()
    away(b, ("t", 3), ("u", 3))
    b.limits.mqueue_priorities = [("t", 9)]
    b.crash()
    fill(b, "t", 3, start=3)
    client = connect(b, "s", receive_maximum=1)
    got = [(one.topic, one.payload) for one in client.take_all()]
    assert got == [("u", b"0"), ("u", b"1"), ("u", b"2")] + [("t", str(n).encode()) for n in range(6)]


def test_two_new_tables_in_a_row() -> None:
    b = broker(mqueue_priorities=[("t", 1)])
    b.crash()
    away(b, ("t", 2))
    for priority, start in ((9, 2), (3, 4), (200, 6)):
        b.limits.mqueue_priorities = [("t", priority)]
        if priority == 3:
            b.router.reload(b.limits, b.now)
        else:
            b.crash()
        fill(b, "t", 2, start=start)
    assert len(core_of(b).tables) == 3
    b.crash()
    client = connect(b, "s", receive_maximum=1)
    assert payloads(client) == [str(n).encode() for n in range(8)]
    assert str(b.store.meta[META_TABLE]).startswith("200=t")
    b.advance(2000)
    b.limits.mqueue_priorities = []
    b.crash()
    b.advance(2000)
    assert b.store.meta[META_TABLE] == ""
    assert len(str(b.store.meta[META_CHANGES]).split()) == 1, "changes that nobody has before him are forgotten"


def test_without_priorities_again_what_is_queued_still_comes_in_order() -> None:
    b = broker(mqueue_priorities=TABLE)
    b.crash()
    away(b, ("high", 2), ("low", 2))
    b.limits.mqueue_priorities = []
    b.crash()
    fill(b, "high", 2, start=2)
    fill(b, "low", 2, start=2)
    client = connect(b, "s", receive_maximum=10)
    got = [(one.topic, one.payload) for one in client.take_all()]
    for topic in ("high", "low"):
        assert [payload for name, payload in got if name == topic] == [b"0", b"1", b"2", b"3"]
    assert idle(session_of(b, "s"))


def test_a_reload_sorts_what_waits_in_memory_anew() -> None:
    b = broker()
    client = connect(b, "s", clean=True, expiry=0, receive_maximum=1)
    client.subscribe("#", qos=1)
    fill(b, "first", 1)
    for topic in ("none", "low", "high"):
        fill(b, topic, 2)
    b.limits.mqueue_priorities = TABLE
    b.router.reload(b.limits, b.now)
    s = session_of(b, "s")
    assert len(in_memory(s)) == 6 and not s.queue
    got = [one.topic for one in client.take_all()]
    assert got == ["first", "high", "high", "low", "low", "none", "none"]


def test_qos_0_on_disk_flows_past_a_full_window_and_keeps_its_order() -> None:
    b = broker(mqueue_store_qos0_persistent=True)
    b.crash()
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("t", qos=1)
    client.drop()
    fill(b, "t", 3, qos=1)
    fill(b, "t", 3, qos=0, start=3)
    client = connect(b, "s", receive_maximum=1)
    got = [client.expect("PUBLISH") for _ in range(4)]
    assert sorted(one.payload for one in got if one.qos == 0) == [b"3", b"4", b"5"]
    client.expect_nothing()
    assert [one.qos for one in got].count(1) == 1


def test_drops_of_a_rank_are_the_session_s_too() -> None:
    b = broker(mqueue_priorities=TABLE, max_mqueue_len=1)
    b.crash()
    client = connect(b, "s", clean=True, expiry=0, receive_maximum=1)
    client.subscribe("#", qos=1)
    fill(b, "high", 4)
    fill(b, "none", 2)
    s = session_of(b, "s")
    assert drops(core_of(b), s) == {"queue_full": 3}
    assert core_of(b).ledger.drops(s.sid + 9 * LANE) == {"queue_full": 2}
    client.drop()
    assert not core_of(b).ledger._session_drops


def test_a_rank_of_a_session_that_is_gone_is_none() -> None:
    b = broker()
    assert restored(core_of(b), 77 + 3 * LANE) is None


def test_what_was_there_before_a_session_that_begins_with_the_earliest_is_not_overtaken() -> None:
    """It stands in the first queue, whatever its topic's priority; what comes after it has a rank."""
    b = broker(client_types=[ClientRule("app*", "", True, 1)], mqueue_priorities=[("t", 9)], sys_interval_ms=0)
    b.crash()
    away(b, ("t", 50))
    app = connect(b, "app", receive_maximum=3)
    app.subscribe("t", "u", qos=1)
    fill(b, "u", 3)
    fill(b, "t", 10, start=50)
    got = [(one.topic, one.payload) for one in app.take_all()]
    assert [payload for topic, payload in got if topic == "t"] == [str(n).encode() for n in range(60)]
    assert [payload for topic, payload in got if topic == "u"] == [b"0", b"1", b"2"]
