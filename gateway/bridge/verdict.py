"""What a probe's findings amount to: the verdict, the evidence for it in words, and a profile of the node."""

import re
from dataclasses import dataclass
from typing import Any, Final, final

from gateway.bridge.outage import Outage
from gateway.bridge.probe import Findings

KEPT: Final = 0.9  # of what was made in an outage: who keeps so much keeps it on purpose
MAKE: Final = "properties/hardware make"
MODEL: Final = "properties/hardware model"
DATATYPES: Final = {4: "Int64", 8: "UInt64", 1: "Int8"}  # of bdSeq, as profiles name them


@final
@dataclass(frozen=True, slots=True)
class Judged:
    verdict: str
    confidence: str  # "high", "medium", "low", "none"
    evidence: tuple[str, ...]  # a line for each step


def judge(findings: Findings) -> Judged:
    """The verdict; "unknown" when the probe could not be carried through."""
    qos = findings.data_qos()
    evidence = _evidence(findings)
    if qos is None or (findings.failed and findings.outage is None):
        return Judged("unknown", "none", evidence)
    stores = _stores(findings.outage)
    if qos == 0:
        if stores is None:
            return Judged("qos0_lossy", "low", evidence)
        sure = "high" if findings.counter else "medium"
        return Judged("qos0_native_sf" if stores else "qos0_lossy", sure, evidence)
    if findings.unacked is None or findings.resent is None:
        return Judged("unknown", "low", evidence)
    outage = findings.outage
    if findings.resent < findings.unacked or (outage is not None and outage.complete is False):
        return Judged("qos1_no_retry", "high", evidence)
    survived = _survived(findings)
    sure = "high" if outage is not None and outage.complete else "medium"
    return Judged("qos1_persistent" if survived else "qos1_ram", sure, evidence)


def _stores(outage: Outage | None) -> bool | None:
    """Whether it keeps what it makes while it is away."""
    if outage is None:
        return None
    if outage.made is not None and outage.missing is not None:
        return outage.late > 0 and outage.made - outage.missing >= KEPT * outage.made
    return True if outage.late and outage.historical else None


def _survived(findings: Findings) -> bool | None:
    """Whether what it had stored before it was restarted came afterwards."""
    outage, before = findings.reboot, findings.outage
    if outage is None or (before is not None and before.idle):
        return None
    if outage.late == 0:
        return False
    return True if outage.late and not outage.missing else None


def _evidence(findings: Findings) -> tuple[str, ...]:
    lines = []
    qos = findings.data_qos()
    if qos is not None:
        by = f"counter {findings.counter}" if findings.counter else "time stamps, as no metric counts up"
        lines.append(f"data at QoS {qos}, usually each {findings.interval_ms} ms; judged by {by}")
    if findings.unacked is not None:
        again = f"{findings.resent} of {findings.unacked} unacknowledged messages came again"
        if findings.resent:
            place = (findings.replay_order or "without a birth").replace("_", " ")
            again += f", {'with' if findings.resent_dup else 'without'} DUP, {place}"
        lines.append(again)
    for name, outage in (("outage", findings.outage), ("half-open link", findings.half_open)):
        if outage is not None:
            lines.append(f"{name} of {outage.away_ms / 1000:.1f} s: {_told(outage)}")
    if findings.noticed_ms is not None:
        lines.append(f"it left a dead link after {findings.noticed_ms / 1000:.1f} s")
    if findings.reboot is not None:
        survived = {True: "what was stored", False: "nothing of what was stored", None: "not certain what"}
        lines.append(f"restart in an outage: {survived[_survived(findings)]} came afterwards")
    if findings.overflow is not None:
        dropped = f", the {findings.overflow.dropped} were dropped" if findings.overflow.dropped else ""
        lines.append(f"outage of {findings.overflow.away_ms / 1000:.0f} s: {findings.overflow.late} kept{dropped}")
    lines += [f"{step.replace('_', '-')} not tried: {why}" for step, why in findings.skipped.items()]
    if findings.failed:
        lines.append(f"ended early: {findings.failed}")
    return tuple(lines)


def _told(outage: Outage) -> str:
    if outage.idle:
        return "the counter stood still meanwhile, so nothing can be said: name one that goes on"
    if outage.made is None or outage.missing is None:
        return f"{outage.late} messages of it came afterwards, of an unknown number"
    text = f"{outage.missing} of {outage.made} lost"
    if outage.historical:
        text += f", {outage.historical} marked is_historical"
    if outage.late and outage.before_birth:
        text += f", {outage.before_birth} before the birth"
    return text


