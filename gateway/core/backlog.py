"""Durable queues over the log: join, settle, read ahead, unload, give up."""

from typing import Final

from mypy_extensions import i64

from gateway.core.commits import backlog_of, done, left, position, settle_segment, thin
from gateway.core.ledger import DAMAGED
from gateway.core.message import Message, Segment
from gateway.core.model import AHEAD_MAX, LANE, SENT, Backlog, Delivery, Target
from gateway.core.record import Corrupt, Entry, StoredTarget, unpack_segment_records
from gateway.core.state import Core, Reading

READ_BYTES: Final = 262_144  # of segments read at once


def online(b: Backlog) -> bool:
    s = b.session
    if s is not None:
        return s.client is not None
    g = b.group
    if g is not None:
        for member in g.members:
            if member.client is not None:
                return True
    return False


def delivery(core: Core, m: Message, qos: i64, rap: bool, ids: list[int] | None, b: Backlog | None) -> Delivery:
    if core.limits.upgrade_qos:
        effective = max(m.qos, qos)
    else:
        effective = min(m.qos, qos)
    d = Delivery(m, effective, m.retain and rap, ids, b)
    if b is not None:
        d.group = b.group
    return d


def add(core: Core, b: Backlog, m: Message, t: Target) -> None:
    """``m`` has just joined the log with this queue among its targets."""
    b.count += 1
    b.bytes += m.size
    if not b.live:
        return
    limits = core.limits
    if online(b) and len(b.ram) < limits.window_messages and b.ram_bytes < limits.window_bytes:
        push(b, delivery(core, m, t.qos, t.retain_as_published, t.identifiers, b))
    else:
        b.live = False
        b.loaded = m.seq - 1
        b.read_to = core.next_segment - 1


def push(b: Backlog, d: Delivery) -> None:
    b.ram.append(d)
    b.ram_bytes += d.message.size
    b.loaded = d.message.seq


def pop(b: Backlog) -> Delivery:
    d = b.ram.popleft()
    b.ram_bytes -= d.message.size
    return d


def hold(b: Backlog, d: Delivery) -> None:
    """It goes into flight."""
    b.held[d.message.seq] = d


def settle(core: Core, b: Backlog, m: Message, now: i64) -> None:
    """Acknowledged or dropped: never to be delivered from this queue again."""
    if b.ended:
        return
    seq: int = m.seq
    segment = m.segment
    if segment is None:  # not written yet, and for this queue it never is
        if seq in b.held:
            del b.held[seq]
        b.count -= 1
        b.bytes -= m.size
        done(core, m, b.sid)
        return
    if seq in b.held:
        first = next(iter(b.held))
        del b.held[seq]
        if first != seq or not b.ordered or b.loaded < seq or (b.ram and b.ram.head().message.seq < seq):
            b.ahead.add(seq)
        if not b.held and b.group is None:
            b.ordered = True
    else:
        b.restored.pop(seq, None)
        b.ahead.add(seq)
    if len(b.ahead) > b.ahead_max:
        thin(core, b)
        b.ahead_max = max(AHEAD_MAX, 2 * len(b.ahead))
    release(core, b, segment, 1, m.size, now)


def release(core: Core, b: Backlog, segment: Segment, n: int, size: i64, now: i64) -> None:
    b.count -= n
    b.bytes -= size
    owed = b.owed.get(segment.id, 0) - n
    if owed > 0:
        b.owed[segment.id] = owed
    else:
        b.owed.pop(segment.id, 0)
    segment.pending -= n
    if segment.pending == 0:
        settle_segment(core, segment, now)
    core.dirty_backlog(b)
    core.lazy(now)


def give_back(b: Backlog, d: Delivery) -> None:
    """A group's delivery returns from a member that is gone; it stands where it stood."""
    b.held.pop(d.message.seq, None)
    b.ordered = False
    d.state = 0
    d.packet_id = 0
    if d.message.seq > b.loaded:
        return  # the window was given up meanwhile: it is read again
    b.ram_bytes += d.message.size
    at = 0
    for other in b.ram:
        if other.message.seq > d.message.seq:
            break
        at += 1
    b.ram.insert(at, d)


def unload(core: Core, b: Backlog) -> None:
    """Nobody is there to take it: keep only what is in flight in RAM."""
    b.reading = 0
    if b.count == len(b.held):
        b.ram.clear()
        b.ram_bytes = 0
        return
    if b.ram:
        first = b.ram.head().message
        segment = first.segment
        b.loaded = first.seq - 1
        b.read_to = segment.id - 1 if segment is not None else core.next_segment - 1
        for d in b.ram:
            if d.packet_id and d.state == SENT:
                b.restored[d.message.seq] = d
        b.ram.clear()
        b.ram_bytes = 0
    b.live = False


def refill(core: Core, b: Backlog) -> None:
    """Read ahead when the window is half empty."""
    limits = core.limits
    if b.live or b.reading or len(b.ram) * 2 > limits.window_messages or b.ram_bytes * 2 > limits.window_bytes:
        return
    ids: list[int] = []
    size: i64 = 0
    for id in b.owed:
        if id <= b.read_to:
            continue
        segment = core.segments.get(id)
        if segment is None:
            continue  # given up before it was on disk, but for what is in flight
        if not segment.committed:
            break
        ids.append(id)
        size += segment.bytes
        if size >= READ_BYTES:
            break
    if ids:
        b.reading = request(core, Reading(b, ids, ""))
        return
    flying = core.flying
    if flying is not None:
        from_ram(core, b, flying.messages)
    from_ram(core, b, sorted([*core.commit.messages, *core.hold], key=position))
    b.live = True
    b.loaded = core.next_seq - 1


