"""Reason codes of MQTT 5.0 [MQTT-2.4] and their return codes in 3.1.1."""

from typing import Final

from gateway.mqtt import packets

SUCCESS: Final = 0x00
NORMAL_DISCONNECTION: Final = 0x00
GRANTED_QOS_0: Final = 0x00
GRANTED_QOS_1: Final = 0x01
GRANTED_QOS_2: Final = 0x02
DISCONNECT_WITH_WILL_MESSAGE: Final = 0x04
NO_MATCHING_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION_EXISTED: Final = 0x11
CONTINUE_AUTHENTICATION: Final = 0x18
RE_AUTHENTICATE: Final = 0x19
UNSPECIFIED_ERROR: Final = 0x80
MALFORMED_PACKET: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
IMPLEMENTATION_SPECIFIC_ERROR: Final = 0x83
UNSUPPORTED_PROTOCOL_VERSION: Final = 0x84
CLIENT_IDENTIFIER_NOT_VALID: Final = 0x85
BAD_USER_NAME_OR_PASSWORD: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
SERVER_UNAVAILABLE: Final = 0x88
SERVER_BUSY: Final = 0x89
BANNED: Final = 0x8A
SERVER_SHUTTING_DOWN: Final = 0x8B
BAD_AUTHENTICATION_METHOD: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
SESSION_TAKEN_OVER: Final = 0x8E
TOPIC_FILTER_INVALID: Final = 0x8F
TOPIC_NAME_INVALID: Final = 0x90
PACKET_IDENTIFIER_IN_USE: Final = 0x91
PACKET_IDENTIFIER_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM_EXCEEDED: Final = 0x93
TOPIC_ALIAS_INVALID: Final = 0x94
PACKET_TOO_LARGE: Final = 0x95
MESSAGE_RATE_TOO_HIGH: Final = 0x96
QUOTA_EXCEEDED: Final = 0x97
ADMINISTRATIVE_ACTION: Final = 0x98
PAYLOAD_FORMAT_INVALID: Final = 0x99
RETAIN_NOT_SUPPORTED: Final = 0x9A
QOS_NOT_SUPPORTED: Final = 0x9B
USE_ANOTHER_SERVER: Final = 0x9C
SERVER_MOVED: Final = 0x9D
SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0x9E
CONNECTION_RATE_EXCEEDED: Final = 0x9F
MAXIMUM_CONNECT_TIME: Final = 0xA0
SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: Final = 0xA1
WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0xA2

NAMES: Final[dict[int, str]] = {
    SUCCESS: "success",
    GRANTED_QOS_1: "granted QoS 1",
    GRANTED_QOS_2: "granted QoS 2",
    DISCONNECT_WITH_WILL_MESSAGE: "disconnect with will message",
    NO_MATCHING_SUBSCRIBERS: "no matching subscribers",
    NO_SUBSCRIPTION_EXISTED: "no subscription existed",
    CONTINUE_AUTHENTICATION: "continue authentication",
    RE_AUTHENTICATE: "re-authenticate",
    UNSPECIFIED_ERROR: "unspecified error",
    MALFORMED_PACKET: "malformed packet",
    PROTOCOL_ERROR: "protocol error",
    IMPLEMENTATION_SPECIFIC_ERROR: "implementation specific error",
    UNSUPPORTED_PROTOCOL_VERSION: "unsupported protocol version",
    CLIENT_IDENTIFIER_NOT_VALID: "client identifier not valid",
    BAD_USER_NAME_OR_PASSWORD: "bad user name or password",
    NOT_AUTHORIZED: "not authorized",
    SERVER_UNAVAILABLE: "server unavailable",
    SERVER_BUSY: "server busy",
    BANNED: "banned",
    SERVER_SHUTTING_DOWN: "server shutting down",
    BAD_AUTHENTICATION_METHOD: "bad authentication method",
    KEEP_ALIVE_TIMEOUT: "keep alive timeout",
    SESSION_TAKEN_OVER: "session taken over",
    TOPIC_FILTER_INVALID: "topic filter invalid",
    TOPIC_NAME_INVALID: "topic name invalid",
    PACKET_IDENTIFIER_IN_USE: "packet identifier in use",
    PACKET_IDENTIFIER_NOT_FOUND: "packet identifier not found",
    RECEIVE_MAXIMUM_EXCEEDED: "receive maximum exceeded",
    TOPIC_ALIAS_INVALID: "topic alias invalid",
    PACKET_TOO_LARGE: "packet too large",
    MESSAGE_RATE_TOO_HIGH: "message rate too high",
    QUOTA_EXCEEDED: "quota exceeded",
    ADMINISTRATIVE_ACTION: "administrative action",
    PAYLOAD_FORMAT_INVALID: "payload format invalid",
    RETAIN_NOT_SUPPORTED: "retain not supported",
    QOS_NOT_SUPPORTED: "QoS not supported",
    USE_ANOTHER_SERVER: "use another server",
    SERVER_MOVED: "server moved",
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: "shared subscriptions not supported",
    CONNECTION_RATE_EXCEEDED: "connection rate exceeded",
    MAXIMUM_CONNECT_TIME: "maximum connect time",
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: "subscription identifiers not supported",
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: "wildcard subscriptions not supported",
}

