"""A commit is on disk: what waited for it goes on."""

from mypy_extensions import i64

from gateway.core import acks, earliest, lifecycle, subscribe
from gateway.core.answers import release_acks
from gateway.core.message import Message, PendingAck
from gateway.core.model import Client, Group, Session
from gateway.core.pump import pump
from gateway.core.pump import staged as sent_on
from gateway.core.segments import written
from gateway.core.shared import pump_group, pump_groups
from gateway.core.stall import worked
from gateway.core.state import CONNACKED, HISTORY, IDS, RELEASE, RETAINED, SEND, STAGED_SEND, Core, Waiter


def committed(core: Core, number: int, now: i64) -> None:
    commit = core.flying
    assert commit is not None and commit.number == number
    core.flying = None
    if commit.hangs:
        core.alarms.append("the disk answers again")
    worked(core, commit.whole)
    written(core, commit, now)
    if commit.drained:
        core.engine.recorded = commit.drained
        core.engine.news = True
    touched: list[Client] = []
    last: PendingAck | None = None
    for a in commit.acks:
        a.done = True
        if last is None or a.client is not last.client:
            touched.append(a.client)
        last = a
    for c in touched:
        if not c.closed and not c.closing:
            release_acks(core, c)
    if commit.staged:
        release(core, commit.staged, now)
    for w in commit.waiters:
        go_on(core, w, now)
    core.retry = True


def release(core: Core, staged: list[Message], now: i64) -> None:
    """These are on disk: they may leave."""
    sessions: dict[int, Session] = {}
    groups: dict[int, Group] = {}
    for m in staged:
        m.waits = False
        for t in m.targets:
            s = t.owner
            g = t.group
            if s is not None:
                sessions[s.sid] = s
            elif g is not None:
                groups[g.sid] = g
    for s in sessions.values():
        pump(core, s, now)
    for g in groups.values():
        pump_group(core, g, now)


def go_on(core: Core, w: Waiter, now: i64) -> None:
    c = w.client
    s = w.session
    if w.kind == SEND:
        if c is not None:
            core.answered(c)
            if not c.closed and not c.closing:
                core.send(c, w.data)
    elif w.kind == CONNACKED:
        assert c is not None
        lifecycle.connacked(core, c, w.data, now)
    elif s is not None:
        if w.kind == STAGED_SEND:
            sent_on(core, s, w.value, now)
        elif w.kind == RELEASE:
            acks.released(core, s, w.value, now)
        elif w.kind == RETAINED:
            subscribe.send_retained(core, s, now)
        elif w.kind == HISTORY:
            assert s.backlog is not None
            earliest.count(core, s.backlog, now)
            pump(core, s, now)
        elif w.kind == IDS:
            s.id_end = max(s.id_end, w.value)
            pump(core, s, now)
            pump_groups(core, s, now)
