import pytest

from gateway.mqtt import packets, reasons


def test_every_code_has_a_name() -> None:
    codes = {
        value for name, value in vars(reasons).items() if name.isupper() and name[0] != "_" and isinstance(value, int)
    }
    assert codes == set(reasons.NAMES)
    assert len(codes) == 8 + 35
    assert reasons.reason_name(reasons.SESSION_TAKEN_OVER) == "session taken over"
    assert reasons.reason_name(0x42) == "reason 0x42"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("NO_MATCHING_SUBSCRIBERS", 0x10),
        ("SESSION_TAKEN_OVER", 0x8E),
        ("TOPIC_NAME_INVALID", 0x90),
        ("PACKET_IDENTIFIER_NOT_FOUND", 0x92),
        ("RECEIVE_MAXIMUM_EXCEEDED", 0x93),
        ("TOPIC_ALIAS_INVALID", 0x94),
        ("PACKET_TOO_LARGE", 0x95),
        ("QUOTA_EXCEEDED", 0x97),
        ("WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED", 0xA2),
    ],
)
def test_code_values(name: str, code: int) -> None:
    assert getattr(reasons, name) == code


# tables of: [MQTT-3.2.2.2], [MQTT-3.4.2.1], [MQTT-3.6.2.1], [MQTT-3.9.3], [MQTT-3.11.3], [MQTT-3.14.2.1] ...
@pytest.mark.parametrize(
    ("packet_type", "good", "bad"),
    [
        (packets.CONNECT, [], [0x00, 0x80]),
        (packets.CONNACK, [0, 0x80, 0x84, 0x85, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9D, 0x9F], [1, 0x8B, 0x8E, 0x9E]),
        (packets.PUBACK, [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99], [1, 0x92, 0x95]),
        (packets.PUBREC, [0x00, 0x10, 0x91], [0x92]),
        (packets.PUBREL, [0x00, 0x92], [0x10, 0x80]),
        (packets.PUBCOMP, [0x00, 0x92], [0x10, 0x80]),
        (packets.SUBACK, [0x00, 0x01, 0x02, 0x80, 0x87, 0x8F, 0x9E, 0xA1, 0xA2], [0x03, 0x11, 0x81]),
        (packets.UNSUBACK, [0x00, 0x11, 0x80, 0x8F, 0x91], [0x01, 0x97]),
        (packets.DISCONNECT, [0, 0x04, 0x81, 0x8B, 0x8E, 0x93, 0x95, 0x9E, 0xA0, 0xA2], [1, 0x84, 0x91, 0x92, 0xA3]),
        (packets.AUTH, [0x00, 0x18, 0x19], [0x01, 0x80]),
    ],
)  # fmt: skip
def test_which_packet_may_carry_which_code(packet_type: int, good: list[int], bad: list[int]) -> None:
    assert [code for code in good if not reasons.allowed(packet_type, code)] == []
    assert [code for code in bad if reasons.allowed(packet_type, code)] == []


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (reasons.SUCCESS, 0),
        (reasons.UNSUPPORTED_PROTOCOL_VERSION, 1),
        (reasons.CLIENT_IDENTIFIER_NOT_VALID, 2),
        (reasons.SERVER_UNAVAILABLE, 3),
        (reasons.SERVER_BUSY, 3),
        (reasons.QUOTA_EXCEEDED, 3),
        (reasons.SERVER_MOVED, 3),
        (reasons.BAD_USER_NAME_OR_PASSWORD, 4),
        (reasons.BAD_AUTHENTICATION_METHOD, 4),
        (reasons.NOT_AUTHORIZED, 5),
        (reasons.BANNED, 5),
        (2, 2),
        (reasons.MALFORMED_PACKET, -1),  # closed without a CONNACK [MQTT-3.2.2-6]
        (reasons.PACKET_TOO_LARGE, -1),
    ],
)
def test_connack_return_codes_of_3_1_1(reason: int, code: int) -> None:
    assert reasons.connack_v3(reason) == code
