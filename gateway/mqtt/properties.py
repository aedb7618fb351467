"""Properties of MQTT 5.0 [MQTT-2.2.2] from and to bytes."""

from mypy_extensions import i64

from gateway.mqtt import fields, packets
from gateway.mqtt.errors import MalformedPacket, PacketError, ProtocolError
from gateway.mqtt.fields import Reader
from gateway.mqtt.packets import Properties
from gateway.mqtt.property_table import (
    ASSIGNED_CLIENT_IDENTIFIER,
    AUTHENTICATION_DATA,
    AUTHENTICATION_METHOD,
    BITS,
    CARRIES,
    CONTENT_TYPE,
    CORRELATION_DATA,
    MAXIMUM_PACKET_SIZE,
    MAXIMUM_QOS,
    MESSAGE_EXPIRY_INTERVAL,
    PAYLOAD_FORMAT_INDICATOR,
    REASON_STRING,
    RECEIVE_MAXIMUM,
    REQUEST_PROBLEM_INFORMATION,
    REQUEST_RESPONSE_INFORMATION,
    RESPONSE_INFORMATION,
    RESPONSE_TOPIC,
    RETAIN_AVAILABLE,
    SERVER_KEEP_ALIVE,
    SERVER_REFERENCE,
    SESSION_EXPIRY_INTERVAL,
    SHARED_SUBSCRIPTION_AVAILABLE,
    SUBSCRIPTION_IDENTIFIER,
    SUBSCRIPTION_IDENTIFIER_AVAILABLE,
    TOPIC_ALIAS,
    TOPIC_ALIAS_MAXIMUM,
    TYPE_BINARY,
    TYPE_FLAG,
    TYPE_FOUR,
    TYPE_PAIR,
    TYPE_TEXT,
    TYPE_TWO,
    TYPES,
    USER_PROPERTY,
    WILDCARD_SUBSCRIPTION_AVAILABLE,
    WILL_DELAY_INTERVAL,
)
from gateway.mqtt.reasons import TOPIC_ALIAS_INVALID


def _identifier(reader: Reader, carries: i64, seen: i64, repeatable: i64) -> i64:
    """The next identifier; malformed where the packet may not carry it, protocol error where it comes twice."""
    identifier = reader.varint()
    if identifier > 42 or carries >> identifier & 1 == 0:
        raise MalformedPacket(f"property {identifier} does not belong in this packet")
    if seen >> identifier & 1 != 0 and repeatable >> identifier & 1 == 0:
        raise ProtocolError(f"property {identifier} comes twice")
    return identifier


def _repeatable(packet_type: int) -> i64:
    return BITS[USER_PROPERTY] | (BITS[SUBSCRIPTION_IDENTIFIER] if packet_type == packets.PUBLISH else 0)


def _number(reader: Reader, identifier: i64, data_type: int) -> int:
    """The value of a number property, its range checked."""
    if data_type == TYPE_FLAG:
        value = reader.u8()
        if value > 1:
            raise ProtocolError(f"property {identifier} is not 0 or 1")
    elif data_type == TYPE_TWO:
        value = reader.u16()
    elif data_type == TYPE_FOUR:
        value = reader.u32()
    else:
        value = reader.varint()
    if value == 0:
        if identifier == TOPIC_ALIAS:  # [MQTT-3.3.2-8]
            raise PacketError(TOPIC_ALIAS_INVALID, "topic alias is 0")
        if identifier == RECEIVE_MAXIMUM or identifier == MAXIMUM_PACKET_SIZE or identifier == SUBSCRIPTION_IDENTIFIER:
            raise ProtocolError(f"property {identifier} is 0")
    return value


def _text(reader: Reader, identifier: i64) -> str:
    value = reader.text()
    if identifier == RESPONSE_TOPIC and ("+" in value or "#" in value):  # [MQTT-3.3.2-14]
        raise ProtocolError("response topic holds a wildcard")
    return value


