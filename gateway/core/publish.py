"""What happens to a PUBLISH: alias, route, log, receivers, retained store, acknowledgement."""

from mypy_extensions import i64

from gateway.core.answers import release_acks
from gateway.core.backlog import add, delivery
from gateway.core.commits import commit, enter, pack_targets
from gateway.core.delivery import congest, straight
from gateway.core.hold import keep, may_hold
from gateway.core.ledger import ACL, DISK, QOS0_OFFLINE
from gateway.core.limits import PUSH_BACK
from gateway.core.message import BYTE, Message
from gateway.core.model import Client, PendingAck, Route, Session, Target
from gateway.core.paths import hold_back
from gateway.core.pump import pump
from gateway.core.queue import deliver0, offer, queue_full
from gateway.core.record import pack_message
from gateway.core.routes import resolve
from gateway.core.shared import dispatch
from gateway.core.state import SEND, Core
from gateway.mqtt.encode import encode_ack
from gateway.mqtt.errors import PacketError, ProtocolError
from gateway.mqtt.packets import PUBACK, PUBCOMP, PUBREC, V5, Ack, Publish
from gateway.mqtt.reasons import (
    NO_MATCHING_SUBSCRIBERS,
    NOT_AUTHORIZED,
    PACKET_IDENTIFIER_NOT_FOUND,
    QUOTA_EXCEEDED,
    RECEIVE_MAXIMUM_EXCEEDED,
    TOPIC_ALIAS_INVALID,
)


def on_publish(core: Core, c: Client, s: Session, p: Publish, now: i64) -> None:
    topic = p.topic
    if p.alias:
        topic = by_alias(core, c, p)
    elif not topic:
        raise ProtocolError("empty topic without an alias")
    if p.subscription_identifiers is not None:
        raise ProtocolError("a client must not send subscription identifiers")  # [MQTT-3.3.4-6]
    route = c.routes.get(topic)
    if route is None or route.generation != core.trie.generation:
        route = resolve(core, c, topic)
    if p.qos == 0:
        if p.retain and not core.error_since and waiting_bytes(core) > core.limits.pending_bytes_max:
            park(core, c, p)
            return
        publish0(core, c, s, route, p, now)
    else:
        publish12(core, c, s, route, p, now)


def by_alias(core: Core, c: Client, p: Publish) -> bytes:
    if p.alias > core.limits.max_topic_alias:
        raise PacketError(TOPIC_ALIAS_INVALID, "topic alias above the maximum")
    if p.topic:
        c.aliases_in[p.alias] = p.topic
        return p.topic
    topic = c.aliases_in.get(p.alias)
    if topic is None:
        raise ProtocolError("unknown topic alias")
    return topic


def message_of(core: Core, route: Route, p: Publish, now: i64) -> Message:
    deadline: i64 = 0
    if p.expiry >= 0:
        deadline = now + p.expiry * 1000
    elif core.limits.message_expiry_s:
        deadline = now + core.limits.message_expiry_s * 1000
    return Message(route.topic, p.payload, p.qos, p.retain, p.props, deadline)


def publish0(core: Core, c: Client, s: Session, route: Route, p: Publish, now: i64) -> None:
    """QoS 0: the frame goes on as it came wherever versions and options allow."""
    ledger = core.ledger
    ledger.received_qos0 += 1
    ledger.received_bytes_qos0 += len(p.frame) - p.body
    if p.retain or p.alias or route.groups or core.limits.upgrade_qos or route.topic[:1] == b"$":
        publish0_other(core, s, route, p, now)
        return
    frame = p.frame
    size: i64 = len(frame)
    version: i64 = 5 if c.version == V5 else 4
    high: i64 = core.limits.out_high_bytes
    m: Message | None = None
    sent = 0
    for t in route.targets:
        o = t.owner
        assert o is not None
        k = o.client
        if k is not None and t.plain and k.quick == version:
            k.out.append(frame)
            k.out_bytes += size
            if k.out_bytes > high:
                congest(k)
            if not k.in_sends:
                if k.buffer:
                    hold_back(core, k, now)
                else:
                    k.in_sends = True
                    core.sends.append(k)
            sent += 1
        elif o is not s or not t.no_local:
            if m is None:
                m = message_of(core, route, p, now)
            deliver_low(core, o, t, m, now)
    if sent:
        ledger.sent_qos0 += sent
        ledger.sent_bytes_qos0 += (len(frame) - p.body) * sent
    elif not route.targets:
        ledger.no_subscriber += 1


