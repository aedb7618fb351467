"""What the pages show of a report."""

from typing import Any

import pytest

from gateway.web import views
from gateway.web.charts import EMPTY
from gateway.web.history import History
from tests.unit.gateway.web.reports import report, session, uplink


def taken(given: dict[str, Any]) -> History:
    history = History()
    history.take(given, 1.0)
    return history


def with_store(**more: Any) -> dict[str, Any]:
    given = report()
    given["status"]["drops"] = {"qos0_offline": 9}
    given["before"]["drops"] = {}
    given["status"]["store"] |= more
    given["status"]["uplinks"] = []
    return given


def test_no_broker_is_bad() -> None:
    assert views.state(None, "gone") == {"level": "bad", "text": "No broker: gone"}


@pytest.mark.parametrize(
    ("store", "level", "text"),
    [
        ({}, "good", "Holding messages, none lost"),
        ({"error": "I/O error"}, "bad", "The disk takes nothing: I/O error"),
        ({"full": True}, "bad", "Disk budget used up: publishers are held back"),
        ({"used_bytes": 850_000}, "warn", "Disk budget 85 % used"),
    ],
)
def test_the_state_is_the_worst_that_is(store: dict[str, Any], level: str, text: str) -> None:
    assert views.state(with_store(**store), "") == {"level": level, "text": text}


def test_what_was_lost_is_said_but_not_what_nobody_was_promised() -> None:
    given = with_store()
    assert views.lost(given) == 0
    given["status"]["drops"]["expired"] = 5
    given["before"]["drops"]["expired"] = 2
    assert views.state(given, "") == {"level": "warn", "text": "3 messages dropped since the start"}


def test_an_uplink_that_is_stuck_is_said_once_it_is_no_longer_news() -> None:
    given = with_store()
    for since_s, state, level in ((5, "waiting", "good"), (90, "waiting", "warn"), (90, "paused", "good")):
        given["status"]["uplinks"] = [uplink(since_s=since_s, state=state)]
        assert views.state(given, "")["level"] == level
    given["status"]["uplinks"] = [uplink(state="stalled")]
    assert views.state(given, "")["text"] == "Uplink cloud does not forward: stalled"


def test_all_delivered_is_said() -> None:
    given = with_store()
    given["status"]["queue"]["messages"] = 0
    assert views.state(given, "")["text"] == "All delivered, none lost"


def test_the_overview_counts_drops_by_reason_the_most_first() -> None:
    given = report()
    found = views.overview(given, taken(given))
    assert [(drop["reason"], drop["since"], drop["count"]) for drop in found["drops"]] == [
        ("expired", "5", "25"),
        ("queue_full", "3", "3"),
    ]
    assert found["queued"] == "70"
    assert found["percent"] == "25 %"
    assert found["eta"] == "empty in 9.0 s"


def test_a_fuller_basin_is_drawn_fuller_and_one_that_holds_something_is_not_empty() -> None:
    def surface(used: int, messages: int) -> float:
        given = with_store(used_bytes=used)
        given["status"]["queue"]["messages"] = messages
        return float(views.overview(given, taken(given))["surface"])

    assert surface(0, 0) > surface(0, 1) > surface(500_000, 1) > surface(1_000_000, 1)
    assert surface(1_000_000, 1) == surface(2_000_000, 1)


def test_flash_wear_is_what_was_written_in_the_time_seen() -> None:
    history = History()
    for second in range(3):
        given = report()
        given["status"]["store"]["bytes_written"] += 1024 * second
        history.take(given, float(second))
    assert views.overview(given, history)["per_day"] == "56.2 MiB"


def test_sessions_are_listed_up_to_a_limit() -> None:
    given = report(sessions=[session(f"s{number}") for number in range(60)])
    given["status"]["sessions"]["total"] = 75
    found = views.sessions(given, taken(given))
    assert (len(found["rows"]), found["more"]) == (views.SESSION_ROWS, 25)


@pytest.mark.parametrize(
    ("more", "ends"),
    [
        ({"persistent": False}, "with its connection"),
        ({"expiry_s": "never"}, "never"),
        ({"expiry_s": 3600}, "1 h 0 min after it leaves"),
        ({"expiry_s": 3600, "connected": False, "expires_in_ms": 90_000}, "in 1 min"),
        ({"connected": False, "expires_in_ms": None}, "never"),
    ],
)
def test_when_a_session_ends(more: dict[str, Any], ends: str) -> None:
    row = views.session_row(session(**more), EMPTY)
    assert row["ends"] == ends


def test_how_long_a_queue_takes() -> None:
    assert views.session_row(session(), EMPTY)["eta"] == "empty in 7.0 s"
    assert views.session_row(session(eta_s=None), EMPTY)["eta"] == "no end in sight"
    assert views.session_row(session(drained_s=None), EMPTY)["eta"] == ""


def test_a_group_has_what_a_group_has() -> None:
    row = session("$share/g/t", kind="group", peer=None, version="", expiry_s=0)
    for key in ("path", "drain_rate", "drained_s", "eta_s", "matched", "acknowledged", "will_pending", "priorities"):
        del row[key]
    row["subscriptions"] = [{"filter": "t", "qos": 2, "members": ["a", "b"]}]
    found = views.session(row, History())
    assert (found["state"], found["matched"], found["filters"][0]["members"]) == ("group", "", ["a", "b"])


def test_uplinks_with_what_waits_for_them() -> None:
    (found,) = views.uplinks(report())["uplinks"]
    assert (found["level"], found["error"]) == ("warn", "refused: not authorised")
    assert dict(found["facts"])["waiting"] == "12, 2.0 KiB"
    assert dict(found["facts"])["at"] == "mqtts://a:8883, mqtt://b"
    given = report()
    given["status"]["uplinks"] = [uplink(state="forwarding", eta_s=9, address="mqtt://b", error=None)]
    (found,) = views.uplinks(given)["uplinks"]
    assert (found["level"], found["error"], dict(found["facts"])["backlog"]) == ("good", "", "empty in 9.0 s")


def test_the_newest_line_of_the_log_is_the_first() -> None:
    found = views.log([[number, 0, "info", str(number)] for number in range(1, 300)])
    assert len(found["lines"]) == views.LOG_ROWS
    assert found["lines"][0]["text"] == "299"


@pytest.mark.parametrize(
    ("part", "whole", "shown"), [(0, 5, "0 %"), (1, 1000, "< 1 %"), (1, 2, "50 %"), (5, 5, "100 %"), (1, 0, "0 %")]
)
def test_percent(part: float, whole: float, shown: str) -> None:
    assert views.percent(part, whole) == shown
