"""What the broker tells the doctor, whoever that is: cheap, and without the modules that judge.

Control command: ``{"cmd": "doctor"}``. Judging thousands of flows takes long, and the broker has a single event loop.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from gateway.core.limits import NEVER
from gateway.doctor.snapshot import Gateway
from gateway.settings.table import Settings


def told(
    facts: Mapping[str, Any], status: Mapping[str, Any], settings: Settings, nodes: Iterable[dict[str, Any]]
) -> dict[str, Any]:
    """What the broker answers. Lists are iterators, good for use over many turns of its loop."""
    gateway = gateway_of(settings, status, facts)
    return {
        "gateway": {field.name: getattr(gateway, field.name) for field in fields(gateway)},
        "clients": facts["clients"],
        "keepers": facts["keepers"],
        "flows": facts["flows"],
        "flows_left_out": facts["flows_left_out"],
        "nodes": iter(nodes),
        "host_id": settings.bridge_host_id,
        "uplinks": status["uplinks"],
        "engine": status.get("engine", {}),
    }


def gateway_of(settings: Settings, status: Mapping[str, Any], facts: Mapping[str, Any]) -> Gateway:
    limits, store, counters = settings.limits(), status["store"], status["counters"]
    wear = status["wear"]
    messages = sum(counters[f"received_qos{qos}"] for qos in (0, 1, 2))
    payload = sum(counters[f"received_bytes_qos{qos}"] for qos in (0, 1, 2))
    return Gateway(
        durability=settings.durability,
        store_used=store["used_bytes"],
        store_max=store["max_bytes"],
        store_free=store["free_bytes"],
        store_min_free=settings.store_min_free_bytes,
        store_error=store["error"] or "",
        read_only=status["read_only"] or "",
        safe_mode=_safe_mode(status["safe_mode"]),
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
        flash_left=wear["life_left"],
        flash_years=wear["years_left"],
        flash_day_bytes=wear["day_bytes"] or 0,
        flash_spares_low=wear["spares_low"],
        message_bytes=payload / messages if messages else 0.0,
        collectors=tuple(settings.collector),
    )


def _safe_mode(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    return f"after {found['crashes']} crashes" + (", with settings of before" if found["last_good"] else "")


def _ends(seconds: int) -> int | None:
    return None if seconds == NEVER else seconds