def publish0_other(core: Core, s: Session, route: Route, p: Publish, now: i64) -> None:
    if route.topic[:1] == b"$" and forbidden(route):
        core.ledger.drop(0, ACL, 1)
        return
    m = message_of(core, route, p, now)
    if p.retain:
        if p.payload and must_wait(core):
            core.ledger.drop(0, DISK, 1)  # as QoS 0 it may be given up: then none is retained [MQTT-3.3.1-5]
            forget_retained(core, route)
        else:
            retain(core, route, m)
        core.lazy(now)
    if not deliver_all(core, route, m, s, False, now):
        core.ledger.no_subscriber += 1


def forbidden(route: Route) -> bool:
    """Clients do not publish what the broker says of itself."""
    return route.name.startswith("$SYS/") or route.name == "$SYS"


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


def goes_on(core: Core, route: Route, p: Publish) -> bool:
    """The store fails, but this one needs no disk as long as its receivers are prompt."""
    return core.error_since != 0 and p.qos == 1 and not p.retain and may_hold(core, route.durable)


def give_up(core: Core, c: Client, s: Session, p: Publish) -> None:
    """The disk has failed for too long: v5 is told, 3.1.1 is closed so that it sends again."""
    if c.version == V5:
        core.ledger.drop(0, DISK, 1)
        acknowledge(core, c, s, p, False, QUOTA_EXCEEDED)
    else:
        raise PacketError(QUOTA_EXCEEDED, "the disk cannot take it")


def queues_push_back(core: Core, route: Route, p: Publish) -> bool:
    if core.limits.mqueue_policy != PUSH_BACK:
        return False
    for t in route.targets:
        o = t.owner
        if o is not None and not o.durable and queue_full(core, o, len(p.frame)):
            return True
    return False


def park(core: Core, c: Client, p: Publish) -> None:
    """Not taken yet: the driver reads this client no further until it is."""
    c.parked = p
    core.block(c)
    core.parked.append(c)


def publish12(core: Core, c: Client, s: Session, route: Route, p: Publish, now: i64) -> None:
    if p.qos == 2 and p.packet_id in s.awaiting:
        again(core, c, s, p.packet_id)
        return
    limit = core.limits.receive_maximum
    if c.version == V5:
        if c.unacked + len(s.awaiting) >= limit:
            raise PacketError(RECEIVE_MAXIMUM_EXCEEDED, "more in flight than the Receive Maximum")
    elif c.unacked + len(c.recs) >= limit:
        park(core, c, p)  # only what is the broker's to answer: its PUBRELs must still be read
        return
    if route.topic[:1] == b"$" and forbidden(route):
        core.ledger.drop(0, ACL, 1)
        acknowledge(core, c, s, p, False, NOT_AUTHORIZED if c.version == V5 else 0)
        return
    if (route.durable or p.retain) and not goes_on(core, route, p):
        if core.in_trouble(now):
            give_up(core, c, s, p)
            return
        if must_wait(core):
            park(core, c, p)
            return
    if queues_push_back(core, route, p):
        park(core, c, p)
        return
    ledger = core.ledger
    size = len(p.frame) - p.body
    if p.qos == 1:
        ledger.received_qos1 += 1
        ledger.received_bytes_qos1 += size
    else:
        ledger.received_qos2 += 1
        ledger.received_bytes_qos2 += size
    m = message_of(core, route, p, now)
    if p.retain:
        retain(core, route, m)
    elif p.qos == 1 and route.durable:
        publish_kept(core, c, s, route, m, p.packet_id, now)
        return
    matched = deliver_all(core, route, m, s, False, now)
    reason = 0
    if not matched:
        ledger.no_subscriber += 1
        if c.version == V5:
            reason = NO_MATCHING_SUBSCRIBERS
    acknowledge(core, c, s, p, m.seq != 0 or p.retain, reason)


def publish_kept(core: Core, c: Client, s: Session, route: Route, m: Message, packet_id: int, now: i64) -> None:
    """QoS 1 for durable queues: answered when each has it on disk or has acknowledged it."""
    a = PendingAck(c, PUBACK, packet_id)
    c.acks.append(a)
    c.unacked += 1
    m.ack = a
    deliver_all(core, route, m, s, may_hold(core, route.durable), now)
    if m.seq == 0:  # nobody but its publisher, who does not want it
        a.done = True
        release_acks(core, c)


