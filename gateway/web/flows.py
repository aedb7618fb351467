"""What the doctor found, for the page: is each flow buffered from end to end, and what to set where it is not."""

from typing import Any, Final

from gateway.figures import span

LEVELS: Final = {"error": "bad", "warning": "warn", "note": ""}
BUFFERED: Final = {
    "yes": ("buffered", "good"),
    "no": ("not buffered", "bad"),
    "only_while": ("partly buffered", "warn"),
}
FINDINGS_MAX: Final = 100
FLOWS_MAX: Final = 200

Row = dict[str, Any]


def flows(report: Row) -> Row:
    """Findings, the worst first, and the flows that they are about."""
    counts = report["counts"]
    outage = span(report["outage_s"] * 1000)
    if not report["flows"]:
        headline = "No flow was seen yet"
    elif counts["error"]:
        headline = f"Messages would be lost in an outage of {outage}"
    elif counts["warning"]:
        headline = f"Buffered for an outage of {outage}, but"
    else:
        headline = f"Every flow is buffered for an outage of {outage}"
    return {
        "headline": headline,
        "findings": [_finding(finding) for finding in report["findings"][:FINDINGS_MAX]],
        "flows": [_flow(flow) for flow in report["flows"][:FLOWS_MAX]],
    }


def _finding(finding: Row) -> Row:
    key = "/".join((finding["code"], finding["publisher"], finding["topic"], finding["collector"], finding["machine"]))
    return {**finding, "key": key, "level": LEVELS.get(finding["severity"], "")}


def _flow(flow: Row) -> Row:
    more = flow["topic_count"] - 1
    words, level = BUFFERED.get(flow["buffered"], (flow["buffered"], ""))
    published = "/".join(map(str, flow["publish_qos"]))
    return {
        "key": f"{flow['publisher']}/{flow['collector']}/{flow['topics'][0]}",
        "publisher": flow["publisher"] or "(no name)", "collector": flow["collector"] or "(no name)",
        "topics": flow["topics"][0] + (f" and {more} more" if more else ""),
        "qos": f"published at QoS {published}, delivered at {flow['qos']}",
        "buffered": words, "level": level, "because": flow["because"],
    }  # fmt: skip
