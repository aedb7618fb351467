"""What the pages show, as plain values: reports of the broker in, words and numbers out."""

import math
from typing import Any, Final

from gateway.figures import count, rate, size, span
from gateway.web.charts import Chart, chart
from gateway.web.history import History
from gateway.web.times import clock_of

Report = dict[str, Any]
Values = dict[str, Any]

SESSION_ROWS: Final = 50
LOG_ROWS: Final = 200
FILL_WARNS: Final = 0.8  # of the disk budget
BASIN_FLOOR: Final = 150  # of the drawing
BASIN_DEPTH: Final = 118

REASONS: Final = {
    "queue_full": "the queue of a client was full",
    "expired": "older than their expiry",
    "qos0_offline": "QoS 0, and the client was away",
    "too_large": "larger than the client takes",
    "session_end": "their session ended",
    "disk": "the disk failed",
    "evicted": "the disk budget was used up",
    "shared_qos2": "QoS 2 given to a member that ended",
    "congested": "QoS 0, and the connection had too much unsent",
    "acl": "not allowed",
    "damaged": "the log could not be read there",
    "retention": "older or more than an application's log may hold",
}
UPLINK_LEVELS: Final = {"forwarding": "good", "connected": "", "paused": "", "stalled": "bad", "refused": "bad"}
STUCK: Final = ("waiting", "dialling", "refused", "stalled")
STUCK_S: Final = 30  # shorter than that is no news
HARMLESS: Final = ("qos0_offline", "congested")  # QoS 0 promises nothing


def state(report: Report | None, error: str) -> Values:
    """The one line at the top of every page, and how bad it is: good, warn or bad."""
    if report is None:
        return {"level": "bad", "text": f"No broker: {error}"}
    status = report["status"]
    store = status["store"]
    if status.get("read_only"):
        return {"level": "bad", "text": f"Read-only: nothing can be kept: {status['read_only']}"}
    if store["error"]:
        return {"level": "bad", "text": f"The disk takes nothing: {store['error']}"}
    if store["full"]:
        return {"level": "bad", "text": "Disk budget used up: publishers are held back"}
    if status.get("safe_mode"):
        return {"level": "bad", "text": f"Safe mode after {status['safe_mode']['crashes']} crashes: uplinks are held"}
    if lost(report):
        return {"level": "warn", "text": f"{count(lost(report))} messages dropped since the start"}
    stuck = [row for row in status.get("uplinks", []) if row["state"] in STUCK and row["since_s"] >= STUCK_S]
    if stuck:
        return {"level": "warn", "text": f"Uplink {stuck[0]['name']} does not forward: {stuck[0]['state']}"}
    if store["max_bytes"] and store["used_bytes"] > FILL_WARNS * store["max_bytes"]:
        return {"level": "warn", "text": f"Disk budget {percent(store['used_bytes'], store['max_bytes'])} used"}
    if status["queue"]["messages"]:
        return {"level": "good", "text": "Holding messages, none lost"}
    return {"level": "good", "text": "All delivered, none lost"}


def lost(report: Report) -> int:
    """Messages dropped since the broker started that somebody was promised."""
    before = report["before"]["drops"]
    return sum(n - before.get(reason, 0) for reason, n in report["status"]["drops"].items() if reason not in HARMLESS)


