"""Packets to bytes, for every version, and the small pieces that the sending path puts together itself."""

from typing import Final

from gateway.mqtt import fields, packets
from gateway.mqtt.fields import BYTE, u16, u32
from gateway.mqtt.fields import varint as varint
from gateway.mqtt.packets import V5, V31, Packet, Properties, Publish
from gateway.mqtt.properties import encode_properties
from gateway.mqtt.property_table import (
    MESSAGE_EXPIRY_INTERVAL,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    WILL_DELAY_INTERVAL,
)
from gateway.mqtt.reasons import connack_v3

# fixed header of an acknowledgement without reason code or properties, by packet type
_ACK_HEAD: Final[list[bytes]] = [b""] * 16
_ACK_HEAD[packets.PUBACK] = b"\x40\x02"
_ACK_HEAD[packets.PUBREC] = b"\x50\x02"
_ACK_HEAD[packets.PUBREL] = b"\x62\x02"
_ACK_HEAD[packets.PUBCOMP] = b"\x70\x02"


def publish_head(first: int, topic: bytes, rest: int) -> bytes:
    """A PUBLISH up to its topic: ``first`` byte, length, topic; ``rest`` bytes are to follow."""
    size = len(topic)
    return b"%b%b%b%b%b" % (BYTE[first], varint(2 + size + rest), BYTE[size >> 8], BYTE[size & 0xFF], topic)


def publish_properties(props: bytes, expiry: int, alias: int, subscription_identifiers: list[int] | None) -> bytes:
    """Properties of a PUBLISH with their length: ``props`` as in Publish.props, expiry in s or -1, alias or 0."""
    if expiry < 0 and alias == 0 and not subscription_identifiers:
        return varint(len(props)) + props
    body = b""
    if expiry >= 0:
        body += BYTE[MESSAGE_EXPIRY_INTERVAL] + u32(expiry)
    if alias > 0:
        body += BYTE[TOPIC_ALIAS] + u16(alias)
    if subscription_identifiers:
        for identifier in subscription_identifiers:
            body += BYTE[SUBSCRIPTION_IDENTIFIER] + varint(identifier)
    body += props
    return varint(len(body)) + body


def encode_publish(
    version: int,
    topic: bytes,
    payload: bytes,
    qos: int,
    retain: bool,
    dup: bool,
    packet_id: int,
    props: bytes,
    expiry: int = -1,
    alias: int = 0,
    subscription_identifiers: list[int] | None = None,
) -> bytes:
    """A PUBLISH; properties are left out below 5.0, the packet id at QoS 0."""
    first = packets.PUBLISH << 4 | qos << 1
    if retain:
        first |= 1
    if dup:
        first |= 8
    middle = u16(packet_id) if qos else b""
    if version == V5:
        middle += publish_properties(props, expiry, alias, subscription_identifiers)
    return b"%b%b%b" % (publish_head(first, topic, len(middle) + len(payload)), middle, payload)


