"""The bytes that wait to be written to one connection; the commonest packets are encoded in place."""

from typing import Final, final

from librt.strings import BytesWriter, write_i16_be, write_i32_be
from mypy_extensions import i16, i32, i64

from gateway.mqtt.fields import varint

COPY_MAX: Final = 2048  # larger pieces are kept as they are
NEAR_MAX: Final = 32_768  # copied bytes that may stand together: a larger buffer costs more to grow than to start anew
KEEP_MAX: Final = 1024  # a buffer that held more is not kept


def _write_u16(near: BytesWriter, n: i64) -> None:
    write_i16_be(near, i16(n - 65536 if n > 32767 else n))


@final
class Outgoing:
    """Small pieces are copied together as they come, which costs a fraction of a list of them."""

    def __init__(self) -> None:
        self.size: i64 = 0  # bytes
        self._near = BytesWriter()
        self._parts: list[bytes] = []  # what comes before it

    def write(self, data: bytes) -> None:
        """Bytes that are encoded already."""
        self.size += len(data)
        if len(data) > COPY_MAX:
            self._far(data)
            return
        near = self._near
        near.write(data)
        if len(near) > NEAR_MAX:
            self._spill()

    def write_publish(self, topic: bytes, packet_id: i64, middle: bytes, payload: bytes) -> None:
        """A plain PUBLISH of QoS 1 (no DUP, no RETAIN); ``middle`` is its encoded properties with their length."""
        near = self._near
        before: i64 = len(near)
        size: i64 = len(topic)
        left: i64 = size + 4 + len(middle) + len(payload)
        if left < 128:
            _write_u16(near, 0x3200 | left)
        else:
            near.append(0x32)
            if left < 16384:
                _write_u16(near, (left & 127 | 128) << 8 | left >> 7)
            else:
                near.write(varint(left))
        _write_u16(near, size)
        near.write(topic)
        _write_u16(near, packet_id)
        near.write(middle)
        self.size += len(near) - before
        self.write(payload)

    def write_puback(self, packet_id: i64) -> None:
        """One that says success."""
        self.size += 4
        write_i32_be(self._near, i32(0x40020000 | packet_id))

    def take(self) -> bytes:
        """All of it, once."""
        near = self._near
        self.size = 0
        data = near.getvalue()
        if len(data) > KEEP_MAX:
            self._near = BytesWriter()
        else:
            near.truncate(0)
        parts = self._parts
        if parts:
            self._parts = []
            parts.append(data)
            data = b"".join(parts)
        return data

    def _far(self, data: bytes) -> None:
        if len(self._near):
            self._spill()
        self._parts.append(data)

    def _spill(self) -> None:
        self._parts.append(self._near.getvalue())
        self._near = BytesWriter()
