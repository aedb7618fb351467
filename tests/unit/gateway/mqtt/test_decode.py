"""Framing, limits and PUBLISH."""

import time

import pytest

from gateway.mqtt import packets
from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import make_publish
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import Publish
from tests import wire_format
from tests.plain import plain
from tests.wire_format import frame, publish


def fed(raw: bytes, version: int = 0, limit: int = 0) -> Decoder:
    decoder = Decoder(limit, version)
    decoder.feed(raw)
    return decoder


def one_publish(raw: bytes, version: int) -> Publish:
    decoder = fed(raw, version)
    packet = decoder.next()
    assert isinstance(packet, Publish)
    assert decoder.buffered == 0
    return packet


def reason_of(decoder: Decoder) -> int:
    with pytest.raises(PacketError) as caught:
        decoder.next()
    assert caught.value.text
    assert decoder.buffered == 0
    decoder.feed(b"\xc0\x00")
    assert decoder.buffered == 0  # dead: takes and gives nothing
    assert decoder.next() is None
    return caught.value.reason


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("size", [0, 64, 200, 20_000])
@pytest.mark.parametrize(
    ("qos", "retain", "dup"), [(0, False, False), (0, True, False), (1, True, True), (2, False, True)]
)
def test_publish(version: int, size: int, qos: int, retain: bool, dup: bool) -> None:
    pid = 0x1234 if qos else 0
    payload = bytes(size)
    raw = publish("a/b", payload, qos, retain, dup, pid, version)
    packet = one_publish(raw, version)
    assert packet.frame == raw
    assert (packet.topic, packet.payload, packet.qos, packet.packet_id) == (b"a/b", payload, qos, pid)
    assert (packet.retain, packet.dup) == (retain, dup)
    assert raw[packet.body :] == payload
    if qos:
        assert raw[packet.id_at : packet.id_at + 2] == b"\x12\x34"
    assert (packet.props, packet.expiry, packet.alias, packet.subscription_identifiers) == (b"", -1, 0, None)


def test_publish_properties_are_sorted_out() -> None:
    props = [(0x02, 60), (0x26, ("b", "1")), (0x23, 4), (0x01, 1), (0x0B, 9), (0x26, ("a", "2")), (0x0B, 300)]
    raw = publish("", b"pay", 1, pid=7, version=5, props=props)
    packet = one_publish(raw, 5)
    kept = wire_format.properties([(0x26, ("b", "1")), (0x01, 1), (0x26, ("a", "2"))])[1:]
    assert (packet.topic, packet.payload, packet.packet_id) == (b"", b"pay", 7)
    assert (packet.props, packet.expiry, packet.alias) == (kept, 60, 4)
    assert packet.subscription_identifiers == [9, 300]
    assert raw[packet.id_at : packet.id_at + 2] == b"\x00\x07"


def test_the_topic_is_not_validated() -> None:
    assert one_publish(publish(b"\xff/#", version=4), 4).topic == b"\xff/#"


# version, first byte, body, reason
BAD_PUBLISHES = [
    (4, 0x36, "0001 61 0001", 0x81),  # [MQTT-3.3.1-4]
    (4, 0x38, "0001 61", 0x81),  # [MQTT-3.3.1-2]
    (4, 0x32, "0001 61 0000", 0x81),  # [MQTT-2.2.1-3]
    (5, 0x34, "0001 61 0000 00", 0x81),
    (4, 0x30, "", 0x81),
    (4, 0x30, "00", 0x81),
    (4, 0x30, "0002 61", 0x81),
    (4, 0x32, "0001 61 00", 0x81),
    (4, 0x32, "0001 61", 0x81),
    (4, 0x30, "0000", 0x82),  # [MQTT-4.7.3-1]
    (5, 0x30, "0000 00", 0x82),  # neither topic nor alias [MQTT-3.3.2.1]
    (5, 0x30, "0000 05 02 00000001", 0x82),
    (5, 0x30, "0001 61", 0x81),
    (5, 0x30, "0001 61 03 2300", 0x81),
    (5, 0x30, "0001 61 80", 0x81),
    (5, 0x30, "0001 61 03 230000", 0x94),  # [MQTT-3.3.2-8]
    (5, 0x30, "0001 61 06 230001 230001", 0x82),
    (5, 0x30, "0001 61 03 210001", 0x81),
]


@pytest.mark.parametrize(("version", "first", "body", "reason"), BAD_PUBLISHES)
def test_bad_publishes(version: int, first: int, body: str, reason: int) -> None:
    # what follows must not be taken for a part of it
    assert reason_of(fed(frame(first, bytes.fromhex(body)) + bytes(99), version)) == reason


