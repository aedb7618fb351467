"""One delivery on its way to its client: the window, packet ids, the first sending and the repeated one."""

from typing import Final

from mypy_extensions import i64

from gateway.core.backlog import hold, push, settle
from gateway.core.forward import bare, encoded_there, unfit
from gateway.core.ledger import LOOP, TOO_LARGE
from gateway.core.links import Dead
from gateway.core.message import Message
from gateway.core.model import ID_BLOCK, SENT, STAGED, Backlog, Client, Delivery, Session, Target
from gateway.core.origin import handed_on
from gateway.core.paths import gather
from gateway.core.ranks import drop_sid, idle
from gateway.core.state import IDS, STAGED_SEND, Core
from gateway.mqtt.encode import encode_publish
from gateway.mqtt.packets import V5

ID_BLOCK_MAX: Final = 16_384  # a crash skips so many of 65,535: three in a row give none again
ID_RUSH_MS: Final = 3000  # when half a block lasts no longer the next is twice as long: each costs a commit
ID_REST_MS: Final = 60_000
ROOM: Final = 512  # more than a PUBLISH without subscription identifiers adds to its message


def write(core: Core, c: Client, d: Delivery, dup: bool, now: i64) -> bool:
    """Put the PUBLISH on the connection; False when it is above the client's Maximum Packet Size [MQTT-3.1.2-24]."""
    m = d.message
    out = c.out
    remote = c.remote
    if d.qos == 1 and not dup and not d.retain and m.deadline == 0 and d.identifiers is None and c.simple:
        out.write_publish(m.topic, d.packet_id, m.middle() if c.version == V5 else b"", m.payload)
    elif remote is not None and d.qos == 1 and not dup and bare(d):  # start() has looked whether it is fit
        out.write_publish(remote.there, d.packet_id, remote.bare, m.payload)
    else:
        frame = encoded(c, d, dup, now, True) if remote is None else encoded_there(c, remote, d, dup, now)
        if not frame or (c.max_packet and len(frame) > c.max_packet):
            return False
        out.write(frame)
    if out.size > core.limits.out_high_bytes:
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
    props = handed_on(m.forwarded(), c.mark) if c.mark else m.forwarded()
    frame = encode_publish(version, topic, m.payload, qos, d.retain, dup, packet_id, props, expiry, alias, ids)
    if fresh:
        if c.max_packet and len(frame) > c.max_packet:
            return encode_publish(version, topic, m.payload, qos, d.retain, dup, packet_id, props, expiry, 0, ids)
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
    if b is not None and b.ended and not b.outer:
        return  # counted when it ended
    if s.uplink is not None and reason == TOO_LARGE:
        reason = why_unfit(s, d, now)
        if b is not None and reason != LOOP:
            bury(core, s, d, reason, 0)
            return
    if g is not None:
        core.ledger.drop(g.sid, reason, 1)
    else:
        core.ledger.drop(s.sid if s.ranks is None else drop_sid(core, s, d), reason, 1)
    if b is not None:
        settle(core, b, d, now)


def why_unfit(s: Session, d: Delivery, now: i64) -> str:
    c = s.client
    if c is None or c.remote is None:
        return TOO_LARGE
    return unfit(c, c.remote, d, now) or TOO_LARGE


def bury(core: Core, s: Session, d: Delivery, reason: str, code: int) -> None:
    """The remote of an uplink does not take it: with the next commit it goes to the dead letter (dead.py)."""
    b = d.backlog
    assert b is not None
    if not d.held:
        hold(b, d)
    core.uplinks.dead.append(Dead(s, d, reason, code))
    core.commit.urgent = True


def reserve_ids(core: Core, s: Session, now: i64) -> None:
    """Ask for the next block of packet ids in good time.

    Ids of a durable session come from blocks that are on disk before they are used, so
    that a late PUBACK of before a crash cannot settle another message.
    """
    if s.id_wanted - s.next_id < s.id_block // 2:  # enough for what goes out during a commit
        if now - s.id_asked < ID_RUSH_MS:
            s.id_block = min(s.id_block * 2, ID_BLOCK_MAX)
        elif now - s.id_asked > ID_REST_MS:
            s.id_block = ID_BLOCK
        s.id_asked = now
        s.id_wanted = s.next_id + s.id_block
        core.dirty_session(s)
        core.wait(IDS, None, s, s.id_wanted, b"")


def take_id(core: Core, s: Session, now: i64) -> i64:
    """The next packet id that is not in flight, 0 when none may be used now."""
    if len(s.inflight) >= 65535:
        return 0
    while True:
        reserve_ids(core, s, now)
        if s.next_id >= s.id_end:
            core.commit.urgent = True
            return 0
        packet_id: i64 = s.next_id % 65535 + 1
        s.next_id += 1
        if packet_id not in s.inflight:
            return packet_id


def start(core: Core, s: Session, c: Client, d: Delivery, now: i64) -> bool:
    """A delivery takes a slot; QoS 2 of a durable queue waits until message and packet id are on disk."""
    if not c.simple and not fits(c, d, now):
        drop(core, s, d, TOO_LARGE, now)
        return True
    packet_id = take_id(core, s, now)
    if not packet_id:
        return False
    d.packet_id = packet_id
    d.counted = True
    d.sent_at = now
    s.used += 1
    s.inflight[packet_id] = d
    if d.backlog is not None:
        hold(d.backlog, d)
        if d.qos == 2 and capped(c, d):
            d.state = STAGED
            s.staged += 1
            core.dirty_session(s)
            core.wait(STAGED_SEND, None, s, packet_id, b"")
            return True
    d.state = SENT
    write(core, c, d, False, now)
    return True


def fits(c: Client, d: Delivery, now: i64) -> bool:
    """Within the Maximum Packet Size, and of an uplink fit to be handed on."""
    remote = c.remote
    if remote is not None:
        remote.there = remote.name(d.message.topic)
        if remote.there and c.max_packet == 0 and bare(d):
            return True
        return not unfit(c, remote, d, now)
    if c.max_packet == 0 or (d.identifiers is None and d.message.size + ROOM <= c.max_packet):
        return True
    return len(encoded(c, d, False, now, False)) <= c.max_packet


def capped(c: Client, d: Delivery) -> bool:
    """Whether it stays QoS 2: a remote may take less."""
    remote = c.remote
    if remote is not None and remote.qos_max < 2:
        d.qos = 1
        return False
    return True


def straight(core: Core, s: Session, b: Backlog, m: Message, t: Target, now: i64) -> bool:
    """Most deliveries: nothing waits and the window has room. False: the message must join the queue."""
    c = s.client
    if c is None or not c.connected or c.congested or c.closing or s.used >= c.window or s.staged or s.resend:
        return False
    if not b.live or b.ram or m.qos != 1 or m.waits or t.qos == 0 or core.limits.upgrade_qos:
        return False
    if s.ranks is not None and not idle(s):
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
    d.sent_at = now
    del s.inflight[packet_id]
    if write(core, c, d, True, now):
        s.inflight[packet_id] = d  # at the end: in the order of sending
        d.counted = True
        s.used += 1
    else:
        drop(core, s, d, TOO_LARGE, now)
