"""A new APPLICATION session that begins with the earliest message that the log still has for it.

When its first SUBSCRIBE is on disk, the log is read once to count what is its own there; then it reads on like any
other that has come back. After a crash the counting begins again behind its cursor.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.commits import commit, in_order
from gateway.core.history import History
from gateway.core.limits import UNSET
from gateway.core.message import Segment
from gateway.core.model import Backlog, Session
from gateway.core.readahead import READ_BYTES, placed, request, target_of
from gateway.core.rules import of_session
from gateway.core.segments import settle, unpack
from gateway.core.state import HISTORY, Core, Reading
from gateway.core.topics import Subscription

COUNT: Final = "count"  # the reason of such a read


def expect(core: Core, s: Session) -> None:
    """A session is new: whether its first SUBSCRIBE reaches back."""
    rule = of_session(core, s)
    b = s.backlog
    if rule is None or b is None:
        return
    if core.limits.app_start if rule.earliest == UNSET else rule.earliest:
        b.history = History(0, [])


def begin(core: Core, s: Session, b: Backlog, filters: list[Subscription]) -> None:
    """Its first SUBSCRIBE; nothing was queued for it yet."""
    h = b.history
    assert h is not None
    if not filters:
        b.history = None
        return
    h.end = core.next_seq
    h.filters = filters
    h.rights = s.rights
    h.counting = True
    core.apps.histories[b] = True
    while core.hold:  # what is held back is of the time before, too
        m = core.hold.popleft()
        core.hold_bytes -= m.size
        if m.missing:
            commit(core, m)
    in_order(core)
    b.cursor = 0
    reach_back(b)
    core.dirty_session(s)
    core.wait(HISTORY, None, s, 0, b"")


def reach_back(b: Backlog) -> None:
    b.live = False
    b.loaded = b.cursor
    b.read_to = 0
    b.rewind()


def resume(core: Core, now: i64) -> None:
    """At the start: those that were not through with it."""
    for b in list(core.apps.histories):
        h = b.history
        assert h is not None
        h.counting = True
        reach_back(b)
        count(core, b, now)


def count(core: Core, b: Backlog, now: i64) -> None:
    """All of the time before is on disk now."""
    h = b.history
    if h is None or b.ended:
        return
    found = [one for one in [*core.segments.values(), *core.kept.segments.values()] if one.committed]
    h.left = sorted([one for one in found if one.first < h.end and one.last > b.cursor], key=place)
    for segment in h.left:
        segment.pending += 1  # it stays until it is counted
        if core.kept.segments.pop(segment.id, None) is not None:
            core.kept.bytes -= segment.bytes
            core.segments[segment.id] = segment
    core.segments = dict(sorted(core.segments.items()))
    go_on(core, b)


def place(segment: Segment) -> int:
    return segment.id


def go_on(core: Core, b: Backlog) -> None:
    h = b.history
    assert h is not None
    size: i64 = 0
    chunk: list[Segment] = []
    for segment in h.left:
        chunk.append(segment)
        size += segment.bytes
        if size >= READ_BYTES:
            break
    if chunk:
        request(core, Reading(b, chunk, 0, COUNT))
    else:
        h.counting = False
        b.owed = dict(sorted(b.owed.items()))


def counted(core: Core, b: Backlog, reading: Reading, rows: list[tuple[int, bytes]], now: i64) -> bool:
    """The answer of the read; True when all is counted and the session may read on."""
    h = b.history
    if b.ended or h is None:
        return False
    for segment, id, data in placed(core, reading, rows):
        found = unpack(core, segment, id, data, None)
        if found is None:
            segment.damaged = True
            core.alarms.append(f"segment {id} of the log is damaged: nobody can begin with it")
            continue
        for e in found:
            m = e.message
            if m.seq <= b.cursor or m.seq in b.ahead or m.seq in b.restored or target_of(e.targets, b.sid) is not None:
                continue
            if h.target(m, b.sid) is not None:
                owe(b, segment, m.size)
    for segment in reading.segments:
        segment.pending -= 1
        if segment.pending == 0:
            settle(core, segment, now)
    h.left = h.left[len(reading.segments) :]
    go_on(core, b)
    return not h.counting


def owe(b: Backlog, segment: Segment, size: i64) -> None:
    b.owed[segment.id] = b.owed.get(segment.id, 0) + 1
    segment.pending += 1
    b.count += 1
    b.bytes += size
    s = b.session
    if s is not None:
        s.matched += 1
