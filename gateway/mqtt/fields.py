"""The data types that packets are made of [MQTT-1.5], read from received bytes and written."""

from typing import Final, final

from mypy_extensions import i64

from gateway.mqtt.errors import MalformedPacket, PacketError, ProtocolError
from gateway.mqtt.reasons import TOPIC_NAME_INVALID

VARINT_MAX: Final = 268_435_455  # four bytes [MQTT-1.5.5]

BYTE: Final[list[bytes]] = [bytes((value,)) for value in range(256)]


def text_of(raw: bytes) -> str:
    """A UTF-8 encoded string; surrogates, U+0000 and bad UTF-8 are malformed [MQTT-1.5.4-1] [MQTT-1.5.4-2]."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedPacket("string is not valid UTF-8") from None
    if "\0" in text:
        raise MalformedPacket("string holds U+0000")
    return text


def check_topic_name(topic: bytes) -> str:
    """The topic name of a PUBLISH or will as text.

    Raises MalformedPacket where it is no UTF-8 string, ProtocolError where it
    is empty [MQTT-4.7.3-1], PacketError 0x90 where it holds a wildcard
    [MQTT-3.3.2-2].
    """
    text = text_of(topic)
    if not text:
        raise ProtocolError("topic name is empty")
    if "+" in text or "#" in text:
        raise PacketError(TOPIC_NAME_INVALID, "topic name holds a wildcard")
    return text


@final
class Reader:
    """Takes fields off ``data[pos:end]``; anything that does not fit is a MalformedPacket."""

    def __init__(self, data: bytes, pos: i64, end: i64) -> None:
        self.data = data
        self.pos: i64 = pos
        self.end: i64 = end

    def _take(self, count: i64) -> i64:
        start = self.pos
        if count > self.end - start:
            raise MalformedPacket("packet ends inside a field")
        self.pos = start + count
        return start

    def u8(self) -> i64:
        at = self._take(1)
        return self.data[at]

    def u16(self) -> i64:
        at = self._take(2)
        high: i64 = self.data[at]
        low: i64 = self.data[at + 1]
        return high << 8 | low

    def u32(self) -> i64:
        high = self.u16()
        low = self.u16()
        return high << 16 | low

    def varint(self) -> i64:
        """A variable byte integer in its shortest form [MQTT-1.5.5-1]."""
        value: i64 = 0
        shift: i64 = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 21:
                raise MalformedPacket("variable byte integer has more than four bytes")
        if byte == 0 and shift > 0:
            raise MalformedPacket("variable byte integer is not in its shortest form")
        return value

    def binary(self) -> bytes:
        count = self.u16()
        at = self._take(count)
        return self.data[at : at + count]

    def text(self) -> str:
        return text_of(self.binary())

    def finish(self) -> None:
        """Raises MalformedPacket when bytes are left over."""
        if self.pos != self.end:
            raise MalformedPacket("packet holds bytes after its last field")


def u16(value: int) -> bytes:
    """Two bytes, big endian; ValueError outside 0..65535."""
    if value < 0 or value > 0xFFFF:
        raise ValueError(f"{value} does not fit in two bytes")
    return b"%b%b" % (BYTE[value >> 8], BYTE[value & 0xFF])


def u32(value: int) -> bytes:
    """Four bytes, big endian; ValueError outside 0..4294967295."""
    if value < 0 or value > 0xFFFFFFFF:
        raise ValueError(f"{value} does not fit in four bytes")
    return u16(value >> 16) + u16(value & 0xFFFF)


def varint(value: int) -> bytes:
    """A variable byte integer; ValueError outside 0..268435455 [MQTT-1.5.5]."""
    if 0 <= value < 0x80:
        return BYTE[value]
    if value < 0 or value > VARINT_MAX:
        raise ValueError(f"{value} is no variable byte integer")
    out = b""
    while value >= 0x80:
        out += BYTE[value & 0x7F | 0x80]
        value >>= 7
    return out + BYTE[value]


def binary(value: bytes) -> bytes:
    """Binary data with its length; ValueError above 65535 bytes [MQTT-1.5.6]."""
    return u16(len(value)) + value


def text(value: str) -> bytes:
    """A UTF-8 string with its length; ValueError when it cannot be one [MQTT-1.5.4]."""
    if "\0" in value:
        raise ValueError("a string holds U+0000")
    return binary(value.encode("utf-8"))
