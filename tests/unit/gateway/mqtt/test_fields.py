import pytest

from gateway.mqtt import fields
from gateway.mqtt.errors import MalformedPacket, PacketError
from gateway.mqtt.fields import Reader

# [MQTT-1.5.5], table 1-1
VARINTS = [
    (0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001"),
    (2_097_151, "ffff7f"), (2_097_152, "80808001"), (268_435_455, "ffffff7f"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "raw"), VARINTS)
def test_varint(value: int, raw: str) -> None:
    data = bytes.fromhex(raw)
    assert fields.varint(value) == data
    reader = Reader(b"\xff" + data + b"\xff", 1, 1 + len(data))
    assert reader.varint() == value
    reader.finish()


@pytest.mark.parametrize("raw", ["80", "8080", "ffffffff7f", "8000", "80808000"])
def test_varint_cut_too_long_or_padded(raw: str) -> None:
    data = bytes.fromhex(raw)
    with pytest.raises(MalformedPacket):
        Reader(data, 0, len(data)).varint()


def test_fixed_numbers() -> None:
    data = fields.u16(0xFEDC) + fields.u32(0xFEDCBA98) + b"\x07"
    assert data.hex() == "fedcfedcba9807"
    reader = Reader(data, 0, len(data))
    assert (reader.u16(), reader.u32(), reader.u8()) == (0xFEDC, 0xFEDCBA98, 7)
    with pytest.raises(MalformedPacket):
        reader.u8()


def test_values_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="two bytes"):
        fields.u16(65_536)
    with pytest.raises(ValueError, match="four bytes"):
        fields.u32(-1)
    with pytest.raises(ValueError, match="variable byte"):
        fields.varint(268_435_456)
    with pytest.raises(ValueError, match="two bytes"):
        fields.binary(bytes(65_536))
    with pytest.raises(ValueError, match=r"U\+0000"):
        fields.text("a\0")


def test_a_field_never_reads_beyond_its_packet() -> None:
    for raw in ("00", "0003aabb"):
        data = bytes.fromhex(raw)
        with pytest.raises(MalformedPacket):
            Reader(data + b"\xcc" * 9, 0, len(data)).binary()
    with pytest.raises(MalformedPacket):
        Reader(b"ab", 0, 2).finish()


@pytest.mark.parametrize(
    "raw",
    [
        b"\xc3",  # cut
        b"\xc0\xaf",  # overlong
        b"\xed\xa0\x80",  # U+D800 [MQTT-1.5.4-1]
        b"\xed\xbf\xbf",  # U+DFFF
        b"\xf4\x90\x80\x80",  # above U+10FFFF
        b"a\0b",  # U+0000 [MQTT-1.5.4-2]
    ],
)
def test_strings_that_are_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedPacket):
        Reader(fields.binary(raw), 0, len(raw) + 2).text()
    with pytest.raises(MalformedPacket):
        fields.check_topic_name(raw)


def test_byte_order_mark_is_kept() -> None:
    assert Reader(fields.text("\ufeffa"), 0, 6).text() == "\ufeffa"  # [MQTT-1.5.4-3]


@pytest.mark.parametrize(
    ("topic", "reason"), [(b"", 0x82), (b"a/+", 0x90), (b"#", 0x90), (b"a+b", 0x90), (b"\xff", 0x81)]
)
def test_bad_topic_names(topic: bytes, reason: int) -> None:
    with pytest.raises(PacketError) as caught:
        fields.check_topic_name(topic)
    assert caught.value.reason == reason


@pytest.mark.parametrize("topic", ["/", "a//b", " ", "$SYS/x", "日本/温度"])
def test_good_topic_names(topic: str) -> None:
    assert fields.check_topic_name(topic.encode()) == topic
