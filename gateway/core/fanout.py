"""From a message to its targets: into the log for those that are kept, to the others at once; the retained store."""

from mypy_extensions import i64

from gateway.core.backlog import add, delivery, settle_place
from gateway.core.commits import commit, enter, pack_targets
from gateway.core.delivery import drop, straight
from gateway.core.hold import keep
from gateway.core.ledger import DISK, QUEUE_FULL
from gateway.core.message import Message
from gateway.core.model import Backlog, Route, Session, Target
from gateway.core.pump import pump
from gateway.core.queue import deliver0, offer
from gateway.core.ranks import lane
from gateway.core.record import pack_message
from gateway.core.shared import dispatch
from gateway.core.stall import must_wait
from gateway.core.state import Core


def deliver_all(core: Core, route: Route, m: Message, s: Session | None, hold: bool, now: i64) -> bool:
    """To every target; into the log when one of them is kept (``hold``: not at once). False when nobody matched."""
    if route.durable and (m.qos > 0 or core.limits.upgrade_qos):
        into_log(core, route, m, s, hold, now)
    matched = False
    for t in route.targets:
        o = t.owner
        assert o is not None
        if t.no_local and o is s:
            continue
        matched = True
        b = t.backlog
        if b is not None and t.kept and m.seq:
            join(core, o, b, m, t, now)
        else:
            deliver_low(core, o, t, m, now)
    for t in route.groups:
        g = t.group
        assert g is not None
        matched = True
        dispatch(core, g, m, t, now)
    return matched


def into_log(core: Core, route: Route, m: Message, s: Session | None, hold: bool, now: i64) -> None:
    """Give it its position, before it is delivered: a queue that reads on must find it."""
    if route.no_local and s is not None:
        own = [t for t in route.durable if not (t.no_local and t.owner is s)]
        if not own:
            return
        enter(core, m, own, pack_targets(own))
    else:
        enter(core, m, route.durable, route.key)
    if hold and (not m.waits or m.seq < core.nodes.ids_end):
        m.waits = False
        keep(core, m, now)
    else:
        commit(core, m)
        if m.waits:
            core.commit.staged.append(m)


def join(core: Core, o: Session, b: Backlog, m: Message, t: Target, now: i64) -> None:
    o.matched += 1
    if o.full_bytes and is_full(o, m):
        turn_away(core, b, m, now)
    elif not straight(core, o, b, m, t, now):
        add(core, b, m, t)
        if b.ram and o.client is not None:
            pump(core, o, now)
        if t.qos == 0 and b.count:
            hold_zero(o)


def is_full(o: Session, m: Message) -> bool:
    return sum([b.bytes for b in o.backlogs()]) + m.size > o.full_bytes


def turn_away(core: Core, b: Backlog, m: Message, now: i64) -> None:
    """It is in the log already, maybe for others: for this queue it is settled at once, and counted."""
    b.count += 1
    b.bytes += m.size
    if b.live:
        b.loaded = m.seq
    core.ledger.drop(b.sid, QUEUE_FULL, 1)
    settle_place(core, b, m, False, now)


def deliver_kept(core: Core, route: Route, m: Message, s: Session | None, hold: bool, now: i64) -> None:
    """Only to those that get it from the log."""
    into_log(core, route, m, s, hold, now)
    if m.seq:
        for t in m.targets:
            o = t.owner
            g = t.group
            if o is not None:
                b = t.backlog
                assert b is not None
                join(core, o, b, m, t, now)
            elif g is not None:
                dispatch(core, g, m, t, now)


def deliver_rest(core: Core, route: Route, m: Message, s: Session | None, now: i64) -> None:
    """To all but those that get it from the log."""
    for t in route.targets:
        o = t.owner
        assert o is not None
        if not t.kept and not (t.no_local and o is s):
            deliver_low(core, o, t, m, now)
    for t in route.groups:
        g = t.group
        if g is not None and not t.kept:
            dispatch(core, g, m, t, now)


def deliver_low(core: Core, o: Session, t: Target, m: Message, now: i64) -> None:
    """A delivery that needs no place in the log: memory sessions, and QoS 0."""
    o.matched += 1
    d = delivery(core, m, t.qos, t.retain_as_published, t.identifiers, None)
    if d.qos == 0:
        if t.kept and core.limits.mqueue_store_qos0_persistent and held_up(o):
            if must_wait(core):  # nobody can be held back for it
                drop(core, o, d, DISK, now)
                return
            zero = Target(o, None, t.qos, False, t.retain_as_published, t.identifiers)
            zero.backlog = lane(core, o, m.topic, True)
            one_kept(core, zero, m)
            hold_zero(o)
        else:
            deliver0(core, o, d, now)
    else:
        offer(core, o, d, now)


def hold_zero(s: Session) -> None:
    """QoS 0 waits on disk, be it that it must be read first: what comes now must not pass it."""
    c = s.client
    if c is not None and not c.behind0:
        c.behind0 = True
        c.set_quick()


def held_up(s: Session) -> bool:
    """QoS 0 cannot leave now."""
    c = s.client
    return c is None or not c.connected or c.congested or c.behind0


def one_kept(core: Core, t: Target, m: Message) -> i64:
    """A copy in the log for this target alone; its position."""
    copy = Message(m.topic, m.payload, m.qos, m.retain, m.props, m.deadline)
    copy.single = True
    targets = [t]
    enter(core, copy, targets, pack_targets(targets))
    b = t.backlog
    assert b is not None
    commit(core, copy)
    add(core, b, copy, t)
    return copy.seq


def retain(core: Core, route: Route, m: Message) -> None:
    """The last message of the topic; an empty payload clears and is itself not kept [MQTT-3.3.1-6, -7]."""
    if m.payload:
        core.retained.set(route.name, m)
        core.commit.retained[route.name] = pack_message(m)
        core.commit.bytes += m.size
    else:
        forget_retained(core, route)


def forget_retained(core: Core, route: Route) -> None:
    core.retained.remove(route.name)
    core.commit.retained[route.name] = None
