"""A report as the broker gives it, with figures that tell themselves apart."""

import asyncio
from typing import Any

from gateway.core.ledger import Ledger
from gateway.net.control import ControlServer
from gateway.store.stats import BOUNDS_MS
from gateway.web.control import Control


def session(client_id: str = "collector", **more: Any) -> dict[str, Any]:
    row = {
        "client_id": client_id, "kind": "session", "connected": True, "peer": "10.0.0.7:5123", "version": "5.0",
        "persistent": True, "expiry_s": 3600, "expires_in_ms": None, "subscriptions": 2, "queue_messages": 12,
        "queue_bytes": 3400, "oldest_ms": 5600, "inflight": 3, "window": 32, "path": "application", "awaiting_rel": 0,
        "drain_rate": None, "drained_s": 40, "eta_s": 7, "max_bytes": None, "max_age_s": None, "matched": 100,
        "acknowledged": 85, "will_pending": False, "drops": {"expired": 4}, "priorities": [],
    }  # fmt: skip
    return row | more


def uplink(**more: Any) -> dict[str, Any]:
    row = {
        "name": "cloud", "state": "waiting", "since_s": 90, "address": None,
        "addresses": ["mqtts://a:8883", "mqtt://b"], "error": "refused: not authorised", "last_error": None,
        "queue_messages": 10, "queue_bytes": 2048, "inflight": 2, "oldest_ms": 61_000, "rate_s": 0.5, "eta_s": None,
        "drops": {"retention": 1},
    }  # fmt: skip
    return row | more


def engine(**more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": "nats", "state": "up", "since_s": 5, "error": None,
        "waiting": 21, "waiting_bytes": 2100, "in_flight": 3,
        "log": {"server": "nats-server 2.12.15", "messages": 33, "bytes": 3300, "replicas": 3, "replicas_behind": [],
                "sync": "always"},
        "applications": [
            {"client_id": "historian", "connected": True, "reads": True, "lag": 17},
            {"client_id": "away", "connected": False, "reads": False, "lag": None},
        ],
    }  # fmt: skip
    return row | more


def report(**more: Any) -> dict[str, Any]:
    """Each counter is 100 more than when the broker started, a counter at its start its place in the list."""
    before = {name: number for number, name in enumerate(Ledger().snapshot())}
    status = {
        "connections": 3, "sessions": {"total": 5, "connected": 3, "persistent": 2},
        "queue": {"messages": 70, "bytes": 7100, "oldest_ms": 72_000}, "inflight": 6, "waiting_bytes": 11,
        "delayed": {"messages": 2, "bytes": 30, "next_ms": 4000}, "uplinks": [uplink()],
        "engine": engine(),
        "drain": {"sessions": 1, "messages_s": 44, "eta_s": 9}, "retained": 8, "subscriptions": 9, "parked": 1,
        "store": {
            "used_bytes": 250_000, "max_bytes": 1_000_000, "segments": 4, "kept_bytes": 5, "error": None, "full": False,
            "free_bytes": 9_000_000, "file_bytes": 300_000, "commits": 30, "failed_commits": 1,
            "bytes_written": 800_000, "damaged": 0, "commit_ms_p50": 1.0, "commit_ms_p99": 4.0, "commit_ms_max": 5.5,
        },
        "counters": {name: number + 100 for name, number in before.items()},
        "drops": {"expired": 25, "queue_full": 3}, "version": "9.8.7", "compiled": True, "uptime_s": 7200,
        "safe_mode": None, "read_only": None, "board": "pi-4", "wear": {
            "disk": "mmcblk0", "storage": "sd", "total_bytes": 77_000, "day_bytes": 5000, "counted_s": 86_400,
            "life_left": 0.75, "life_from": "endurance", "spares_low": False, "years_left": 3.5,
        },
        "listeners": ["127.0.0.1:1883"], "exact": True, "clock": {"gateway_ms": 123_456, "synchronised": True},
    }  # fmt: skip
    counts = [0] * (len(BOUNDS_MS) + 1)
    counts[2], counts[4], counts[-1] = 20, 9, 1
    return {
        "status": status,
        "before": {
            "counters": before,
            "drops": {"expired": 20},
            "sparkplug": {"nodes": 1, "online": 0, "seq_gaps": 2, "rebirths_asked": 1, "rebirths_answered": 1},
        },
        "pid": 1, "commit_ms": {"bounds": list(BOUNDS_MS), "counts": counts, "sum": 5100.0},
        "sparkplug": {"nodes": 4, "online": 3, "seq_gaps": 5, "rebirths_asked": 3, "rebirths_answered": 2},
        "sessions": [session()], "log": [[1, 1_700_000_000_000, "info", "forebay listening"]],
    } | more  # fmt: skip


async def part(control: Control, server: ControlServer | None = None) -> None:
    """Both sides close, and see each other's end."""
    control.close()
    if server is not None:
        server.close()
    for _ in range(5):
        await asyncio.sleep(0)
