"""What happens to a PUBLISH: alias, route, log, receivers, retained store, acknowledgement."""

from mypy_extensions import i64

from gateway.core import delayed
from gateway.core.answers import release_acks
from gateway.core.births import keep_birth
from gateway.core.commits import sid_of
from gateway.core.delivery import congest
from gateway.core.fanout import deliver_all, deliver_kept, deliver_low, deliver_rest, forget_retained, retain
from gateway.core.hold import commit_all, may_hold
from gateway.core.ingest import LIVE, REPEATED, arrive, command_deadline, enclosed
from gateway.core.ledger import ACL, DELAYED, DISK, LOOP
from gateway.core.limits import PUSH_BACK
from gateway.core.message import Message, PendingAck
from gateway.core.model import Client, Route, Session
from gateway.core.nodes import COMMAND, DBIRTH, Source
from gateway.core.origin import is_from
from gateway.core.paths import hold_back
from gateway.core.queue import queue_full
from gateway.core.refusal import too_large
from gateway.core.routes import resolve
from gateway.core.seen import names_each
from gateway.core.stall import must_wait, waiting_bytes
from gateway.core.state import Core
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
    if core.uplinks.mark and came_round(core, c, s, p):
        return
    route = c.routes.get(topic)
    if route is None or route.generation != core.trie.generation:
        route = resolve(core, c, topic)
        if c.seen is not None:
            c.seen.published(route.name, p, names_each(core.seen))
    if p.qos:
        publish12(core, c, s, route, p, now)
        if p.qos == 2 and core.limits.await_rel_ms and p.packet_id in s.awaiting:
            s.awaiting_since.setdefault(p.packet_id, int(now))
    elif p.retain or p.alias or route.special:
        publish0_other(core, c, s, route, p, now)
        c.kept0 = core.commit.number
    else:
        core.ledger.received_qos0 += 1
        core.ledger.received_bytes_qos0 += len(p.frame) - p.body
        publish0(core, c, s, route, p, False, now)


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


def came_round(core: Core, c: Client, s: Session, p: Publish) -> bool:
    """Whether it was handed on by this gateway before, or is too large: it is acknowledged, and given to nobody."""
    remote = c.remote
    if remote is not None:
        remote.received += 1
    if not p.cut and (not p.props or not is_from(p.props, core.uplinks.mark)):
        return False
    if p.qos == 2 and p.packet_id in s.awaiting:
        again(core, c, s, p.packet_id)
        return True
    if p.cut and remote is not None:
        too_large(core, remote, p)
    else:
        core.ledger.drop(0, LOOP, 1)
    if p.qos:
        acknowledge(core, c, s, p, False, 0)
    return True


def message_of(core: Core, route: Route, p: Publish, now: i64) -> Message:
    deadline: i64 = 0
    if p.expiry >= 0:
        deadline = now + p.expiry * 1000
    elif core.limits.message_expiry_s:
        deadline = now + core.limits.message_expiry_s * 1000
    if route.source is not None:
        deadline = command_deadline(core, route, deadline, now)
    return Message(route.topic, p.payload, p.qos, p.retain, p.props, deadline)


def publish0(core: Core, c: Client, s: Session, route: Route, p: Publish, kept_have_it: bool, now: i64) -> None:
    """QoS 0: the frame goes on as it came wherever versions and options allow."""
    ledger = core.ledger
    frame = p.frame
    version: i64 = 5 if c.version == V5 else 4
    high: i64 = core.limits.out_high_bytes
    m: Message | None = None
    sent = 0
    for t in route.targets:
        o = t.owner
        assert o is not None
        if kept_have_it and t.kept:
            continue
        k = o.client
        if k is not None and t.plain and k.quick == version:
            out = k.out
            out.write(frame)
            if out.size > high:
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
    if m is not None:
        c.kept0 = core.commit.number
    if sent:
        ledger.sent_qos0 += sent
        ledger.sent_bytes_qos0 += (len(frame) - p.body) * sent
    elif not route.targets:
        ledger.no_subscriber += 1


