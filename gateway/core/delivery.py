"""From a session to its client: the window, packet ids, the first sending and the repeated one."""

from typing import Final

from mypy_extensions import i64

from gateway.core.backlog import hold, pop, push, refill, settle
from gateway.core.ledger import CONGESTED, EXPIRED, QOS0_OFFLINE, QUEUE_FULL, TOO_LARGE
from gateway.core.limits import DROP_NEWEST, PUSH_BACK
from gateway.core.message import BYTE, Message
from gateway.core.model import (
    APPLICATION,
    BATCH_MAX,
    DEVICE,
    RELEASED,
    SENT,
    STAGED,
    Backlog,
    Client,
    Delivery,
    Session,
    Target,
)
from gateway.core.paths import beyond_limits, gather, gather_in_batch
from gateway.core.state import IDS, STAGED_SEND, Core
from gateway.mqtt.encode import encode_ack, encode_publish
from gateway.mqtt.packets import PUBREL, V5

# a crash skips what is left of a block: thirty in a row must not bring the ids round to those that a client still knows
ID_BLOCK: Final = 2048
ID_SLACK: Final = 1024  # left when the next block is asked for: more than go out during a commit


def write(core: Core, c: Client, d: Delivery, dup: bool, now: i64) -> bool:
    """Put the PUBLISH on the connection; False when it is above the client's Maximum Packet Size [MQTT-3.1.2-24]."""
    m = d.message
    size: i64
    if (
        d.qos == 1
        and not dup
        and not d.retain
        and m.deadline == 0
        and d.identifiers is None
        and not c.alias_out_max
        and not c.max_packet
    ):
        version: int = c.version
        head = m.head(version)
        tail = m.tail(version)
        c.out.append(head)
        c.out.append(BYTE[d.packet_id >> 8])
        c.out.append(BYTE[d.packet_id & 255])
        c.out.append(tail)
        size = len(head) + len(tail) + 2
    else:
        frame = encoded(c, d, dup, now, True)
        size = len(frame)
        if c.max_packet and size > c.max_packet:
            return False
        c.out.append(frame)
    c.out_bytes += size
    if c.out_bytes > core.limits.out_high_bytes:
        congest(c)
    if c.gathers:
        gather(core, c, d, now)
    elif not c.in_sends:
        c.in_sends = True
        core.sends.append(c)
    count_sent(core, d)
    return True


def count_sent(core: Core, d: Delivery) -> None:
    ledger = core.ledger
    size: int = len(d.message.payload)
    if d.qos == 1:
        ledger.sent_qos1 += 1
        ledger.sent_bytes_qos1 += size
    elif d.qos == 0:
        ledger.sent_qos0 += 1
        ledger.sent_bytes_qos0 += size
    else:
        ledger.sent_qos2 += 1
        ledger.sent_bytes_qos2 += size


