"""What is stored of the log under one id, unpacked as far as somebody has read."""

from typing import final

from mypy_extensions import i64

from gateway.core.message import Segment
from gateway.core.record import Corrupt, Entry, Reader, StoredTarget, read_message, unpack_targets


@final
class Part:
    """One commit's messages, tied to the segment that they are in; ``damaged`` when not all of it can be read."""

    def __init__(self, segment: Segment, data: bytes) -> None:
        """``data``: the packed records, b"" = the store could not read them."""
        self.segment = segment
        self.size: int = len(data)
        self.damaged: bool = False
        self._entries: list[Entry] = []
        self._sets: list[list[StoredTarget]] = []
        self._seq: i64 = 0
        self._reader: Reader | None = None
        reader = Reader(data)
        try:
            self._seq = reader.u64()
            n = reader.number()
            while n > 0:
                self._sets.append(unpack_targets(reader.field()))
                n -= 1
        except Corrupt:
            self.damaged = True
            return
        self._reader = reader

    def entry(self, at: i64) -> Entry | None:
        """By its place; None behind the last that can be read."""
        while at >= len(self._entries):
            if not self._next():
                return None
        return self._entries[at]

    def all(self) -> list[Entry] | None:
        """None when some of it cannot be read."""
        while self._next():
            pass
        return None if self.damaged else self._entries

    def _next(self) -> bool:
        reader = self._reader
        if reader is None:
            return False
        if not reader.more():
            self._reader = None
            self._sets = []
            return False
        try:
            self._seq += reader.number()
            index = reader.number()
            if index >= len(self._sets):
                raise Corrupt("unknown target set")
            m = read_message(reader)
            m.seq = self._seq
            m.segment = self.segment
            self._entries.append(Entry(m, self._sets[index]))
            return True
        except Corrupt:
            self.damaged = True
            self._reader = None
            return False