def decode_properties(data: bytes, pos: i64, end: i64, packet_type: int) -> Properties:
    """The properties in ``data[pos:end]`` (their length field stands before ``pos``).

    Raises MalformedPacket for a property that the packet may not carry and
    for truncation, ProtocolError for a repeated one and for a value out of
    range, PacketError 0x94 for topic alias 0.
    """
    props = Properties()
    reader = Reader(data, pos, end)
    carries: i64 = CARRIES[packet_type]
    repeatable = _repeatable(packet_type)
    seen: i64 = 0
    while reader.pos < end:
        identifier = _identifier(reader, carries, seen, repeatable)
        seen |= BITS[identifier]
        data_type = TYPES[identifier]
        if data_type == TYPE_PAIR:
            key = reader.text()
            props.user_properties.append((key, reader.text()))
        elif data_type == TYPE_TEXT:
            _set_text(props, identifier, _text(reader, identifier))
        elif data_type == TYPE_BINARY:
            if identifier == CORRELATION_DATA:
                props.correlation_data = reader.binary()
            else:
                props.authentication_data = reader.binary()
        elif data_type == TYPE_FLAG:
            _set_flag(props, identifier, _number(reader, identifier, data_type))
        else:
            _set_number(props, identifier, _number(reader, identifier, data_type))
    return props


def _set_text(props: Properties, identifier: i64, value: str) -> None:
    if identifier == CONTENT_TYPE:
        props.content_type = value
    elif identifier == RESPONSE_TOPIC:
        props.response_topic = value
    elif identifier == ASSIGNED_CLIENT_IDENTIFIER:
        props.assigned_client_identifier = value
    elif identifier == AUTHENTICATION_METHOD:
        props.authentication_method = value
    elif identifier == RESPONSE_INFORMATION:
        props.response_information = value
    elif identifier == SERVER_REFERENCE:
        props.server_reference = value
    else:
        props.reason_string = value


def _set_flag(props: Properties, identifier: i64, value: int) -> None:
    if identifier == PAYLOAD_FORMAT_INDICATOR:
        props.payload_format_indicator = value
    elif identifier == REQUEST_PROBLEM_INFORMATION:
        props.request_problem_information = value
    elif identifier == REQUEST_RESPONSE_INFORMATION:
        props.request_response_information = value
    elif identifier == MAXIMUM_QOS:
        props.maximum_qos = value
    elif identifier == RETAIN_AVAILABLE:
        props.retain_available = value
    elif identifier == WILDCARD_SUBSCRIPTION_AVAILABLE:
        props.wildcard_subscription_available = value
    elif identifier == SUBSCRIPTION_IDENTIFIER_AVAILABLE:
        props.subscription_identifier_available = value
    else:
        props.shared_subscription_available = value


def _set_number(props: Properties, identifier: i64, value: int) -> None:
    if identifier == MESSAGE_EXPIRY_INTERVAL:
        props.message_expiry_interval = value
    elif identifier == SUBSCRIPTION_IDENTIFIER:
        props.subscription_identifiers.append(value)
    elif identifier == SESSION_EXPIRY_INTERVAL:
        props.session_expiry_interval = value
    elif identifier == SERVER_KEEP_ALIVE:
        props.server_keep_alive = value
    elif identifier == WILL_DELAY_INTERVAL:
        props.will_delay_interval = value
    elif identifier == RECEIVE_MAXIMUM:
        props.receive_maximum = value
    elif identifier == TOPIC_ALIAS_MAXIMUM:
        props.topic_alias_maximum = value
    elif identifier == TOPIC_ALIAS:
        props.topic_alias = value
    else:
        props.maximum_packet_size = value


def scan_message(data: bytes, pos: i64, end: i64, packet_type: int) -> tuple[bytes, int, int, list[int] | None]:
    """What a server needs of the properties of a PUBLISH or WILL in ``data[pos:end]``, without a Properties.

    (the properties that are forwarded unaltered as received, message expiry
    in seconds or -1, topic alias of a PUBLISH or delay of a will in seconds
    (0 = absent), subscription identifiers or None). Checks and raises as
    decode_properties does.
    """
    reader = Reader(data, pos, end)
    carries: i64 = CARRIES[packet_type]
    repeatable = _repeatable(packet_type)
    seen: i64 = 0
    kept: list[bytes] = []
    run = pos  # start of the run of forwarded properties that is not in kept yet
    expiry = -1
    alias_or_delay = 0
    identifiers: list[int] | None = None
    while reader.pos < end:
        start = reader.pos
        identifier = _identifier(reader, carries, seen, repeatable)
        seen |= BITS[identifier]
        data_type = TYPES[identifier]
        if data_type == TYPE_PAIR:
            reader.text()
            reader.text()
        elif data_type == TYPE_TEXT:
            _text(reader, identifier)
        elif data_type == TYPE_BINARY:
            reader.binary()
        else:
            value = _number(reader, identifier, data_type)
            if identifier == PAYLOAD_FORMAT_INDICATOR:
                continue
            if identifier == MESSAGE_EXPIRY_INTERVAL:
                expiry = value
            elif identifier == SUBSCRIPTION_IDENTIFIER:
                if identifiers is None:
                    identifiers = []
                identifiers.append(value)
            else:
                alias_or_delay = value
            if start > run:
                kept.append(data[run:start])
            run = reader.pos
    if end > run:
        kept.append(data[run:end])
    return b"".join(kept), expiry, alias_or_delay, identifiers


