"""What the pages show of Sparkplug nodes."""

from collections.abc import Iterable
from typing import Any, Final

from gateway.bridge.facts import NodeFacts
from gateway.bridge.ladder import Step
from gateway.bridge.standing import standing
from gateway.profiles import Profile
from gateway.web.times import clock_of
from gateway.web.values import NodeValues

NODES_MAX: Final = 200  # in the list
STEPS: Final = {
    Step.DEVICE: "sends again by itself",
    Step.NATIVE: "stores and forwards by itself",
    Step.INGEST: "safe once it is here",
    Step.REBIRTH: "holes closed by rebirth",
    Step.KEEP_ALIVE: "only a dead link is noticed",
}
VERDICTS: Final = {
    "qos1_persistent": "QoS 1, stored on the device",
    "qos1_ram": "QoS 1, kept in its RAM",
    "qos1_no_retry": "QoS 1, not sent again",
    "qos0_native_sf": "QoS 0, own store and forward",
    "qos0_lossy": "QoS 0, nothing kept",
    "unknown": "not known yet",
}
SOURCES: Final = {"probe": "a probe", "wire": "its messages", "profile": "its profile", "nothing": "nothing yet"}
WHY: Final = {
    "seq_gap": "a gap in its sequence", "connection": "its connection ended", "restart": "the gateway was restarted",
}  # fmt: skip

Row = dict[str, Any]


def tree(rows: Iterable[Row], known: dict[str, Profile], host_id: str) -> Row:
    """Groups with their nodes."""
    groups: dict[str, list[Row]] = {}
    all_rows = list(rows)
    for row in all_rows[:NODES_MAX]:
        group, _, edge = row["node"].partition("/")
        groups.setdefault(group, []).append(brief(row, known, host_id) | {"edge": edge})
    online = sum(_online(row) for row in all_rows)
    return {
        "groups": [{"group": group, "nodes": nodes} for group, nodes in groups.items()],
        "total": len(all_rows), "online": online, "more": max(0, len(all_rows) - NODES_MAX),
    }  # fmt: skip


def brief(row: Row, known: dict[str, Profile], host_id: str) -> Row:
    """One node, in a list."""
    facts = NodeFacts.from_dict(row)
    profile, stands = standing(known.values(), facts, host_id)
    return {
        "node": row["node"], "online": _online(row), "state": _state(row), "client_id": row["client_id"],
        "verdict": VERDICTS.get(stands.verdict, stands.verdict), "safe": stands.step in (Step.DEVICE, Step.NATIVE),
        "step": STEPS[stands.step], "qos": _qos(row["qos"]), "devices": sorted(row["devices"]),
        "gaps": row["seq_gaps"], "losses": len(row["loss_windows"]), "profile": profile,
    }  # fmt: skip


def node(row: Row, known: dict[str, Profile], host_id: str, values: NodeValues) -> Row:
    """One node on its own page."""
    facts = NodeFacts.from_dict(row)
    _, stands = standing(known.values(), facts, host_id)
    shown = brief(row, known, host_id)
    return shown | {
        "why": stands.why, "remains": stands.remains, "source": SOURCES.get(stands.source, stands.source),
        "advice": [advice.text for advice in stands.advice],
        "made": " ".join(filter(None, (row["make"], row["model"], row["firmware"]))),
        "version": {3: "MQTT 3.1", 4: "MQTT 3.1.1", 5: "MQTT 5.0"}.get(row["mqtt_version"], ""),
        "clean": {None: "not seen", True: "clean", False: "kept"}[row["clean"]],
        "keep_alive": "not seen" if row["keep_alive_s"] is None else f"{row['keep_alive_s']} s",
        "will": "none seen" if row["will_qos"] is None else f"QoS {row['will_qos']}",
        "bd_seq": row["bd_seq"], "next_seq": row["next_seq"], "connects": row["connects"],
        "client_ids": row["client_ids"], "asked": row["rebirths_asked"], "answered": row["rebirths_answered"],
        "late": row["late"], "repeated": row["repeated"], "historical": row["historical"],
        "unreadable": row["unreadable"], "rebirth": row["rebirth"] and row["connected"],
        "no_rebirth": "" if row["rebirth"] else "its birth has no Node Control/Rebirth",
        "windows": [
            {
                "from": clock_of(window["from_ms"]), "to": clock_of(window["to_ms"]),
                "why": WHY.get(window["why"], window["why"]), "messages": window["messages"],
            }
            for window in row["loss_windows"][-10:][::-1]
        ],
        "open": None if row["loss_open"] is None else clock_of(row["loss_open"]["from_ms"]),
        "values": values.rows(), "left_out": values.left_out, "unread": values.unreadable,
    }  # fmt: skip


def _online(row: Row) -> bool:
    return bool(row["connected"] and row["born"])


def _state(row: Row) -> str:
    if _online(row):
        return "online"
    return "connected, no birth yet" if row["connected"] else "away"


def _qos(qos: dict[str, list[int]]) -> str:
    """The QoS at which its data came."""
    counts = [qos[kind] for kind in ("NDATA", "DDATA") if kind in qos]
    return ", ".join(str(level) for level in (0, 1, 2) if any(count[level] for count in counts)) or "-"
