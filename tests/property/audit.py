"""What must hold of the core's books at any moment, recounted from the store and the open commits."""

from gateway.core.backlog import all_backlogs
from gateway.core.commits import left, sid_of
from gateway.core.model import RELEASING, STAGED, Backlog, Delivery
from gateway.core.ranks import drops, in_memory
from gateway.core.readahead import target_of
from gateway.core.record import Entry
from gateway.core.state import Core
from tests.memory import DictStore, entries

Place = tuple[int, int, int]  # position, segment, size


def log_of(core: Core, store: DictStore) -> dict[int, list[Place]]:
    """For each sid what the log holds for it, settled or not."""
    found: dict[int, list[Place]] = {}
    for id, segment in core.segments.items():
        for part in range(id, segment.upto + 1):
            if part in store.segments:
                for e in entries(store.segments[part][2]):
                    for sid in [stored.sid for stored in e.targets] + reached_back(core, e):
                        found.setdefault(sid, []).append((int(e.message.seq), id, int(e.message.size)))
    waiting = [*core.commit.messages, *core.hold]
    if core.flying is not None and core.flying.segment is not None and core.flying.segment.id not in store.segments:
        waiting += core.flying.messages
    for m in waiting:
        id = m.segment.id if m.segment is not None else 0
        for t in left(m):
            found.setdefault(sid_of(t), []).append((int(m.seq), id, int(m.size)))
    return found


def reached_back(core: Core, e: Entry) -> list[int]:
    """Those that were not there when it was written, but began with the earliest."""
    found = []
    for b in core.apps.histories:
        h = b.history
        if h is not None and not h.counting and target_of(e.targets, b.sid) is None and h.target(e.message, b.sid):
            found.append(b.sid)
    return found


def audit(core: Core, store: DictStore) -> None:
    log = log_of(core, store)
    pending: dict[int, int] = {}
    for b in all_backlogs(core):
        audit_backlog(core, b, log.get(b.sid, []))
        for id, n in b.owed.items():
            pending[id] = pending.get(id, 0) + n
    for id, segment in core.segments.items():
        assert segment.pending == pending.get(id, 0), f"segment {id} pends {segment.pending}, owed {pending.get(id, 0)}"
        assert segment.pending or not segment.committed, f"segment {id} is kept for nobody"
    audit_sessions(core)
    assert len(core.timers) <= 64 + 4 * (len(core.by_sid) + len(core.segments))


def audit_backlog(core: Core, b: Backlog, places: list[Place]) -> None:
    who = f"queue {b.sid}"
    in_ram = {int(d.message.seq) for d in b.ram if d.state < RELEASING}
    flying = {int(d.message.seq): d for d in b.held}
    assert len(flying) == len(b.held), f"{who}: twice in flight"
    mine = set(flying) | in_ram | set(b.restored)
    assert not set(flying) & in_ram, f"{who}: in flight and waiting"
    assert len([d for d in b.ram if d.state < RELEASING]) == len(in_ram), f"{who}: twice in RAM"
    seqs = [int(d.message.seq) for d in b.ram]
    assert seqs == sorted(seqs), f"{who}: out of order {seqs}"
    assert not mine & b.ahead, f"{who}: settled but still there: {mine & b.ahead}"
    assert b.ram_bytes == sum(int(d.message.size) for d in b.ram), f"{who}: bytes in RAM"
    for seq in in_ram:
        assert seq <= b.loaded, f"{who}: {seq} in RAM behind the window's end {b.loaded}"
    count = 0
    size = 0
    owed: dict[int, int] = {}
    placed = {seq for seq, _, _ in places}
    for seq, id, n in places:
        if seq in mine or (not b.live and seq > b.loaded and seq not in b.ahead):
            assert seq > b.cursor, f"{who}: {seq} is before the cursor {b.cursor}"
            count += 1
            size += n
            if id:
                owed[id] = owed.get(id, 0) + 1
    for seq, d in flying.items():
        segment = d.message.segment
        if seq not in placed and (segment is None or segment.id not in core.segments):  # given up with its commit
            count += 1
            size += int(d.message.size)
            if segment is not None:
                owed[segment.id] = owed.get(segment.id, 0) + 1
    assert b.count == count, f"{who}: counts {b.count}, the log says {count}"
    assert b.bytes == size, f"{who}: {b.bytes} bytes, the log says {size}"
    assert b.owed == owed, f"{who}: owed {b.owed}, the log says {owed}"
    assert list(b.owed) == sorted(b.owed), f"{who}: segments out of order {list(b.owed)}"
    assert len(b.ahead) <= len(places) + 64, f"{who}: {len(b.ahead)} positions ahead"
    if b.live and not b.reading:
        assert not b.restored


def audit_sessions(core: Core) -> None:
    unsent = sum(int(c.unsent) for c in core.clients)
    assert core.waiting == unsent + sum(int(s.queue_bytes) for s in core.by_sid.values())
    for s in core.by_sid.values():
        counted = [d for d in s.inflight.values() if d.counted]
        assert s.used == len(counted), f"{s.client_id}: {s.used} slots, {len(counted)} in use"
        assert s.staged == len([d for d in s.inflight.values() if d.state == STAGED]), s.client_id
        assert len(set(s.resend)) == len(s.resend), f"{s.client_id}: to be sent again twice"
        waiting = in_memory(s)
        assert s.ranked == sum(len(r.queue) + len(r.queue0) for r in s.ranks or []), f"{s.client_id}: {s.ranked} ranked"
        assert s.queue_bytes == sum(int(d.message.size) for d in waiting), s.client_id
        here = len(s.inflight) + len(waiting)
        dying = [one for one in [*core.uplinks.dead, *core.uplinks.buried] if one.session is s]
        for b in s.backlogs():
            here += int(b.count) - len(b.held)
            here += len([one for one in dying if one.delivery.backlog is b and one.delivery.held])
            here -= len([d for d in s.inflight.values() if d.backlog is b and not_started(d)])
        lost = int(s.matched) - int(s.settled) - here - sum(drops(core, s).values())
        assert lost == 0, f"{s.client_id}: {lost} messages are nowhere"


def not_started(d: Delivery) -> bool:
    """In flight before a crash, and still among what waits."""
    return d.state < RELEASING and not d.held


def audit_idle(core: Core, store: DictStore) -> None:
    """All was delivered and committed: nothing is left behind."""
    assert not core.segments, f"segments kept for nobody: {list(core.segments)}"
    assert not store.segments, f"segments on disk for nobody: {list(store.segments)}"
    assert not core.hold
    assert not core.parked
    for s in core.by_sid.values():
        assert not s.inflight, f"{s.client_id}: in flight {list(s.inflight)}"
        assert not in_memory(s), s.client_id
        assert not s.awaiting, s.client_id
    for b in all_backlogs(core):
        assert b.count == 0
        assert not b.held
        assert not b.restored
        assert not b.ram
