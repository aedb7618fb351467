"""A disk without room for messages: they wait in the open commit, and all else goes on without them.

What is acknowledged, who connects and what can be deleted needs hardly any room, and it is what makes room again.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.batch import Batch
from gateway.core.commits import answer, backlog_of, close, pack, position, prune, rows, sid_of, state_of
from gateway.core.message import Message
from gateway.core.model import LANE, STAGED, Session
from gateway.core.record import pack_state, unpack_state
from gateway.core.state import HISTORY, STAGED_SEND, Commit, Core, Waiter

RETRY_MS: Final = 500


def waiting_bytes(core: Core) -> i64:
    """What is in RAM on its way to the disk."""
    flying = core.flying
    return core.commit.bytes + (flying.bytes if flying is not None else 0)


def must_wait(core: Core) -> bool:
    """The disk is full up to its budget, or behind by as much as may wait in RAM."""
    waiting = waiting_bytes(core)
    if core.error_since or waiting > core.limits.pending_bytes_max:
        return True
    budget = core.limits.store_bytes_max
    return budget != 0 and core.used_bytes + waiting >= budget


def take_batch(core: Core, now: i64) -> Batch | None:
    """The next batch for the store, or None; called only when the store is idle."""
    open = core.flying
    if open is not None:
        if now < open.retry_at:
            return None
        open.submitted = True
        open.since = now
        return pack(open)
    open = core.commit
    lazy = open.lazy_at != 0 and now >= open.lazy_at
    if not open.urgent and not lazy:
        return None
    if core.stall_at > now:
        if not lazy and not [w for w in open.waiters if not needs_message(w)]:
            return None
        fresh = Commit(open.number + 1)
        hand_on(core, open, fresh)
    else:
        close(core, open, now)
        if open.idle() and not lazy:
            open.urgent = False  # all that it was for has been acknowledged meanwhile
            open.acks.clear()
            return None
        fresh = Commit(open.number + 1)
    core.flying = open
    core.commit = fresh
    rows(core, open, now)
    left_out(core)
    open.submitted = True
    open.since = now
    return pack(open)


def put_off(core: Core, open: Commit, now: i64) -> None:
    """The store did not take this commit with its messages: now it goes without them."""
    core.stall_at = now + RETRY_MS
    take_back(core, open)
    hand_on(core, open, core.commit)
    for sid, row in open.cursors.items():
        s = core.by_sid.get(sid)
        if s is not None:
            open.cursors[sid] = state_of(core, s)
        elif sid < LANE and sid not in core.group_by_sid:
            state = unpack_state(row)  # it has ended meanwhile; until that is on disk it must not count on them
            state.awaiting = []
            state.sent = []
            open.cursors[sid] = pack_state(state)
    left_out(core)


def carries(open: Commit) -> bool:
    """Whether it has what can wait for room."""
    for kept in (open.retained, open.bridge):
        for data in kept.values():
            if data is not None:
                return True
    for row in open.delayed.values():
        if row is not None:
            return True
    return bool(open.messages or open.acks)


def take_back(core: Core, open: Commit) -> None:
    """The segment that was made of its messages is none: each is again as before."""
    segment = open.segment
    if segment is None:
        return
    for packed in open.sets.values():
        for t in packed.targets:
            b = backlog_of(t)
            if b is not None and not b.ended:
                b.owed.pop(segment.id, 0)
                prune(core, b)
    for m in open.messages:
        m.segment = None
        still_owed(core, m)
    core.segments.pop(segment.id, None)
    open.dead.append(segment.id)  # a sync that failed may have left it on disk all the same
    open.segment = None
    open.records = []
    open.sets = {}


def still_owed(core: Core, m: Message) -> None:
    """Count again who has not settled it."""
    seq: int = m.seq
    gone: list[int] = []
    for t in m.targets:
        b = backlog_of(t)
        if b is None or b.ended or seq in b.ahead or seq <= b.cursor:
            gone.append(sid_of(t))
    m.gone = gone
    m.missing = len(m.targets) - len(gone)
    if m.missing == 0:
        answer(core, m)


def hand_on(core: Core, open: Commit, fresh: Commit) -> None:
    """Messages go to the next commit with all that must not be on disk, or said, before them."""
    heavy = carries(open)
    fresh.messages = sorted([*open.messages, *fresh.messages], key=position)
    fresh.acks = [*open.acks, *fresh.acks]
    fresh.staged = [*open.staged, *fresh.staged]
    fresh.bytes += open.bytes
    if open.waits_since and (not fresh.waits_since or open.waits_since < fresh.waits_since):
        fresh.waits_since = open.waits_since
    fresh.urgent = True
    hand_on_rows(open.retained, fresh.retained)
    hand_on_rows(open.bridge, fresh.bridge)
    # published with a message that waits now: that and the end of its own waiting are one transaction
    open.delayed.update(fresh.delayed)
    fresh.delayed = open.delayed
    open.delayed = {}
    if (fresh.retained or fresh.bridge or fresh.delayed) and not fresh.lazy_at:
        fresh.lazy_at = core.stall_at
    if heavy:  # and so with a will
        for client_id, will in list(open.wills.items()):
            if will is None:
                del open.wills[client_id]
                if client_id not in fresh.wills:
                    fresh.wills[client_id] = None
    staged = [w for w in open.waiters if needs_message(w)]
    if staged:
        open.waiters = [w for w in open.waiters if not needs_message(w)]
        fresh.waiters = [*staged, *fresh.waiters]
    for s in core.by_sid.values():
        for packet_id, held in list(s.awaiting.items()):
            if held == open.number:
                s.awaiting[packet_id] = fresh.number
    open.whole = False
    open.messages = []
    open.acks = []
    open.staged = []
    open.bytes = 0
    open.waits_since = 0


def hand_on_rows(held: dict[str, bytes | None], fresh: dict[str, bytes | None]) -> None:
    for key, data in list(held.items()):
        if data is not None:
            del held[key]
            if key not in fresh:
                fresh[key] = data


def needs_message(w: Waiter) -> bool:
    """The first sending of a QoS 2 delivery whose message is not on its way to the disk; what reads all that is."""
    s = w.session
    if w.kind == HISTORY:
        return True
    if w.kind != STAGED_SEND or s is None:
        return False
    d = s.inflight.get(w.value)
    return d is not None and d.state == STAGED and d.message.segment is None


def left_out(core: Core) -> None:
    """Sessions whose rows had to leave something out are written again with the messages."""
    if core.stall_at:
        for s in core.by_sid.values():
            if s.durable and waits_for_messages(core, s):
                core.dirty_session(s)


def waits_for_messages(core: Core, s: Session) -> bool:
    if core.commit.number in s.awaiting.values():
        return True
    return s.staged > 0 and bool([d for d in s.inflight.values() if d.state == STAGED and d.message.segment is None])


def worked(core: Core, whole: bool) -> None:
    """The store did what it was asked: trouble is over when that was ``whole``, or when no message waits any more."""
    if core.error_since and (whole or not carries(core.commit)):
        core.stall_at = 0
        core.error_since = 0
        core.store_error = ""
        core.alarms.append("the store works again")
