"""From a snapshot to the report: all findings, and for each flow whether it is buffered, and why."""

from collections.abc import Iterable, Iterator
from typing import Final, final

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

TOPICS_SHOWN: Final = 5  # of a flow
FLOWS_MAX: Final = 1000  # in a report
WORST: Final = (NO, ONLY_WHILE, YES)


def examine(snapshot: Snapshot, ask: Ask) -> Report:
    """Judge all that was seen."""
    case = Case(snapshot, ask)
    findings = ranked([*collectors.check(case), *publishers.check(case), *limits.check(case)])
    flows = sorted(_flows(case, findings), key=lambda flow: WORST.index(flow.buffered))
    left_out = max(0, len(flows) - FLOWS_MAX)
    return Report(ask.outage_s, flows[:FLOWS_MAX], findings, left_out, snapshot.leads_left_out)


def _flows(case: Case, findings: list[Finding]) -> Iterator[Flow]:
    """Topics with the same way and the same QoS are one flow."""
    together: dict[tuple[str, str, tuple[int, ...], int, bool], list[Lead]] = {}
    for lead, targets in case.leads:
        for collector, qos in targets.items():
            together.setdefault((lead.publisher, collector, lead.qos, qos, lead.sparkplug), []).append(lead)
    known = Index(findings)
    for (publisher, collector, published, subscribed, sparkplug), leads in together.items():
        touching = [f for f in known.between(publisher, collector) if _speaks_of(f, published)]
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


@final
class Index:
    """Findings by whom they touch, in their order."""

    def __init__(self, findings: list[Finding]) -> None:
        self._order = {finding: number for number, finding in enumerate(findings)}
        self._by: dict[tuple[str, str], list[Finding]] = {}
        for finding in findings:
            self._by.setdefault((finding.publisher, finding.collector), []).append(finding)

    def between(self, publisher: str, collector: str) -> list[Finding]:
        """Those that a flow between these two has."""
        ways = ((publisher, collector), (publisher, ""), ("", collector), ("", ""))
        found = [finding for way in ways for finding in self._by.get(way, ())]
        return sorted(found, key=lambda finding: self._order[finding])


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
