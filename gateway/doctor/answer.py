"""What the broker told becomes the report: in the process of who asks, the command or the status page."""

from collections.abc import Mapping
from typing import Any

from gateway.bridge.facts import NodeFacts
from gateway.bridge.standing import standing
from gateway.doctor.doctor import examine
from gateway.doctor.snapshot import Ask, Gateway, Snapshot, clients_of, keepers_of, leads_of
from gateway.settings.collector import CollectorRule


def report(told: Mapping[str, Any], ask: Ask) -> dict[str, Any]:
    """What the doctor makes of such an answer, once it was read from JSON."""
    gateway = dict(told["gateway"])
    gateway["collectors"] = tuple(
        CollectorRule(name, client_id, product, tuple(topics))
        for name, client_id, product, topics in gateway["collectors"]
    )
    snapshot = Snapshot(
        gateway=Gateway(**gateway),
        clients=clients_of(told["clients"]),
        keepers=keepers_of(told["keepers"]),
        leads=leads_of(told["flows"]),
        leads_left_out=told["flows_left_out"],
        nodes=tuple(_node(NodeFacts.from_dict(row), told["host_id"]) for row in told["nodes"]),
        uplinks=tuple(told["uplinks"]),
        engine=told.get("engine", {}),
    )
    return examine(snapshot, ask).as_dict()


def _node(facts: NodeFacts, host_id: str) -> dict[str, Any]:
    """Its step of the ladder, by what was seen on the wire."""
    _, stands = standing((), facts, host_id)
    return {
        "node": facts.node,
        "client_id": facts.client_id,
        "step": stands.step.value,
        "remains": stands.remains,
        "why": stands.why,
        "advice": [advice.text for advice in stands.advice],
    }
