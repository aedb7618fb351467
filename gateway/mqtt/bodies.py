"""Bodies of all packets but PUBLISH: what stands after the fixed header, decoded.

Each function takes a Reader over the body, leaves nothing unread, and raises
PacketError where the standard says malformed or protocol error.
"""

from gateway.mqtt import packets
from gateway.mqtt.errors import MalformedPacket, PacketError, ProtocolError
from gateway.mqtt.fields import Reader, check_topic_name
from gateway.mqtt.packets import V5, V31, V311, Properties
from gateway.mqtt.properties import decode_properties, scan_message
from gateway.mqtt.property_table import WILL
from gateway.mqtt.reasons import UNSUPPORTED_PROTOCOL_VERSION, allowed


def read_properties(reader: Reader, packet_type: int) -> Properties | None:
    """Properties with their length field; None when there are none."""
    count = reader.varint()
    start = reader.pos
    end = start + count
    if end > reader.end:
        raise MalformedPacket("packet ends inside its properties")
    reader.pos = end
    if count == 0:
        return None
    return decode_properties(reader.data, start, end, packet_type)


def read_packet_id(reader: Reader) -> int:
    """A packet identifier, never 0 [MQTT-2.2.1-3]."""
    packet_id = reader.u16()
    if packet_id == 0:
        raise MalformedPacket("packet identifier is 0")
    return packet_id


def check_reason(packet_type: int, code: int) -> int:
    """``code`` when a 5.0 packet of this type may carry it, else ProtocolError."""
    if not allowed(packet_type, code):
        raise ProtocolError(f"reason code 0x{code:02X} does not belong in this packet")
    return code


def read_version(reader: Reader) -> int:
    """The protocol level of a CONNECT; PacketError 0x84 where it is none of 3.1, 3.1.1, 5.0 [MQTT-3.1.2-1]."""
    name = reader.binary()
    level = reader.u8()
    if (name == b"MQTT" and (level == V311 or level == V5)) or (name == b"MQIsdp" and level == V31):
        return level
    raise PacketError(UNSUPPORTED_PROTOCOL_VERSION, f"protocol {name[:16]!r} level {level} is not spoken here")


def read_connect(reader: Reader, version: int) -> packets.Connect:
    """The rest of a CONNECT after its protocol level."""
    flags: int = reader.u8()
    if flags & 0x01:
        raise MalformedPacket("reserved connect flag is set")  # [MQTT-3.1.2-3]
    if flags & 0x38 and not flags & 0x04:
        raise MalformedPacket("will QoS or will retain without a will")  # [MQTT-3.1.2-11] [MQTT-3.1.2-13]
    if flags & 0x18 == 0x18:
        raise MalformedPacket("will QoS is 3")  # [MQTT-3.1.2-12]
    if flags & 0x40 and not flags & 0x80 and version < V5:
        raise MalformedPacket("password without user name")  # 3.1.1 [MQTT-3.1.2-22]
    keep_alive: int = reader.u16()
    properties: Properties | None = None
    if version == V5:
        properties = read_properties(reader, packets.CONNECT) or Properties()
        if properties.authentication_data is not None and properties.authentication_method is None:
            raise ProtocolError("authentication data without a method")
    client_id = reader.text()
    will = read_will(reader, version, flags) if flags & 0x04 else None
    username = reader.text() if flags & 0x80 else None
    password = reader.binary() if flags & 0x40 else None
    reader.finish()
    return packets.Connect(version, client_id, flags & 0x02 != 0, keep_alive, username, password, will, properties)


def read_will(reader: Reader, version: int, flags: int) -> packets.Will:
    props = b""
    expiry = -1
    delay = 0
    if version == V5:
        count = reader.varint()
        start = reader.pos
        end = start + count
        if end > reader.end:
            raise MalformedPacket("packet ends inside its will properties")
        reader.pos = end
        props, expiry, delay, _ = scan_message(reader.data, start, end, WILL)
    topic = reader.binary()
    check_topic_name(topic)
    payload = reader.binary()
    return packets.Will(topic, payload, flags >> 3 & 3, flags & 0x20 != 0, props, expiry, delay)


def read_connack(reader: Reader, version: int) -> packets.Connack:
    flags: int = reader.u8()
    if version == V31:
        flags = 0  # the byte is not used in 3.1
    if flags > 1:
        raise MalformedPacket("reserved acknowledge flag is set")  # [MQTT-3.2.2-1]
    reason: int = reader.u8()
    properties: Properties | None = None
    if version == V5:
        check_reason(packets.CONNACK, reason)
        properties = read_properties(reader, packets.CONNACK)
    elif reason > 5:
        raise ProtocolError(f"return code {reason} is reserved")
    if flags and reason:
        raise ProtocolError("session present in a refusal")  # [MQTT-3.2.2-6]
    reader.finish()
    return packets.Connack(flags == 1, reason, properties)


