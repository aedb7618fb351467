"""Durable queues over the log: join, settle, unload, drop."""

from mypy_extensions import i64

from gateway.core.commits import backlog_of, done, thin
from gateway.core.ledger import DAMAGED
from gateway.core.message import Message, Segment
from gateway.core.model import AHEAD_MAX, LANE, SENT, Backlog, Delivery, Target
from gateway.core.segments import settle as settle_segment
from gateway.core.state import Core


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
        if b.outer:
            settle_outer(core, b, d)
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


def settle_outer(core: Core, b: Backlog, d: Delivery) -> None:
    """It came from an engine, which is to hear of it."""
    if d.held:
        b.held.settle(d)
    s = b.session
    if s is not None and s.outer is not None and s.outer.backlog is b:
        s.outer.waiting -= 1
        position: int = d.message.seq
        core.engine.settled.append((s.client_id, position))


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
    b.rewind()
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
    b.rewind()
    b.count = 0
    b.bytes = 0
    b.reading = 0
    return n
