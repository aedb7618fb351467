"""What time brings: timers, keep alive, a full or failing disk, publishers that wait."""

from heapq import heappop
from typing import Final

from mypy_extensions import i64

from gateway.core import calls, delayed, drain, kept, pacing, paths, retention, retry, wills
from gateway.core.answers import release_acks, release_pongs
from gateway.core.backlog import drop_entry
from gateway.core.births import prune
from gateway.core.commits import backlog_of, left
from gateway.core.delivery import drop
from gateway.core.hold import expire
from gateway.core.ingest import forget_repeats
from gateway.core.ledger import DISK, EVICTED, EXPIRED
from gateway.core.lifecycle import disconnect, session_due, turn_away
from gateway.core.message import PendingAck, Segment
from gateway.core.model import STAGED, Session
from gateway.core.pump import pump
from gateway.core.readahead import request
from gateway.core.shared import pump_groups
from gateway.core.stall import RETRY_MS, carries, put_off, worked
from gateway.core.state import CONNACKED, PACED, SEGMENT_EXPIRED, SESSION_END, WILL, Commit, Core, Reading
from gateway.core.subscribe import forget_copies
from gateway.mqtt.packets import V5
from gateway.mqtt.reasons import KEEP_ALIVE_TIMEOUT, QUOTA_EXCEEDED, SERVER_UNAVAILABLE

CHECK_MS: Final = 1000
HANG_MS: Final = 5000  # a commit takes less on any disk that works
EVICT_SHARE: Final = 50  # one fiftieth of the budget, and what is above it, is given up at a time


def tick(core: Core, now: i64) -> i64:
    """Do what is due; returns when the next thing is, at most a second ahead (gateway ms)."""
    run_timers(core, now)
    core.wake_at = 0
    if core.hold:
        expire(core, now)
    if now >= core.checked_at + CHECK_MS:
        core.checked_at = now
        check(core, now)
    due: i64 = core.checked_at + CHECK_MS
    if core.timers:
        due = min(due, core.timers[0][0])
    if core.hold:
        due = min(due, core.hold.head().until)
    if core.commit.lazy_at:
        due = min(due, core.commit.lazy_at)
    flying = core.flying
    if flying is not None and flying.retry_at:
        due = min(due, flying.retry_at)
    if core.stall_at > now:
        due = min(due, core.stall_at)
    if core.apps.paced:
        due = drain.run(core, due, now)
    if core.delayed.order:
        due = delayed.run(core, due, now)
    flush = core.flush
    return due if flush is None else paths.tick(core, flush, due, now)


def run_timers(core: Core, now: i64) -> None:
    while core.timers and core.timers[0][0] <= now:
        _, kind, id = heappop(core.timers)
        if kind == SESSION_END:
            session_due(core, id, now)
        elif kind == WILL:
            wills.due(core, id, now)
        elif kind == PACED:
            pacing.due(core, id)
        elif kind == SEGMENT_EXPIRED:
            segment = core.segments.get(id)
            if segment is not None and segment.expires <= now:
                request(core, Reading(None, [segment], 0, EXPIRED))


def check(core: Core, now: i64) -> None:
    """What is looked at once a second."""
    check_clients(core, now)
    retry.check(core, now)
    expire_retained(core, now)
    check_disk(core, now)
    check_hang(core, now)
    if core.nodes.superseded:
        prune(core, now)
    retention.trim(core, now)
    kept.trim(core, now)
    drain.measure(core, now)
    if core.uplinks.dead:
        core.commit.urgent = True  # the disk had no room for them
    if core.uplinks.calls:
        calls.check(core, now)
    if core.copies:
        forget_copies(core)
    if core.ledger.has_drops() and now >= core.counters_at + core.limits.counter_commit_ms:
        core.lazy(now)


def check_clients(core: Core, now: i64) -> None:
    late: i64 = core.limits.connect_timeout_ms
    silent = [
        c
        for c in core.clients
        if (c.keep_alive_ms and c.connected and not c.blocked and now - c.heard > c.keep_alive_ms)
        or (c.connect is None and now - c.opened > late)
    ]
    for c in silent:
        if c.connected:
            name = c.session.client_id if c.session is not None else c.peer
            core.log.append(f"{name} was silent for longer than its keep alive allows: closed")
            if c.seen is not None:
                c.seen.silences += 1
        if c.remote is not None:
            c.remote.last_word = "silent for longer than the keep alive allows"
        disconnect(core, c, KEEP_ALIVE_TIMEOUT, now)


def expire_retained(core: Core, now: i64) -> None:
    for topic in core.retained.expired(now):
        core.commit.retained[topic] = None
        core.ledger.drop(0, EXPIRED, 1)
        core.lazy(now)


