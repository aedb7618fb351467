"""Sessions of APPLICATIONs that read from an engine: its messages come into memory, and each that is settled is told.

What was not settled when the connection ends is forgotten here: the engine still has it.
"""

from mypy_extensions import i64

from gateway.core.backlog import delivery
from gateway.core.engine import CLOSED, ENDED, FILTERS, KNOWN, OPENED, Arrived
from gateway.core.fifo import Fifo
from gateway.core.limits import UNSET
from gateway.core.message import Message
from gateway.core.model import Backlog, Delivery, Outer, Session, Target
from gateway.core.pump import pump
from gateway.core.queue import deliver0
from gateway.core.ranks import of
from gateway.core.routes import target
from gateway.core.rules import of_session, rule_of
from gateway.core.state import Core
from gateway.core.topics import Subscription, matches
from gateway.mqtt.packets import Connect


def filters_of(core: Core, s: Session) -> list[str]:
    """Shared subscriptions have a queue of their own, here."""
    return [filter for filter in s.subscriptions if filter not in core.groups]


def settle_type(core: Core, s: Session) -> None:
    """It reads from the engine exactly while there is one and its rule makes it an APPLICATION."""
    wanted = core.engine.on and s.uplink is None and of_session(core, s) is not None
    if wanted == (s.outer is not None):
        return
    if wanted:
        b = Backlog(s.sid, 0)
        b.session = s
        b.ended = True  # as far as the log here goes
        b.outer = True
        s.outer = Outer(b)
    else:
        withdraw(core, s)
        s.outer = None
        core.engine.tell(ENDED, s.client_id, [])
    core.trie.generation += 1


def known(core: Core, s: Session) -> None:
    """At the start."""
    settle_type(core, s)
    if s.outer is not None and s.client is None:
        core.engine.tell(KNOWN, s.client_id, filters_of(core, s))


def came(core: Core, s: Session, p: Connect) -> None:
    """It has a connection."""
    settle_type(core, s)
    o = s.outer
    if o is not None:
        b = s.backlog
        o.behind = b is not None and b.count > 0
        core.engine.tell(OPENED, s.client_id, filters_of(core, s), p.clean_start)
    elif p.clean_start and s.backlog is None:
        rule = rule_of(core.limits, s.client_id, s.user or None)
        if rule is not None and rule.application:
            core.engine.tell(ENDED, s.client_id, [], True)


def asked(core: Core, s: Session) -> None:
    """Its subscriptions have changed."""
    core.engine.tell(FILTERS, s.client_id, filters_of(core, s))


def left(core: Core, s: Session) -> None:
    """Its connection has ended."""
    withdraw(core, s)
    core.engine.tell(CLOSED, s.client_id, [])


def ended(core: Core, s: Session) -> None:
    withdraw(core, s)
    s.outer = None
    core.engine.tell(ENDED, s.client_id, [])


def withdraw(core: Core, s: Session) -> None:
    """What came from the engine and is not settled is not there any more; it will come again."""
    o = s.outer
    if o is None or not o.waiting:
        return
    b = o.backlog
    gone = [packet_id for packet_id, d in s.inflight.items() if d.backlog is b]
    for packet_id in gone:
        d = s.inflight.pop(packet_id)
        if d.counted:
            s.used -= 1
    s.queue = without(core, s, s.queue, b)
    for r in s.ranks or []:
        before = len(r.queue)
        r.queue = without(core, s, r.queue, b)
        s.ranked -= before - len(r.queue)
    s.matched -= o.waiting
    o.waiting = 0
    b.held.clear()


def without(core: Core, s: Session, queue: Fifo[Delivery], b: Backlog) -> Fifo[Delivery]:
    kept: Fifo[Delivery] = Fifo()
    for d in queue:
        if d.backlog is b:
            core.queued(s, -d.message.size)
        else:
            kept.append(d)
    return kept


def target_of(core: Core, s: Session, o: Outer, topic: bytes) -> Target | None:
    """How it goes to this session; None when none of its subscriptions asks for it, or it may not have it."""
    if o.generation != core.trie.generation or len(o.targets) > 10_000:
        o.generation = core.trie.generation
        o.targets = {}
    if topic in o.targets:
        return o.targets[topic]
    name = topic.decode()
    subs: list[Subscription] = []
    for filter, sub in s.subscriptions.items():
        if filter not in core.groups and matches(filter, name):
            subs.append(sub)
    rights = s.rights
    found = None if not subs or (rights is not None and rights.withholds(name)) else target(s, None, subs)
    o.targets[topic] = found
    return found


def bring(core: Core, s: Session, arrived: list[Arrived], now: i64) -> None:
    """Messages of the engine for this session, in their order; those it did not ask for are settled at once."""
    o = s.outer
    if o is None:
        return
    b = o.backlog
    settled = core.engine.settled
    for position, topic, payload, qos, retain, props, deadline in arrived:
        t = target_of(core, s, o, topic)
        if t is None:
            settled.append((s.client_id, position))
            continue
        s.matched += 1
        m = Message(topic, payload, qos, retain, props, deadline)
        m.seq = position
        d = delivery(core, m, t.qos, t.retain_as_published, t.identifiers, None)
        if d.qos == 0:
            deliver0(core, s, d, now)
            settled.append((s.client_id, position))
            continue
        d.qos = 1
        d.backlog = b
        o.waiting += 1
        core.queued(s, m.size)
        if s.ranks is None:
            s.queue.append(d)
        else:
            of(core, s, topic).queue.append(d)
            s.ranked += 1
    pump(core, s, now)


def room(core: Core, s: Session, most: i64) -> i64:
    """How many messages of the engine it may be given now; those that wait for it in the log here go first."""
    o = s.outer
    c = s.client
    if o is None or c is None or c.closing or s.queue_bytes >= core.limits.window_bytes:
        return 0
    if o.behind:
        b = s.backlog
        if b is not None and b.count:
            return 0
        o.behind = False
    return max(0, most - o.waiting)


def earliest(core: Core, s: Session) -> bool:
    rule = of_session(core, s)
    if rule is None or rule.earliest == UNSET:
        return core.limits.app_start == 1
    return rule.earliest == 1
