"""A factory where all is right, and one thing changed in it."""

import dataclasses
from typing import Any

from gateway.doctor.case import Case
from gateway.doctor.doctor import examine
from gateway.doctor.finding import Finding, Report
from gateway.doctor.snapshot import Ask, Client, Gateway, Keeper, Lead, Snapshot

PLC, HISTORIAN = "plc", "historian"


def scene(
    publisher: dict[str, Any] | None = None,
    collector: dict[str, Any] | None = None,
    keeper: dict[str, Any] | None = None,
    lead: dict[str, Any] | None = None,
    gateway: dict[str, Any] | None = None,
    **others: Any,
) -> Snapshot:
    """``plc`` publishes ``line/1`` at QoS 1, ``historian`` holds ``line/#`` at QoS 1; each argument changes fields."""
    plc = Client(client_id=PLC, peer="10.0.0.1:4711", publishes=True, largest=100)
    historian = Client(client_id=HISTORIAN, peer="10.0.0.2:4712", asked={"line/#": 1})
    session = Keeper(client_id=HISTORIAN, subscriptions={"line/#": 1}, window=32)
    topic = Lead(publisher=PLC, topic="line/1", qos=(1,), targets={HISTORIAN: 1})
    plc, historian = dataclasses.replace(plc, **publisher or {}), dataclasses.replace(historian, **collector or {})
    session = dataclasses.replace(session, **{"client_id": historian.client_id, **(keeper or {})})
    topic = dataclasses.replace(
        topic, **{"publisher": plc.client_id, "targets": {session.client_id: 1}, **(lead or {})}
    )
    return Snapshot(
        gateway=dataclasses.replace(Gateway(message_bytes=60), **gateway or {}),
        clients={plc.client_id: plc, historian.client_id: historian, **others.get("clients", {})},
        keepers={session.client_id: session, **others.get("keepers", {})},
        leads=(topic, *others.get("leads", ())),
        nodes=others.get("nodes", ()),
        uplinks=others.get("uplinks", ()),
    )


def case(snapshot: Snapshot, **ask: Any) -> Case:
    return Case(snapshot, Ask(**ask))


def report(snapshot: Snapshot, **ask: Any) -> Report:
    return examine(snapshot, Ask(**ask))


def only(snapshot: Snapshot, **ask: Any) -> Finding:
    """The one finding that there is."""
    findings = report(snapshot, **ask).findings
    assert len(findings) == 1, [(f.code, f.what) for f in findings]
    return findings[0]


def codes(snapshot: Snapshot, **ask: Any) -> list[str]:
    return [finding.code for finding in report(snapshot, **ask).findings]
