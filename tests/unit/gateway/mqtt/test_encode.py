import pytest

from gateway.mqtt import encode as module
from gateway.mqtt import packets, reasons
from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import (
    encode,
    encode_ack,
    encode_publish,
    fit,
    make_publish,
    publish_head,
    publish_properties,
)
from gateway.mqtt.packets import Ack, Connack, Disconnect, Packet, Properties, Publish, Suback, Unsuback
from tests import wire_format
from tests.plain import plain


def test_publish_head_and_properties_make_a_publish() -> None:
    for size in (0, 100, 120, 130, 20_000):
        rest = b"\0\7" + publish_properties(b"", -1, 0, None) + bytes(size)
        raw = publish_head(0x32, b"topic", len(rest)) + rest
        assert raw == wire_format.publish("topic", bytes(size), 1, pid=7, version=5)
        assert raw == encode_publish(5, b"topic", bytes(size), 1, False, False, 7, b"")


def test_publish_properties() -> None:
    kept = wire_format.properties([(1, 1), (0x26, ("a", "b"))])[1:]
    assert publish_properties(kept, -1, 0, None) == bytes([len(kept)]) + kept
    full = publish_properties(kept, 0, 3, [1, 400])
    assert full == wire_format.properties([(2, 0), (0x23, 3), (0x0B, 1), (0x0B, 400), (1, 1), (0x26, ("a", "b"))])
    assert publish_properties(b"", -1, 0, []) == b"\0"
    long = wire_format.properties([(0x26, ("k", "v" * 200))])[2:]
    assert publish_properties(long, -1, 0, None)[:2] == bytes([0x80 | len(long) & 0x7F, len(long) >> 7])


@pytest.mark.parametrize("version", [3, 4, 5])
def test_encode_publish_flags(version: int) -> None:
    raw = encode_publish(version, b"t", b"x", 2, True, True, 9, b"\1\1", 5, 2, [3])
    props = [(2, 5), (0x23, 2), (0x0B, 3), (1, 1)]
    assert raw == wire_format.publish("t", b"x", 2, True, True, 9, version, props)


@pytest.mark.parametrize(
    ("packet_type", "reason", "version", "raw"),
    [
        (packets.PUBACK, 0, 4, "40021234"),
        (packets.PUBACK, 0x10, 4, "40021234"),
        (packets.PUBACK, 0, 5, "40021234"),
        (packets.PUBACK, 0x10, 5, "4003123410"),
        (packets.PUBREC, 0x97, 5, "5003123497"),
        (packets.PUBREL, 0, 5, "62021234"),
        (packets.PUBREL, 0x92, 5, "6203123492"),
        (packets.PUBCOMP, 0x92, 3, "70021234"),
    ],
)
def test_encode_ack(packet_type: int, reason: int, version: int, raw: str) -> None:
    assert encode_ack(packet_type, 0x1234, reason, version).hex() == raw
    assert encode(Ack(packet_type, 0x1234, reason), version).hex() == raw


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("size", [0, 5, 119, 120, 121, 127, 128, 129, 16_384, 70_000])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_make_publish_is_as_received(version: int, size: int, qos: int) -> None:
    props = wire_format.properties([(3, "text"), (0x26, ("k", "v"))])[1:] if version == 5 else b""
    expiry, alias = (60, 3) if version == 5 else (-1, 0)
    packet = make_publish(
        "tö/pic", bytes(size), qos, True, qos > 0, 7 if qos else 0, props, expiry, alias, version=version
    )
    decoder = Decoder(0, version)
    decoder.feed(packet.frame)
    received = decoder.next()
    assert isinstance(received, Publish)
    assert plain(received) == plain(packet)
    assert (received.frame, received.body, received.id_at) == (packet.frame, packet.body, packet.id_at)
    assert encode(packet, version) == packet.frame


@pytest.mark.parametrize(
    ("reason", "version", "raw"),
    [
        (0, 3, "20020000"),  # 3.1 knows no session present
        (0, 4, "20020100"),
        (0, 5, "2003010000"),
    ],
)
def test_session_present(reason: int, version: int, raw: str) -> None:
    assert encode(Connack(True, reason), version).hex() == raw


def test_refusals_below_5() -> None:
    assert encode(Connack(False, reasons.NOT_AUTHORIZED), 4).hex() == "20020005"
    assert encode(Connack(False, reasons.MALFORMED_PACKET), 4) == b""  # [MQTT-3.2.2-6]
    assert encode(Suback(1, [1, reasons.NOT_AUTHORIZED]), 4).hex() == "900400010180"
    assert encode(Unsuback(1, [0x11]), 4).hex() == "b0020001"
    assert encode(Disconnect(reasons.SESSION_TAKEN_OVER), 4).hex() == "e000"
    assert encode(Disconnect(reasons.SESSION_TAKEN_OVER), 5).hex() == "e0018e"


def explained(reason: str | None, *user: tuple[str, str]) -> Properties:
    props = Properties()
    props.reason_string = reason
    props.user_properties = list(user)
    return props


def test_fit_drops_the_reason_string_first() -> None:
    packet = Ack(packets.PUBACK, 1, 0x87, explained("because", ("k", "v")))
    size = len(encode(packet, 5))
    whole = fit(packet, 5, size)
    assert whole == encode(packet, 5)
    assert fit(packet, 5, 0) == whole
    less = fit(packet, 5, size - 1)
    assert less == bytes.fromhex("400b 0001 87 07 26 0001 6b 0001 76")
    assert packet.properties is not None
    assert packet.properties.reason_string is None
    assert fit(packet, 5, len(less) - 1) == bytes.fromhex("4003 0001 87")
    assert fit(packet, 5, 4) is None


def test_fit_keeps_a_short_packet_with_long_user_properties() -> None:
    packet = Disconnect(0x8E, explained("r", ("k", "v" * 100)))
    assert fit(packet, 5, 50) == bytes.fromhex("e0018e")


@pytest.mark.parametrize(
    ("packet", "told"),
    [
        (Ack(packets.PUBREC, 1, 0x80, explained("why", ("k", "v"))), False),
        (Suback(1, [0x80], explained("why", ("k", "v"))), False),
        (Unsuback(1, [0x80], explained("why", ("k", "v"))), False),
        (Connack(False, 0x80, explained("why", ("k", "v"))), True),
        (Disconnect(0x80, explained("why", ("k", "v"))), True),
    ],
)
def test_fit_without_problem_information(packet: Packet, told: bool) -> None:
    """[MQTT-3.1.2-29]: only CONNACK, DISCONNECT and PUBLISH may say more."""
    raw = fit(packet, 5, 0, False)
    assert raw is not None
    assert (b"why" in raw) is told
    assert (b"\x26\0\1k\0\1v" in raw) is told


def test_fit_never_touches_a_publish() -> None:
    packet = make_publish("t", b"x", props=wire_format.properties([(0x26, ("k", "v"))])[1:])
    assert fit(packet, 5, 0, False) == packet.frame
    assert fit(packet, 5, len(packet.frame) - 1) is None


def test_what_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match="type 9"):
        encode(Packet(9), 5)
    with pytest.raises(ValueError, match="two bytes"):
        encode(Ack(packets.PUBACK, 70_000, 0, explained("x")), 5)
    assert module.varint(200) == b"\xc8\x01"
