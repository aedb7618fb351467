"""What the doctor is told."""

from typing import Any

from gateway.core.facts import TOPICS_MAX, facts
from gateway.core.seen import Seen
from tests.core_rig import broker, connect, core_of, fill


def rows(b: Any, name: str) -> dict[str, dict[str, Any]]:
    found: Any = facts(core_of(b), b.now)[name]
    return {row["client_id"]: row for row in found}


def test_a_session_with_messages_in_flight() -> None:
    b = broker()
    client = connect(b, "s", 5, receive_maximum=1, expiry=60)
    client.subscribe("t", qos=1)
    fill(b, "t", 3)
    b.advance(2_000)
    row = rows(b, "keepers")["s"]
    assert (row["persistent"], row["expiry_s"], row["subscriptions"]) == (True, 60, {"t": 1})
    assert (row["inflight"], row["window"], row["queued"]) == (1, 1, 2)
    assert row["unacked_ms"] >= 2_000
    assert row["rate"] is not None and 0 < row["rate"] <= 1.5
    client.drop()
    b.advance(500)
    row = rows(b, "keepers")["s"]
    assert (row["connected"], row["unacked_ms"], row["rate"]) == (False, 0, None)


def test_without_a_connect_since_the_start_no_rate_is_known() -> None:
    b = broker()
    connect(b, "s").subscribe("t", qos=1)
    b.crash()
    row = rows(b, "keepers")["s"]
    assert (row["rate"], row["connected"], row["persistent"]) == (None, False, True)
    assert rows(b, "clients") == {}


def test_topics_lead_where_they_lead_now_and_also_those_of_who_has_left() -> None:
    b = broker()
    fill(b, "a/1", 1)
    connect(b, "s").subscribe("a/#", qos=2)
    connect(b, "g").subscribe("$share/x/a/+", qos=1)
    found: Any = facts(core_of(b), b.now)
    (flow,) = found["flows"]
    assert (flow["publisher"], flow["topic"], flow["qos"]) == ("filler", "a/1", [1])
    assert flow["targets"] == [{"client_id": "s", "qos": 2}, {"client_id": "$share/x/a/+", "qos": 1}]
    group = rows(b, "keepers")["$share/x/a/+"]
    assert (group["kind"], group["members"], group["persistent"]) == ("group", ["g"], True)


def test_each_publisher_has_its_share_of_the_topics() -> None:
    b = broker()
    wide = connect(b, "wide", 4)
    for number in range(100):
        wide.put(f"w/{number}", b"", 0)
    core = core_of(b)
    names = list(core.seen["wide"].topics or {})
    others = TOPICS_MAX // 60
    for number in range(others):
        seen = Seen(f"p{number}")
        seen.topics = dict.fromkeys(names, 1)
        core.seen[seen.client_id] = seen
    found: Any = facts(core, b.now)
    flows = list(found["flows"])
    assert len(flows) <= TOPICS_MAX
    assert found["flows_left_out"] == 100 * (others + 1) - len(flows)
    assert {row["publisher"] for row in flows} == set(core.seen)


def test_who_goes_while_the_rows_are_made_is_left_out() -> None:
    b = broker()
    for name in ("a", "b", "c"):
        connect(b, name, 4, clean=False).subscribe(f"$share/{name}/t", qos=1)
    found: Any = facts(core_of(b), b.now)
    keepers, clients, sessions = found["keepers"], found["clients"], b.router.sessions(b.now)
    first = [next(keepers), next(clients), next(sessions)]
    assert [row["client_id"] for row in first] == ["a", "a", "a"]
    b.router.remove_session("b", b.now)
    assert [row["client_id"] for row in keepers] == ["c", "$share/a/t", "$share/c/t"]
    assert [row["client_id"] for row in sessions] == ["c", "$share/a/t", "$share/c/t"]
    assert {row["client_id"]: row["connected"] for row in clients} == {"b": False, "c": True}


def test_connections_that_the_flush_cache_had_no_room_for() -> None:
    b = broker()
    assert facts(core_of(b), b.now)["flush_evicted"] == 0
