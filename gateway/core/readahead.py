"""Durable queues read on in the log: from the disk into the window, a slice at a time, up to where it is still in RAM.

One turn of the loop serves everybody, so what was read is unpacked only as the window takes it.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.backlog import all_backlogs, by_sid, delivery, drop_entry, lost, push
from gateway.core.commits import backlog_of, left, position
from gateway.core.message import Message, Segment
from gateway.core.model import Backlog
from gateway.core.record import Entry, StoredTarget
from gateway.core.segments import part_of, unpack, unread
from gateway.core.state import Core, Reading

READ_BYTES: Final = 262_144  # of segments read at once
SLICE: Final = 200  # messages that one call takes into the window at most


def refill(core: Core, b: Backlog, always: bool = False) -> bool:
    """Read ahead when the window has room for a slice (``always``: for one); True when there is more in it now."""
    h = b.history
    if h is not None and h.counting:
        return False
    if b.live or not (has_room(core, b) if always else wants(core, b)):
        return False
    ahead = next_segments(core, b, b.read_to)
    while ahead:
        first = unread(b.read_to, ahead[0]).start
        if first in b.parts or first in core.unpacked.found:
            taken = take_in(core, b, 0)
            if not b.reading and b.at_hand < READ_BYTES // 2:
                fetch(core, b, max(b.fetched, b.read_to))
            if taken:
                return True
            ahead = next_segments(core, b, b.read_to)  # none of it was for this queue
            continue
        if not b.reading:
            b.rewind()
            fetch(core, b, b.read_to)
        return False
    b.rewind()
    b.reading = 0
    flying = core.flying
    if flying is not None:
        from_ram(core, b, flying.messages)
    from_ram(core, b, sorted([*core.commit.messages, *core.hold], key=position))
    b.live = True
    b.loaded = core.next_seq - 1
    return len(b.ram) > 0


def fetch(core: Core, b: Backlog, after: int) -> None:
    """Ask for what follows this stored id: the disk reads while the client is served from what is at hand."""
    ahead = next_segments(core, b, after)
    if not ahead:
        return
    first = unread(after, ahead[0]).start
    if first in core.unpacked.found:
        return
    other = core.coming.get(first)
    if other is not None:
        other.others.append(b)
        b.reading = other.token
    else:
        reading = Reading(b, ahead, first, "")
        core.coming[first] = reading
        b.reading = request(core, reading)


def wants(core: Core, b: Backlog) -> bool:
    """Not with each acknowledgement: a slice costs little more than one message."""
    half: i64 = core.limits.window_messages // 2
    slice: i64 = SLICE
    return len(b.ram) <= half - min(slice, half // 2) and b.ram_bytes * 8 <= core.limits.window_bytes * 3


def has_room(core: Core, b: Backlog) -> bool:
    limits = core.limits
    return len(b.ram) * 2 <= limits.window_messages and b.ram_bytes * 2 <= limits.window_bytes


def next_segments(core: Core, b: Backlog, after: int) -> list[Segment]:
    """What it reads behind this stored id; none at the end of what is on disk."""
    ahead: list[Segment] = []
    size: i64 = 0
    for id in b.owed:
        segment = core.segments.get(id)
        if segment is None or segment.upto <= after:
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
    first = reading.backlog
    assert first is not None
    ready = [b for b in [first, *reading.others] if b.reading == reading.token]
    for segment, id, data in placed(core, reading, rows):
        part = part_of(core, segment, id, data, first)
        for b in ready:
            b.at_hand += part.size if id not in b.parts else 0
            b.parts[id] = part
            b.fetched = id
    for b in ready:
        b.reading = 0
        take_in(core, b, now)
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


def take_in(core: Core, b: Backlog, now: i64) -> bool:
    """Into the window what comes next for this queue, as far as it is at hand; True when there was something."""
    before = len(b.ram)
    flying = b.held.seqs()
    for segment in next_segments(core, b, b.read_to):
        for id in unread(b.read_to, segment):
            part = b.parts.get(id) or core.unpacked.found.get(id)
            if part is None:
                return len(b.ram) > before
            if b.part != id:
                b.part = id
                b.part_at = 0
            e = part.entry(b.part_at)
            while e is not None:
                if len(b.ram) - before >= SLICE or not has_room(core, b):
                    return True
                b.part_at += 1
                take_one(core, b, e, flying)
                e = part.entry(b.part_at)
            if b.parts.pop(id, None) is not None:
                b.at_hand -= part.size
            b.read_to = id
            if part.damaged:
                segment.damaged = True  # nothing joins it any more
        if segment.damaged:
            lost(core, b, segment, now)
    return len(b.ram) > before


def take_one(core: Core, b: Backlog, e: Entry, flying: set[int]) -> None:
    m = e.message
    if m.seq <= b.loaded:
        return
    if m.seq in flying or m.seq in b.ahead:
        b.loaded = m.seq
        return
    again = b.restored.pop(m.seq, None)
    if again is not None:
        push(b, again)
        return
    t = owed_target(b, e)
    if t is not None:
        push(b, delivery(core, m, t.qos, t.retain_as_published, t.identifiers, b))


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
