"""What the broker says of itself."""

import pytest

from tests.core_rig import broker, connect, core_of, fill


def test_status_counts_what_is_there() -> None:
    b = broker()
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("t", qos=1)
    connect(b, "m", clean=True, expiry=0)
    fill(b, "t", 3)
    b.advance(1_500)
    status = b.router.status(b.now)
    assert status["sessions"] == {"total": 2, "connected": 2, "persistent": 1}
    queue = status["queue"]
    assert isinstance(queue, dict)
    assert queue["messages"] == 2
    (row,) = [row for row in b.router.sessions(b.now) if row["client_id"] == "s"]
    assert row["queue_bytes"] == queue["bytes"]
    assert queue["oldest_ms"] >= 1_500
    assert status["inflight"] == 1
    assert status["subscriptions"] == 1


def test_a_session_by_its_name() -> None:
    b = broker()
    client = connect(b, "s", 5, receive_maximum=1, expiry=60, will=("w", b"", 0, False, {"will_delay_interval": 9}))
    client.subscribe("t", qos=1, identifier=7)
    fill(b, "t", 2)
    client.take()
    client.drop()
    b.advance(1_000)
    row = b.router.session("s", b.now)
    assert row is not None
    expected: dict[str, object] = {
        "connected": False,
        "peer": None,
        "version": "5.0",
        "persistent": True,
        "expiry_s": 60,
        "expires_in_ms": 59_000,
        "matched": 2,
        "acknowledged": 1,
        "inflight": 1,
        "queue_messages": 0,
        "will_pending": True,
        "drops": {},
    }
    for name, want in expected.items():
        assert row[name] == want, name
    assert row["subscriptions"] == [
        {"filter": "t", "qos": 1, "no_local": False, "retain_as_published": False, "identifier": 7}
    ]
    assert b.router.session("nobody", b.now) is None


def test_a_group_is_listed_beside_the_sessions() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("$share/g/t", qos=1)
    client.drop()
    fill(b, "t", 2)
    row = b.router.session("$share/g/t", b.now)
    assert row is not None
    assert (row["kind"], row["queue_messages"], row["connected"], row["persistent"]) == ("group", 2, False, True)
    assert [r["kind"] for r in b.router.sessions(b.now)] == ["session", "group"]


@pytest.mark.parametrize("share", ["", "$share/g/"])
@pytest.mark.parametrize("priorities", [[], [("t", 9)]])
def test_bytes_are_those_of_what_is_queued_without_what_is_in_flight(
    share: str, priorities: list[tuple[str, int]]
) -> None:
    b = broker(mqueue_priorities=priorities)
    b.router.reload(b.limits, b.now)
    client = connect(b, "s", receive_maximum=1)
    client.subscribe(share + "t", qos=1)
    giver = connect(b, "p", clean=True, expiry=0)
    for size in (5000, 300, 20):
        giver.put("t", bytes(size), 1)
    row = b.router.session(share + "t" if share else "s", b.now)
    assert row is not None
    assert (row["queue_messages"], row["inflight"]) == (2, 1)
    assert isinstance(row["queue_bytes"], int)
    assert 320 <= row["queue_bytes"] <= 420
    queue = b.router.status(b.now)["queue"]
    assert isinstance(queue, dict)
    assert queue["bytes"] == row["queue_bytes"]
    if priorities and not share:
        ranks = row["priorities"]
        assert isinstance(ranks, list)
        assert [(r["priority"], r["queue_bytes"]) for r in ranks] == [(9, row["queue_bytes"]), (0, 0)]
    assert len(client.take_all()) == 3
    row = b.router.session(share + "t" if share else "s", b.now)
    assert row is not None
    assert (row["queue_messages"], row["queue_bytes"], row["inflight"]) == (0, 0, 0)


def test_sys_topics_are_sent_only_when_they_change() -> None:
    b = broker()
    client = connect(b, "s", 4, clean=True)
    client.subscribe("$SYS/broker/clients/connected")
    assert client.take().payload.isdigit()
    b.advance(11_000)
    client.drain()
    b.advance(21_000)
    client.expect_nothing()
    connect(b, "x")
    b.advance(11_000)
    assert client.take().payload == b"2"


def test_drops_of_a_session_have_a_topic_of_one_level() -> None:
    b = broker()
    connect(b, "a/b+#").subscribe("t", qos=0)
    connect(b, "a/b+#").drop()
    fill(b, "t", 1, qos=0)
    b.advance(11_000)
    kept = core_of(b).retained.get("$SYS/broker/sessions/a%2Fb%2B%23/dropped/qos0_offline")
    assert kept is not None
    assert kept.payload == b"1"


def test_the_longest_queues_come_first_and_in_brief() -> None:
    b = broker()
    for name, count in (("b", 2), ("c", 5), ("a", 0)):
        connect(b, name, receive_maximum=1).subscribe(name, qos=1)
        fill(b, name, count)
    connect(b, "memory", clean=True, expiry=0)
    connect(b, "member").subscribe("$share/g/x", qos=1)
    rows = b.router.longest(100, b.now)
    names = [row["client_id"] for row in rows]
    assert names[:2] == ["c", "b"]
    assert names[-1] == "memory"
    assert "$share/g/x" in names
    assert (rows[0]["queue_messages"], rows[0]["subscriptions"], rows[0]["priorities"]) == (4, 1, [])
    assert [row["client_id"] for row in b.router.longest(1, b.now)] == ["c"]
    assert b.router.longest(0, b.now) == []


def test_a_client_that_bears_the_name_of_a_group_is_not_taken_for_it() -> None:
    b = broker()
    connect(b, "member").subscribe("$share/g/x", qos=1)
    connect(b, "$share/g/x")
    kinds = sorted(str(row["kind"]) for row in b.router.longest(9, b.now) if row["client_id"] == "$share/g/x")
    assert kinds == ["group", "session"]