def encode_ack(type: int, packet_id: int, reason: int, version: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP without properties; the reason is left out where it is 0 or below 5.0."""
    if reason == 0 or version < V5:
        return b"%b%b%b" % (_ACK_HEAD[type], BYTE[packet_id >> 8], BYTE[packet_id & 0xFF])
    return b"%b\x03%b%b%b" % (_ACK_HEAD[type][:1], BYTE[packet_id >> 8], BYTE[packet_id & 0xFF], BYTE[reason])


def make_publish(
    topic: str | bytes,
    payload: bytes = b"",
    qos: int = 0,
    retain: bool = False,
    dup: bool = False,
    packet_id: int = 0,
    props: bytes = b"",
    expiry: int = -1,
    alias: int = 0,
    subscription_identifiers: list[int] | None = None,
    version: int = V5,
) -> Publish:
    """A Publish as if it had been received: its frame is encoded for ``version``."""
    name = topic.encode("utf-8") if isinstance(topic, str) else topic
    frame = encode_publish(
        version, name, payload, qos, retain, dup, packet_id, props, expiry, alias, subscription_identifiers
    )
    body = len(frame) - len(payload)
    id_at = body - (2 if qos else 0)
    if version == V5:
        id_at -= len(publish_properties(props, expiry, alias, subscription_identifiers))
    return Publish(
        frame, name, body, id_at, packet_id, qos, retain, dup, props, expiry, alias, subscription_identifiers
    )


def fit(packet: Packet, version: int, max_bytes: int, problem_information: bool = True) -> bytes | None:
    """The bytes of ``packet`` within the peer's Maximum Packet Size (0 = none given), None where it cannot fit.

    Whether and how much the reason string and then the user properties are
    left out is decided here, for all packets but PUBLISH: where the packet
    would be too large [MQTT-3.2.2-19], and, but for CONNACK and DISCONNECT,
    where the client asked for no problem information [MQTT-3.1.2-29]. What
    is left out is gone from the packet's properties too.
    """
    props = _explanation(packet)
    if props is not None and not problem_information and packet.type not in (packets.CONNACK, packets.DISCONNECT):
        props.reason_string = None
        props.user_properties = []
    raw = encode(packet, version)
    if max_bytes <= 0 or len(raw) <= max_bytes:
        return raw
    if props is not None and props.reason_string is not None:
        props.reason_string = None
        raw = encode(packet, version)
    if props is not None and len(raw) > max_bytes:
        props.user_properties = []
        raw = encode(packet, version)
    return raw if len(raw) <= max_bytes else None


def _explanation(packet: Packet) -> Properties | None:
    """The properties of a packet that may carry a reason string."""
    if isinstance(packet, packets.Ack):
        return packet.properties
    if isinstance(packet, packets.Suback):
        return packet.properties
    if isinstance(packet, packets.Unsuback):
        return packet.properties
    if isinstance(packet, packets.Connack):
        return packet.properties
    if isinstance(packet, packets.Disconnect):
        return packet.properties
    if isinstance(packet, packets.Auth):
        return packet.properties
    return None


def encode(packet: Packet, version: int) -> bytes:
    """The bytes of ``packet``; a CONNECT is encoded for its own version.

    Below 5.0 properties are left out, failures of a SUBACK become 0x80, and
    a CONNACK whose reason 3.1.1 does not know becomes b"": nothing may be
    sent [MQTT-3.2.2-6]. ValueError for a field that cannot be encoded.
    """
    if isinstance(packet, Publish):
        return encode_publish(
            version,
            packet.topic,
            packet.payload,
            packet.qos,
            packet.retain,
            packet.dup,
            packet.packet_id,
            packet.props,
            packet.expiry,
            packet.alias,
            packet.subscription_identifiers,
        )
    if isinstance(packet, packets.Ack):
        if packet.properties is None or version < V5:
            return encode_ack(packet.type, packet.packet_id, packet.reason, version)
        first = packet.type << 4 | (2 if packet.type == packets.PUBREL else 0)
        return _framed(first, u16(packet.packet_id) + _reason_and_properties(packet, packet.reason, packet.properties))
    if isinstance(packet, packets.Pingreq):
        return b"\xc0\x00"
    if isinstance(packet, packets.Pingresp):
        return b"\xd0\x00"
    if isinstance(packet, packets.Suback):
        return _framed(0x90, _suback(packet, version))
    if isinstance(packet, packets.Unsuback):
        return _framed(0xB0, _unsuback(packet, version))
    if isinstance(packet, packets.Connack):
        return _connack(packet, version)
    if isinstance(packet, packets.Disconnect):
        return _framed(0xE0, _reason_and_properties(packet, packet.reason, packet.properties) if version == V5 else b"")
    if isinstance(packet, packets.Subscribe):
        return _framed(0x82, _subscribe(packet, version))
    if isinstance(packet, packets.Unsubscribe):
        return _framed(0xA2, _unsubscribe(packet, version))
    if isinstance(packet, packets.Connect):
        return _framed(0x10, _connect(packet))
    if isinstance(packet, packets.Auth):
        return _framed(0xF0, _reason_and_properties(packet, packet.reason, packet.properties))
    raise ValueError(f"packet type {packet.type} cannot be encoded")


def _framed(first: int, body: bytes) -> bytes:
    return BYTE[first] + varint(len(body)) + body


def _reason_and_properties(packet: Packet, reason: int, properties: Properties | None) -> bytes:
    """The end of an acknowledgement, DISCONNECT or AUTH in its shortest form."""
    encoded = encode_properties(properties, packet.type)
    if len(encoded) > 1 or (packet.type == packets.AUTH and reason):
        return BYTE[reason] + encoded
    return BYTE[reason] if reason else b""


def _suback(packet: packets.Suback, version: int) -> bytes:
    head = u16(packet.packet_id)
    if version == V5:
        return head + encode_properties(packet.properties, packets.SUBACK) + bytes(packet.reasons)
    return head + bytes([min(reason, 0x80) for reason in packet.reasons])


def _unsuback(packet: packets.Unsuback, version: int) -> bytes:
    head = u16(packet.packet_id)
    if version == V5:
        return head + encode_properties(packet.properties, packets.UNSUBACK) + bytes(packet.reasons)
    return head


def _unsubscribe(packet: packets.Unsubscribe, version: int) -> bytes:
    head = u16(packet.packet_id)
    if version == V5:
        head += encode_properties(packet.properties, packets.UNSUBSCRIBE)
    return head + b"".join([fields.text(item) for item in packet.filters])


def _connack(packet: packets.Connack, version: int) -> bytes:
    present = BYTE[1 if packet.session_present and version > V31 else 0]
    if version == V5:
        return _framed(0x20, present + BYTE[packet.reason] + encode_properties(packet.properties, packets.CONNACK))
    code = connack_v3(packet.reason)
    return b"" if code < 0 else _framed(0x20, present + BYTE[code])


def _subscribe(packet: packets.Subscribe, version: int) -> bytes:
    out = [u16(packet.packet_id)]
    if version == V5:
        out.append(encode_properties(packet.properties, packets.SUBSCRIBE))
    for item in packet.filters:
        options = item.qos
        if version == V5:
            options |= (4 if item.no_local else 0) | (8 if item.retain_as_published else 0) | item.retain_handling << 4
        out.append(fields.text(item.filter) + BYTE[options])
    return b"".join(out)


def _connect(packet: packets.Connect) -> bytes:
    will = packet.will
    flags = 2 if packet.clean_start else 0
    if will is not None:
        flags |= 4 | will.qos << 3 | (0x20 if will.retain else 0)
    if packet.password is not None:
        flags |= 0x40
    if packet.username is not None:
        flags |= 0x80
    out = [fields.text("MQIsdp" if packet.version == V31 else "MQTT"), bytes((packet.version, flags))]
    out.append(u16(packet.keep_alive))
    if packet.version == V5:
        out.append(encode_properties(packet.properties, packets.CONNECT))
    out.append(fields.text(packet.client_id))
    if will is not None:
        if packet.version == V5:
            out.append(_will_properties(will))
        out.append(fields.binary(will.topic) + fields.binary(will.payload))
    if packet.username is not None:
        out.append(fields.text(packet.username))
    if packet.password is not None:
        out.append(fields.binary(packet.password))
    return b"".join(out)


def _will_properties(will: packets.Will) -> bytes:
    body = b""
    if will.delay:
        body += BYTE[WILL_DELAY_INTERVAL] + u32(will.delay)
    if will.expiry >= 0:
        body += BYTE[MESSAGE_EXPIRY_INTERVAL] + u32(will.expiry)
    body += will.props
    return varint(len(body)) + body
