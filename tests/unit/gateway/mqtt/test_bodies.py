"""Bodies byte by byte: what each version accepts and what it refuses, and why."""

import pytest

from gateway.mqtt import packets
from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import encode
from gateway.mqtt.errors import PacketError
from tests import wire_format
from tests.plain import plain


def decode(raw: bytes, version: int) -> packets.Packet:
    decoder = Decoder(0, version)
    decoder.feed(raw)
    packet = decoder.next()
    assert packet is not None
    assert decoder.buffered == 0
    return packet


# version, first byte, body, the body as the product's own encoder writes it (None = the same)
ACCEPTED = [
    (4, 0x20, "00 00", None),
    (4, 0x20, "01 00", None),
    (4, 0x20, "00 05", None),
    (3, 0x20, "ff 00", "00 00"),  # not used in 3.1
    (5, 0x20, "01 00 00", None),
    (5, 0x20, "00 87 03 21 000a", None),
    (3, 0x40, "0001", None),
    (4, 0x50, "ffff", None),
    (4, 0x62, "0001", None),
    (4, 0x70, "0001", None),
    (5, 0x40, "0001", None),  # reason code and properties left out [MQTT-3.4.2.1]
    (5, 0x40, "0001 00", "0001"),
    (5, 0x40, "0001 00 00", "0001"),
    (5, 0x40, "0001 10", None),
    (5, 0x40, "0001 10 00", "0001 10"),
    (5, 0x50, "0001 80 04 1f 0001 61", None),
    (5, 0x62, "0001 92", None),
    (5, 0x70, "0001 92", None),
    (4, 0x82, "0001 0001 61 01", None),
    (4, 0x82, "0001 0001 61 02 0001 23 00", None),
    (5, 0x82, "0001 00 0001 61 2e", None),
    (5, 0x82, "0001 02 0b05 0003 612f62 1d", None),
    (4, 0x90, "0001 00 01 02 80", None),
    (5, 0x90, "0001 00 01 a2", None),
    (4, 0xA2, "0001 0001 61 0001 62", None),
    (5, 0xA2, "0001 00 0001 61", None),
    (4, 0xB0, "0001", None),
    (5, 0xB0, "0001 00 00 11", None),
    (4, 0xC0, "", None),
    (5, 0xD0, "", None),
    (4, 0xE0, "", None),
    (5, 0xE0, "", None),  # absent is 0x00 [MQTT-3.14.2.1]
    (5, 0xE0, "00", ""),
    (5, 0xE0, "04", None),
    (5, 0xE0, "00 00", ""),
    (5, 0xE0, "04 05 11 00000009", None),
    (5, 0xF0, "", None),  # [MQTT-3.15.2.1]
    (5, 0xF0, "00 00", ""),
    (5, 0xF0, "18 00", None),
    (5, 0xF0, "18 04 15 0001 61", None),
]


@pytest.mark.parametrize(("version", "first", "body", "again"), ACCEPTED)
def test_accepted(version: int, first: int, body: str, again: str | None) -> None:
    packet = decode(wire_format.frame(first, bytes.fromhex(body)), version)
    expected = body if again is None else again
    assert encode(packet, version) == wire_format.frame(first, bytes.fromhex(expected))


