"""The doctor's report as a page."""

from typing import Any

import pytest

from gateway.web.flows import flows

FINDING = {
    "code": "clean_session", "severity": "error", "what": "its session is clean",
    "why": "what comes while it is away is lost", "setting": "cleansession = false", "where": "collector",
    "machine": "historian at 10.0.0.7", "publisher": "", "topic": "", "collector": "historian",
    "loses": ["collector_away"], "only_while": "",
}  # fmt: skip
FLOW = {
    "publisher": "plc", "topics": ["a", "b"], "topic_count": 5, "collector": "historian", "publish_qos": [0, 1],
    "subscription_qos": 1, "qos": 0, "buffered": "no", "because": "its session is clean", "loses": [], "findings": [],
}  # fmt: skip


def report(*findings: dict[str, Any], flow: bool = True) -> dict[str, Any]:
    counts = {level: sum(one["severity"] == level for one in findings) for level in ("error", "warning", "note")}
    return {
        "outage_s": 28_800, "flows": [FLOW] if flow else [], "findings": list(findings), "topics_left_out": 0,
        "counts": counts,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "headline"),
    [
        (report(flow=False), "No flow was seen yet"),
        (report(), "Every flow is buffered for an outage of 8 h 0 min"),
        (report(FINDING | {"severity": "warning"}), "Buffered for an outage of 8 h 0 min, but"),
        (report(FINDING), "Messages would be lost in an outage of 8 h 0 min"),
    ],
)
def test_the_headline_is_the_answer(given: dict[str, Any], headline: str) -> None:
    assert flows(given)["headline"] == headline


def test_a_finding_says_what_to_set_and_where() -> None:
    (finding,) = flows(report(FINDING))["findings"]
    assert (finding["level"], finding["setting"], finding["machine"]) == (
        "bad",
        "cleansession = false",
        "historian at 10.0.0.7",
    )


def test_a_flow_says_whether_it_is_buffered() -> None:
    (flow,) = flows(report())["flows"]
    assert (flow["buffered"], flow["level"]) == ("not buffered", "bad")
    assert flow["topics"] == "a and 4 more"
    assert flow["qos"] == "published at QoS 0/1, delivered at 0"
