"""What the broker says of itself: status, sessions, and the $SYS topics."""

from collections.abc import Iterator

from mypy_extensions import i64

from gateway.core.drain import eta_s, rate_of
from gateway.core.fanout import deliver_all
from gateway.core.limits import NEVER
from gateway.core.message import Message
from gateway.core.model import LANE, SENT, ZERO, Backlog, Delivery, Group, Session
from gateway.core.paths import NAMES
from gateway.core.ranks import drops
from gateway.core.routes import route_of
from gateway.core.state import Core

Row = dict[str, object]


def status(core: Core, now: i64) -> Row:
    ledger = core.ledger
    messages = 0
    size = 0
    inflight = 0
    persistent = 0
    connected = 0
    for s in core.by_sid.values():
        inflight += len(s.inflight)
        connected += 1 if s.client is not None else 0
        persistent += 1 if s.durable else 0
        messages += queued(s)
        size += queued_bytes(s)
    for g in core.groups.values():
        if g.backlog is not None:
            messages += g.backlog.count - len(g.backlog.held)
            size += group_bytes(g.backlog)
    counters = ledger.snapshot()
    return {
        "connections": len(core.clients),
        "sessions": {"total": len(core.by_sid), "connected": connected, "persistent": persistent},
        "queue": {"messages": messages, "bytes": size, "oldest_ms": oldest(core, now)},
        "inflight": inflight,
        "waiting_bytes": core.waiting,
        "drain": drain_row(core),
        "retained": len(core.retained),
        "delayed": delayed_row(core, now),
        "subscriptions": len(core.trie),
        "parked": len(core.parked),
        "store": {
            "used_bytes": core.used_bytes,
            "max_bytes": core.limits.store_bytes_max,
            "segments": len(core.segments),
            "kept_bytes": core.kept.bytes,
            "error": core.store_error or None,
            "full": core.full_since != 0,
        },
        "counters": {k: v for k, v in counters.items() if not k.startswith("dropped.")},
        "drops": ledger.drops(0),
    }


def delayed_row(core: Core, now: i64) -> Row:
    """Messages that wait for their time, and when the next one is due."""
    waiting = core.delayed
    return {
        "messages": len(waiting.rows),
        "bytes": waiting.bytes,
        "next_ms": max(0, waiting.order[0][0] - now) if waiting.order else None,
    }


def drain_row(core: Core) -> Row:
    """Queues of connected sessions, together: how many, messages/s, and when the last of them is empty."""
    rates = [rate for s in core.apps.drains if (rate := rate_of(core, s)) is not None]
    etas = [eta_s(core, s) for s in core.apps.drains]
    known = [eta for eta in etas if eta is not None]
    return {
        "sessions": len(etas),
        "messages_s": sum(rates),
        "eta_s": max(known) if known and len(known) == len(etas) else None,
    }


def queued(s: Session) -> int:
    own = s.backlogs()
    waiting: int = len(s.queue) + len(s.queue0) + s.ranked
    if own:
        waiting += sum([b.count for b in own]) - len(in_flight(s, own))
    return waiting


def queued_bytes(s: Session) -> int:
    own = s.backlogs()
    size: int = s.queue_bytes
    if own:
        size += sum([b.bytes for b in own]) - sum([d.message.size for d in in_flight(s, own)])
    return size


def in_flight(s: Session, of: list[Backlog]) -> list[Delivery]:
    """What these queues still owe, but what does not wait there."""
    return [d for d in s.inflight.values() if d.state <= SENT and d.backlog in of]


def group_bytes(b: Backlog) -> int:
    size: int = b.bytes - sum([d.message.size for d in b.held])
    return size


def rank_rows(core: Core, s: Session) -> list[Row]:
    """What waits under each priority, the highest first, and what was dropped there so far; 0 = topics without one."""
    rows: list[Row] = []
    for r in s.ranks or []:
        memory = [*r.queue0, *r.queue]
        n: int = len(memory)
        size: int = sum([d.message.size for d in memory])
        sid = s.sid + LANE * r.priority
        lost = core.ledger.dropped(sid) + core.ledger.dropped(s.sid + LANE * (r.priority + ZERO))
        for b in (r.backlog, r.zero):
            if b is not None:
                sent = in_flight(s, [b])
                n += b.count - len(sent)
                size += b.bytes - sum([d.message.size for d in sent])
        rows.append({"priority": r.priority, "queue_messages": n, "queue_bytes": size, "dropped": lost})
    return rows


def oldest(core: Core, now: i64) -> int:
    """Age in ms of the oldest segment that somebody still needs."""
    for segment in core.segments.values():
        return max(0, now - segment.since)
    return 0


def longest(core: Core, most: int, now: i64) -> list[Row]:
    """At most so many sessions and groups in brief: those with the longest queues, then the persistent, by name."""
    found = [(-queued(s), not s.durable, s.client_id, False) for s in core.sessions.values()]
    for share, g in core.groups.items():
        b = g.backlog
        found.append((len(b.held) - b.count if b is not None else 0, b is None, share, True))
    found.sort()
    rows: list[Row] = []
    for _, _, name, grouped in found[:most]:
        if grouped:
            rows.append(group_row(core, core.groups[name], now))
        else:
            rows.append(session_row(core, core.sessions[name], now, True))
    return rows


def session_rows(core: Core, now: i64) -> Iterator[Row]:
    """Sessions and groups, good for use over many turns: who has gone in the meantime is left out."""
    for client_id in list(core.sessions):
        s = core.sessions.get(client_id)
        if s is not None:
            yield session_row(core, s, now)
    for share in list(core.groups):
        g = core.groups.get(share)
        if g is not None:
            yield group_row(core, g, now)


