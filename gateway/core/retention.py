"""What an APPLICATION has not read and is not to be kept any longer falls off its log, counted.

Looked at once a second, the oldest first; what is in flight stays. Others that need the same messages keep them.
"""

from mypy_extensions import i64

from gateway.core.backlog import drop_entry, lost
from gateway.core.ledger import RETENTION
from gateway.core.message import Segment
from gateway.core.model import Backlog, Session
from gateway.core.readahead import READ_BYTES, owed_target, placed, request
from gateway.core.record import Entry
from gateway.core.segments import unpack, unread
from gateway.core.state import Core, Reading


def trim(core: Core, now: i64) -> None:
    for s in core.apps.bounded:
        if not s.trimming:
            begin(core, s, now)


def held(s: Session) -> i64:
    """Bytes of all its queues."""
    return sum([b.bytes for b in s.backlogs()])


def begin(core: Core, s: Session, now: i64) -> None:
    """Ask for the oldest segments that hold too much, or for too long, of the queue that has the oldest of all."""
    over: i64 = held(s) - s.max_bytes if s.max_bytes else 0
    if over <= 0 and not s.max_age_ms:
        return
    chosen: list[Segment] = []
    of: Backlog | None = None
    for b in s.backlogs():
        h = b.history
        if b.count and (h is None or not h.counting):
            oldest = waiting(core, s, b, over, now)
            if oldest and (not chosen or oldest[0].id < chosen[0].id):
                chosen = oldest
                of = b
    if of is not None:
        s.trimming = True
        request(core, Reading(of, chosen, 0, RETENTION))


def waiting(core: Core, s: Session, b: Backlog, over: i64, now: i64) -> list[Segment]:
    """The oldest segments of a queue, about as many as have to go; those of which all is in flight stay."""
    flying: dict[int, int] = {}
    for d in b.held:
        segment = d.message.segment
        if segment is not None:
            flying[segment.id] = flying.get(segment.id, 0) + 1
    oldest: list[Segment] = []
    size: i64 = 0
    for id, owed in b.owed.items():
        segment = core.segments.get(id)
        if segment is None or not segment.committed:
            break
        n: i64 = owed - flying.get(id, 0)
        if n <= 0:
            continue
        if over <= 0 and not too_old(s, segment, now):
            break
        over -= b.bytes * n // b.count  # about; each message is looked at when it is read
        oldest.append(segment)
        size += segment.bytes
        if size >= READ_BYTES:
            break
    return oldest


def too_old(s: Session, segment: Segment, now: i64) -> bool:
    return s.max_age_ms != 0 and now - segment.time > s.max_age_ms


def trimmed(core: Core, b: Backlog, reading: Reading, rows: list[tuple[int, bytes]], now: i64) -> None:
    """The answer of the read: drop what is still too much, and look again."""
    s = b.session
    assert s is not None
    s.trimming = False
    if b.ended:
        return
    before: i64 = b.count
    for segment, id, data in placed(core, reading, rows):
        if segment.id not in b.owed:
            continue
        old = too_old(s, segment, now)
        if not old and not (s.max_bytes and held(s) > s.max_bytes):
            break
        found = unpack(core, segment, id, data, b)
        if found is None:
            segment.damaged = True
        else:
            drop_oldest(core, s, b, id, found, old, now)
        if segment.damaged and id == segment.upto:
            lost(core, b, segment, now)
    n = before - b.count
    if n:
        core.log.append(f"unread messages of {s.client_id} fell off its log: {n}")
        begin(core, s, now)


def drop_oldest(core: Core, s: Session, b: Backlog, id: int, found: list[Entry], old: bool, now: i64) -> None:
    reads_next = is_next(core, b, id)
    last: i64 = 0
    for e in found:
        if owed_target(b, e) is None:
            continue
        if not old and held(s) <= s.max_bytes:
            return
        last = e.message.seq
        drop_entry(core, b, e.message, RETENTION, now)
    if reads_next:
        # all of it is settled or in flight: as if it had been read, or each position would have to be remembered
        b.loaded = max(b.loaded, last)
        b.read_to = id


def is_next(core: Core, b: Backlog, id: int) -> bool:
    """Whether this is what would be read ahead next."""
    if b.live:
        return False
    for other in b.owed:
        segment = core.segments.get(other)
        if segment is not None and segment.upto > b.read_to:
            return unread(b.read_to, segment).start == id
    return False
