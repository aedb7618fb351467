"""Identifiers, data types and carriers of the properties of MQTT 5.0 [MQTT-2.2.2.2]."""

from typing import Final

from gateway.mqtt import packets

WILL: Final = 0  # stands for a packet type: the will properties of a CONNECT

PAYLOAD_FORMAT_INDICATOR: Final = 1
MESSAGE_EXPIRY_INTERVAL: Final = 2
CONTENT_TYPE: Final = 3
RESPONSE_TOPIC: Final = 8
CORRELATION_DATA: Final = 9
SUBSCRIPTION_IDENTIFIER: Final = 11
SESSION_EXPIRY_INTERVAL: Final = 17
ASSIGNED_CLIENT_IDENTIFIER: Final = 18
SERVER_KEEP_ALIVE: Final = 19
AUTHENTICATION_METHOD: Final = 21
AUTHENTICATION_DATA: Final = 22
REQUEST_PROBLEM_INFORMATION: Final = 23
WILL_DELAY_INTERVAL: Final = 24
REQUEST_RESPONSE_INFORMATION: Final = 25
RESPONSE_INFORMATION: Final = 26
SERVER_REFERENCE: Final = 28
REASON_STRING: Final = 31
RECEIVE_MAXIMUM: Final = 33
TOPIC_ALIAS_MAXIMUM: Final = 34
TOPIC_ALIAS: Final = 35
MAXIMUM_QOS: Final = 36
RETAIN_AVAILABLE: Final = 37
USER_PROPERTY: Final = 38
MAXIMUM_PACKET_SIZE: Final = 39
WILDCARD_SUBSCRIPTION_AVAILABLE: Final = 40
SUBSCRIPTION_IDENTIFIER_AVAILABLE: Final = 41
SHARED_SUBSCRIPTION_AVAILABLE: Final = 42

TYPE_FLAG: Final = 1  # a byte that is 0 or 1
TYPE_TWO: Final = 2
TYPE_FOUR: Final = 3
TYPE_VARINT: Final = 4
TYPE_TEXT: Final = 5
TYPE_BINARY: Final = 6
TYPE_PAIR: Final = 7

TYPES: Final[list[int]] = [0] * 43  # by identifier: the data type, 0 = no such property
# a table, because mypyc 2.4.1 computes `1 << i64` in 32 bits
BITS: Final[list[int]] = [1 << identifier for identifier in range(43)]
CARRIES: Final[list[int]] = [0] * 16  # by packet type: a bit for each identifier


def _declare(identifier: int, data_type: int, packet_types: list[int]) -> None:
    TYPES[identifier] = data_type
    for packet_type in packet_types:
        CARRIES[packet_type] |= 1 << identifier


def _declare_all() -> None:
    message = [packets.PUBLISH, WILL]
    handshake = [packets.CONNECT, packets.CONNACK]
    connack = [packets.CONNACK]
    acks = [packets.PUBACK, packets.PUBREC, packets.PUBREL, packets.PUBCOMP, packets.SUBACK, packets.UNSUBACK]
    explained = [*acks, packets.CONNACK, packets.DISCONNECT, packets.AUTH]
    _declare(PAYLOAD_FORMAT_INDICATOR, TYPE_FLAG, message)
    _declare(MESSAGE_EXPIRY_INTERVAL, TYPE_FOUR, message)
    _declare(CONTENT_TYPE, TYPE_TEXT, message)
    _declare(RESPONSE_TOPIC, TYPE_TEXT, message)
    _declare(CORRELATION_DATA, TYPE_BINARY, message)
    _declare(SUBSCRIPTION_IDENTIFIER, TYPE_VARINT, [packets.PUBLISH, packets.SUBSCRIBE])
    _declare(SESSION_EXPIRY_INTERVAL, TYPE_FOUR, [*handshake, packets.DISCONNECT])
    _declare(ASSIGNED_CLIENT_IDENTIFIER, TYPE_TEXT, connack)
    _declare(SERVER_KEEP_ALIVE, TYPE_TWO, connack)
    _declare(AUTHENTICATION_METHOD, TYPE_TEXT, [*handshake, packets.AUTH])
    _declare(AUTHENTICATION_DATA, TYPE_BINARY, [*handshake, packets.AUTH])
    _declare(REQUEST_PROBLEM_INFORMATION, TYPE_FLAG, [packets.CONNECT])
    _declare(WILL_DELAY_INTERVAL, TYPE_FOUR, [WILL])
    _declare(REQUEST_RESPONSE_INFORMATION, TYPE_FLAG, [packets.CONNECT])
    _declare(RESPONSE_INFORMATION, TYPE_TEXT, connack)
    _declare(SERVER_REFERENCE, TYPE_TEXT, [packets.CONNACK, packets.DISCONNECT])
    _declare(REASON_STRING, TYPE_TEXT, explained)
    _declare(RECEIVE_MAXIMUM, TYPE_TWO, handshake)
    _declare(TOPIC_ALIAS_MAXIMUM, TYPE_TWO, handshake)
    _declare(TOPIC_ALIAS, TYPE_TWO, [packets.PUBLISH])
    _declare(MAXIMUM_QOS, TYPE_FLAG, connack)
    _declare(RETAIN_AVAILABLE, TYPE_FLAG, connack)
    _declare(USER_PROPERTY, TYPE_PAIR, [*message, *explained, packets.CONNECT, packets.SUBSCRIBE, packets.UNSUBSCRIBE])
    _declare(MAXIMUM_PACKET_SIZE, TYPE_FOUR, handshake)
    _declare(WILDCARD_SUBSCRIPTION_AVAILABLE, TYPE_FLAG, connack)
    _declare(SUBSCRIPTION_IDENTIFIER_AVAILABLE, TYPE_FLAG, connack)
    _declare(SHARED_SUBSCRIPTION_AVAILABLE, TYPE_FLAG, connack)


_declare_all()
