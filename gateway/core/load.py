"""From what the store holds to a running core: sessions, groups, wills, retained messages, and who is owed what."""

from mypy_extensions import i64

from gateway.core import ranks
from gateway.core.backlog import all_backlogs, by_sid, delivery
from gateway.core.batch import Snapshot
from gateway.core.births import load_births
from gateway.core.delayed import load_delayed
from gateway.core.earliest import resume
from gateway.core.history import History
from gateway.core.ingest import IDS_KEY
from gateway.core.lifecycle import end_session
from gateway.core.limits import NEVER
from gateway.core.message import Message, Segment
from gateway.core.model import LANE, RELEASED, SENT, ZERO, Backlog, Delivery, Session
from gateway.core.ranks import enable, find, restored
from gateway.core.readahead import target_of
from gateway.core.record import (
    Corrupt,
    Entry,
    Reader,
    SessionState,
    read_message,
    unpack_segment_targets,
    unpack_state,
    unpack_will,
)
from gateway.core.rules import apply_all, rights_of
from gateway.core.segments import absorb, fits, settle, unpack
from gateway.core.state import SEGMENT_EXPIRED, SESSION_END, WILL, Core
from gateway.core.subscribe import end_group, new_group, withdraw
from gateway.core.topics import Subscription, split_share
from gateway.core.wills import publish_will


def load(core: Core, snapshot: Snapshot, now: int) -> None:
    """All but what needs records of the log: finish() does that once needed segments were read."""
    core.alarms.extend(snapshot.damage)
    core.ledger.load(snapshot.counters)
    ids = snapshot.meta.get(IDS_KEY)
    if isinstance(ids, int):
        core.next_seq = max(core.next_seq, ids)
    load_sessions(core, snapshot)
    load_states(core, snapshot)
    load_subscriptions(core, snapshot)
    load_segments(core, snapshot)
    ranks.load(core, snapshot, now)
    load_retained(core, snapshot, now)
    for session in core.by_sid.values():
        load_deadline(core, session, now)
    load_births(core, snapshot.bridge, now)
    load_wills(core, snapshot, now)
    load_delayed(core, snapshot.delayed, now)


