"""Segments of the log in RAM: small neighbours are one there, and what several queues read is unpacked once.

On disk each commit has a segment of its own, a part of the one in RAM. Small commits would else cost more in RAM
than on disk: a segment and an entry in each queue for a handful of messages.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.commits import backlog_of
from gateway.core.message import Segment
from gateway.core.model import Backlog
from gateway.core.part import Part
from gateway.core.record import Entry
from gateway.core.state import SEGMENT_EXPIRED, Commit, Core

JOIN_BYTES: Final = 65_536  # of a segment that others join; it leaves the disk as a whole
JOIN_MS: Final = 10_000  # between its first part and its last: so much older is its first than its age says
UNPACKED_BYTES: Final = 1_048_576  # packed, of the parts that are held unpacked


def fits(core: Core, before: Segment, segment: Segment) -> bool:
    """Whether a segment may become a part of the one before it."""
    most: i64 = JOIN_BYTES
    budget: i64 = core.limits.store_bytes_max
    if budget:
        most = min(most, budget // 100)
    if segment.id != before.upto + 1 or before.bytes + segment.bytes > most or segment.time - before.since > JOIN_MS:
        return False
    if (before.expires == 0) != (segment.expires == 0) or abs(segment.expires - before.expires) > JOIN_MS:
        return False
    return not before.damaged and not segment.damaged


def absorb(before: Segment, segment: Segment) -> None:
    before.upto = segment.upto
    before.first = min(before.first, segment.first)
    before.last = max(before.last, segment.last)
    before.time = segment.time
    before.bytes += segment.bytes
    before.expires = max(before.expires, segment.expires)
    before.pending += segment.pending


def join(core: Core, open: Commit, segment: Segment) -> Segment:
    """The segment of this commit is on disk: the one that stands for it from now on."""
    before = core.newest
    core.newest = segment
    if before is None or not fits(core, before, segment):
        return segment
    if core.segments.get(before.id) is not before:
        if core.kept.segments.pop(before.id, None) is None:
            return segment
        core.kept.bytes -= before.bytes
        core.segments[before.id] = before
    core.newest = before
    del core.segments[segment.id]
    absorb(before, segment)
    for m in open.messages:
        m.segment = before
    for packed in open.sets.values():
        for t in packed.targets:
            b = backlog_of(t)
            if b is not None:
                owed = b.owed.pop(segment.id, 0)
                if owed:
                    b.owed[before.id] = b.owed.get(before.id, 0) + owed
    return before


def part_of(core: Core, segment: Segment, id: int, data: bytes, b: Backlog | None) -> Part:
    """What was read under this id; held while others than ``b`` need it."""
    known = core.unpacked.found.get(id)
    if known is not None:
        return known
    part = Part(segment, data)
    if b is not None and not part.damaged and segment.pending > b.owed.get(segment.id, 0):
        core.unpacked.add(id, part, UNPACKED_BYTES)
    return part


def unpack(core: Core, segment: Segment, id: int, data: bytes, b: Backlog | None) -> list[Entry] | None:
    """All messages of a part; None when it is damaged."""
    return part_of(core, segment, id, data, b).all()


def unread(after: int, segment: Segment) -> range:
    """The parts behind this stored id."""
    return range(max(segment.id, after + 1), segment.upto + 1)


def settle(core: Core, segment: Segment, now: i64) -> None:
    """Nobody is owed anything from it: once on disk it is deleted, or held back for who begins with the earliest."""
    if not segment.committed or segment.id not in core.segments:
        return
    del core.segments[segment.id]
    if core.limits.log_keep_bytes and not segment.damaged:
        core.kept.segments[segment.id] = segment
        core.kept.bytes += segment.bytes
    else:
        delete(core, segment, now)


def delete(core: Core, segment: Segment, now: i64) -> None:
    core.commit.dead.extend(range(segment.id, segment.upto + 1))
    core.lazy(now)


def written(core: Core, open: Commit, now: i64) -> None:
    """The commit is on disk."""
    core.durable_commit = open.number
    core.nodes.ids_end = max(core.nodes.ids_end, open.ids_end)
    segment = open.segment
    if segment is None:
        return
    segment.committed = True
    if segment.pending or core.limits.log_keep_bytes:
        segment = join(core, open, segment)
    if segment.pending == 0:
        settle(core, segment, now)
    elif segment.expires:
        core.timer(segment.expires, SEGMENT_EXPIRED, segment.id)