def session_row(core: Core, s: Session, now: i64, brief: bool = False) -> Row:
    """``brief``: of subscriptions only their number, nothing by priority."""
    c = s.client
    age: i64 = 0
    for b in s.backlogs():
        if b.owed:
            age = max(age, now - core.segments[next(iter(b.owed))].since)
    return {
        "client_id": s.client_id,
        "kind": "session",
        "connected": c is not None,
        "peer": c.peer if c is not None else None,
        "version": {3: "3.1", 4: "3.1.1", 5: "5.0"}.get(s.version, "?"),
        "persistent": s.durable,
        "expiry_s": "never" if s.expiry_s == NEVER else s.expiry_s,
        "expires_in_ms": max(0, s.deadline - now) if s.deadline else None,
        "subscriptions": len(s.subscriptions) if brief else subscription_rows(s),
        "queue_messages": queued(s),
        "queue_bytes": queued_bytes(s),
        "oldest_ms": age,
        "inflight": len(s.inflight),
        "window": c.window if c is not None else 0,
        "path": NAMES[c.path] if c is not None else None,
        "awaiting_rel": len(s.awaiting),
        "drain_rate": s.drain_rate or None,
        "drained_s": rate_of(core, s),
        "eta_s": eta_s(core, s),
        "max_bytes": s.max_bytes or None,
        "max_age_s": s.max_age_ms // 1000 or None,
        "matched": s.matched,
        "acknowledged": s.settled,
        "will_pending": s.will_at != 0,
        "drops": drops(core, s),
        "priorities": [] if brief else rank_rows(core, s),
    }


def subscription_rows(s: Session) -> list[Row]:
    rows: list[Row] = []
    for sub in s.subscriptions.values():
        row: Row = {
            "filter": sub.filter,
            "qos": sub.qos,
            "no_local": sub.no_local,
            "retain_as_published": sub.retain_as_published,
            "identifier": sub.identifier,
        }
        rows.append(row)
    return rows


def group_row(core: Core, g: Group, now: i64) -> Row:
    b = g.backlog
    age = 0
    if b is not None and b.owed:
        age = now - core.segments[next(iter(b.owed))].since
    return {
        "client_id": g.share,
        "kind": "group",
        "connected": any(s.client is not None for s in g.members),
        "peer": None,
        "version": "",
        "persistent": b is not None,
        "expiry_s": 0,
        "expires_in_ms": None,
        "subscriptions": [{"filter": g.filter, "qos": 2, "members": [s.client_id for s in g.members]}],
        "queue_messages": b.count - len(b.held) if b is not None else 0,
        "queue_bytes": group_bytes(b) if b is not None else 0,
        "oldest_ms": age,
        "inflight": len(b.held) if b is not None else 0,
        "window": 0,
        "awaiting_rel": 0,
        "drops": core.ledger.drops(g.sid),
    }


def publish_sys(core: Core, version: str, now: i64) -> None:
    """The topics of mosquitto by its names, and the ledger beside them; retained in memory, sent when they change."""
    values = sys_values(core, version, now)
    for name, value in values.items():
        topic = "$SYS/broker/" + name
        payload = value.encode()
        old = core.retained.get(topic)
        if old is not None and old.payload == payload:
            continue
        m = Message(topic.encode(), payload, 0, True)
        core.retained.set(topic, m)
        deliver_all(core, route_of(core, topic), m, None, False, now)


def sys_values(core: Core, version: str, now: i64) -> dict[str, str]:
    ledger = core.ledger
    n = ledger.snapshot()
    total = len(core.by_sid)
    connected = len([s for s in core.by_sid.values() if s.client is not None])
    stored = sum([queued(s) for s in core.by_sid.values()])
    stored_bytes = sum([queued_bytes(s) for s in core.by_sid.values()])
    received = n["received_qos0"] + n["received_qos1"] + n["received_qos2"]
    sent = n["sent_qos0"] + n["sent_qos1"] + n["sent_qos2"]
    out = {
        "version": "forebay " + version,
        "uptime": f"{(now - core.started) // 1000} seconds",
        "clients/total": str(total),
        "clients/connected": str(connected),
        "clients/active": str(connected),
        "clients/disconnected": str(total - connected),
        "clients/inactive": str(total - connected),
        "bytes/received": str(n["bytes_received"]),
        "bytes/sent": str(n["bytes_sent"]),
        "messages/received": str(n["packets_received"]),
        "messages/sent": str(n["packets_sent"]),
        "messages/stored": str(stored + len(core.retained)),
        "messages/inflight": str(sum([len(s.inflight) for s in core.by_sid.values()])),
        "store/messages/count": str(stored),
        "store/messages/bytes": str(stored_bytes),
        "publish/messages/received": str(received),
        "publish/messages/sent": str(sent),
        "publish/messages/dropped": str(ledger.dropped(0)),
        "publish/bytes/received": str(n["received_bytes_qos0"] + n["received_bytes_qos1"] + n["received_bytes_qos2"]),
        "publish/bytes/sent": str(n["sent_bytes_qos0"] + n["sent_bytes_qos1"] + n["sent_bytes_qos2"]),
        "retained messages/count": str(len(core.retained)),
        "subscriptions/count": str(len(core.trie)),
        "shared_subscriptions/count": str(len(core.groups)),
        "store/used_bytes": str(core.used_bytes),
        "store/error": core.store_error,
    }
    for reason, count in ledger.drops(0).items():
        out["dropped/" + reason] = str(count)
    for s in core.by_sid.values():
        for reason, count in drops(core, s).items():
            out["sessions/" + level(s.client_id) + "/dropped/" + reason] = str(count)
    return out


def level(client_id: str) -> str:
    """A client id as one topic level."""
    return client_id.replace("/", "%2F").replace("+", "%2B").replace("#", "%23")