def load_sessions(core: Core, snapshot: Snapshot) -> None:
    for sid, client_id, kind, expiry_s, deadline in snapshot.sessions:
        core.next_sid = max(core.next_sid, sid + 1)
        b = Backlog(sid, 0)
        if kind == 1:
            try:
                _, plain = split_share(client_id)
            except ValueError:
                core.alarms.append(f"stored group {client_id!r} is not a shared subscription: left out")
                continue
            g = new_group(core, sid, client_id, plain)
            g.backlog = b
            b.group = g
            b.ordered = False
        else:
            s = Session(sid, client_id)
            core.sessions[client_id] = s
            core.by_sid[sid] = s
            s.backlog = b
            b.session = s
            enable(core, s)
            s.expiry_s = expiry_s
            s.deadline = deadline
    for sid, _, _ in snapshot.counters:
        owner = core.by_sid.get(sid % LANE)
        if owner is not None and sid >= LANE:
            find(core, owner, sid // LANE % ZERO)


def load_states(core: Core, snapshot: Snapshot) -> None:
    for sid, data in snapshot.cursors.items():
        b = by_sid(core, sid) or restored(core, sid)
        if b is None:
            continue
        try:
            state = unpack_state(data)
        except Corrupt:
            core.alarms.append(f"stored state of session {sid} is damaged: all that the log holds for it is sent again")
            continue
        b.cursor = state.cursor
        b.ahead = set(state.ahead)
        core.next_seq = max(core.next_seq, b.cursor + 1, max(state.ahead, default=0) + 1)
        s = b.session
        if s is not None and s.backlog is b:
            load_state(core, s, state)


def load_state(core: Core, s: Session, state: SessionState) -> None:
    s.next_id = state.id_end
    s.id_end = state.id_end
    s.id_wanted = state.id_end
    s.user = state.user
    s.rights = rights_of(core, s)
    b = s.backlog
    if b is not None and state.history >= 0:
        filters = [Subscription.from_row(s.sid, filter, options, id) for filter, options, id in state.filters]
        b.history = History(state.history, filters)
        b.history.rights = s.rights
        if state.history:
            core.apps.histories[b] = True
    for packet_id in state.awaiting:
        s.awaiting[packet_id] = 0
    for packet_id, owner, seq in state.sent:
        core.sent_loads.append((s, packet_id, owner, seq))
        core.next_seq = max(core.next_seq, seq + 1)
    for packet_id in state.released:
        d = Delivery(Message(b"", b"", 2, False), 2, False, None, None)
        d.state = RELEASED
        d.packet_id = packet_id
        s.inflight[packet_id] = d


def load_subscriptions(core: Core, snapshot: Snapshot) -> None:
    for sid, filter, options, identifier in snapshot.subscriptions:
        s = core.by_sid.get(sid)
        if s is None:
            continue
        sub = Subscription.from_row(sid, filter, options, identifier)
        s.subscriptions[filter] = sub
        try:
            share, plain = split_share(filter)
        except ValueError:
            continue
        if not share:
            core.trie.add(sub)
            continue
        g = core.groups.get(filter)
        if g is None:
            g = new_group(core, core.next_sid, filter, plain)
            core.next_sid += 1
            g.backlog = Backlog(g.sid, 0)
            g.backlog.group = g
            core.commit.sessions[g.sid] = (g.sid, filter, 1, 0, 0)
        g.members.append(s)
        g.options[sid] = sub
        s.groups.append(g)


def load_segments(core: Core, snapshot: Snapshot) -> None:
    sent = [seq for _, _, _, seq in core.sent_loads]
    for id, last, data in snapshot.segments:
        part = Segment(id)
        part.last = last
        part.committed = True
        core.next_segment = max(core.next_segment, id + 1)
        core.next_seq = max(core.next_seq, last + 1)
        try:
            part.first, part.time, part.expires, sets = unpack_segment_targets(data)
        except Corrupt:
            part.damaged = True
            add_segment(core, part)
            core.needed[id] = part
            core.half.extend([(b, id) for b in all_backlogs(core)])
            continue
        part.since = part.time
        part.bytes = len(data) + sum([stored.bytes for stored in sets])
        segment = add_segment(core, part)
        for stored in sets:
            for t in stored.targets:
                core.next_sid = max(core.next_sid, t.sid % LANE + 1)
                owed = by_sid(core, t.sid) or restored(core, t.sid)
                if owed is None or owed.cursor >= last:
                    continue
                first = part.first
                if owed.cursor < first and not [a for a in owed.ahead if first <= a <= last]:
                    owe(owed, segment, stored.messages, stored.bytes)
                elif (owed, id) not in core.half:
                    core.half.append((owed, id))
                    core.needed[id] = segment
        for seq in sent:
            if part.first <= seq <= last:
                core.needed[id] = segment
    for segment in core.segments.values():
        if segment.expires:
            core.timer(segment.expires, SEGMENT_EXPIRED, segment.id)


def add_segment(core: Core, part: Segment) -> Segment:
    """What is stored under one id; it may join the one before."""
    before = core.newest
    if before is not None and fits(core, before, part):
        absorb(before, part)
        return before
    core.newest = part
    core.segments[part.id] = part
    return part


def owe(b: Backlog, segment: Segment, messages: int, size: int) -> None:
    b.count += messages
    b.bytes += size
    b.owed[segment.id] = b.owed.get(segment.id, 0) + messages
    segment.pending += messages


def load_retained(core: Core, snapshot: Snapshot, now: int) -> None:
    for topic, data in snapshot.retained:
        try:
            m = read_message(Reader(data))
        except Corrupt:
            core.alarms.append(f"retained message of {topic} is damaged: left out")
            continue
        if m.deadline and m.deadline <= now:
            core.commit.retained[topic] = None
            core.lazy(now)
        else:
            core.retained.set(topic, m)


def load_deadline(core: Core, s: Session, now: i64) -> None:
    """One that was connected when the broker stopped has all of its expiry before it."""
    if s.expiry_s == NEVER:
        s.deadline = 0
        return
    if s.deadline == 0:
        s.deadline = now + s.expiry_s * 1000
        core.session_row(s, s.deadline)
        core.lazy(now)
    core.timer(s.deadline, SESSION_END, s.sid)


def load_wills(core: Core, snapshot: Snapshot, now: int) -> None:
    """A client that was connected when the broker stopped has lost its connection: its will is due after its delay."""
    for client_id, data in snapshot.wills:
        core.stored_wills[client_id] = True
        try:
            w, at = unpack_will(data)
        except Corrupt:
            core.alarms.append(f"stored will of {client_id} is damaged: left out")
            core.will_row(client_id, None)
            continue
        s = core.sessions.get(client_id)
        if s is None or (w.delay == 0 and not at):
            publish_will(core, client_id, w, s, now)
            continue
        s.will = w
        s.will_at = at if at else now + w.delay * 1000
        core.timer(s.will_at, WILL, s.sid)


def finish(core: Core, rows: list[tuple[int, bytes]], now: int) -> None:
    """With the records of the needed segments: exact counts, and QoS 2 deliveries that were in flight."""
    read: dict[int, list[Entry] | None] = {}
    for id, data in rows:
        segment = core.needed[id]
        read[id] = unpack(core, segment, id, data, None)
        if read[id] is None:
            segment.damaged = True
            core.alarms.append(f"segment {id} of the log is damaged")
    for b, id in core.half:
        count_half(b, core.needed[id], read.get(id))
    for owner_session, packet_id, owner, seq in core.sent_loads:
        restore_sent(core, owner_session, packet_id, owner, seq, read)
    for b in all_backlogs(core):
        b.owed = dict(sorted(b.owed.items()))  # those counted last may be the oldest
        b.loaded = b.cursor
        b.read_to = 0  # a will may have moved it
        b.live = b.count == len(b.held)
    for s in core.by_sid.values():
        own = s.backlogs()
        elsewhere = [d for d in s.inflight.values() if d.backlog not in own]  # released, or of a group
        s.matched = sum([b.count for b in own]) + len(elsewhere) + sum(ranks.drops(core, s).values())
    resume(core, now)
    for segment in [one for one in core.segments.values() if one.pending == 0]:
        settle(core, segment, now)
    core.half = []
    core.sent_loads = []
    core.needed = {}
    apply_all(core)
    withdraw(core, now)
    for ended in [s for s in core.by_sid.values() if s.expiry_s == 0]:
        end_session(core, ended, now)
    for g in [g for g in core.groups.values() if not g.members]:
        end_group(core, g, now)


def count_half(b: Backlog, segment: Segment, found: list[Entry] | None) -> None:
    if found is None:
        return
    for e in found:
        m = e.message
        if m.seq > b.cursor and m.seq not in b.ahead and target_of(e.targets, b.sid) is not None:
            owe(b, segment, 1, m.size)


def restore_sent(
    core: Core, s: Session, packet_id: int, owner: int, seq: int, read: dict[int, list[Entry] | None]
) -> None:
    b = by_sid(core, owner)
    if b is None:
        return
    for id, found in read.items():
        if not found or not found[0].message.seq <= seq <= found[-1].message.seq:
            continue
        same = [e for e in found if e.message.seq == seq]
        t = target_of(same[0].targets, owner) if same else None
        if t is None and same and b.history is not None:
            t = b.history.target(same[0].message, owner)
            if t is not None:
                owe(b, core.needed[id], 1, same[0].message.size)  # it will not be counted
        if t is None:
            continue
        e = same[0]
        d = delivery(core, e.message, t.qos, t.retain_as_published, t.identifiers, b)
        d.qos = 2
        d.state = SENT
        d.packet_id = packet_id
        s.inflight[packet_id] = d
        if b.session is s:
            b.restored[seq] = d
        else:
            b.held.add(d)