def overview(report: Report, history: History) -> Values:
    status, rates = report["status"], history.rates
    store, queue, drain = status["store"], status["queue"], status["drain"]
    before = report["before"]["drops"]
    drops = [
        {
            "reason": reason, "count": count(n), "since": count(n - before.get(reason, 0)),
            "why": REASONS.get(reason, ""), "fresh": n > before.get(reason, 0), "harmless": reason in HARMLESS,
        }
        for reason, n in sorted(status["drops"].items(), key=lambda item: -item[1]) if n
    ]  # fmt: skip
    fill = min(1.0, store["used_bytes"] / store["max_bytes"]) if store["max_bytes"] else 0.0
    # a drawing, not a chart: the little that mostly is there could not be seen
    level = max(math.sqrt(fill), 0.12 if queue["messages"] else 0.04)
    written = history.series.get("written")
    per_day = sum(written.points) / len(written.points) * 86_400 if written is not None and written.points else 0.0
    return {
        "in_rate": rate(rates.get("in", 0)), "in_bytes": size(int(rates.get("in_bytes", 0))),
        "in_chart": chart(history.series.get("in")),
        "out_rate": rate(rates.get("out", 0)), "out_bytes": size(int(rates.get("out_bytes", 0))),
        "out_chart": chart(history.series.get("out")),
        "received": _all(status, "received_qos"), "sent": _all(status, "sent_qos"),
        "queued": count(queue["messages"]), "queued_bytes": size(queue["bytes"]),
        "queue_chart": chart(history.series.get("queue")),
        "oldest": span(queue["oldest_ms"]) if queue["messages"] else "",
        "inflight": count(status["inflight"]), "held_back": status["parked"],
        "delayed": _delayed(status.get("delayed")),
        "drops": drops, "dropping": rates.get("dropped", 0) > 0,
        "fill": fill, "surface": f"{BASIN_FLOOR - level * BASIN_DEPTH:.1f}",
        "percent": percent(store["used_bytes"], store["max_bytes"]),
        "used": size(store["used_bytes"]), "budget": size(store["max_bytes"]), "free": size(store["free_bytes"]),
        "file": size(store["file_bytes"]), "written": size(store["bytes_written"]), "per_day": size(int(per_day)),
        "commits": count(store["commits"]), "failed": store["failed_commits"], "damaged": store["damaged"],
        "p50": f"{store['commit_ms_p50']:.1f} ms", "p99": f"{store['commit_ms_p99']:.1f} ms",
        "slowest": f"{store['commit_ms_max']:.0f} ms", "error": store["error"],
        "wear": _wear(status.get("wear")),
        "draining": drain["sessions"], "drain_rate": rate(drain["messages_s"]),
        "eta": "" if drain["eta_s"] is None and not drain["messages_s"] else eta(drain["eta_s"]),
        "connections": count(status["connections"]), "sessions": status["sessions"],
        "subscriptions": count(status["subscriptions"]), "retained": count(status["retained"]),
        "synchronised": status["clock"]["synchronised"],
        "version": status["version"], "kind": "compiled" if status["compiled"] else "interpreted",
        "uptime": span(status["uptime_s"] * 1000), "listeners": status["listeners"], "exact": status["exact"],
        "nodes": report["sparkplug"], "uplinks": [_uplink(row) for row in status.get("uplinks", [])],
    }  # fmt: skip


def sessions(report: Report, history: History) -> Values:
    rows = [session_row(row, chart(history.sessions.get(row["client_id"]), 60)) for row in report["sessions"]]
    total = report["status"]["sessions"]["total"]
    return {"rows": rows[:SESSION_ROWS], "total": total, "more": max(0, total - SESSION_ROWS)}


def session_row(row: Report, drawn: Chart) -> Values:
    """One session or group, in a list or alone."""
    group = row["kind"] == "group"
    queued = row["queue_messages"]
    return {
        "id": row["client_id"], "name": row["client_id"] or "(no name)", "chart": drawn, "group": group,
        "state": "group" if group else "here" if row["connected"] else "away",
        "peer": row["peer"] or "", "version": row["version"], "path": row.get("path") or "",
        "persistent": row["persistent"],
        "queued": count(queued), "waits": queued > 0, "bytes": size(row["queue_bytes"]),
        "oldest": span(row["oldest_ms"]) if queued else "", "inflight": row["inflight"], "window": row["window"],
        "rate": None if row.get("drained_s") is None else rate(row["drained_s"]),
        "eta": eta(row.get("eta_s")) if row.get("drained_s") is not None else "",
        "drops": sorted(row["drops"].items()), "dropped": count(sum(row["drops"].values())),
        "lost": sum(n for reason, n in row["drops"].items() if reason not in HARMLESS),
        "ends": _ends(row),
    }  # fmt: skip


