"""The log's head: a message joins the open commit; a commit becomes a batch for the store."""

from mypy_extensions import i64

from gateway.core.batch import Batch
from gateway.core.fifo import Fifo
from gateway.core.history import History
from gateway.core.message import Message, Segment
from gateway.core.model import LANE, Backlog, Session, Target
from gateway.core.nodes import ALIVE_KEY
from gateway.core.record import (
    SessionState,
    TargetSet,
    number,
    pack_message,
    pack_segment_records,
    pack_segment_targets,
    pack_state,
    pack_target,
)
from gateway.core.state import Commit, Core


def sid_of(t: Target) -> int:
    b = t.backlog
    if b is not None:
        return b.sid
    s = t.owner
    if s is not None:
        return s.sid
    g = t.group
    assert g is not None
    return g.sid


def backlog_of(t: Target) -> Backlog | None:
    return t.backlog


def pack_targets(targets: list[Target]) -> bytes:
    """Many readers of one stream came one after the other: their sids are a run, which costs as much as one."""
    if len(targets) == 1:
        return packed_from(targets, 0, 1)
    ordered = sorted(targets, key=sid_of)
    out: list[bytes] = []
    at = 0
    while at < len(ordered):
        end = at + 1
        while end < len(ordered) and goes_with(ordered[at], ordered[end], end - at):
            end += 1
        out.append(packed_from(ordered, at, end))
        at = end
    return b"".join(out)


def goes_with(first: Target, t: Target, distance: int) -> bool:
    if first.identifiers or t.identifiers or sid_of(t) != sid_of(first) + distance:
        return False
    return t.qos == first.qos and t.retain_as_published == first.retain_as_published


def packed_from(targets: list[Target], at: int, end: int) -> bytes:
    t = targets[at]
    qos: int = t.qos
    return pack_target(sid_of(t), qos, t.retain_as_published, t.identifiers, end - at - 1)


def enter(core: Core, m: Message, targets: list[Target], key: bytes) -> None:
    """Give ``m`` its position in the log; commit() or hold.keep() must follow at once."""
    m.seq = core.next_seq
    core.next_seq += 1
    m.targets = targets
    m.key = key
    m.missing = len(targets)


def commit(core: Core, m: Message) -> None:
    """It is on disk when the open commit is, unless all its targets are done before that is closed."""
    open = core.commit
    if m.missing:
        open.messages.append(m)
        open.bytes += m.size + 32
    if m.answers:
        open.acks.append(m)
    open.urgent = True


def done(core: Core, m: Message, sid: int) -> None:
    """A target acknowledged, or ended, before the message went to the store: nothing is written for it."""
    m.missing -= 1
    if m.missing:
        if m.gone is None:
            m.gone = [sid]
        else:
            m.gone.append(sid)
    else:
        answer(core, m)
        hold = core.hold
        while hold and hold.head().missing == 0:
            core.hold_bytes -= hold.popleft().size


def answer(core: Core, m: Message) -> None:
    """Nothing is missing: its publisher may hear so, at the end of the turn with all that are done by then."""
    if m.answers and not m.done:
        m.done = True
        c = m.client
        if not c.answering:
            c.answering = True
            core.answering.append(c)


def in_order(core: Core) -> None:
    """Held-back messages that came late stand where they belong."""
    core.commit.messages.sort(key=position)


def position(m: Message) -> int:
    return m.seq


def until(m: Message) -> int:
    return m.until


def left(m: Message) -> list[Target]:
    """Its targets that are not done."""
    gone = m.gone
    if m.missing == 0:
        return []
    if gone is None:
        return m.targets
    return [t for t in m.targets if sid_of(t) not in gone]