# version, first byte, body, reason
REFUSED = [
    (4, 0x20, "02 00", 0x81),  # [MQTT-3.2.2-1]
    (4, 0x20, "00", 0x81),
    (4, 0x20, "00 06", 0x82),
    (4, 0x20, "01 05", 0x82),  # [MQTT-3.2.2-4] of 3.1.1
    (4, 0x20, "00 00 00", 0x81),
    (5, 0x20, "01 87 00", 0x82),  # [MQTT-3.2.2-6]
    (5, 0x20, "00 00", 0x81),
    (5, 0x20, "00 8e 00", 0x82),  # [MQTT-3.2.2-8]
    (4, 0x40, "0000", 0x81),  # [MQTT-2.2.1-3]
    (4, 0x40, "00", 0x81),
    (4, 0x40, "0001 00", 0x81),
    (5, 0x40, "0001 92", 0x82),  # [MQTT-3.4.2-1]
    (5, 0x40, "0001 00 00 00", 0x81),
    (5, 0x40, "0001 00 05 1f 0001 61", 0x81),
    (5, 0x40, "0001 00 05 11 00000000", 0x81),
    (5, 0x62, "0001 80", 0x82),  # [MQTT-3.6.2-1]
    (4, 0x82, "0001", 0x82),  # [MQTT-3.8.3-2]
    (5, 0x82, "0001 00", 0x82),
    (4, 0x82, "0000 0001 61 00", 0x81),
    (4, 0x82, "0001 0001 61", 0x81),
    (4, 0x82, "0001 0002 61", 0x81),
    (4, 0x82, "0001 0000 00", 0x82),  # [MQTT-4.7.3-1]
    (4, 0x82, "0001 0001 ff 00", 0x81),
    (4, 0x82, "0001 0001 00 00", 0x81),  # [MQTT-4.7.3-2]
    (4, 0x82, "0001 0001 61 03", 0x82),
    (4, 0x82, "0001 0001 61 04", 0x81),  # 3.1.1 [MQTT-3.8.3-4]
    (5, 0x82, "0001 00 0001 61 03", 0x82),
    (5, 0x82, "0001 00 0001 61 30", 0x82),  # retain handling 3 [MQTT-3.8.3.1]
    (5, 0x82, "0001 00 0001 61 40", 0x81),  # [MQTT-3.8.3-5]
    (5, 0x82, "0001 00 0001 61 80", 0x81),
    (4, 0x90, "0001", 0x82),
    (4, 0x90, "0001 03", 0x82),  # 3.1.1 [MQTT-3.9.3-2]
    (5, 0x90, "0001 00 03", 0x82),
    (4, 0xA2, "0001", 0x82),  # [MQTT-3.10.3-2]
    (5, 0xA2, "0001 00", 0x82),
    (4, 0xA2, "0001 0000", 0x82),
    (4, 0xA2, "0000 0001 61", 0x81),
    (4, 0xA2, "0001 0002 61", 0x81),
    (4, 0xB0, "0001 00", 0x81),
    (5, 0xB0, "0001 00", 0x82),
    (5, 0xB0, "0001 00 01", 0x82),
    (4, 0xC0, "00", 0x81),
    (4, 0xD0, "00", 0x81),
    (4, 0xE0, "00", 0x81),
    (5, 0xE0, "01", 0x82),
    (5, 0xE0, "00 00 00", 0x81),
    (5, 0xE0, "00 03 21 0001", 0x81),
    (5, 0xF0, "18", 0x81),
    (5, 0xF0, "01 00", 0x82),
    (5, 0xF0, "18 00 00", 0x81),
    (4, 0xF0, "", 0x81),  # type 15 is reserved in 3.1.1
]


@pytest.mark.parametrize(("version", "first", "body", "reason"), REFUSED)
def test_refused(version: int, first: int, body: str, reason: int) -> None:
    with pytest.raises(PacketError) as caught:
        decode(wire_format.frame(first, bytes.fromhex(body)), version)
    assert caught.value.reason == reason


def test_subscription_options() -> None:
    raw = wire_format.frame(0x82, bytes.fromhex("0007 00 0001 61 2e 0001 62 11"))
    packet = decode(raw, 5)
    assert isinstance(packet, packets.Subscribe)
    assert packet.packet_id == 7
    found = [(f.filter, f.qos, f.no_local, f.retain_as_published, f.retain_handling) for f in packet.filters]
    assert found == [("a", 2, True, True, 2), ("b", 1, False, False, 1)]