def publish0_other(core: Core, c: Client, s: Session, route: Route, p: Publish, now: i64) -> None:
    source = route.source
    ingested = source is not None and source.kind < COMMAND
    if must_wait(core) and pushes_back(core, route, p, ingested, now):
        park(core, c, p)
        return
    core.ledger.received_qos0 += 1
    core.ledger.received_bytes_qos0 += len(p.frame) - p.body
    if route.closed:
        remote = c.remote
        if remote is not None and route.name == remote.login.beat_topic:
            core.uplinks.came_back(remote.login.uplink, p.payload)
        else:
            closed0(core, s, route, p, now)
        return
    m = message_of(core, route, p, now)
    if p.retain:
        if p.payload and must_wait(core):
            core.ledger.drop(0, DISK, 1)  # as QoS 0 it may be given up: then none is retained [MQTT-3.3.1-5]
            forget_retained(core, route)
        else:
            retain(core, route, m)
        core.lazy(now)
    if source is not None and ingested:
        ingest0(core, c, s, route, source, p, m, now)
    elif p.retain or p.alias or route.groups or route.renamed or core.limits.upgrade_qos:
        if not deliver_all(core, route, m, s, False, now):
            core.ledger.no_subscriber += 1
    else:
        publish0(core, c, s, route, p, False, now)


def pushes_back(core: Core, route: Route, p: Publish, ingested: bool, now: i64) -> bool:
    """The disk takes nothing now: whether a QoS 0 publish waits for it, since it cannot be refused."""
    if ingested and route.durable:
        return not core.in_trouble(now)
    return (p.retain or route.delayed) and not core.error_since and waiting_bytes(core) > core.limits.pending_bytes_max


def ingest0(core: Core, c: Client, s: Session, route: Route, source: Source, p: Publish, m: Message, now: i64) -> None:
    """A node's message of QoS 0: the log keeps it as QoS 1 for persistent sessions, the others get it as it is."""
    late = arrive(core, c, source, m.payload, 0, now)
    id = core.next_seq
    if route.durable:
        if must_wait(core):
            lose(core, route, s)
        else:
            raised = enclosed(core, m, late, now)
            hold = core.limits.bridge_elide and may_hold(core, route.durable)
            deliver_kept(core, route, raised, s, hold, now)
    if p.retain or p.alias or route.groups or route.renamed or core.limits.upgrade_qos:
        deliver_rest(core, route, m, s, now)
        if not route.targets and not route.groups:
            core.ledger.no_subscriber += 1
    else:
        publish0(core, c, s, route, p, True, now)
    after_birth(core, source, m.payload, late, id, now)


def after_birth(core: Core, source: Source, payload: bytes, late: i64, id: i64, now: i64) -> None:
    if late == LIVE and source.kind <= DBIRTH:
        keep_birth(core, source, payload, id, now)


def lose(core: Core, route: Route, s: Session) -> None:
    """QoS 0 that the disk does not take is lost for the sessions that should have it from there, and counted."""
    for t in route.durable:
        o = t.owner
        if o is not None:
            if t.no_local and o is s:
                continue
            o.matched += 1
        core.ledger.drop(sid_of(t), DISK, 1)


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
        if o is not None and not o.durable and queue_full(core, o, route.topic, len(p.frame)):
            return True
    return False


def park(core: Core, c: Client, p: Publish) -> None:
    """Not taken yet: the driver reads this client no further until it is."""
    c.parked = p
    c.paid = c.meter is not None
    core.block(c)
    core.parked.append(c)


def enters(core: Core, c: Client, s: Session, route: Route, p: Publish, now: i64) -> bool:
    """Whether a QoS 1 or 2 publish is taken now; else it is answered, or parked until it can be."""
    if p.qos == 2 and p.packet_id in s.awaiting:
        again(core, c, s, p.packet_id)
        return False
    limit = core.limits.receive_maximum
    if c.version == V5:
        if c.unacked + len(s.awaiting) >= limit:
            raise PacketError(RECEIVE_MAXIMUM_EXCEEDED, "more in flight than the Receive Maximum")
    elif c.unacked + len(c.recs) >= limit:
        park(core, c, p)  # only what is the broker's to answer: its PUBRELs must still be read
        return False
    if route.closed:
        closed12(core, c, s, route, p, now)
        return False
    if (route.durable or p.retain) and not goes_on(core, route, p):
        if core.in_trouble(now):
            give_up(core, c, s, p)
            return False
        if must_wait(core):
            park(core, c, p)
            return False
    if queues_push_back(core, route, p):
        park(core, c, p)
        return False
    return True