CONNECT = {version: wire_format.connect("c", version) for version in (3, 4, 5)}


def test_the_server_side_learns_its_version() -> None:
    for version, raw in CONNECT.items():
        decoder = fed(raw + publish("a", b"x", version=version))
        assert decoder.version == 0
        packet = decoder.next()
        assert isinstance(packet, packets.Connect)
        assert decoder.version == version
        assert isinstance(decoder.next(), Publish)
        assert decoder.next() is None


def test_version_after_a_bad_connect() -> None:
    """Known as soon as the level was read, so that the refusal can be sent in it."""
    decoder = fed(frame(0x10, bytes.fromhex("0004 4d515454 05 01")))
    assert reason_of(decoder) == 0x81
    assert decoder.version == 5
    decoder = fed(frame(0x10, bytes.fromhex("0004 4d515454 09 00")))
    assert reason_of(decoder) == 0x84
    assert decoder.version == 0


@pytest.mark.parametrize("first", [0x00, 0x20, 0x30, 0x40, 0x82, 0xC0, 0xE0, 0xF0, 0x47])
def test_what_comes_first_must_be_connect(first: int) -> None:
    """Seen in the first byte: garbage is not waited for [MQTT-3.1.0-1]."""
    assert reason_of(fed(bytes([first]))) == 0x82
    assert reason_of(fed(b"\x16")) == 0x81  # a TLS handshake


@pytest.mark.parametrize("first", [0x10, 0x20, 0x90, 0xB0, 0xD0])
def test_a_client_may_not_send(first: int) -> None:
    """A second CONNECT [MQTT-3.1.0-2] and what only servers send."""
    decoder = fed(CONNECT[5])
    decoder.next()
    decoder.feed(bytes([first]))
    assert reason_of(decoder) == 0x82


def test_a_client_may_not_send_subscription_identifiers() -> None:
    decoder = fed(CONNECT[5] + publish("a", version=5, props=[(0x0B, 1)]))
    decoder.next()
    assert reason_of(decoder) == 0x82  # [MQTT-3.3.4-6]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("packet_type", [0, *range(1, 3), *range(4, 16)])
def test_reserved_flags(packet_type: int, version: int) -> None:
    """Every flag but the one pattern is malformed, in the first byte [MQTT-2.1.3-1]."""
    right = 2 if packet_type in (6, 8, 10) else 0
    for flags in range(16):
        decoder = fed(bytes([packet_type << 4 | flags]), version)
        if flags == right and packet_type and (packet_type < 15 or version == 5):
            assert decoder.next() is None
        else:
            assert reason_of(decoder) == 0x81


def test_remaining_length_of_five_bytes() -> None:
    for version in (4, 5):
        for raw in (b"\x30\xff\xff\xff\xff", b"\x30\x80\x80\x80\x80"):
            assert reason_of(fed(raw, version)) == 0x81  # without waiting for the fifth
    assert reason_of(fed(b"\x10\x80\x80\x80\x80")) == 0x81


def test_padded_remaining_length() -> None:
    """Against [MQTT-1.5.5-1] in 5.0; 3.1.1 does not forbid it."""
    body = wire_format.text("a") + b"x"
    padded = b"\x30" + bytes([len(body) | 0x80, 0x80, 0x00]) + body
    packet = one_publish(padded, 4)
    assert (packet.topic, packet.payload) == (b"a", b"x")
    assert reason_of(fed(padded, 5)) == 0x81


def test_size_limit_counts_the_whole_packet() -> None:
    raw = publish("a", bytes(95))
    assert len(raw) == 100
    assert isinstance(fed(raw, 4, 100).next(), Publish)
    assert reason_of(fed(raw, 4, 99)) == 0x95
    assert reason_of(fed(b"\x30\xff\xff\xff\x7f", 4, 1_000_000)) == 0x95  # at the header, before the rest
    assert reason_of(fed(b"\x10\xff\xff\x7f", 0, 1_000_000)) == 0x95
    assert fed(b"\x30\xff\xff\xff\x7f", 4, 0).next() is None


STREAM = (
    CONNECT[5]
    + publish("a/b", b"first", 1, pid=1, version=5, props=[(0x26, ("k", "v"))])
    + frame(0x82, bytes.fromhex("0001 00 0001 61 00"))
    + frame(0xC0, b"")
    + publish("big", bytes(300), version=5)
    + frame(0x62, b"\0\1")
    + frame(0xE0, b"\4")
)


