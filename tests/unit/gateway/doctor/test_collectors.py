"""Sessions that do not outlive an outage, or are somebody else's."""

from typing import Any

import pytest

from gateway.doctor.snapshot import Client, Keeper
from gateway.settings.collector import CollectorRule
from tests.unit.gateway.doctor.scene import HISTORIAN, codes, only, report, scene

V5 = {"version": "5.0", "expiry_s": 0xFFFFFFFF}


@pytest.mark.parametrize(
    ("collector", "keeper", "code", "setting", "loses"),
    [
        ({"clean": True}, {"persistent": False}, "collector_clean_session", "clean session = false", "collector_away"),
        (
            {**V5, "clean": True, "expiry_s": None}, {"persistent": False}, "collector_clean_session",
            "clean start = 0, with session expiry interval = 28800 (s) or more", "collector_away",
        ),
        (
            {**V5, "expiry_s": 0}, {"persistent": False}, "collector_no_expiry",
            "session expiry interval = 28800 (s) or more", "collector_away",
        ),
        ({**V5, "clean": True}, {}, "collector_clean_start", "clean start = 0", "collector_away"),
        (
            {**V5, "expiry_s": 60}, {"expiry_s": 60}, "collector_expiry",
            "session expiry interval = 28800 (s) or more", "collector_away_too_long",
        ),
        ({}, {"expiry_s": 60}, "session_expiry", 'mqtt.session_expiry_interval = "8h"', "collector_away_too_long"),
        (
            {"client_id": "Telegraf-Consumer-Ab3x9"}, {}, "collector_random_id",
            'client_id = "..." of its own', "collector_away",
        ),
        ({"assigned": True}, {}, "collector_random_id", "a fixed client id", "collector_away"),
        (
            {"asked": {"line/#": 0x87}, "user": "h"}, {}, "subscription_refused",
            "forebay acl allow --user h read 'line/#'", "always",
        ),
        ({"asked": {"line/#": 0x97}}, {}, "subscription_refused", "mqtt.max_subscriptions", "always"),
        ({"asked": {"line/#": 1, "line/#/x": 0x80}}, {}, "subscription_refused", "topics", "always"),
    ],
)  # fmt: skip
def test_a_session_that_does_not_keep(
    collector: dict[str, Any], keeper: dict[str, Any], code: str, setting: str, loses: str
) -> None:
    found = only(scene(collector=collector, keeper=keeper))
    assert (found.code, found.setting, found.severity) == (code, setting, "error")
    assert loses in found.loses
    assert found.machine in ("this gateway", f"{found.collector} at 10.0.0.2")


def test_the_gateway_caps_what_the_collector_asks_for() -> None:
    found = only(scene(collector=V5, keeper={"expiry_s": 3600}, gateway={"max_session_expiry_s": 3600}))
    assert (found.code, found.where) == ("session_expiry_capped", "gateway")
    assert found.setting == 'mqtt.max_session_expiry_interval = "8h"'
    assert found.only_while == "the collector is away for less than 60 min"


def test_an_outage_that_the_session_outlives_is_no_finding() -> None:
    assert codes(scene(collector={**V5, "expiry_s": 3600}, keeper={"expiry_s": 3600}), outage_s=3600) == []


def test_a_rule_of_the_gateway_makes_a_session_last() -> None:
    assert codes(scene(collector={**V5, "expiry_s": 0}, keeper={"granted_s": 604_800, "expiry_s": 604_800})) == []


@pytest.mark.parametrize("gateway", [{"upgrade_qos": True}, {"store_qos0": True}, {}])
def test_a_subscription_at_qos_0(gateway: dict[str, Any]) -> None:
    snapshot = scene(keeper={"subscriptions": {"line/#": 0}}, gateway=gateway)
    assert codes(snapshot) == ([] if gateway else ["subscription_qos0"])


def test_the_words_are_those_of_the_program() -> None:
    declared = CollectorRule("h", HISTORIAN, "factry", ())
    found = only(scene(keeper={"subscriptions": {"line/#": 0}}, gateway={"collectors": (declared,)}))
    assert found.setting == "qosCollector = 1"


def test_a_group_lasts_as_long_as_a_member() -> None:
    share = "$share/g/line/#"
    group = Keeper(client_id=share, kind="group", persistent=False, subscriptions={"line/#": 1}, members=(HISTORIAN,))
    snapshot = scene(
        collector={"clean": True, "asked": {share: 1}},
        keeper={"persistent": False, "subscriptions": {share: 1}},
        lead={"targets": {share: 1}},
        keepers={share: group},
    )
    found = only(snapshot)
    assert (found.code, found.machine) == ("group_not_persistent", HISTORIAN)