def deliver_all(core: Core, route: Route, m: Message, s: Session | None, hold: bool, now: i64) -> bool:
    """To every target; into the log when one of them is kept (``hold``: not at once). False when nobody matched."""
    raised = core.limits.upgrade_qos and (m.qos == 0)
    if route.durable and (m.qos > 0 or raised):
        if route.no_local and s is not None:
            own = [t for t in route.durable if not (t.no_local and t.owner is s)]
            if own:
                enter(core, m, own, pack_targets(own))
        else:
            enter(core, m, route.durable, route.key)
        if m.seq:  # before it is delivered: a queue that reads on must find it
            if hold:
                keep(core, m, now)
            else:
                commit(core, m)
    matched = False
    for t in route.targets:
        o = t.owner
        assert o is not None
        if t.no_local and o is s:
            continue
        matched = True
        b = o.backlog
        if b is not None and t.kept and m.seq:
            o.matched += 1
            if straight(core, o, b, m, t, now):
                continue
            add(core, b, m, t)
            if b.ram and o.client is not None:
                pump(core, o, now)
        else:
            deliver_low(core, o, t, m, now)
    for t in route.groups:
        g = t.group
        assert g is not None
        matched = True
        dispatch(core, g, m, t, now)
    return matched


def deliver_low(core: Core, o: Session, t: Target, m: Message, now: i64) -> None:
    """A delivery that needs no place in the log: memory sessions, and QoS 0."""
    o.matched += 1
    d = delivery(core, m, t.qos, t.retain_as_published, t.identifiers, None)
    if d.qos == 0:
        if o.client is None:
            if t.kept and core.limits.mqueue_store_qos0_persistent:
                one_kept(core, o, t, m)
            else:
                core.ledger.drop(o.sid, QOS0_OFFLINE, 1)
        else:
            deliver0(core, o, d, now)
    else:
        offer(core, o, d, now)


def one_kept(core: Core, s: Session, t: Target, m: Message) -> None:
    """A copy in the log for this session alone."""
    copy = Message(m.topic, m.payload, m.qos, m.retain, m.props, m.deadline)
    targets = [t]
    enter(core, copy, targets, pack_targets(targets))
    b = s.backlog
    assert b is not None
    commit(core, copy)
    add(core, b, copy, t)


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


def acknowledge(core: Core, c: Client, s: Session, p: Publish, disk: bool, reason: int) -> None:
    """PUBACK or PUBREC, in the order of the PUBLISHes, once what it promises is kept."""
    type = PUBACK
    queue = c.acks
    if p.qos == 2:
        type = PUBREC
        queue = c.recs
        if reason < 0x80:
            if s.durable:
                core.dirty_session(s)
                disk = True
            s.awaiting[p.packet_id] = core.commit.number if disk else 0
    if not disk and not queue:
        if type == PUBACK:
            core.ledger.puback_sent += 1
        else:
            core.ledger.pubrec_sent += 1
        if reason == 0 and type == PUBACK:
            c.out.append(b"\x40\x02")
            c.out.append(BYTE[p.packet_id >> 8])
            c.out.append(BYTE[p.packet_id & 255])
            c.out_bytes += 4
            core.touch(c)
        else:
            core.send(c, encode_ack(type, p.packet_id, reason, c.version))
        return
    a = PendingAck(c, type, p.packet_id)
    a.reason = reason
    queue.append(a)
    if type == PUBACK:
        c.unacked += 1
    if disk:
        core.commit.acks.append(a)
        core.commit.urgent = True
    else:
        a.done = True


def again(core: Core, c: Client, s: Session, packet_id: int) -> None:
    """A QoS 2 PUBLISH that came before: PUBREC again, delivered no second time."""
    number = s.awaiting[packet_id]
    a = PendingAck(c, PUBREC, packet_id)
    c.recs.append(a)
    flying = core.flying
    if number > core.durable_commit:
        if flying is not None and number == flying.number:
            flying.acks.append(a)
        else:
            core.commit.acks.append(a)
    else:
        a.done = True
        release_acks(core, c)


def on_pubrel(core: Core, c: Client, s: Session, p: Ack) -> None:
    """PUBCOMP after the commit that removes the id; an unknown id is answered too [MQTT-4.3.3]."""
    core.ledger.pubrel_received += 1
    core.ledger.pubcomp_sent += 1
    if p.packet_id not in s.awaiting:
        reason = PACKET_IDENTIFIER_NOT_FOUND if c.version == V5 else 0
        unknown = encode_ack(PUBCOMP, p.packet_id, reason, c.version)
        if s.durable and (s.dirty or core.flying is not None):
            core.wait(SEND, c, None, 0, unknown)  # its removal may be under way, for a connection before
        else:
            core.send(c, unknown)
        return
    del s.awaiting[p.packet_id]
    answer = encode_ack(PUBCOMP, p.packet_id, 0, c.version)
    if s.durable:
        core.dirty_session(s)
        core.wait(SEND, c, None, 0, answer)
    else:
        core.send(c, answer)