def state_of(core: Core, s: Session) -> bytes:
    row = SessionState()
    b = s.backlog
    if b is not None:
        fill_cursor(core, b, row)
    row.id_end = s.id_wanted
    row.user = s.user
    if b is not None and b.history is not None:
        fill_history(core, b, b.history, row)
    for d in s.inflight.values():
        if d.qos == 2:
            if d.state >= 3:
                row.released.append(d.packet_id)
            elif d.backlog is not None and d.message.segment is not None:
                row.sent.append((d.packet_id, d.backlog.sid, d.message.seq))
    # not what is held back with its message, see stall.py
    row.awaiting = [packet_id for packet_id, held in s.awaiting.items() if held != core.commit.number]
    return pack_state(row)


def fill_history(core: Core, b: Backlog, h: History, row: SessionState) -> None:
    """Once the cursor has come to where it subscribed, it is a session like any other."""
    if h.end and not h.counting and b.cursor + 1 >= h.end:
        b.history = None
        core.apps.histories.pop(b, False)
        return
    row.history = h.end
    row.filters = [(sub.filter, sub.options, sub.identifier) for sub in h.filters]


def prune(core: Core, b: Backlog) -> None:
    """Move the cursor up to what is still owed and forget what it has passed."""
    b.cursor = b.lowest(core.next_seq) - 1
    if b.ahead:
        cursor: int = b.cursor
        b.ahead = {seq for seq in b.ahead if seq > cursor}


def thin(core: Core, b: Backlog) -> None:
    """One message that is never acknowledged holds the cursor: keep of what is settled only what the log has."""
    prune(core, b)
    newest: i64 = core.next_seq
    flying = core.flying
    for messages in (flying.messages if flying is not None else [], core.commit.messages, list(core.hold)):
        for m in messages:
            newest = min(newest, m.seq)
    spans = sorted([(one.first, one.last) for one in [*core.segments.values(), *core.kept.segments.values()]])
    kept: set[int] = set()
    at = 0
    reach = 0  # spans overlap where messages were held back
    for seq in sorted(b.ahead):
        while at < len(spans) and spans[at][0] <= seq:
            reach = max(reach, spans[at][1])
            at += 1
        if seq <= reach or seq >= newest:
            kept.add(seq)
    b.ahead = kept


def fill_cursor(core: Core, b: Backlog, row: SessionState) -> None:
    prune(core, b)
    row.cursor = b.cursor
    row.ahead = list(b.ahead)


def close(core: Core, open: Commit, now: i64) -> None:
    """Make the segment of the messages that somebody still needs."""
    if core.hold and open.messages:
        draw(core, open)
    if open.staged:
        came: int = now + core.nodes.utc_offset_ms
        open.meta[ALIVE_KEY] = came
    messages: list[Message] = []
    whole = core.limits.log_keep_bytes != 0  # the log is to have what everybody has, too
    for m in open.messages:
        if m.missing or whole:
            messages.append(m)
        else:
            open.bytes -= m.size + 32
    open.messages = messages
    if not messages:
        return
    segment = Segment(core.next_segment)
    core.next_segment += 1
    core.segments[segment.id] = segment
    segment.time = now
    segment.since = now
    segment.first = messages[0].seq
    open.segment = segment
    last: i64 = segment.first
    expires: i64 = 0
    for m in messages:
        if m.gone is not None or m.missing == 0:
            m.targets = left(m)
            m.key = pack_targets(m.targets)
        packed = open.sets.get(m.key)
        if packed is None:
            packed = TargetSet(len(open.sets), m.key, m.targets)
            open.sets[m.key] = packed
        packed.messages += 1
        packed.bytes += m.size
        open.records.append(number(m.seq - last))
        open.records.append(packed.index)
        open.records.append(pack_message(m))
        last = m.seq
        m.segment = segment
        if m.deadline == 0:
            expires = -1
        elif expires >= 0:
            expires = max(expires, m.deadline)
    segment.last = last
    if expires > 0:
        segment.expires = expires
    for packed in open.sets.values():
        for t in packed.targets:
            b = backlog_of(t)
            if b is not None and not b.ended:
                b.owed[segment.id] = b.owed.get(segment.id, 0) + packed.messages
                segment.pending += packed.messages


