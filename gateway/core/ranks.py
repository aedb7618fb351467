"""The ranks of a session: one queue for each topic priority, and whose turn it is.

A persistent session's rank is a queue of its own on the log, with its own sid and cursor: so ranks read past each
other, settle each for itself, and are there again after a restart. In memory a rank is two FIFOs.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.batch import Snapshot
from gateway.core.model import LANE, ZERO, Backlog, Delivery, Rank, Session
from gateway.core.priority import Priorities
from gateway.core.readahead import refill
from gateway.core.state import Core
from gateway.core.uplink import rule_for

LIVE: Final = 255  # the priority of what overtakes
META_TABLE: Final = "priorities"
META_CHANGES: Final = "priority_changes"


def enable(core: Core, s: Session) -> None:
    """Ranks for a session that needs them."""
    if s.ranks is None and (core.priorities.on or (s.durable and core.limits.mqueue_store_qos0_persistent)):
        find(core, s, 0)


def find(core: Core, s: Session, priority: int) -> Rank:
    """The rank of a priority, made where it is missing."""
    ranks = s.ranks
    if ranks is None:
        r = Rank(0, core.priorities.weight(0))
        r.credit = core.priorities.turn(0)
        r.backlog = s.backlog
        ranks = [r]
        s.ranks = ranks
    for known in ranks:
        if known.priority == priority:
            return known
    r = Rank(priority, core.priorities.weight(priority))
    r.credit = core.priorities.turn(priority)
    ranks.append(r)
    ranks.sort(key=order)
    return r


def order(r: Rank) -> int:
    weight: int = r.weight
    return -weight


def of(core: Core, s: Session, topic: bytes) -> Rank:
    uplink = s.uplink
    if uplink is not None and s.overtakes:
        rule = rule_for(uplink.rules, topic.decode(), True)
        if rule is not None and rule.live_first:
            return find(core, s, LIVE)
    return find(core, s, core.priorities.of(topic))


def overtake(core: Core, s: Session, on: bool) -> None:
    """An uplink comes, or goes: from here on what its rules ask for joins another queue, or the usual one again."""
    uplink = s.uplink
    if on and (uplink is None or s.owed() == 0 or not [rule for rule in uplink.rules if rule.live_first]):
        return
    if s.overtakes != on:
        s.overtakes = on
        core.trie.generation += 1  # routes know the queue


def lane(core: Core, s: Session, topic: bytes, zero: bool) -> Backlog:
    """The durable queue that a topic's messages (``zero``: those of QoS 0) join."""
    r = of(core, s, topic)
    b = r.zero if zero else r.backlog
    if b is None:
        b = make(s, r, zero, core.next_seq - 1)
        core.dirty_backlog(b)  # its row is on disk with its first message
    return b


def make(s: Session, r: Rank, zero: bool, cursor: i64) -> Backlog:
    at: int = cursor
    b = Backlog(s.sid + LANE * (r.priority + (ZERO if zero else 0)), at)
    b.session = s
    if zero:
        r.zero = b
    else:
        r.backlog = b
    return b


def restored(core: Core, sid: int) -> Backlog | None:
    """The queue of a rank as the store names it; None when its session is not there."""
    s = core.by_sid.get(sid % LANE)
    number = sid // LANE
    if s is None or number == 0:
        return None
    r = find(core, s, number % ZERO)
    b = r.zero if number >= ZERO else r.backlog
    return b if b is not None else make(s, r, number >= ZERO, 0)


def sids(s: Session) -> list[int]:
    """Of all that its ranks have in the store, but for the session's own."""
    out: list[int] = []
    for r in s.ranks or []:
        out.append(s.sid + LANE * (r.priority + ZERO))
        if r.priority:
            out.append(s.sid + LANE * r.priority)
    return out


def drop_sid(core: Core, s: Session, d: Delivery) -> int:
    """Under which sid a drop is counted."""
    b = d.backlog
    if b is not None:
        return b.sid
    return s.sid + LANE * of(core, s, d.message.topic).priority


def drops(core: Core, s: Session) -> dict[str, int]:
    """Reason -> messages, of all ranks."""
    out = core.ledger.drops(s.sid)
    for sid in sids(s):
        for reason, n in core.ledger.drops(sid).items():
            out[reason] = out.get(reason, 0) + n
    return out


