"""What a receiving client answers: PUBACK, PUBREC, PUBCOMP."""

from mypy_extensions import i64

from gateway.core.backlog import settle
from gateway.core.feed import feed
from gateway.core.hold import answered
from gateway.core.model import RELEASED, RELEASING, SENT, STAGED, Client, Delivery, Session
from gateway.core.pump import pump, waits
from gateway.core.refusal import refused
from gateway.core.shared import pump_groups
from gateway.core.state import RELEASE, Core
from gateway.mqtt.encode import encode_ack
from gateway.mqtt.errors import ProtocolError
from gateway.mqtt.packets import PUBREL, V5, Ack
from gateway.mqtt.reasons import PACKET_IDENTIFIER_NOT_FOUND


def complete(core: Core, s: Session, d: Delivery, now: i64) -> None:
    """The delivery is over and its slot free."""
    s.settled += 1
    packet_id: int = d.packet_id
    del s.inflight[packet_id]
    if d.counted:
        d.counted = False
        s.used -= 1
    if d.qos == 2 and s.backlog is not None:
        core.dirty_session(s)
        core.lazy(now)
    if waits(s):
        pump(core, s, now)
    if core.parked:
        core.retry = True
    if s.groups:
        pump_groups(core, s, now)
    if s.feeds:
        feed(core, s, now)


def settled(core: Core, d: Delivery, now: i64) -> None:
    b = d.backlog
    if b is not None:
        settle(core, b, d, now)


def on_puback(core: Core, s: Session, p: Ack, now: i64) -> None:
    """Any reason code ends the message [MQTT-4.3.2]; an unknown id settles nothing."""
    core.ledger.puback_received += 1
    d = s.inflight.get(p.packet_id)
    if d is None:
        return
    if d.qos != 1:
        raise ProtocolError("PUBACK for a QoS 2 message")
    if d.state != SENT:
        return
    if p.reason >= 0x80 and s.uplink is not None:
        refused(core, s, d, p.reason, now)
        return
    if d.backlog is not None:
        answered(core, s, d, now)
    settled(core, d, now)
    complete(core, s, d, now)


def on_pubrec(core: Core, c: Client, s: Session, p: Ack, now: i64) -> None:
    core.ledger.pubrec_received += 1
    d = s.inflight.get(p.packet_id)
    if d is None or d.state == STAGED:
        reason = PACKET_IDENTIFIER_NOT_FOUND if c.version == V5 else 0
        core.ledger.pubrel_sent += 1
        core.send(c, encode_ack(PUBREL, p.packet_id, reason, c.version))
        return
    if d.qos != 2:
        raise ProtocolError("PUBREC for a QoS 1 message")
    if d.state == SENT:
        if p.reason >= 0x80 and s.uplink is not None:
            refused(core, s, d, p.reason, now)
            return
        settled(core, d, now)
        if p.reason >= 0x80:
            d.state = RELEASED
            complete(core, s, d, now)
            return
        if s.backlog is not None or d.backlog is not None:
            d.state = RELEASING
            core.dirty_session(s)
            core.wait(RELEASE, None, s, p.packet_id, b"")
            return
        d.state = RELEASED
        d.sent_at = now
    if d.state == RELEASED:
        core.ledger.pubrel_sent += 1
        core.send(c, encode_ack(PUBREL, p.packet_id, 0, c.version))


def released(core: Core, s: Session, packet_id: int, now: i64) -> None:
    """The PUBREC is on disk: its PUBREL may leave."""
    d = s.inflight.get(packet_id)
    if d is None or d.state != RELEASING:
        return
    d.state = RELEASED
    d.sent_at = now
    c = s.client
    if c is not None and c.connected and not c.closing:
        core.ledger.pubrel_sent += 1
        core.send(c, encode_ack(PUBREL, packet_id, 0, c.version))


def on_pubcomp(core: Core, s: Session, p: Ack, now: i64) -> None:
    core.ledger.pubcomp_received += 1
    d = s.inflight.get(p.packet_id)
    if d is None:
        return
    if d.qos != 2:
        raise ProtocolError("PUBCOMP for a QoS 1 message")
    if d.state == RELEASED:
        complete(core, s, d, now)