_PUBLISH_ANSWER: Final = frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
_RELEASE: Final = frozenset({0x00, 0x92})
_NONE: Final[frozenset[int]] = frozenset()

# by packet type: the codes that it may carry
_ALLOWED: Final[list[frozenset[int]]] = [_NONE] * 16
_ALLOWED[packets.CONNACK] = frozenset({0x00, 0x90, 0x95, 0x97, 0x9F, *range(0x80, 0x8B), 0x8C, *range(0x99, 0x9E)})
_ALLOWED[packets.PUBACK] = _PUBLISH_ANSWER
_ALLOWED[packets.PUBREC] = _PUBLISH_ANSWER
_ALLOWED[packets.PUBREL] = _RELEASE
_ALLOWED[packets.PUBCOMP] = _RELEASE
_ALLOWED[packets.SUBACK] = frozenset({0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2})
_ALLOWED[packets.UNSUBACK] = frozenset({0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91})
_ALLOWED[packets.DISCONNECT] = frozenset(
    {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, *range(0x8B, 0x91), *range(0x93, 0xA3)}
)
_ALLOWED[packets.AUTH] = frozenset({0x00, 0x18, 0x19})


def reason_name(code: int) -> str:
    """The name that the standard gives to ``code``, or its number where it gives none."""
    return NAMES.get(code, f"reason 0x{code:02X}")


def allowed(packet_type: int, code: int) -> bool:
    """Whether a packet of this type may carry ``code`` in MQTT 5.0."""
    return code in _ALLOWED[packet_type]


def connack_v3(code: int) -> int:
    """The 3.1.1 CONNACK return code for a 5.0 reason; return codes 0..5 stand for themselves.

    -1 where 3.1.1 has none: then the connection is closed without a CONNACK [MQTT-3.2.2-6].
    """
    if code <= 5:
        return code
    if code == UNSUPPORTED_PROTOCOL_VERSION:
        return 1
    if code == CLIENT_IDENTIFIER_NOT_VALID:
        return 2
    if code == BAD_USER_NAME_OR_PASSWORD or code == BAD_AUTHENTICATION_METHOD:
        return 4
    if code == NOT_AUTHORIZED or code == BANNED:
        return 5
    if code in (SERVER_UNAVAILABLE, SERVER_BUSY, SERVER_SHUTTING_DOWN, QUOTA_EXCEEDED, CONNECTION_RATE_EXCEEDED):
        return 3
    if code in (USE_ANOTHER_SERVER, SERVER_MOVED):
        return 3
    return -1
