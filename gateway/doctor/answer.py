"""The control command ``doctor``: from what the broker says of itself to the report.

Command: ``{"cmd": "doctor", "outage_s": 28800, "unacked_s": 60, "keep_alive_s": 120}``, the numbers optional.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gateway.bridge.facts import NodeFacts
from gateway.bridge.standing import standing
from gateway.core.limits import NEVER
from gateway.doctor.doctor import examine
from gateway.doctor.snapshot import Ask, Gateway, Snapshot, clients_of, keepers_of, leads_of
from gateway.settings import Settings

NUMBER_MAX: Final = 10 * 365 * 86_400


def answer(
    command: Mapping[str, Any],
    facts: dict[str, Any],
    status: dict[str, Any],
    settings: Settings,
    nodes: Iterable[dict[str, Any]] = (),
    uplinks: Iterable[dict[str, Any]] = (),
) -> dict[str, Any]:
    """The report as JSON has it. Raises ValueError with one line for a wrong number."""
    usual = Ask()
    ask = Ask(
        outage_s=int(_number(command, "outage_s", usual.outage_s)),
        unacked_s=_number(command, "unacked_s", usual.unacked_s),
        keep_alive_s=int(_number(command, "keep_alive_s", usual.keep_alive_s)),
    )
    snapshot = Snapshot(
        gateway=gateway_of(settings, status, facts),
        clients=clients_of(facts["clients"]),
        keepers=keepers_of(facts["keepers"]),
        leads=leads_of(facts["flows"]),
        leads_left_out=facts["flows_left_out"],
        nodes=tuple(_node(NodeFacts.from_dict(row), settings.bridge_host_id) for row in nodes),
        uplinks=tuple(uplinks),
    )
    return examine(snapshot, ask).as_dict()


def gateway_of(settings: Settings, status: dict[str, Any], facts: dict[str, Any]) -> Gateway:
    limits, store, counters = settings.limits(), status["store"], status["counters"]
    messages = sum(counters[f"received_qos{qos}"] for qos in (0, 1, 2))
    payload = sum(counters[f"received_bytes_qos{qos}"] for qos in (0, 1, 2))
    return Gateway(
        durability=settings.durability,
        store_used=store["used_bytes"],
        store_max=store["max_bytes"],
        store_free=store["free_bytes"],
        store_min_free=settings.store_min_free_bytes,
        store_error=store["error"] or "",
        synchronised=status["clock"]["synchronised"],
        upgrade_qos=limits.upgrade_qos,
        store_qos0=limits.mqueue_store_qos0_persistent,
        message_expiry_s=limits.message_expiry_s,
        device_limit=limits.device_limit,
        device_ttl_s=limits.device_ttl_s,
        session_expiry_s=_ends(limits.session_expiry_s),
        max_session_expiry_s=_ends(limits.max_session_expiry_s),
        max_inflight=limits.max_inflight,
        bridge=limits.bridge,
        bridge_elide=limits.bridge_elide,
        push_back_s=limits.push_back_ms / 1000,
        keep_alive_percent=limits.keepalive_percent,
        flush_evicted=facts["flush_evicted"],
        flush_max=limits.flush_cache_max,
        message_bytes=payload / messages if messages else 0.0,
        collectors=tuple(settings.collector),
    )


def _ends(seconds: int) -> int | None:
    return None if seconds == NEVER else seconds


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


def _number(command: Mapping[str, Any], name: str, default: float) -> float:
    value = command.get(name, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= NUMBER_MAX:
        raise ValueError(f"{name} = {value!r}: expected a number of seconds above 0")
    return value