def from_ram(core: Core, b: Backlog, messages: list[Message]) -> None:
    """The end of the log that is not readable yet."""
    for m in messages:
        if not m.missing or m.seq <= b.loaded or m.seq in b.held or m.seq in b.ahead:
            continue
        for t in left(m):
            if backlog_of(t) is b:
                push(b, delivery(core, m, t.qos, t.retain_as_published, t.identifiers, b))
                break


def request(core: Core, reading: Reading) -> int:
    token = core.next_token
    core.next_token += 1
    core.readings[token] = reading
    core.reads.append((token, reading.ids))
    return token


def entries(core: Core, id: int, data: bytes) -> list[Entry] | None:
    """The messages of a stored segment, tied to it; None when it is damaged."""
    segment = core.segments.get(id)
    if segment is None or not data:
        return None
    try:
        found = unpack_segment_records(data)
    except Corrupt:
        return None
    for e in found:
        e.message.segment = segment
    return found


def target_of(targets: list[StoredTarget], sid: int) -> StoredTarget | None:
    for t in targets:
        if t.sid == sid:
            return t
    return None


def loaded(core: Core, b: Backlog, rows: list[tuple[int, bytes]], now: i64) -> None:
    """The answer of a read ahead."""
    b.reading = 0
    for id, data in rows:
        segment = core.segments.get(id)
        if segment is None or id <= b.read_to:
            continue
        b.read_to = id
        found = entries(core, id, data)
        if found is None:
            lost(core, b, segment, now)
            continue
        for e in found:
            m = e.message
            if m.seq <= b.loaded or m.seq in b.held or m.seq in b.ahead:
                continue
            again = b.restored.pop(m.seq, None)
            if again is not None:
                push(b, again)
                continue
            t = target_of(e.targets, b.sid)
            if t is not None:
                push(b, delivery(core, m, t.qos, t.retain_as_published, t.identifiers, b))


def lost(core: Core, b: Backlog, segment: Segment, now: i64) -> None:
    """A segment that cannot be read: say so, count it, go on behind it."""
    here = [d for d in [*b.held.values(), *b.restored.values(), *b.ram] if d.message.segment is segment]
    n = b.owed.get(segment.id, 0) - len(here)
    if n <= 0:
        return
    size: i64 = b.bytes * n // b.count if b.count else 0
    core.ledger.drop(b.sid, DAMAGED, n)
    core.alarms.append(f"{n} messages of {owner_name(b)} are lost: segment {segment.id} of the log is damaged")
    release(core, b, segment, n, size, now)


def owner_name(b: Backlog) -> str:
    s = b.session
    if s is not None:
        return s.client_id
    g = b.group
    return g.share if g is not None else "?"


def all_backlogs(core: Core) -> list[Backlog]:
    out: list[Backlog] = []
    for s in core.by_sid.values():
        out.extend(s.backlogs())
    out.extend([g.backlog for g in core.group_by_sid.values() if g.backlog is not None])
    return out


def by_sid(core: Core, sid: int) -> Backlog | None:
    s = core.by_sid.get(sid % LANE)
    if s is not None:
        for b in s.backlogs():
            if b.sid == sid:
                return b
        return None
    g = core.group_by_sid.get(sid)
    return g.backlog if g is not None else None


def give_up(core: Core, reading: Reading, rows: list[tuple[int, bytes]], now: i64) -> None:
    """Drop what waits in these segments, counted under ``reading.reason``; what is in flight stays."""
    for id, data in rows:
        segment = core.segments.get(id)
        if segment is None:
            continue
        found = entries(core, id, data)
        if found is None:
            for b in all_backlogs(core):
                if id in b.owed:
                    lost(core, b, segment, now)
            continue
        for e in found:
            for t in e.targets:
                other = by_sid(core, t.sid)
                if other is not None:
                    drop_entry(core, other, e.message, reading.reason, now)


def drop_entry(core: Core, b: Backlog, m: Message, reason: str, now: i64) -> None:
    seq: int = m.seq
    if b.ended or seq in b.held or seq in b.restored or seq in b.ahead or seq <= b.cursor:
        return
    if reason == "expired" and (m.deadline == 0 or m.deadline > now):
        return
    if seq <= b.loaded:
        for d in b.ram:
            if d.message.seq == seq and not d.packet_id:
                b.ram.remove(d)
                b.ram_bytes -= m.size
                break
        else:
            return
    core.ledger.drop(b.sid, reason, 1)
    settle(core, b, m, now)


def end(core: Core, b: Backlog, reason: str, now: i64) -> int:
    """The queue ends; what it still owed is dropped and counted. Returns how many."""
    n: int = b.count
    if n:
        core.ledger.drop(b.sid, reason, n)
    for id, owed in list(b.owed.items()):
        segment = core.segments.get(id)
        if segment is not None:
            segment.pending -= owed
            if segment.pending == 0:
                settle_segment(core, segment, now)
    b.ended = True
    for messages in (list(core.hold), core.commit.messages):
        for m in messages:
            if m.missing and b.sid not in (m.gone or ()) and any(backlog_of(t) is b for t in m.targets):
                done(core, m, b.sid)
    b.owed = {}
    b.held = {}
    b.restored = {}
    b.ram.clear()
    b.count = 0
    b.bytes = 0
    b.reading = 0
    return n
