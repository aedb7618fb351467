"""What is said of an engine."""

from typing import Any

from gateway.doctor.engines import check


def codes(**row: Any) -> list[str]:
    return [finding.code for finding in check(row)]


def test_the_log_here_is_none() -> None:
    assert codes(name="sqlite") == []


def test_one_that_is_well_needs_nothing() -> None:
    assert codes(name="nats", state="up", log={"sync": "always", "replicas_behind": []}) == []


def test_trouble_is_told() -> None:
    assert codes(name="nats", state="down", error="no answer", waiting=3, log={}) == ["engine_down"]
    assert codes(name="nats", state="refused", error="too old", log={}) == ["engine_down"]
    log = {"sync": "not always", "replicas": 3, "replicas_behind": ["n1"]}
    assert codes(name="nats", state="up", log=log) == ["engine_sync", "engine_replicas"]
    assert codes(name="nats", state="up", log={"sync": "unknown"}) == ["engine_sync_unknown"]


def test_what_waits_is_counted_and_what_it_costs_said() -> None:
    (finding,) = check({"name": "nats", "state": "down", "error": "no answer", "waiting": 3, "log": {}})
    assert "3 messages wait in the store here" in finding.why
    assert finding.only_while == "the store here has room"


def test_what_may_be_lost_on_kafka() -> None:
    log = {"replicas": 1, "replicas_behind": [], "fallen_off": 7}
    found = list(check({"name": "kafka", "state": "up", "log": log}))
    assert [one.code for one in found] == ["engine_one_replica", "engine_fallen_off"]
    assert "7 messages" in found[1].what
    assert codes(name="kafka", state="up", log={"replicas": 3, "replicas_behind": [], "fallen_off": 0}) == []
    assert codes(name="kafka", state="up", log={"replicas": 3, "replicas_behind": ["server 2"]}) == ["engine_replicas"]
