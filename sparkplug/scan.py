"""A short look at the bytes of a payload: sequence number, timestamp and bdSeq, without decoding its metrics.

Metrics are leapt over by their lengths, so the time grows with their number alone. Nothing here raises.
"""

from typing import Final, final

from mypy_extensions import i64

BD_SEQ: Final = b"bdSeq"
REBIRTH: Final = b"Node Control/Rebirth"

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_GROUP: Final = 3
_GROUP_END: Final = 4
_FIXED32: Final = 5
_TOO_LARGE: Final = 0x7FFFFFFFFFFFFFFF  # what stands for a number that needs the 64th bit


@final
class Scan:
    """What ``read`` found; one object serves any number of payloads.

    -1 stands for what is absent. ``timestamp`` is in ms as the sender gave it. ``seq`` and ``bd_seq`` are -1 too when
    they are out of 0..255 [tck-id-payloads-sequence-num-always-included, tck-id-payloads-ndeath-bdseq].
    """

    def __init__(self) -> None:
        self.seq: i64 = -1
        self.timestamp: i64 = -1
        self.historical: bool = False  # the first metric is marked so
        self.metrics: i64 = 0
        # only when ``names`` were asked for
        self.bd_seq: i64 = -1
        self.rebirth: bool = False  # there is a metric Node Control/Rebirth
        self._data: bytes = b""
        self._at: i64 = 0

    def read(self, data: bytes, names: bool) -> bool:
        """Scan ``data``; with ``names`` the names of the metrics too. False: it is no payload, the rest says nothing.

        Of a field that comes twice the last one counts, as in every protobuf decoder.
        """
        self.seq = -1
        self.timestamp = -1
        self.historical = False
        self.metrics = 0
        self.bd_seq = -1
        self.rebirth = False
        self._data = data
        end: i64 = len(data)
        at: i64 = 0
        depth: i64 = 0
        while at < end:
            tag: i64 = data[at]
            at += 1
            if tag == 0x12 and depth == 0:
                size: i64 = data[at] if at < end else -1
                at += 1
                if size > 127:
                    self._at = at - 1
                    size = self._number(end)
                    at = self._at
                if size < 0 or size > end - at:
                    return False
                if (names or self.metrics == 0) and not self._metric(at, at + size, names):
                    return False
                self.metrics += 1
                at += size
                continue
            if tag > 127:
                self._at = at - 1
                tag = self._number(end)
                at = self._at
            kind = tag & 7
            if tag < 8:
                return False  # field 0, or a tag that is cut off
            if kind == _GROUP:
                depth += 1
            elif kind == _GROUP_END:
                depth -= 1
                if depth < 0:
                    return False
            elif not self._field(at, end, tag, depth):
                return False
            else:
                at = self._at
        return depth == 0

    def _field(self, at: i64, end: i64, tag: i64, depth: i64) -> bool:
        """One field of the payload that is no metric."""
        if tag == 0x08 and depth == 0:
            self._at = at
            self.timestamp = self._number(end)
            return self.timestamp >= 0
        if tag == 0x18 and depth == 0:
            self._at = at
            seq = self._number(end)
            self.seq = seq if seq <= 255 else -1
            return seq >= 0
        return self._skip(at, end, tag & 7)

    def _metric(self, at: i64, end: i64, names: bool) -> bool:
        """A metric: whether it is historical, and what its name says of it."""
        first = self.metrics == 0
        bd_seq = False
        value: i64 = -1
        depth: i64 = 0
        while at < end:
            self._at = at
            tag = self._number(end)
            at = self._at
            if tag < 8:
                return False
            kind = tag & 7
            if kind == _GROUP:
                depth += 1
            elif kind == _GROUP_END:
                depth -= 1
                if depth < 0:
                    return False
            elif kind == _VARINT:
                number = self._number(end)
                if number < 0:
                    return False
                at = self._at
                if depth == 0:
                    if tag == 0x28 and first:
                        self.historical = number != 0
                    elif tag == 0x50 or tag == 0x58:
                        value = number
            else:
                if not self._skip(at, end, kind):
                    return False
                if tag == 0x0A and depth == 0 and names:
                    bd_seq = self._ends(BD_SEQ)
                    if self._ends(REBIRTH):
                        self.rebirth = True
                at = self._at
        if bd_seq:
            self.bd_seq = value if value <= 255 else -1
        return depth == 0

    def _ends(self, name: bytes) -> bool:
        """Whether the bytes that were skipped just now are this name, and no longer one."""
        size: i64 = len(name)
        at = self._at - size
        return at > 0 and self._data[at : self._at] == name and self._data[at - 1] == size

    def _skip(self, at: i64, end: i64, kind: i64) -> bool:
        self._at = at
        if kind == _VARINT:
            return self._number(end) >= 0
        size: i64 = -1
        if kind == _BYTES:
            size = self._number(end)
        elif kind == _FIXED64:
            size = 8
        elif kind == _FIXED32:
            size = 4
        if size < 0 or size > end - self._at:
            return False
        self._at += size
        return True

    def _number(self, end: i64) -> i64:
        """A varint of at most ten bytes; -1 when it is cut off or longer."""
        data = self._data
        value: i64 = 0
        shift: i64 = 0
        at = self._at
        while at < end and shift < 63:
            byte: i64 = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                self._at = at
                return value
            shift += 7
        if at >= end:
            self._at = at
            return -1
        last: i64 = data[at]
        self._at = at + 1
        if last > 1:
            return -1
        return _TOO_LARGE if last else value