def draft(
    node: str, findings: Findings, judged: Judged, properties: dict[str, str], aliases: bool, date: str
) -> dict[str, Any]:
    """A profile of this node as the values of its file; what the probe did not show is left out.

    ``properties`` are the texts of its births, ``aliases`` is whether its data came by alias, ``date`` is today, as in
    2026-11-30.
    """
    texts = {name.lower(): value for name, value in properties.items() if value}
    make, model = texts.get(MAKE), texts.get(MODEL)
    firmware = next((value for name, value in texts.items() if "firmware" in name or "/fw" in name), None)
    evidence: dict[str, Any] = {
        "date": date, "method": "probe", "verdict": judged.verdict, "confidence": judged.confidence,
        "source": [f"probe of {node}", *judged.evidence], "expires_on_firmware_change": True,
        "fallback": "native" if judged.verdict == "qos0_native_sf" else "ingest",
    }  # fmt: skip
    if firmware:
        evidence["firmware_seen"] = firmware
    sections = {
        "transport": _transport(findings), "retry": _retry(findings), "native": _native(findings, judged),
        "session": _session(findings), "codec": {"aliases": aliases},
    }  # fmt: skip
    return {
        "name": name_of(node),
        "title": f"{node}, as probed",
        "identity": {"vendor": make or "not said", "model": model or "not said", "firmware": firmware or "any"},
        "match": {"topic": [_literal(node)]},
        **{name: kept for name, values in sections.items() if (kept := _known(values))},
        "evidence": evidence,
        "upgrade": _upgrade(findings, judged),
    }


def name_of(node: str) -> str:
    """The name of a node's own profile."""
    return re.sub(r"[^a-z0-9]+", "-", node.lower()).strip("-") or "node"


def _literal(node: str) -> str:
    """As a pattern that fits itself: a Sparkplug id holds no wildcard of MQTT, but may hold * and ?."""
    return node.replace("*", "?")


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _transport(findings: Findings) -> dict[str, Any]:
    connect = findings.connect
    values: dict[str, Any] = {"qos": {name: qos for name, qos in findings.qos.items() if name[1:] in _TYPES} or None}
    if connect is not None:
        values |= {
            "keep_alive_s": connect.keep_alive_s, "clean": connect.clean, "will_qos": connect.will_qos,
            "client_id_stable": len(findings.client_ids) == 1,
        }  # fmt: skip
    return values


_TYPES: Final = ("BIRTH", "DATA", "DEATH")


def _retry(findings: Findings) -> dict[str, Any]:
    survived = _survived(findings)
    resends = None if findings.unacked is None else findings.resent == findings.unacked
    late = findings.outage is not None and findings.outage.late > 0
    overflow = findings.overflow
    full = overflow is not None and bool(overflow.missing)
    return {
        "resends": resends,
        "sets_dup": findings.resent_dup,
        "replay_order": findings.replay_order,
        "queue": "disk" if survived and late else "ram" if survived is False and late else None,
        "queue_limit": f"{overflow.late} messages" if overflow is not None and full else None,
        "drop_policy": overflow.dropped if overflow is not None and full else None,
        "survives_reboot": survived,
    }


def _native(findings: Findings, judged: Judged) -> dict[str, Any]:
    outage = findings.outage
    if judged.verdict != "qos0_native_sf" or outage is None:
        return {}
    covers = findings.half_open.complete if findings.half_open is not None else None
    return {
        "available": True, "trigger": ["link"], "is_historical": outage.historical > 0,
        "original_timestamps": outage.original_timestamps, "order": outage.order, "covers_keep_alive": covers,
        "how": "It is switched on.",
    }  # fmt: skip


def _session(findings: Findings) -> dict[str, Any]:
    outage = findings.outage
    return {
        "bdseq_matches": findings.bdseq_matches,
        "bdseq_type": DATATYPES.get(findings.bdseq_type),
        "seq_given": outage.seq_given if outage is not None else None,
        "seq_gaps_after_outage": outage.seq_gaps if outage is not None else None,
    }


def _upgrade(findings: Findings, judged: Judged) -> dict[str, Any]:
    if findings.data_qos():
        return {"possible": True, "text": f"It publishes data at QoS {findings.data_qos()} already."}
    return {
        "possible": False,
        "text": "Not known: look for a QoS setting of the device, and probe again once it is set.",
    }
