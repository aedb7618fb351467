"""What a start does not hold as it was read: segments of the log, of which there may be a million, are packed; large
rows are read each time they are asked for.
"""

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from typing import final, overload

from gateway.core.batch import SegmentRow


@final
class SegmentRows(Sequence[SegmentRow]):
    """(segment_id, segment_last, targets) of each; as tuples they would leave 200 bytes each behind in the heap."""

    def __init__(self) -> None:
        self._numbers = array("Q")  # id, last, end of its targets
        self._targets = bytearray()

    def add(self, id: int, last: int, targets: bytes) -> None:
        self._targets += targets
        self._numbers.extend((id, last, len(self._targets)))

    def __len__(self) -> int:
        return len(self._numbers) // 3

    @overload
    def __getitem__(self, at: int) -> SegmentRow: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[SegmentRow]: ...
    def __getitem__(self, at: int | slice) -> SegmentRow | Sequence[SegmentRow]:
        if isinstance(at, slice):
            return [self[index] for index in range(*at.indices(len(self)))]
        index = range(len(self))[at]
        id, last, end = self._numbers[3 * index : 3 * index + 3]
        begin = self._numbers[3 * index - 1] if index else 0
        return id, last, bytes(self._targets[begin:end])

    def __iter__(self) -> Iterator[SegmentRow]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)


@final
class BridgeRows:
    """Keys and data of the bridge's table, but for the ``bad`` ones. Only until the store starts."""

    def __init__(self, connection: sqlite3.Connection, bad: set[str]) -> None:
        self._connection = connection
        self._bad = bad

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for key, data in self._connection.execute("SELECT key, data FROM bridge ORDER BY key"):
            if key not in self._bad:
                yield key, data