def test_a_session_that_nobody_comes_back_to() -> None:
    old = Client(client_id="historian-old", peer="10.0.0.2:1", connected=False, since_ms=5000, asked={"line/#": 1})
    left = Keeper(client_id="historian-old", connected=False, subscriptions={"line/#": 1}, queued=7)
    snapshot = scene(clients={"historian-old": old}, keepers={"historian-old": left})
    found = only(snapshot)
    assert (found.code, found.where, found.setting) == (
        "orphan_session", "gateway", 'forebay sessions remove historian-old',
    )  # fmt: skip
    assert found.loses == ()


@pytest.mark.parametrize(
    ("client_id", "command"),
    [("a b", "forebay sessions remove 'a b'"), ("-x", "forebay sessions remove -- -x"),
     ("'; rm x", "forebay sessions remove ''\"'\"'; rm x'")],
)  # fmt: skip
def test_what_a_client_calls_itself_is_one_word_of_a_command(client_id: str, command: str) -> None:
    old = Client(client_id=client_id, peer="10.0.0.2:1", connected=False, since_ms=5000)
    left = Keeper(client_id=client_id, connected=False, subscriptions={"line/#": 1})
    assert only(scene(clients={client_id: old}, keepers={client_id: left})).setting == command


def test_a_collector_that_is_away_is_no_orphan() -> None:
    assert codes(scene(collector={"connected": False}, keeper={"connected": False})) == []


def test_subscriptions_asked_for_and_held() -> None:
    stale = scene(keeper={"subscriptions": {"line/#": 1, "old/#": 1}})
    assert only(stale).code == "subscription_stale"
    silent = scene(collector={"asked": {}}, keeper={"subscriptions": {"line/#": 1, "old/#": 1}})
    assert codes(silent) == [], "who comes back to its session need not ask again"
    held = {"line/#": 1, "a/#": 1, "b/#": 1}
    assert codes(scene(keeper={"subscriptions": held})) == [], "it came back, and asked for one more"
    many = scene(collector={"asked_more": True}, keeper={"subscriptions": {"line/#": 1, "old/#": 1}})
    assert codes(many) == [], "of too many not all are remembered"


def test_a_collector_that_does_not_acknowledge() -> None:
    keeper = {"inflight": 32, "queued": 500, "unacked_ms": 61_000}
    assert only(scene(keeper=keeper)).code == "collector_stuck"
    found = only(scene(keeper={**keeper, "unacked_ms": 9_000}))
    assert (found.code, found.setting) == ("window_small", "mqtt.max_inflight = 1000")
    assert codes(scene(keeper={**keeper, "unacked_ms": 100})) == []


def test_two_clients_with_one_id() -> None:
    found = only(scene(collector={"quarrels": 3, "rival": "10.0.0.9:1"}))
    assert found.code == "duplicate_client_id"
    assert "10.0.0.9:1" in found.what and "10.0.0.2:4712" in found.what


def test_a_link_that_falls_silent() -> None:
    assert only(scene(publisher={"silences": 3})).code == "connection_silent"


def test_expected_collectors() -> None:
    row = CollectorRule("historian", HISTORIAN, "other", ("line/#",))
    assert codes(scene(gateway={"collectors": (row,)})) == []
    more = row._replace(topics=("line/#", "energy/+/power"))
    found = only(scene(gateway={"collectors": (more,)}))
    assert found.code == "subscription_missing" and "energy/+/power" in found.what
    nobody = CollectorRule("other", "other-*", "other", ())
    assert "collector_missing" in codes(scene(gateway={"collectors": (row, nobody)}))


def test_a_wider_filter_covers_what_is_expected() -> None:
    row = CollectorRule("historian", HISTORIAN, "other", ("line/+/x", "line/a/#"))
    assert codes(scene(gateway={"collectors": (row,)})) == []


def test_who_is_not_declared_is_not_judged_once_some_are() -> None:
    display = Client(client_id="display", clean=True, asked={"line/#": 0})
    held = Keeper(client_id="display", persistent=False, subscriptions={"line/#": 0})
    others: dict[str, Any] = {"clients": {"display": display}, "keepers": {"display": held}}
    assert "collector_clean_session" in codes(scene(**others))
    row = CollectorRule("historian", HISTORIAN, "other", ())
    assert codes(scene(gateway={"collectors": (row,)}, **others)) == []


def test_a_subscriber_that_has_left_with_its_session() -> None:
    gone = Client(client_id="spare", clean=True, connected=False, since_ms=10, connects=2, asked={"line/#": 1})
    found = report(scene(clients={"spare": gone}))
    assert [f.code for f in found.findings] == ["collector_clean_session"]
    assert [flow.collector for flow in found.flows if flow.buffered == "no"] == ["spare"]