def in_memory(s: Session) -> list[Delivery]:
    """All that waits in memory, QoS 0 first."""
    ranks = s.ranks or []
    out = list(s.queue0)
    for r in ranks:
        out.extend(r.queue0)
    out.extend(s.queue)
    for r in ranks:
        out.extend(r.queue)
    return out


# whose turn it is


def open(core: Core, b: Backlog | None, before: i64) -> bool:
    """Something waits there (at a position below ``before``, if that is not 0), be it that it must be read first."""
    if b is None:
        return False
    if not b.ram:
        if not b.live:
            refill(core, b)
        if b.at_end() and not b.ram:
            return False
    return before == 0 or first(b) < before


def first(b: Backlog) -> i64:
    """The position of what waits longest, or one below it."""
    if b.ram:
        return b.ram.head().message.seq
    return b.loaded + 1


def waits(core: Core, r: Rank, before: i64) -> bool:
    if r.queue0 or r.queue:
        return True
    return open(core, r.zero, before) or open(core, r.backlog, before)


def turn(core: Core, ranks: list[Rank], before: i64) -> Rank | None:
    """The highest that has something and is not through with its turn; when none is, a new round begins."""
    again: Rank | None = None
    for r in ranks:
        if waits(core, r, before):
            if r.credit > 0:
                return r
            if again is None:
                again = r
    for r in ranks:
        r.credit = core.priorities.turn(r.priority)
    return again


def barrier(core: Core, s: Session) -> i64:
    """A position in the log: what stands before it goes first, whatever its rank; 0 = none.

    A topic that has another priority than before has messages in two ranks: the older ones must not be overtaken. The
    same goes for a session that began with the earliest: what was there before it stands in its first queue.
    """
    base = s.backlog
    if base is not None and base.history is not None and open(core, base, base.history.end):
        return base.history.end
    tables = core.tables
    while s.stage < len(tables):
        at = tables[s.stage]
        for b in s.backlogs():
            if open(core, b, at):
                return at
        s.stage += 1
    return 0


def idle(s: Session) -> bool:
    """Nothing waits in any rank."""
    if s.ranked:
        return False
    for r in s.ranks or []:
        for b in (r.backlog, r.zero):
            if b is not None and (b.ram or not b.live):
                return False
    return True


def zero_waits(s: Session) -> bool:
    """QoS 0 is queued somewhere."""
    for r in s.ranks or []:
        z = r.zero
        if r.queue0 or (z is not None and z.count):
            return True
    return False


# the table changes


def load(core: Core, snapshot: Snapshot, now: i64) -> None:
    """Another table than before the restart: what is queued goes first."""
    before = snapshot.meta.get(META_CHANGES, "")
    oldest: int = core.next_seq
    for segment in core.segments.values():
        oldest = min(oldest, segment.first)
    core.tables = [int(at) for at in str(before).split() if int(at) > oldest]
    if snapshot.meta.get(META_TABLE, "") != core.priorities.text:
        changed(core, now)


def changed(core: Core, now: i64) -> None:
    """Queues that were filled under another table end here."""
    core.tables.append(core.next_seq)
    core.commit.meta[META_TABLE] = core.priorities.text
    core.commit.meta[META_CHANGES] = " ".join([str(at) for at in core.tables])
    core.lazy(now)


def reload(core: Core, now: i64) -> None:
    """New limits: queues in memory are sorted anew, those on disk drained in their order first."""
    old = core.priorities.text
    core.priorities = Priorities(core.limits.mqueue_priorities, core.limits.mqueue_default_priority == "highest")
    if core.priorities.text != old:
        changed(core, now)
    for s in core.by_sid.values():
        resort(core, s)


def resort(core: Core, s: Session) -> None:
    waiting = in_memory(s)
    s.queue.clear()
    s.queue0.clear()
    s.ranked = 0
    enable(core, s)
    ranks = s.ranks
    if ranks is not None:
        for r in ranks:  # all stay: drops were counted there
            r.queue.clear()
            r.queue0.clear()
            r.weight = core.priorities.weight(r.priority)
        ranks.sort(key=order)
    for d in waiting:
        put(core, s, d)
    c = s.client
    if c is not None and ranks is not None:
        c.behind0 = zero_waits(s)
        c.set_quick()


def put(core: Core, s: Session, d: Delivery) -> None:
    """At the end of the queue of its rank; memory only."""
    if s.ranks is None:
        (s.queue0 if d.qos == 0 else s.queue).append(d)
        return
    r = of(core, s, d.message.topic)
    (r.queue0 if d.qos == 0 else r.queue).append(d)
    s.ranked += 1