def closed0(core: Core, s: Session, route: Route, p: Publish, now: i64) -> None:
    """A topic that is not for clients, or that asks to wait."""
    reason = delayed.refusal(core, route, p)
    if reason == NOT_AUTHORIZED:
        core.ledger.drop(0, ACL, 1)
    elif reason:
        core.ledger.drop(0, DELAYED, 1)
    elif must_wait(core):
        core.ledger.drop(0, DISK, 1)
    else:
        delayed.keep(core, s, route, p, now)


def closed12(core: Core, c: Client, s: Session, route: Route, p: Publish, now: i64) -> None:
    """The same; who cannot be told that there is no room is closed, so that it sends again."""
    reason = delayed.refusal(core, route, p)
    if not reason:
        if core.in_trouble(now):
            give_up(core, c, s, p)
            return
        if must_wait(core):
            park(core, c, p)
            return
        received12(core, p)
        delayed.keep(core, s, route, p, now)
        acknowledge(core, c, s, p, True, 0)
        return
    core.ledger.drop(0, ACL if reason == NOT_AUTHORIZED else DELAYED, 1)
    if reason == QUOTA_EXCEEDED and c.version != V5:
        raise PacketError(QUOTA_EXCEEDED, "more delayed messages than may wait")
    acknowledge(core, c, s, p, False, reason if c.version == V5 else 0)


def received12(core: Core, p: Publish) -> None:
    ledger = core.ledger
    size = len(p.frame) - p.body
    if p.qos == 1:
        ledger.received_qos1 += 1
        ledger.received_bytes_qos1 += size
    else:
        ledger.received_qos2 += 1
        ledger.received_bytes_qos2 += size


def publish12(core: Core, c: Client, s: Session, route: Route, p: Publish, now: i64) -> None:
    if not enters(core, c, s, route, p, now):
        return
    received12(core, p)
    m = message_of(core, route, p, now)
    plain = m
    source = route.source
    late: i64 = LIVE
    id = core.next_seq
    if source is not None and source.kind < COMMAND:
        late = arrive(core, c, source, m.payload, p.qos, now)
        if late == REPEATED:
            commit_all(core)  # the first one may be among them, and the answer says that it is kept
            acknowledge(core, c, s, p, True, 0)
            return
        if route.durable:
            m = enclosed(core, m, late, now)
    if p.retain:
        retain(core, route, plain)
    elif p.qos == 1 and route.durable:
        publish_kept(core, c, s, route, m, p.packet_id, now)
        if source is not None:
            after_birth(core, source, plain.payload, late, id, now)
        return
    matched = deliver_all(core, route, m, s, False, now)
    reason = 0
    if not matched:
        core.ledger.no_subscriber += 1
        if c.version == V5 and c.remote is None:  # a client does not say so [MQTT-3.4.2-1]
            reason = NO_MATCHING_SUBSCRIBERS
    acknowledge(core, c, s, p, m.seq != 0 or p.retain, reason)
    if source is not None:
        after_birth(core, source, plain.payload, late, id, now)


def publish_kept(core: Core, c: Client, s: Session, route: Route, m: Message, packet_id: int, now: i64) -> None:
    """QoS 1 for durable queues: answered when each has it on disk or has acknowledged it."""
    m.client = c
    m.packet_id = packet_id
    m.answers = True
    c.acks.append(m)
    c.unacked += 1
    deliver_all(core, route, m, s, may_hold(core, route.durable), now)
    if m.seq == 0:  # nobody but its publisher, who does not want it
        m.done = True
        release_acks(core, c)


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
            c.out.write_puback(p.packet_id)
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
            core.answer_later(c, unknown)  # its removal may be under way, for a connection before
        else:
            core.send(c, unknown)
        return
    del s.awaiting[p.packet_id]
    if s.awaiting_since:
        s.awaiting_since.pop(p.packet_id, 0)
    answer = encode_ack(PUBCOMP, p.packet_id, 0, c.version)
    if s.durable:
        core.dirty_session(s)
        core.answer_later(c, answer)
    else:
        core.send(c, answer)
