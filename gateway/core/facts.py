"""What the broker knows of its flows, for who judges them: clients, who keeps what for whom, where topics lead."""

from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64

from gateway.core.limits import NEVER
from gateway.core.model import STAGED, Group, Route, Session, Target
from gateway.core.outer import target_of
from gateway.core.report import Row, group_bytes, queued, queued_bytes
from gateway.core.routes import route_of
from gateway.core.rules import of_session
from gateway.core.seen import Seen
from gateway.core.state import Core

TOPICS_MAX: Final = 2000  # looked up for one report; each costs a few microseconds of the event loop


def facts(core: Core, now: i64) -> Row:
    """Plain rows for JSON; times in ms and s, sizes in bytes, rates in messages/s.

    ``clients``, ``keepers`` and ``flows`` are iterators, good for use over many turns.
    """
    flush = core.flush
    leads, left_out = known_topics(core)
    return {
        "clients": client_rows(core, now),
        "keepers": keeper_rows(core, now),
        "flows": flow_rows(core, leads),
        "flows_left_out": left_out,
        "flush_evicted": flush.evicted if flush is not None else 0,
        "up_ms": now - core.started,
    }


def client_rows(core: Core, now: i64) -> Iterator[Row]:
    for seen in list(core.seen.values()):
        yield client_row(core, seen, now)


def keeper_rows(core: Core, now: i64) -> Iterator[Row]:
    for client_id in list(core.sessions):
        s = core.sessions.get(client_id)
        if s is not None and s is not core.engine.writer:
            yield keeper_row(core, s, now)
    for share in list(core.groups):
        g = core.groups.get(share)
        if g is not None:
            yield group_row(g)


def client_row(core: Core, seen: Seen, now: i64) -> Row:
    since: i64 = now - max(seen.came_at, seen.left_at)
    return {
        "client_id": seen.client_id,
        "peer": seen.peer,
        "user": seen.user,
        "version": {3: "3.1", 4: "3.1.1", 5: "5.0"}.get(seen.version, "?"),
        "connected": seen.left_at == 0,
        "since_ms": since,
        "assigned": seen.assigned,
        "clean": seen.clean,
        "keep_alive_s": seen.keep_alive_s,
        "expiry_s": seen.expiry_s if seen.expiry_s >= 0 else None,
        "max_packet": seen.max_packet or None,
        "connects": seen.connects,
        "quarrels": seen.quarrels,
        "rival": seen.rival,
        "silences": seen.silences,
        "asked": dict(seen.asked) if seen.asked is not None else {},
        "asked_more": seen.asked_more,
        "publishes": seen.topics is not None,
        "topics_more": seen.topics_more,
        "largest": seen.largest,
        "message_expiry_s": seen.message_expiry_s if seen.message_expiry_s >= 0 else None,
    }


def keeper_row(core: Core, s: Session, now: i64) -> Row:
    """A session, as somebody for whom messages may be kept."""
    seen = core.seen.get(s.client_id)
    unacked: i64 = 0
    for d in s.inflight.values():
        if d.state >= STAGED and d.sent_at and d.counted:
            unacked = max(unacked, now - d.sent_at)
    c = s.client
    rule = of_session(core, s)
    return {
        "client_id": s.client_id,
        "kind": "session",
        "connected": c is not None,
        "persistent": s.durable,
        "application": rule is not None,
        "expiry_s": None if s.expiry_s == NEVER else s.expiry_s,
        "granted_s": s.min_expiry_s,
        "subscriptions": {filter: sub.qos for filter, sub in s.subscriptions.items()},
        "members": [],
        "inflight": len(s.inflight),
        "window": c.window if c is not None else 0,
        "unacked_ms": unacked,
        "queued": queued(s),
        "queued_bytes": queued_bytes(s),
        "rate": rate_of(s, seen, now),
        "max_bytes": s.max_bytes or None,
        "max_age_s": s.max_age_ms // 1000 or None,
        "drops": core.ledger.drops(s.sid),
    }


def rate_of(s: Session, seen: Seen | None, now: i64) -> float | None:
    """Messages per second that matched since its client came or left; None = not known yet."""
    if seen is None:
        return None
    passed: i64 = now - max(seen.came_at, seen.left_at)
    if passed < 1000:
        return None
    return 1000.0 * float(s.matched - seen.matched) / float(passed)


def group_row(g: Group) -> Row:
    b = g.backlog
    return {
        "client_id": g.share,
        "kind": "group",
        "connected": len([s for s in g.members if s.client is not None]) > 0,
        "persistent": b is not None,
        "application": False,
        "expiry_s": None,
        "granted_s": 0,
        "subscriptions": {g.filter: max([sub.qos for sub in g.options.values()]) if g.options else 0},
        "members": [s.client_id for s in g.members],
        "inflight": len(b.held) if b is not None else 0,
        "window": 0,
        "unacked_ms": 0,
        "queued": b.count - len(b.held) if b is not None else 0,
        "queued_bytes": group_bytes(b) if b is not None else 0,
        "rate": None,
        "max_bytes": None,
        "max_age_s": None,
        "drops": {},
    }


def known_topics(core: Core) -> tuple[list[tuple[Seen, str, int]], int]:
    """What clients published on, with the QoS as bits, and how many were left out: each client has its share."""
    publishers = [seen for seen in core.seen.values() if seen.topics]
    share = max(1, TOPICS_MAX // max(1, len(publishers)))
    rows: list[tuple[Seen, str, int]] = []
    left_out = 0
    for seen in publishers:
        topics = seen.topics
        if topics is None:
            continue
        count = 0
        for topic, bits in topics.items():
            if count == share:
                left_out += len(topics) - count
                break
            count += 1
            rows.append((seen, topic, bits))
    return rows, left_out


def flow_rows(core: Core, leads: list[tuple[Seen, str, int]]) -> Iterator[Row]:
    """Where these lead."""
    for seen, topic, bits in leads:
        yield flow_row(core, seen, topic, bits)


def flow_row(core: Core, seen: Seen, topic: str, bits: int) -> Row:
    route = route_of(core, topic)
    return {
        "publisher": seen.client_id,
        "topic": topic,
        "qos": [qos for qos in (0, 1, 2) if bits >> qos & 1],
        "sparkplug": route.source is not None,
        "closed": route.closed,
        "targets": [target_row(t) for t in targets_of(core, route)],
    }


def targets_of(core: Core, route: Route) -> list[Target]:
    """Behind an engine are those who read from it."""
    out: list[Target] = []
    for t in [*route.targets, *route.groups]:
        if t.owner is None or t.owner is not core.engine.writer:
            out.append(t)
            continue
        for s in core.by_sid.values():
            o = s.outer
            found = None if o is None else target_of(core, s, o, route.topic)
            if found is not None:
                out.append(found)
    return out


def target_row(t: Target) -> Row:
    o = t.owner
    g = t.group
    qos: int = t.qos
    if g is not None:
        qos = max([sub.qos for sub in g.options.values()]) if g.options else 0
    return {"client_id": o.client_id if o is not None else g.share if g is not None else "", "qos": qos}
