"""The segments of the log as a start reads them: packed, for there may be a million small ones."""

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
