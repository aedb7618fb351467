"""The metrics of one report."""

import json
import os
import re
from pathlib import Path

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

from gateway.web.metrics import ACKS, encode
from tests.unit.gateway.web.reports import engine, report, session, uplink

ROOT = Path(__file__).parents[4]


def samples(text: bytes) -> dict[str, float]:
    found = {}
    for family in parser.text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def made(**more: object) -> dict[str, float]:
    return samples(encode(report(pid=os.getpid(), **more), "", 100)[0])


def test_counters_count_from_the_start_of_the_broker() -> None:
    found = made()
    assert found["forebay_messages_received_total{qos=0}"] == 100
    assert found["forebay_messages_sent_total{qos=2}"] == 100
    assert found["forebay_messages_dropped_total{reason=expired}"] == 5
    assert found["forebay_messages_dropped_total{reason=queue_full}"] == 3
    assert found["forebay_messages_dropped_total{reason=disk}"] == 0
    for kind in ACKS:
        assert found[f"forebay_acknowledgements_sent_total{{type={kind}}}"] == 100
    assert found["forebay_sparkplug_sequence_gaps_total"] == 3


def test_times_are_seconds_and_sizes_bytes() -> None:
    found = made()
    assert found["forebay_queue_oldest_seconds"] == 72.0
    assert found["forebay_store_used_bytes"] == 250_000
    assert found["forebay_store_written_bytes_total"] == 800_000
    assert found["forebay_session_oldest_seconds{client_id=collector}"] == 5.6
    assert found["forebay_clock_synchronised"] == 1


def test_commit_times_are_a_histogram() -> None:
    found = made()
    assert found["forebay_store_commit_duration_seconds_bucket{le=0.001}"] == 20
    assert found["forebay_store_commit_duration_seconds_bucket{le=0.004}"] == 29
    assert found["forebay_store_commit_duration_seconds_bucket{le=+Inf}"] == 30
    assert found["forebay_store_commit_duration_seconds_count"] == 30
    assert found["forebay_store_commit_duration_seconds_sum"] == 5.1


def test_what_is_not_known_is_left_out() -> None:
    given = report(pid=os.getpid(), sessions=[session(eta_s=None)])
    given["status"]["drain"]["eta_s"] = None
    found = samples(encode(given, "", 100)[0])
    assert "forebay_drain_eta_seconds" not in found
    assert not [name for name in found if name.startswith("forebay_session_drain_eta")]


def test_only_so_many_sessions_have_gauges() -> None:
    rows = [session(f"s{number}") for number in range(9)]
    found = samples(encode(report(pid=os.getpid(), sessions=rows), "", 2)[0])
    listed = [name for name in found if name.startswith("forebay_session_queue_messages{")]
    assert listed == ["forebay_session_queue_messages{client_id=s0}", "forebay_session_queue_messages{client_id=s1}"]


def test_names_that_need_quoting_come_through_the_parser() -> None:
    name = 'a "b"\\c\nd{}=,ä'
    assert made(sessions=[session(name)])[f"forebay_session_connected{{client_id={name}}}"] == 1


def test_uplinks_have_gauges_of_their_own() -> None:
    given = report(pid=os.getpid())
    given["status"]["uplinks"] = [uplink(), uplink(name="hq", state="forwarding", eta_s=7, drops={})]
    found = samples(encode(given, "", 100)[0])
    assert (found["forebay_uplink_up{uplink=cloud}"], found["forebay_uplink_up{uplink=hq}"]) == (0, 1)
    assert found["forebay_uplink_oldest_seconds{uplink=cloud}"] == 61
    assert found["forebay_uplink_dropped_total{reason=retention,uplink=cloud}"] == 1
    assert found["forebay_uplink_drain_eta_seconds{uplink=hq}"] == 7
    assert "forebay_uplink_drain_eta_seconds{uplink=cloud}" not in found


def test_an_engine_has_gauges_and_the_log_here_none() -> None:
    found = made()
    assert found["forebay_engine_up{engine=nats}"] == 1
    assert found["forebay_engine_waiting_messages"] == 21
    assert found["forebay_engine_log_bytes"] == 3300
    assert found["forebay_engine_application_lag_messages{client_id=historian}"] == 17
    assert "forebay_engine_application_lag_messages{client_id=away}" not in found
    given = report(pid=os.getpid())
    given["status"]["engine"] = engine(state="down", log={})
    found = samples(encode(given, "", 100)[0])
    assert found["forebay_engine_up{engine=nats}"] == 0
    assert "forebay_engine_log_messages" not in found
    given["status"]["engine"] = {"name": "sqlite"}
    assert not [name for name in samples(encode(given, "", 100)[0]) if name.startswith("forebay_engine")]


def test_both_processes_are_measured() -> None:
    found = made()
    assert found["forebay_process_resident_memory_bytes"] > 1_000_000
    assert found["forebay_web_process_resident_memory_bytes"] > 1_000_000


def test_openmetrics_for_who_asks_for_it() -> None:
    text, kind = encode(report(pid=os.getpid()), "application/openmetrics-text; version=1.0.0", 100)
    assert kind.startswith("application/openmetrics-text")
    families = list(openmetrics.text_string_to_metric_families(text.decode()))  # type: ignore[no-untyped-call]
    assert {family.name for family in families} >= {
        "forebay_messages_received",
        "forebay_store_commit_duration_seconds",
    }


def documented() -> set[str]:
    text = (ROOT / "docs" / "metrics.md").read_text()
    return set(re.findall(r"^\| `(forebay_\w+)`", text, re.MULTILINE))


def test_the_documentation_names_every_metric_and_no_other() -> None:
    text = encode(report(pid=os.getpid()), "", 100)[0].decode()
    families = re.findall(r"^# TYPE (\w+) \w+$", text, re.MULTILINE)
    # the format without type information beyond a line names the times of counters apart
    names = {name for name in families if not name.endswith("_created")}
    assert documented() == names


def test_every_expression_of_the_dashboard_names_metrics_that_exist() -> None:
    dashboard = json.loads((ROOT / "docs" / "grafana.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(expressions) > 15
    found = {name.partition("{")[0] for name in made()}
    for expression in expressions:
        names = re.findall(r"\bforebay_\w+", expression)
        assert names, expression
        assert set(names) <= found, expression


def test_the_dashboard_fits_on_its_grid() -> None:
    dashboard = json.loads((ROOT / "docs" / "grafana.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not taken & cells, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
