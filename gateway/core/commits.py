"""The log's head: a message joins the open commit; a commit becomes a batch for the store."""

from typing import Final

from mypy_extensions import i64

from gateway.core.batch import Batch
from gateway.core.message import Message, Segment
from gateway.core.model import Backlog, Session, Target
from gateway.core.record import (
    SessionState,
    TargetSet,
    pack_message,
    pack_segment_records,
    pack_segment_targets,
    pack_state,
    pack_target,
)
from gateway.core.state import SEGMENT_EXPIRED, Commit, Core

RETRY_MS: Final = 500


def pack_targets(targets: list[Target]) -> bytes:
    out: list[bytes] = []
    for t in targets:
        s = t.owner
        g = t.group
        sid = s.sid if s is not None else (g.sid if g is not None else 0)
        qos: int = t.qos
        out.append(pack_target(sid, qos, t.retain_as_published, t.identifiers))
    return b"".join(out)


def append(core: Core, m: Message, targets: list[Target], key: bytes) -> None:
    """Give ``m`` its place in the log; it is on disk when the open commit is."""
    commit = core.commit
    segment = commit.segment
    if segment is None:
        first: int = core.next_seq
        segment = Segment(first)
        commit.segment = segment
        core.segments[first] = segment
    m.seq = core.next_seq
    core.next_seq += 1
    m.segment = segment
    segment.last = m.seq
    segment.pending += len(targets)
    packed = commit.sets.get(key)
    if packed is None:
        packed = TargetSet(len(commit.sets), key)
        commit.sets[key] = packed
    size: int = m.size
    packed.messages += 1
    packed.bytes += size
    commit.records.append(packed.index)
    commit.records.append(pack_message(m))
    commit.messages.append(m)
    commit.targets.append(targets)
    commit.bytes += m.size + 32
    if m.deadline == 0:
        commit.expires = -1
    elif commit.expires >= 0 and m.deadline > commit.expires:
        commit.expires = m.deadline
    commit.urgent = True


def state_of(core: Core, s: Session) -> bytes:
    row = SessionState()
    b = s.backlog
    if b is not None:
        fill_cursor(core, b, row)
    row.id_end = s.id_wanted
    for d in s.inflight.values():
        if d.qos == 2:
            if d.state >= 3:
                row.released.append(d.packet_id)
            elif d.backlog is not None:
                row.sent.append((d.packet_id, d.backlog.sid, d.message.seq))
    row.awaiting = list(s.awaiting)
    return pack_state(row)


def fill_cursor(core: Core, b: Backlog, row: SessionState) -> None:
    b.cursor = b.lowest(core.next_seq) - 1
    if b.ahead:
        cursor: int = b.cursor
        b.ahead = {seq for seq in b.ahead if seq > cursor}
    row.cursor = b.cursor
    row.ahead = list(b.ahead)


def due(core: Core, now: i64) -> bool:
    commit = core.commit
    if commit.urgent:
        return True
    return commit.lazy_at != 0 and now >= commit.lazy_at


def take_batch(core: Core, now: i64) -> Batch | None:
    """The next batch for the store, or None; called only when the store is idle."""
    commit = core.flying
    if commit is not None:
        if now < commit.retry_at:
            return None
        return pack(core, commit, now)
    if not due(core, now):
        return None
    commit = core.commit
    core.flying = commit
    core.commit = Commit(commit.number + 1)
    rows(core, commit, now)
    return pack(core, commit, now)


def rows(core: Core, commit: Commit, now: i64) -> None:
    """Fix what the commit says of sessions and counters as they are now."""
    segment = commit.segment
    if segment is not None and commit.expires > 0:
        segment.expires = commit.expires
    for s in commit.dirty_sessions:
        s.dirty = False
        if s.durable and s.sid in core.by_sid:
            commit.cursors[s.sid] = state_of(core, s)
    for b in commit.dirty_backlogs:
        b.dirty = False
        if b.sid in core.group_by_sid:
            row = SessionState()
            fill_cursor(core, b, row)
            commit.cursors[b.sid] = pack_state(row)
    if now - core.counters_at >= core.limits.counter_commit_ms or core.stopping:
        commit.counters = core.ledger.take_changes()
        core.counters_at = now
    else:
        commit.counters = core.ledger.take_drops()


def pack(core: Core, commit: Commit, now: i64) -> Batch:
    batch = Batch(commit.number)
    segment = commit.segment
    if segment is not None:
        batch.segment_id = segment.id
        batch.segment_last = segment.last
        sets = list(commit.sets.values())
        batch.targets = pack_segment_targets(sets, now, segment.expires)
        batch.records = pack_segment_records(sets, commit.records)
        segment.bytes = len(batch.records) + len(batch.targets)
        core.segment_times[segment.id] = now
    batch.dead_segments = commit.dead
    batch.sessions = list(commit.sessions.values())
    batch.gone = commit.gone
    batch.cursors = commit.cursors
    batch.subscriptions = list(commit.subscriptions.values())
    batch.unsubscribed = list(commit.unsubscribed)
    batch.retained = commit.retained
    batch.wills = commit.wills
    batch.counters = commit.counters
    batch.meta = commit.meta
    return batch


def settle_segment(core: Core, segment: Segment, now: i64) -> None:
    """Its last delivery is settled: it can be deleted once it is on disk."""
    if core.durable_seq >= segment.last and segment.id in core.segments:
        del core.segments[segment.id]
        core.segment_times.pop(segment.id, 0)
        core.commit.dead.append(segment.id)
        core.lazy(now)


def written(core: Core, commit: Commit, now: i64) -> None:
    """The commit is on disk: note how far the log reaches."""
    core.durable_commit = commit.number
    segment = commit.segment
    if segment is not None:
        core.durable_seq = segment.last
        if segment.pending == 0:
            settle_segment(core, segment, now)
        elif segment.expires:
            core.timer(segment.expires, SEGMENT_EXPIRED, segment.id)
