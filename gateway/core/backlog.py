"""Durable queues over the log: join, settle, read ahead, unload, give up."""

from typing import Final

from mypy_extensions import i64

from gateway.core.commits import backlog_of, done, left, position, thin
from gateway.core.ledger import DAMAGED
from gateway.core.message import Message, Segment
from gateway.core.model import AHEAD_MAX, LANE, SENT, Backlog, Delivery, Target
from gateway.core.record import Entry, StoredTarget
from gateway.core.segments import settle as settle_segment
from gateway.core.segments import unpack, unread
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


def take(b: Backlog, d: Delivery) -> None:
    """Out of the window, wherever it stands there."""
    if b.ram.head() is d:
        b.ram.popleft()
    else:
        b.ram.remove(d)
    b.ram_bytes -= d.message.size


def put_back(b: Backlog, d: Delivery) -> None:
    """Where it stood."""
    b.ram_bytes += d.message.size
    at = 0
    for other in b.ram:
        if other.message.seq > d.message.seq:
            break
        at += 1
    b.ram.insert(at, d)


def hold(b: Backlog, d: Delivery) -> None:
    """It goes into flight."""
    b.held.add(d)


def settle(core: Core, b: Backlog, d: Delivery, now: i64) -> None:
    """Acknowledged or dropped: never to be delivered from this queue again."""
    if b.ended:
        return
    m = d.message
    in_order = False
    if d.held:
        in_order = b.held.settle(d) and b.ordered and b.loaded >= m.seq
        if not b.held and b.group is None:
            b.ordered = True
    elif b.restored:
        seq: int = m.seq
        b.restored.pop(seq, None)
    settle_place(core, b, m, in_order and not (b.ram and b.ram.head().message.seq < m.seq), now)


def settle_place(core: Core, b: Backlog, m: Message, in_order: bool, now: i64) -> None:
    """``in_order``: nothing before it is owed, so the cursor alone will tell."""
    segment = m.segment
    if segment is None:  # not written yet, and for this queue it never is
        b.count -= 1
        b.bytes -= m.size
        done(core, m, b.sid)
        return
    if not in_order:
        seq: int = m.seq
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
    core.moved_on(b, now)
    core.lazy(now)


def give_back(b: Backlog, d: Delivery) -> None:
    """A group's delivery returns from a member that is gone; it stands where it stood."""
    b.held.give_back(d)
    b.ordered = False
    d.state = 0
    d.packet_id = 0
    if d.message.seq > b.loaded:
        return  # the window was given up meanwhile: it is read again
    put_back(b, d)


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


def refill(core: Core, b: Backlog) -> bool:
    """Read ahead when the window is half empty; True when there is more in it now."""
    limits = core.limits
    h = b.history
    if h is not None and h.counting:
        return False
    if b.live or b.reading or len(b.ram) * 2 > limits.window_messages or b.ram_bytes * 2 > limits.window_bytes:
        return False
    ahead = next_segments(core, b)
    while ahead:
        first = unread(b, ahead[0]).start
        if first in core.unpacked.found:
            if take_in(core, b, core.unpacked.found, 0):
                return True
            ahead = next_segments(core, b)  # none of it was for this queue
            continue
        other = core.coming.get(first)
        if other is not None:
            other.others.append(b)
            b.reading = other.token
        else:
            reading = Reading(b, ahead, first, "")
            core.coming[first] = reading
            b.reading = request(core, reading)
        return False
    flying = core.flying
    if flying is not None:
        from_ram(core, b, flying.messages)
    from_ram(core, b, sorted([*core.commit.messages, *core.hold], key=position))
    b.live = True
    b.loaded = core.next_seq - 1
    return len(b.ram) > 0


def next_segments(core: Core, b: Backlog) -> list[Segment]:
    """What it reads next; none at the end of what is on disk."""
    ahead: list[Segment] = []
    size: i64 = 0
    for id in b.owed:
        segment = core.segments.get(id)
        if segment is None or segment.upto <= b.read_to:
            continue  # None: given up before it was on disk, but for what is in flight
        if not segment.committed:
            break
        ahead.append(segment)
        size += segment.bytes
        if size >= READ_BYTES:
            break
    return ahead


def from_ram(core: Core, b: Backlog, messages: list[Message]) -> None:
    """The end of the log that is not readable yet."""
    flying = b.held.seqs()
    for m in messages:
        if not m.missing or m.seq <= b.loaded or m.seq in flying or m.seq in b.ahead:
            continue
        for t in left(m):
            if backlog_of(t) is b:
                push(b, delivery(core, m, t.qos, t.retain_as_published, t.identifiers, b))
                break