def test_connect_with_everything() -> None:
    will = wire_format.Will("w/t", b"\xff", 2, True, [(0x18, 7), (0x01, 1), (0x02, 60), (0x26, ("k", "v"))])
    props = [(0x11, 100), (0x21, 5), (0x15, "m"), (0x16, b"d"), (0x26, ("a", "b"))]
    raw = wire_format.connect("me", 5, False, 30, will, props, "user", b"\x00\xff")
    packet = decode(raw, 5)
    assert isinstance(packet, packets.Connect)
    assert packet.properties is not None
    assert plain(packet) == {
        "class": "Connect", "type": 1, "version": 5, "client_id": "me", "clean_start": False, "keep_alive": 30,
        "username": "user", "password": b"\x00\xff",
        "will": {
            "class": "Will", "topic": b"w/t", "payload": b"\xff", "qos": 2, "retain": True, "expiry": 60, "delay": 7,
            "props": wire_format.properties([(0x01, 1), (0x26, ("k", "v"))])[1:],
        },
        "properties": {
            "session_expiry_interval": 100, "receive_maximum": 5, "authentication_method": "m",
            "authentication_data": b"d", "user_properties": [("a", "b")],
        },
    }  # fmt: skip
    assert plain(decode(encode(packet, 5), 5)) == plain(packet)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_plain_connects(version: int) -> None:
    raw = wire_format.connect("", version, True, 0, wire_format.Will("w"), username="u")
    packet = decode(raw, version)
    assert isinstance(packet, packets.Connect)
    assert (packet.version, packet.clean_start, packet.username, packet.password) == (version, True, "u", None)
    assert (packet.properties is None) is (version < 5)  # always there in 5.0
    assert encode(packet, version) == raw


NAME = "0004 4d515454"  # "MQTT"

# level and flags and so on after the protocol name
BAD_CONNECTS = [
    (NAME + "04 01 0000 0000", 0x81),  # [MQTT-3.1.2-3]
    (NAME + "04 08 0000 0000", 0x81),  # [MQTT-3.1.2-11]
    (NAME + "04 20 0000 0000", 0x81),  # [MQTT-3.1.2-13]
    (NAME + "04 1c 0000 0000 0001 61 0000", 0x81),  # [MQTT-3.1.2-12]
    (NAME + "04 40 0000 0000 0000", 0x81),  # 3.1.1 [MQTT-3.1.2-22]
    (NAME + "04 00 0000 0000 00", 0x81),
    (NAME + "04 00 0000", 0x81),
    (NAME + "04 00 0000 0001 ff", 0x81),
    (NAME + "04 80 0000 0000", 0x81),
    (NAME + "04 80 0000 0000 0001 00", 0x81),
    (NAME + "04 04 0000 0000 0000 0000", 0x82),
    (NAME + "04 04 0000 0000 0001 23 0000", 0x90),
    (NAME + "04 04 0000 0000 0003 eda080 0000", 0x81),
    (NAME + "05 00 0000 03 210000 0000", 0x82),
    (NAME + "05 00 0000 05 210001 0000", 0x81),
    (NAME + "05 00 0000 03 230001 0000", 0x81),
    (NAME + "05 00 0000 04 16 0001 61 0000", 0x82),  # data without a method [MQTT-3.1.2.11.10]
    (NAME + "05 04 0000 00 0000 03 230001 0001 61 0000", 0x81),
    (NAME + "05 04 0000 00 0000 0a 1800000001 1800000001 0001 61 0000", 0x82),
    (NAME + "05 04 0000 00 0000 7f", 0x81),
    (NAME + "06 00 0000 0000", 0x84),  # [MQTT-3.1.2-2]
    (NAME + "03 00 0000 0000", 0x84),
    (NAME + "84 00 0000 0000", 0x84),
    ("0004 6d717474 04 00 0000 0000", 0x84),  # [MQTT-3.1.2-1]
    ("0006 4d5149736470 04 00 0000 0000", 0x84),
    ("0004 4d51", 0x81),
]


@pytest.mark.parametrize(("body", "reason"), BAD_CONNECTS)
def test_bad_connects(body: str, reason: int) -> None:
    decoder = Decoder(0)
    decoder.feed(wire_format.frame(0x10, bytes.fromhex(body)))
    with pytest.raises(PacketError) as caught:
        decoder.next()
    assert caught.value.reason == reason


def test_password_without_user_name_in_5() -> None:
    packet = decode(wire_format.connect("c", 5, password="p"), 5)
    assert isinstance(packet, packets.Connect)
    assert (packet.username, packet.password) == (None, b"p")


def test_3_1_sends_again_with_dup() -> None:
    for first in (0x6A, 0x8A, 0xAA):
        body = {0x6A: "0001", 0x8A: "0001 0001 61 01", 0xAA: "0001 0001 61"}[first]
        raw = wire_format.frame(first, bytes.fromhex(body))
        assert decode(raw, 3).type == first >> 4
        for version in (4, 5):
            with pytest.raises(PacketError):
                decode(raw, version)