@pytest.mark.parametrize("size", [*range(1, 20), 64, 127, 128, 129, 1000])
def test_any_chunk_size(size: int) -> None:
    decoder = Decoder(0)
    found = []
    for at in range(0, len(STREAM), size):
        decoder.feed(STREAM[at : at + size])
        while (packet := decoder.next()) is not None:
            found.append(packet)
    assert [packet.type for packet in found] == [1, 3, 8, 12, 3, 6, 14]
    whole = fed(STREAM)
    assert [plain(packet) for packet in found] == [plain(whole.next()) for _ in found]
    assert decoder.buffered == whole.buffered == 0


def test_buffered_while_nobody_asks() -> None:
    decoder = Decoder(0)
    held = 0
    for at in range(0, len(STREAM), 7):
        decoder.feed(STREAM[at : at + 7])
        held += len(STREAM[at : at + 7])
        assert decoder.buffered == held
    for _ in range(7):
        packet = decoder.next()
        assert packet is not None
    assert decoder.next() is None
    assert decoder.buffered == 0


def test_a_small_packet_behind_a_big_one_that_came_in_parts() -> None:
    big = publish("a", bytes(500))
    decoder = fed(big[:100], 4)
    assert decoder.next() is None
    decoder.feed(big[100:])
    assert isinstance(decoder.next(), Publish)
    decoder.feed(b"\xc0\x00")
    decoder.feed(b"\xc0\x00")
    assert isinstance(decoder.next(), packets.Pingreq)
    assert isinstance(decoder.next(), packets.Pingreq)


def test_buffered_of_a_part() -> None:
    decoder = fed(STREAM + b"\x30\x05ab")
    for _ in range(7):
        decoder.next()
    assert decoder.buffered == 4
    assert decoder.next() is None
    assert decoder.buffered == 4


def cpu_s(raw: bytes, chunk: int) -> float:
    """The least of three: a busy machine makes it longer, never shorter."""
    found = []
    for _ in range(3):
        decoder, start = Decoder(0, 4), time.process_time()
        for at in range(0, len(raw), chunk):
            decoder.feed(raw[at : at + chunk])
            while decoder.next() is not None:
                pass
        found.append(time.process_time() - start)
        assert decoder.buffered == 0
    return min(found)


def test_a_big_packet_in_small_chunks_is_not_quadratic() -> None:
    """Four times the bytes, about four times the work; copied at each chunk they would take 16 times as much."""
    assert cpu_s(publish("a", bytes(64_000_000)), 16_384) < 9 * cpu_s(publish("a", bytes(16_000_000)), 16_384)


def test_many_packets_in_one_chunk_are_not_quadratic() -> None:
    assert cpu_s(b"\xc0\x00" * 200_000, 1 << 20) < 9 * cpu_s(b"\xc0\x00" * 50_000, 1 << 20)


def test_one_byte_chunks_do_not_hold_more_than_the_bytes() -> None:
    assert cpu_s(publish("a", bytes(200_000)), 1) < 9 * cpu_s(publish("a", bytes(50_000)), 1)


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100, 150, 10_000])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publish_that_is_too_large_can_be_passed_over(qos: int, chunk: int) -> None:
    """It comes without its payload; what follows it comes as ever, and nothing of it is held."""
    small = make_publish("s", b"x", 1, packet_id=9, version=4).frame
    big = make_publish("big/topic", bytes(5000), qos, packet_id=7 if qos else 0, version=4).frame
    stream = small + big + small + big + big + small
    decoder = Decoder(100, 4)
    decoder.passes_over = True
    found = []
    for at in range(0, len(stream), chunk):
        decoder.feed(stream[at : at + chunk])
        while (packet := decoder.next()) is not None:
            assert isinstance(packet, Publish)
            found.append((packet.topic, packet.packet_id, packet.qos, packet.cut, packet.body if packet.cut else 0))
        assert decoder.buffered <= 100
    cut = (b"big/topic", 7 if qos else 0, qos, True, len(big))
    assert found == [(b"s", 9, 1, False, 0), cut, (b"s", 9, 1, False, 0), cut, cut, (b"s", 9, 1, False, 0)]
    assert decoder.buffered == 0


def test_only_a_publish_is_passed_over() -> None:
    decoder = Decoder(10, 4)
    decoder.passes_over = True
    decoder.feed(frame(0x90, bytes(200)))
    with pytest.raises(PacketError):
        decoder.next()
    whole = fed(make_publish("t", bytes(20), version=4).frame, 4, 10)
    with pytest.raises(PacketError):
        whole.next()