def request(core: Core, reading: Reading) -> int:
    token = core.next_token
    core.next_token += 1
    core.readings[token] = reading
    reading.token = token
    core.reads.append((token, reading.ids))
    return token


def target_of(targets: list[StoredTarget], sid: int) -> StoredTarget | None:
    for t in targets:
        if t.sid == sid:
            return t
    return None


def owed_target(b: Backlog, e: Entry) -> StoredTarget | None:
    """How a message goes to this queue, whether it was written for it or was there before it."""
    t = target_of(e.targets, b.sid)
    h = b.history
    return t if t is not None or h is None else h.target(e.message, b.sid)


def loaded(core: Core, reading: Reading, rows: list[tuple[int, bytes]], now: i64) -> list[Backlog]:
    """The answer of a read ahead; the queues that wait for it and have it now."""
    core.coming.pop(reading.ids[0], None)
    found: dict[int, list[Entry] | None] = {}
    for segment, id, data in placed(core, reading, rows):
        found[id] = unpack(core, segment, id, data, reading.backlog)
    first = reading.backlog
    assert first is not None
    ready = [b for b in [first, *reading.others] if b.reading == reading.token]
    for b in ready:
        b.reading = 0
        take_in(core, b, found, now)
    return ready


def placed(core: Core, reading: Reading, rows: list[tuple[int, bytes]]) -> list[tuple[Segment, int, bytes]]:
    """The rows with their segments, but for those that are settled meanwhile."""
    out: list[tuple[Segment, int, bytes]] = []
    at = 0
    for id, data in rows:
        while reading.segments[at].upto < id:
            at += 1
        segment = reading.segments[at]
        if core.segments.get(segment.id) is segment:
            out.append((segment, id, data))
    return out


def take_in(core: Core, b: Backlog, found: dict[int, list[Entry] | None], now: i64) -> bool:
    """Into the window what comes next for this queue, as far as it is among what was ``found``."""
    before = len(b.ram)
    flying = b.held.seqs()
    for segment in next_segments(core, b):
        for id in unread(b, segment):
            if id not in found:
                return len(b.ram) > before
            read = found[id]
            if read is None:
                segment.damaged = True  # nothing joins it any more
            else:
                for e in read:
                    take_one(core, b, e, flying)
            b.read_to = id
        if segment.damaged:
            lost(core, b, segment, now)
    return len(b.ram) > before


def take_one(core: Core, b: Backlog, e: Entry, flying: set[int]) -> None:
    m = e.message
    if m.seq <= b.loaded or m.seq in flying or m.seq in b.ahead:
        return
    again = b.restored.pop(m.seq, None)
    if again is not None:
        push(b, again)
        return
    t = owed_target(b, e)
    if t is not None:
        push(b, delivery(core, m, t.qos, t.retain_as_published, t.identifiers, b))


def lost(core: Core, b: Backlog, segment: Segment, now: i64) -> None:
    """A segment that cannot be read: say so, count it, go on behind it."""
    here = [d for d in [*b.held, *b.restored.values(), *b.ram] if d.message.segment is segment]
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
    for segment, id, data in placed(core, reading, rows):
        found = unpack(core, segment, id, data, None)
        if found is None:
            segment.damaged = True
        else:
            for e in found:
                for t in e.targets:
                    other = by_sid(core, t.sid)
                    if other is not None:
                        drop_entry(core, other, e.message, reading.reason, now)
                for b in core.apps.histories:
                    h = b.history
                    if h is not None and not h.counting and target_of(e.targets, b.sid) is None:
                        if h.target(e.message, b.sid) is not None:
                            drop_entry(core, b, e.message, reading.reason, now)
        if segment.damaged and id == segment.upto:
            for b in all_backlogs(core):
                if segment.id in b.owed:
                    lost(core, b, segment, now)


def drop_entry(core: Core, b: Backlog, m: Message, reason: str, now: i64) -> None:
    seq: int = m.seq
    if b.ended or seq <= b.cursor or seq in b.ahead or seq in b.restored or b.held.has(seq):
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
    settle_place(core, b, m, False, now)


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
    h = b.history
    if h is not None:
        core.apps.histories.pop(b, False)
        for segment in h.left:
            segment.pending -= 1
            if segment.pending == 0:
                settle_segment(core, segment, now)
        h.left = []
    b.ended = True
    for messages in (list(core.hold), core.commit.messages):
        for m in messages:
            if m.missing and b.sid not in (m.gone or ()) and any(backlog_of(t) is b for t in m.targets):
                done(core, m, b.sid)
    b.owed = {}
    b.held.clear()
    b.restored = {}
    b.ram.clear()
    b.count = 0
    b.bytes = 0
    b.reading = 0
    return n