def draw(core: Core, open: Commit) -> None:
    """Held-back messages go along where order asks for it: for one queue positions grow from segment to segment."""
    newest: dict[int, i64] = {}
    for m in open.messages:
        if m.missing:
            for t in left(m):
                newest[sid_of(t)] = m.seq
    taken: list[Message] = []
    kept: list[Message] = []
    held = list(core.hold)
    if core.engine.on:
        held.sort(key=position)  # what waits for an engine stands further behind
    for m in reversed(held):
        before = False
        if m.missing:
            for t in left(m):
                if newest.get(sid_of(t), 0) > m.seq:
                    before = True
                    break
        if not before:
            kept.append(m)
            continue
        taken.append(m)
        for t in left(m):
            sid = sid_of(t)
            if sid not in newest:
                newest[sid] = m.seq
    if not taken:
        return
    kept.reverse()
    if core.engine.on:
        kept.sort(key=until)
    core.hold = Fifo(kept)
    for m in taken:
        core.hold_bytes -= m.size
        commit(core, m)
    in_order(core)


def rows(core: Core, open: Commit, now: i64) -> None:
    """Fix what the commit says of sessions and counters as they are now."""
    if core.moved:
        moved(core, open, now)
    for s in open.dirty_sessions:
        s.dirty = False
        if s.durable and s.sid in core.by_sid:
            open.cursors[s.sid] = state_of(core, s)
            if s is core.engine.writer:
                open.drained = core.engine.drained
    for b in open.dirty_backlogs:
        b.dirty = False
        if not b.ended:
            row = SessionState()
            fill_cursor(core, b, row)
            open.cursors[b.sid] = pack_state(row)
    if now - core.counters_at >= core.limits.counter_commit_ms or core.stopping:
        changed = core.ledger.take_changes()
        core.counters_at = now
    else:
        changed = core.ledger.take_drops()
    # a memory session's own die with it: its sid may be given anew after a crash
    open.counters = [row for row in changed if row[0] == 0 or stored(core, row[0])]


def moved(core: Core, open: Commit, now: i64) -> None:
    """Queues that were read on: with each commit their rows would cost more than its messages when many read along.

    Drops are counted in the commit that says what was dropped.
    """
    due = core.moved_at + core.limits.lazy_commit_ms
    if now < due and not core.stopping and not core.ledger.has_drops():
        if not core.commit.lazy_at or core.commit.lazy_at > due:
            core.commit.lazy_at = due
            core.wake(due)
        return
    for s in core.moved:
        if not s.dirty:
            s.dirty = True
            open.dirty_sessions.append(s)
    core.moved = {}


def stored(core: Core, sid: int) -> bool:
    s = core.by_sid.get(sid % LANE)
    if s is not None:
        return s.durable
    g = core.group_by_sid.get(sid)
    return g is not None and g.backlog is not None


def pack(open: Commit) -> Batch:
    batch = Batch(open.number)
    segment = open.segment
    if segment is not None:
        batch.segment_id = segment.id
        batch.segment_last = segment.last
        sets = list(open.sets.values())
        batch.targets = pack_segment_targets(sets, segment.first, segment.time, segment.expires)
        batch.records = pack_segment_records(sets, segment.first, open.records)
        segment.bytes = len(batch.records) + len(batch.targets)
    batch.dead_segments = open.dead
    batch.sessions = list(open.sessions.values())
    batch.gone = open.gone
    batch.cursors = open.cursors
    batch.subscriptions = list(open.subscriptions.values())
    batch.unsubscribed = list(open.unsubscribed)
    batch.retained = open.retained
    batch.wills = open.wills
    batch.bridge = open.bridge
    batch.delayed = open.delayed
    batch.counters = open.counters
    batch.meta = open.meta
    return batch