def read_ack(reader: Reader, packet_type: int, version: int) -> packets.Ack:
    """PUBACK, PUBREC, PUBREL or PUBCOMP, the short forms of 5.0 included [MQTT-3.4.2.1]."""
    packet_id = read_packet_id(reader)
    reason = 0
    properties: Properties | None = None
    if version == V5 and reader.pos < reader.end:
        reason = check_reason(packet_type, reader.u8())
        if reader.pos < reader.end:
            properties = read_properties(reader, packet_type)
    reader.finish()
    return packets.Ack(packet_type, packet_id, reason, properties)


def read_subscribe(reader: Reader, version: int) -> packets.Subscribe:
    packet_id = read_packet_id(reader)
    properties = read_properties(reader, packets.SUBSCRIBE) if version == V5 else None
    filters: list[packets.Filter] = []
    while reader.pos < reader.end:
        text = read_filter(reader)
        options: int = reader.u8()
        qos = options & 3
        if options & (0xC0 if version == V5 else 0xFC):
            raise MalformedPacket("reserved subscription option is set")  # [MQTT-3.8.3-5]
        if qos == 3:
            raise ProtocolError("subscription QoS is 3")
        handling = options >> 4 & 3
        if handling == 3:
            raise ProtocolError("retain handling is 3")
        filters.append(packets.Filter(text, qos, options & 4 != 0, options & 8 != 0, handling))
    if not filters:
        raise ProtocolError("SUBSCRIBE without a topic filter")  # [MQTT-3.8.3-2]
    return packets.Subscribe(packet_id, filters, properties)


def read_filter(reader: Reader) -> str:
    """A topic filter; where its wildcards may stand is checked when it is subscribed to."""
    text = reader.text()
    if not text:
        raise ProtocolError("topic filter is empty")  # [MQTT-4.7.3-1]
    return text


def read_suback(reader: Reader, version: int) -> packets.Suback:
    packet_id = read_packet_id(reader)
    properties = read_properties(reader, packets.SUBACK) if version == V5 else None
    reasons: list[int] = []
    while reader.pos < reader.end:
        reason = reader.u8()
        if version == V5:
            check_reason(packets.SUBACK, reason)
        elif reason > 2 and reason != 0x80:
            raise ProtocolError(f"return code {reason} is reserved")  # 3.1.1 [MQTT-3.9.3-2]
        reasons.append(reason)
    if not reasons:
        raise ProtocolError("SUBACK without a reason code")
    return packets.Suback(packet_id, reasons, properties)


def read_unsubscribe(reader: Reader, version: int) -> packets.Unsubscribe:
    packet_id = read_packet_id(reader)
    properties = read_properties(reader, packets.UNSUBSCRIBE) if version == V5 else None
    filters: list[str] = []
    while reader.pos < reader.end:
        filters.append(read_filter(reader))
    if not filters:
        raise ProtocolError("UNSUBSCRIBE without a topic filter")  # [MQTT-3.10.3-2]
    return packets.Unsubscribe(packet_id, filters, properties)


def read_unsuback(reader: Reader, version: int) -> packets.Unsuback:
    packet_id = read_packet_id(reader)
    reasons: list[int] = []
    if version < V5:
        reader.finish()
        return packets.Unsuback(packet_id, reasons)
    properties = read_properties(reader, packets.UNSUBACK)
    while reader.pos < reader.end:
        reasons.append(check_reason(packets.UNSUBACK, reader.u8()))
    if not reasons:
        raise ProtocolError("UNSUBACK without a reason code")
    return packets.Unsuback(packet_id, reasons, properties)


def read_disconnect(reader: Reader, version: int) -> packets.Disconnect:
    """DISCONNECT; in 5.0 an absent reason code is 0x00 [MQTT-3.14.2.1]."""
    reason = 0
    properties: Properties | None = None
    if version == V5 and reader.pos < reader.end:
        reason = check_reason(packets.DISCONNECT, reader.u8())
        if reader.pos < reader.end:
            properties = read_properties(reader, packets.DISCONNECT)
    reader.finish()
    return packets.Disconnect(reason, properties)


def read_auth(reader: Reader) -> packets.Auth:
    """AUTH of 5.0; an absent reason code is 0x00 [MQTT-3.15.2.1]."""
    reason = 0
    properties: Properties | None = None
    if reader.pos < reader.end:
        reason = check_reason(packets.AUTH, reader.u8())
        properties = read_properties(reader, packets.AUTH)
    reader.finish()
    return packets.Auth(reason, properties)
