"""The shape that programs read."""

import json
import re
from pathlib import Path

from gateway.doctor.finding import LOSSES, SEVERITIES, Finding, Flow, Report, ranked

ROOT = Path(__file__).parents[4]
FINDING = Finding("c", "warning", "what", "why", "a = 1", "gateway", "this gateway", loses=("power_cut",))


def test_the_names_of_a_report_are_stable() -> None:
    flow = Flow("p", ("t",), 1, "c", (1,), 1, 1, "yes", "all is right")
    told = json.loads(json.dumps(Report(60, [flow], [FINDING]).as_dict()))
    assert told.keys() == {"outage_s", "flows", "findings", "flows_left_out", "topics_left_out", "counts"}
    assert told["flows"][0].keys() == {
        "publisher", "topics", "topic_count", "collector", "publish_qos", "subscription_qos", "qos", "buffered",
        "because", "loses", "findings",
    }  # fmt: skip
    assert told["findings"][0].keys() == {
        "code", "severity", "what", "why", "setting", "where", "machine", "publisher", "topic", "collector", "loses",
        "only_while",
    }  # fmt: skip
    assert told["counts"] == {"error": 0, "warning": 1, "note": 0}


def test_ranked_is_the_worst_first_and_each_once() -> None:
    note = Finding("n", "note", "", "", "", "gateway", "")
    bad = Finding("e", "error", "", "", "", "gateway", "")
    assert ranked([note, FINDING, bad, note]) == [bad, FINDING, note]
    assert set(FINDING.loses) <= set(LOSSES)
    assert SEVERITIES[0] == "error"


def test_the_page_lists_every_code_with_its_severity() -> None:
    found: dict[str, set[str]] = {}
    for path in (ROOT / "gateway" / "doctor").glob("*.py"):
        for code, severity in re.findall(r'\b(?:Finding|_kept)\(\s*"(\w+)",\s*(\w+)?', path.read_text()):
            found.setdefault(code, set()).add(severity.lower() if severity in ("WARNING", "NOTE") else "error")
    page = (ROOT / "docs" / "doctor.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", page, re.MULTILINE))
    assert listed.keys() == found.keys()
    assert {code: severity for code, severity in listed.items() if severity not in found[code]} == {}