def encoded(c: Client, d: Delivery, dup: bool, now: i64, sending: bool) -> bytes:
    """The PUBLISH as it goes to this client; a new topic alias stands only when it is ``sending``."""
    m = d.message
    qos: int = d.qos
    packet_id: int = d.packet_id
    version: int = c.version
    if version != V5:
        return encode_publish(version, m.topic, m.payload, qos, d.retain, dup, packet_id, b"")
    expiry: int = -1
    if m.deadline:
        expiry = max(0, (m.deadline - now + 999) // 1000)  # reduced by the time waited [MQTT-3.3.2-6]
    ids = d.identifiers
    topic = m.topic
    alias = 0
    fresh = False
    if c.alias_out_max:
        alias = c.aliases_out.get(topic, 0)
        if alias:
            topic = b""
        elif len(c.aliases_out) < c.alias_out_max:
            alias = len(c.aliases_out) + 1
            fresh = True
    frame = encode_publish(version, topic, m.payload, qos, d.retain, dup, packet_id, m.props, expiry, alias, ids)
    if fresh:
        if c.max_packet and len(frame) > c.max_packet:
            return encode_publish(version, topic, m.payload, qos, d.retain, dup, packet_id, m.props, expiry, 0, ids)
        if sending:
            c.aliases_out[m.topic] = alias
    return frame


def congest(c: Client) -> None:
    if not c.congested and not c.closing:
        c.congested = True
        c.set_quick()


def drop(core: Core, s: Session, d: Delivery, reason: str, now: i64) -> None:
    """It ends here, counted; a durable one is settled with the next commit."""
    g = d.group
    b = d.backlog
    if g is not None:
        s.matched -= 1
    if b is not None and b.ended:
        return  # counted when it ended
    core.ledger.drop(s.sid if g is None else g.sid, reason, 1)
    if b is not None:
        settle(core, b, d.message, now)


def deliver0(core: Core, s: Session, d: Delivery, now: i64) -> None:
    """QoS 0 to a connected session: now, past a full window; when congested it waits or is dropped."""
    c = s.client
    if c is None:
        drop(core, s, d, QOS0_OFFLINE, now)
    elif c.congested or not c.connected:
        if s.backlog is None and core.limits.mqueue_store_qos0:
            enqueue(core, s, d, now)
        else:
            drop(core, s, d, CONGESTED, now)
    elif write(core, c, d, False, now):
        s.settled += 1
    else:
        drop(core, s, d, TOO_LARGE, now)


def offer(core: Core, s: Session, d: Delivery, now: i64) -> None:
    """QoS 1/2 in memory: into the window or the queue."""
    c = s.client
    if c is not None and not s.queue and c.connected and not c.jammed() and s.used < c.window and not s.resend:
        start(core, s, c, d, now)
    else:
        enqueue(core, s, d, now)


def enqueue(core: Core, s: Session, d: Delivery, now: i64) -> None:
    """Into a memory session's queue; above its limits the oldest QoS 0 goes first, else the oldest."""
    limits = core.limits
    size = d.message.size
    if limits.mqueue_policy != PUSH_BACK:
        while queue_full(core, s, size):
            if limits.mqueue_policy == DROP_NEWEST or not (s.queue0 or s.queue):
                drop(core, s, d, QUEUE_FULL, now)
                return
            old = s.queue0.popleft() if s.queue0 else s.queue.popleft()
            s.queue_bytes -= old.message.size
            drop(core, s, old, QUEUE_FULL, now)
    s.queue_bytes += size
    if d.qos == 0:
        s.queue0.append(d)
    else:
        s.queue.append(d)


def queue_full(core: Core, s: Session, size: i64) -> bool:
    limits = core.limits
    n = limits.max_mqueue_len
    if n and len(s.queue) + len(s.queue0) >= n:
        return True
    most = limits.max_mqueue_bytes
    return most != 0 and s.queue_bytes + size > most


def reserve_ids(core: Core, s: Session) -> None:
    """Ask for the next block of packet ids in good time.

    Ids of a durable session come from blocks that are on disk before they are used, so
    that a late PUBACK of before a crash cannot settle another message.
    """
    if s.id_wanted - s.next_id < ID_SLACK:
        s.id_wanted = s.next_id + ID_BLOCK
        core.dirty_session(s)
        core.wait(IDS, None, s, s.id_wanted, b"")


def take_id(core: Core, s: Session) -> i64:
    """The next packet id that is not in flight, 0 when none may be used now."""
    if len(s.inflight) >= 65535:
        return 0
    while True:
        reserve_ids(core, s)
        if s.next_id >= s.id_end:
            core.commit.urgent = True
            return 0
        packet_id: i64 = s.next_id % 65535 + 1
        s.next_id += 1
        if packet_id not in s.inflight:
            return packet_id


def start(core: Core, s: Session, c: Client, d: Delivery, now: i64) -> bool:
    """A delivery takes a slot; QoS 2 of a durable queue waits until message and packet id are on disk."""
    if c.max_packet and len(encoded(c, d, False, now, False)) > c.max_packet:
        drop(core, s, d, TOO_LARGE, now)
        return True
    packet_id = take_id(core, s)
    if not packet_id:
        return False
    d.packet_id = packet_id
    d.counted = True
    d.sent_at = now
    s.used += 1
    s.inflight[packet_id] = d
    if d.backlog is not None:
        hold(d.backlog, d)
        if d.qos == 2:
            d.state = STAGED
            s.staged += 1
            core.dirty_session(s)
            core.wait(STAGED_SEND, None, s, packet_id, b"")
            return True
    d.state = SENT
    write(core, c, d, False, now)
    return True


def straight(core: Core, s: Session, b: Backlog, m: Message, t: Target, now: i64) -> bool:
    """Most deliveries: nothing waits and the window has room. False: the message must join the queue."""
    c = s.client
    if c is None or not c.connected or c.congested or c.closing or s.used >= c.window or s.staged or s.resend:
        return False
    if not b.live or b.ram or m.qos != 1 or t.qos == 0 or core.limits.upgrade_qos:
        return False
    b.count += 1
    b.bytes += m.size
    d = Delivery(m, 1, m.retain and t.retain_as_published, t.identifiers, b)
    if start(core, s, c, d, now):
        b.loaded = m.seq
    else:
        push(b, d)
    return True


def start_again(core: Core, s: Session, c: Client, d: Delivery, now: i64) -> None:
    """QoS 2 of before a crash keeps its id and its place [MQTT-4.4.0-1]."""
    b = d.backlog
    assert b is not None
    hold(b, d)
    packet_id: int = d.packet_id
    del s.inflight[packet_id]
    if write(core, c, d, True, now):
        s.inflight[packet_id] = d  # at the end: in the order of sending
        d.counted = True
        s.used += 1
    else:
        drop(core, s, d, TOO_LARGE, now)


def staged(core: Core, s: Session, packet_id: int, now: i64) -> None:
    """Message and packet id of a QoS 2 delivery are on disk."""
    d = s.inflight.get(packet_id)
    if d is None or d.state != STAGED:
        return
    s.staged -= 1
    d.state = SENT
    c = s.client
    if c is None or not d.counted:
        if c is not None and c.connected:  # else the CONNACK sees to it
            s.resend.append(packet_id)
            pump(core, s, now)
        return
    write(core, c, d, False, now)
    if s.staged == 0:
        pump(core, s, now)


def pump(core: Core, s: Session, now: i64) -> None:
    """Send what the window and the connection take now."""
    c = s.client
    if c is None or not c.connected or c.jammed():
        return
    if c.path == APPLICATION and not c.in_batch:
        pump_batch(core, s, c, now)
    else:
        pump_all(core, s, c, now)


def pump_batch(core: Core, s: Session, c: Client, now: i64) -> None:
    """At most BATCH_MAX at a time, so that others get their turn; on_writable() goes on. Its end always flushes."""
    c.in_batch = True
    pump_all(core, s, c, now)
    c.in_batch = False
    c.more = c.batch >= BATCH_MAX
    c.batch = 0
    if c.out:
        core.touch(c)


def pump_all(core: Core, s: Session, c: Client, now: i64) -> None:
    if s.resend and not send_again(core, s, c, now):
        return
    while s.queue0:
        d = s.queue0.popleft()
        s.queue_bytes -= d.message.size
        if d.message.deadline and d.message.deadline < now:
            drop(core, s, d, EXPIRED, now)
        elif write(core, c, d, False, now):
            s.settled += 1
        else:
            drop(core, s, d, TOO_LARGE, now)
        if c.jammed():
            return
    b = s.backlog
    if b is not None:
        pump_backlog(core, s, c, b, now)
    while s.queue and s.used < c.window and not c.jammed():
        d = s.queue.popleft()
        s.queue_bytes -= d.message.size
        if d.message.deadline and d.message.deadline < now:
            drop(core, s, d, EXPIRED, now)
        elif not start(core, s, c, d, now):
            s.queue.appendleft(d)
            s.queue_bytes += d.message.size
            break


def pump_backlog(core: Core, s: Session, c: Client, b: Backlog, now: i64) -> None:
    """One FIFO over all topics: QoS 1 does not overtake a QoS 2 that is on its way to the disk."""
    while b.ram and not c.jammed():
        d = b.ram.head()
        if d.packet_id:
            if d.state == SENT and s.used >= c.window:
                break
            pop(b)
            if d.state == SENT:
                start_again(core, s, c, d, now)
        elif d.message.deadline and d.message.deadline < now:
            drop(core, s, pop(b), EXPIRED, now)
        elif c.path == DEVICE and (limited := beyond_limits(core, b, d.message, now)):
            drop(core, s, pop(b), limited, now)
        elif d.qos == 0:
            pop(b)
            if write(core, c, d, False, now):
                s.settled += 1
                settle(core, b, d.message, now)
            else:
                drop(core, s, d, TOO_LARGE, now)
        elif s.used >= c.window or (s.staged and d.qos == 1):
            break
        else:
            pop(b)
            if not start(core, s, c, d, now):
                b.ram.appendleft(d)
                b.ram_bytes += d.message.size
                break
    if not b.at_end():
        refill(core, b)
        if b.at_end() and b.ram and s.used < c.window and not c.jammed() and not s.staged:
            pump_backlog(core, s, c, b, now)


def send_again(core: Core, s: Session, c: Client, now: i64) -> bool:
    """What was in flight when the last connection ended: same ids, same order, DUP [MQTT-4.4.0-1]; True when done."""
    while s.resend:
        packet_id = s.resend.head()
        d = s.inflight.get(packet_id)
        if d is None:
            s.resend.popleft()
        elif d.state == SENT:
            if s.used >= c.window or c.jammed():
                return False
            s.resend.popleft()
            if write(core, c, d, True, now):
                d.counted = True
                s.used += 1
            else:
                del s.inflight[packet_id]
                drop(core, s, d, TOO_LARGE, now)
        else:
            if c.jammed():
                return False
            s.resend.popleft()
            if d.state == RELEASED:
                pubrel_again(core, c, packet_id)
    return True


def pubrel_again(core: Core, c: Client, packet_id: int) -> None:
    data = encode_ack(PUBREL, packet_id, 0, c.version)
    core.ledger.pubrel_sent += 1
    if c.in_batch:
        c.out.append(data)
        c.out_bytes += len(data)
        gather_in_batch(core, c)
    else:
        core.send(c, data)