def session(row: Report, history: History) -> Values:
    shown = session_row(row, chart(history.sessions.get(row["client_id"])))
    filters = [
        {"filter": one["filter"], "qos": one["qos"], "members": one.get("members", [])} for one in row["subscriptions"]
    ]
    return shown | {
        "filters": filters[:200], "more_filters": max(0, len(filters) - 200),
        "matched": count(row["matched"]) if "matched" in row else "",
        "acknowledged": count(row["acknowledged"]) if "acknowledged" in row else "",
        "awaiting_rel": row["awaiting_rel"],
        "priorities": [
            {
                "name": f"priority {rank['priority']}" if rank["priority"] else "other topics",
                "queued": count(rank["queue_messages"]), "bytes": size(rank["queue_bytes"]), "dropped": rank["dropped"],
            }
            for rank in row.get("priorities", [])
        ],
    }  # fmt: skip


def uplinks(report: Report) -> Values:
    """Links to other brokers, where there are some."""
    return {"uplinks": [_uplink(row) for row in report["status"].get("uplinks", [])]}


def _uplink(row: Report) -> Values:
    state = row["state"]
    waits = row.get("queue_messages", 0) + row.get("inflight", 0)
    facts = [("at", row["address"] or ", ".join(row["addresses"]))]
    facts.append(("since", span(row["since_s"] * 1000)))
    facts.append(("waiting", f"{count(waits)}, {size(row.get('queue_bytes', 0))}"))
    if row.get("oldest_ms") and waits:
        facts.append(("oldest", span(row["oldest_ms"])))
    facts.append(("pace", f"{rate(row.get('rate_s', 0))}/s"))
    if row.get("eta_s") is not None:
        facts.append(("backlog", eta(row["eta_s"])))
    drops = sum(row.get("drops", {}).values())
    facts.append(("dropped", count(drops)))
    return {
        "name": row["name"],
        "state": state,
        "waits": count(waits),
        "level": UPLINK_LEVELS.get(state, "warn"),
        "error": row["error"] or "",
        "facts": facts,
    }


def log(lines: list[list[Any]]) -> Values:
    rows = [{"number": n, "at": clock_of(at), "level": level, "text": text} for n, at, level, text in lines[-LOG_ROWS:]]
    return {"lines": rows[::-1]}


def percent(part: float, whole: float) -> str:
    if not whole:
        return "0 %"
    share = 100 * part / whole
    return "< 1 %" if 0 < share < 1 else f"{share:.0f} %"


def eta(seconds: int | None) -> str:
    return "no end in sight" if seconds is None else f"empty in {span(seconds * 1000)}"


def _wear(wear: Report | None) -> str:
    """How long the storage lasts, where that is known."""
    if not wear or wear["life_left"] is None:
        return ""
    years = "" if wear["years_left"] is None else f", {wear['years_left']:.3g} years at this rate"
    return f"{percent(wear['life_left'], 1)}{years}"


def _delayed(row: Report | None) -> str:
    if not row or not row["messages"]:
        return ""
    return f"{count(row['messages'])}, the next in {span(row['next_ms'] or 0)}"


def _all(status: Report, prefix: str) -> str:
    return count(sum(status["counters"][f"{prefix}{qos}"] for qos in range(3)))


def _ends(row: Report) -> str:
    if not row["persistent"]:
        return "with its connection"
    if row["expiry_s"] == "never" or (row["expires_in_ms"] is None and not row["connected"]):
        return "never"
    if row["connected"]:
        return f"{span(row['expiry_s'] * 1000)} after it leaves" if row["expiry_s"] else "when it leaves"
    return f"in {span(row['expires_in_ms'])}"