def check_disk(core: Core, now: i64) -> None:
    """At the budget publishers are pushed back; when that lasts, the oldest of the log is given up."""
    budget = core.limits.store_bytes_max
    full = budget != 0 and core.used_bytes >= budget
    if not full:
        if core.full_since:
            core.full_since = 0
            core.evict_from = 0
            core.alarms.append("the store is below its budget again")
    elif not core.full_since:
        core.full_since = now
        core.alarms.append(f"the store has reached its budget of {budget} bytes: publishers are pushed back")
    elif now - core.full_since >= core.limits.push_back_ms and now >= core.evict_at:
        evict(core, core.used_bytes - budget + budget // EVICT_SHARE, now)
    if core.stall_at and core.flying is None:
        worked(core, False)
    if core.error_since:
        for commit in (core.flying, core.commit):
            if commit is not None and commit.acks and not commit.waits_since:
                commit.waits_since = now
        if core.in_trouble(now):
            core.retry = True
            abandon_late(core, now)
            shut_out(core, now)


def check_hang(core: Core, now: i64) -> None:
    """A commit that neither ends nor fails, as on a card that is gone: what it promises waits, pings do not."""
    flying = core.flying
    if flying is not None and flying.submitted and not flying.hangs and now - flying.since >= HANG_MS:
        flying.hangs = True
        core.alarms.append("the disk does not answer")
    if core.error_since or (flying is not None and flying.hangs):
        release_pongs(core)


def evict(core: Core, size: i64, now: i64) -> None:
    oldest: list[Segment] = []
    for id, segment in core.segments.items():
        if id <= core.evict_from or not segment.committed:
            continue
        oldest.append(segment)
        size -= segment.bytes
        if size <= 0:
            break
    core.evict_at = now + 2 * CHECK_MS
    if not oldest:
        core.evict_from = 0
        return
    core.evict_from = oldest[-1].id
    core.alarms.append(f"the store is full: the oldest messages ({len(oldest)} segments of the log) are dropped")
    request(core, Reading(None, oldest, 0, EVICTED))


def failed(core: Core, text: str, now: i64) -> None:
    """The commit did not get to the disk: it is tried again; publishers wait."""
    flying = core.flying
    assert flying is not None
    if not core.error_since:
        core.error_since = now
        core.alarms.append(f"the store fails: {text}")
    core.store_error = text
    flying.submitted = False
    flying.hangs = False
    if not flying.waits_since:
        flying.waits_since = now
    if carries(flying):
        put_off(core, flying, now)  # the rest is tried at once
    else:
        flying.retry_at = now + RETRY_MS
    if core.in_trouble(now):
        abandon_late(core, now)


def abandon_late(core: Core, now: i64) -> None:
    """Not what the store has in hand: it may get to the disk yet."""
    commit = core.commit
    if commit.acks and commit.waits_since and now - commit.waits_since >= core.limits.error_hold_ms:
        abandon(core, commit, now)


def shut_out(core: Core, now: i64) -> None:
    """Not even who comes gets to the disk: clients whose CONNACK waits for it are told, and may try elsewhere."""
    flying = core.flying
    if flying is None or not flying.retry_at or carries(flying):
        return
    if not flying.waits_since or now - flying.waits_since < core.limits.error_hold_ms:
        return
    for commit in (flying, core.commit):
        waiting = [w for w in commit.waiters if w.kind == CONNACKED]
        if waiting:
            commit.waiters = [w for w in commit.waiters if w.kind != CONNACKED]
            for w in waiting:
                assert w.client is not None
                turn_away(core, w.client, SERVER_UNAVAILABLE)


def abandon(core: Core, commit: Commit, now: i64) -> None:
    """Held for too long: these publishes are refused (v5) or their connections closed (3.1.1), counted as ``disk``."""
    core.alarms.append(f"{len(commit.acks)} publishes could not be stored: given back to their publishers")
    acks = [a for a in commit.acks if not a.done]
    commit.acks = []
    refused: set[int] = set()
    stay = [m for m in commit.messages if m.promised and m.missing]
    for m in commit.messages:
        if not m.missing or m.promised:
            continue
        refused.add(m.seq)
        m.answers = False  # it is refused below, not done
        for t in left(m):
            b = backlog_of(t)
            if b is not None:
                drop_entry(core, b, m, DISK, now)
    staged = [s for s in core.by_sid.values() if s.staged and unstage(core, s, refused, now)]
    commit.messages = stay
    commit.bytes = sum([m.size + 32 for m in stay])
    commit.waits_since = 0
    for s in core.by_sid.values():
        forget_incoming(core, s, commit.number)
    for a in acks:
        refuse(core, a, now)
    forget_repeats(core)
    delayed.give_back(core, commit)
    for s in staged:
        pump(core, s, now)
        pump_groups(core, s, now)


def forget_incoming(core: Core, s: Session, number: int) -> None:
    """The QoS 2 publishes of this commit are refused, also those of a connection that is gone."""
    ids = [packet_id for packet_id, held in s.awaiting.items() if held == number]
    for packet_id in ids:
        del s.awaiting[packet_id]
    if ids:
        core.dirty_session(s)


def unstage(core: Core, s: Session, refused: set[int], now: i64) -> bool:
    """Take back QoS 2 deliveries of what is refused; those of messages on disk wait. True when some were."""
    gone = [d for d in s.inflight.values() if d.state == STAGED and d.message.seq in refused]
    for d in gone:
        s.staged -= 1
        packet_id: int = d.packet_id
        del s.inflight[packet_id]
        if d.counted:
            s.used -= 1
        drop(core, s, d, DISK, now)
    return len(gone) > 0


def refuse(core: Core, a: PendingAck, now: i64) -> None:
    c = a.client
    if c.version == V5:
        a.reason = QUOTA_EXCEEDED
        a.done = True
        if not c.closed and not c.closing:
            release_acks(core, c)
    else:
        disconnect(core, c, QUOTA_EXCEEDED, now)