def encode_properties(props: Properties | None, packet_type: int) -> bytes:
    """Encoded properties after their length field; ValueError for one that the packet may not carry."""
    if props is None:
        return b"\0"
    out: list[bytes] = []
    _put_numbers(out, props)
    _put_texts(out, props)
    for key, value in props.user_properties:
        out.append(fields.BYTE[USER_PROPERTY] + fields.text(key) + fields.text(value))
    for part in out:
        if not CARRIES[packet_type] >> part[0] & 1:
            raise ValueError(f"property {part[0]} does not belong in a packet of type {packet_type}")
    body = b"".join(out)
    return fields.varint(len(body)) + body


def _put_number(out: list[bytes], identifier: int, value: int) -> None:
    if value < 0:
        return
    data_type = TYPES[identifier]
    if data_type == TYPE_FLAG:
        raw = bytes((value,))
    elif data_type == TYPE_TWO:
        raw = fields.u16(value)
    elif data_type == TYPE_FOUR:
        raw = fields.u32(value)
    else:
        raw = fields.varint(value)
    out.append(fields.BYTE[identifier] + raw)


def _put_numbers(out: list[bytes], props: Properties) -> None:
    _put_number(out, PAYLOAD_FORMAT_INDICATOR, props.payload_format_indicator)
    _put_number(out, MESSAGE_EXPIRY_INTERVAL, props.message_expiry_interval)
    for value in props.subscription_identifiers:
        _put_number(out, SUBSCRIPTION_IDENTIFIER, value)
    _put_number(out, SESSION_EXPIRY_INTERVAL, props.session_expiry_interval)
    _put_number(out, SERVER_KEEP_ALIVE, props.server_keep_alive)
    _put_number(out, REQUEST_PROBLEM_INFORMATION, props.request_problem_information)
    _put_number(out, WILL_DELAY_INTERVAL, props.will_delay_interval)
    _put_number(out, REQUEST_RESPONSE_INFORMATION, props.request_response_information)
    _put_number(out, RECEIVE_MAXIMUM, props.receive_maximum)
    _put_number(out, TOPIC_ALIAS_MAXIMUM, props.topic_alias_maximum)
    _put_number(out, TOPIC_ALIAS, props.topic_alias)
    _put_number(out, MAXIMUM_QOS, props.maximum_qos)
    _put_number(out, RETAIN_AVAILABLE, props.retain_available)
    _put_number(out, MAXIMUM_PACKET_SIZE, props.maximum_packet_size)
    _put_number(out, WILDCARD_SUBSCRIPTION_AVAILABLE, props.wildcard_subscription_available)
    _put_number(out, SUBSCRIPTION_IDENTIFIER_AVAILABLE, props.subscription_identifier_available)
    _put_number(out, SHARED_SUBSCRIPTION_AVAILABLE, props.shared_subscription_available)


def _put_text(out: list[bytes], identifier: int, value: str | None) -> None:
    if value is not None:
        out.append(fields.BYTE[identifier] + fields.text(value))


def _put_texts(out: list[bytes], props: Properties) -> None:
    _put_text(out, CONTENT_TYPE, props.content_type)
    _put_text(out, RESPONSE_TOPIC, props.response_topic)
    if props.correlation_data is not None:
        out.append(fields.BYTE[CORRELATION_DATA] + fields.binary(props.correlation_data))
    _put_text(out, ASSIGNED_CLIENT_IDENTIFIER, props.assigned_client_identifier)
    _put_text(out, AUTHENTICATION_METHOD, props.authentication_method)
    if props.authentication_data is not None:
        out.append(fields.BYTE[AUTHENTICATION_DATA] + fields.binary(props.authentication_data))
    _put_text(out, RESPONSE_INFORMATION, props.response_information)
    _put_text(out, SERVER_REFERENCE, props.server_reference)
    _put_text(out, REASON_STRING, props.reason_string)
