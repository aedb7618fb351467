"""From a snapshot to the report: all findings, and for each flow whether it is buffered, and why."""

from collections.abc import Iterable, Iterator

from gateway.doctor import collectors, limits, publishers
from gateway.doctor.case import Case
from gateway.doctor.finding import (
    ALWAYS,
    COLLECTOR_AWAY,
    NO,
    NOTE,
    ONLY_WHILE,
    YES,
    Finding,
    Flow,
    Report,
    ranked,
)
from gateway.doctor.snapshot import Ask, Lead, Snapshot

TOPICS_SHOWN = 5  # of a flow


def examine(snapshot: Snapshot, ask: Ask) -> Report:
    """Judge all that was seen."""
    case = Case(snapshot, ask)
    findings = ranked([*collectors.check(case), *publishers.check(case), *limits.check(case)])
    return Report(ask.outage_s, list(_flows(case, findings)), findings, snapshot.leads_left_out)


def _flows(case: Case, findings: list[Finding]) -> Iterator[Flow]:
    """Topics with the same way and the same QoS are one flow."""
    together: dict[tuple[str, str, tuple[int, ...], int, bool], list[Lead]] = {}
    for lead, targets in case.leads:
        for collector, qos in targets.items():
            together.setdefault((lead.publisher, collector, lead.qos, qos, lead.sparkplug), []).append(lead)
    for (publisher, collector, published, subscribed, sparkplug), leads in together.items():
        touching = [f for f in findings if f.touches(publisher, collector) and _speaks_of(f, published)]
        troubles = [f for f in touching if f.severity != NOTE or f.loses]
        raised = (sparkplug and case.gateway.bridge) or case.gateway.upgrade_qos
        lowest = min(published)
        qos = max(lowest, subscribed) if case.gateway.upgrade_qos else min(max(lowest, int(raised)), subscribed)
        buffered, because = _verdict(troubles)
        yield Flow(
            publisher, tuple(lead.topic for lead in leads[:TOPICS_SHOWN]), len(leads), collector, published, subscribed,
            qos, buffered, because, tuple(dict.fromkeys(loss for f in troubles for loss in f.loses)),
            tuple(dict.fromkeys(f.code for f in touching)),
        )  # fmt: skip


def _speaks_of(finding: Finding, published: tuple[int, ...]) -> bool:
    """A client may publish some topics at QoS 0 and others not."""
    return finding.code != "publish_qos0" or 0 in published


def _verdict(troubles: Iterable[Finding]) -> tuple[str, str]:
    losing = [f for f in troubles if f.loses]
    fatal = [f for f in losing if ALWAYS in f.loses or COLLECTOR_AWAY in f.loses]
    if fatal:
        return NO, "; ".join(dict.fromkeys(f.what for f in fatal))
    if losing:
        return ONLY_WHILE, "only while " + ", and ".join(
            dict.fromkeys(f.only_while or f"not: {f.what}" for f in losing)
        )
    return YES, "QoS, session, client id and limits agree; offline the publisher keeps what its own library keeps"
