"""Shared subscriptions: each message to one member; durable as soon as one member is.

A durable group has its own queue in the log and members take from it, so a message
that a memory member never acknowledged is still there for the others.
"""

from mypy_extensions import i64

from gateway.core.backlog import add, delivery, give_back, online, pop, put_back, settle, take, unload
from gateway.core.delivery import drop, start, write
from gateway.core.ledger import EXPIRED, QOS0_OFFLINE, QUEUE_FULL, SHARED_QOS2, TOO_LARGE
from gateway.core.limits import HASH_TOPIC
from gateway.core.members import next_pair, pick
from gateway.core.message import Message
from gateway.core.model import SENT, Client, Delivery, Group, Session, Target
from gateway.core.queue import deliver0, offer
from gateway.core.readahead import refill
from gateway.core.state import Core


def adapt(core: Core, g: Group, s: Session, d: Delivery) -> None:
    """The member's own subscription decides QoS, retain flag and identifier."""
    options = g.options[s.sid]
    s.matched += 1
    m = d.message
    qos: i64 = options.qos
    d.qos = max(m.qos, qos) if core.limits.upgrade_qos else min(m.qos, qos)
    d.retain = m.retain and options.retain_as_published
    d.identifiers = [options.identifier] if options.identifier else None


def dispatch(core: Core, g: Group, m: Message, t: Target, now: i64) -> None:
    """A message that matched the group; in the log already when the group is durable and QoS > 0."""
    b = g.backlog
    if b is not None and m.seq:
        add(core, b, m, t)
        pump_group(core, g, now)
        return
    s = pick(core, g, m, m.qos > 0)
    if s is None:
        s = pick(core, g, m, False)
    if s is None:
        core.ledger.drop(g.sid, QOS0_OFFLINE if m.qos == 0 else QUEUE_FULL, 1)
        return
    d = delivery(core, m, 2, False, None, None)
    d.group = g
    adapt(core, g, s, d)
    if d.qos == 0:
        deliver0(core, s, d, now)
    else:
        offer(core, s, d, now)


def pump_group(core: Core, g: Group, now: i64) -> None:
    b = g.backlog
    if b is None or not online(b):
        return
    while True:
        while b.ram:
            d = b.ram.head()
            if d.message.deadline and d.message.deadline < now:
                pop(b)
                core.ledger.drop(g.sid, EXPIRED, 1)
                settle(core, b, d, now)
                continue
            if d.message.waits:
                return
            pair = next_pair(core, g, b)
            c: Client | None = pair[1].client if pair is not None else None
            if pair is None or c is None:
                if core.limits.shared_strategy == HASH_TOPIC and not b.at_end() and refill(core, b, True):
                    continue  # there may be some for others behind those whose member has no room
                return
            d, s = pair
            adapt(core, g, s, d)
            take(b, d)
            if d.qos == 0:
                if write(core, c, d, False, now):
                    s.settled += 1
                    settle(core, b, d, now)
                else:
                    drop(core, s, d, TOO_LARGE, now)
            elif not start(core, s, c, d, now):
                s.matched -= 1
                put_back(b, d)
                return
        if b.at_end():
            return
        if not refill(core, b):
            return


def pump_groups(core: Core, s: Session, now: i64) -> None:
    for g in s.groups:
        if g.backlog is not None and g.backlog.count:
            pump_group(core, g, now)


def regroup(core: Core, g: Group, now: i64) -> None:
    """A member has gone, or the strategy is another: what waited for one may be for others now."""
    b = g.backlog
    if b is None:
        return
    if not online(b):
        unload(core, b)
    elif not core.stopping:
        pump_group(core, g, now)


def hand_over(core: Core, s: Session, now: i64) -> None:
    """A session ends: what it held of its groups goes to another member.

    QoS 2 that was sent goes to nobody else [MQTT-4.8.2-5].
    """
    back: list[Delivery] = []
    for d in list(s.inflight.values()):
        g = d.group
        if g is None:
            continue
        packet_id: int = d.packet_id
        del s.inflight[packet_id]
        if d.qos == 2 and d.state == SENT:
            drop(core, s, d, SHARED_QOS2, now)
        elif d.state <= SENT:
            back.append(d)
    for queue in [s.queue, *[r.queue for r in s.ranks or []]]:
        mine = [d for d in queue if d.group is None]
        back.extend([d for d in queue if d.group is not None])
        queue.clear()
        for d in mine:
            queue.append(d)
    for d in back:
        g = d.group
        assert g is not None
        d.counted = False
        if d.backlog is not None:
            give_back(d.backlog, d)
        else:
            d.state = 0
            other = pick(core, g, d.message, False) if g.members else None
            if other is None:
                core.ledger.drop(g.sid, QUEUE_FULL, 1)
            else:
                adapt(core, g, other, d)
                offer(core, other, d, now)
    for d in back:
        g = d.group
        if g is not None and g.members:
            pump_group(core, g, now)
