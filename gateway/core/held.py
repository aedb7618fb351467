"""The deliveries of a durable queue that are in flight, in the order in which they left: log order, nearly always."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from gateway.core.fifo import Fifo

if TYPE_CHECKING:
    from gateway.core.model import Delivery

SPARE: Final = 64  # settled ones behind one that is not, before they are taken out


@final
class Held:
    """A queue from which the settled go when they come to its front: most are settled in order."""

    def __init__(self) -> None:
        self._items: Fifo[Delivery] = Fifo()
        self._live: i64 = 0

    def __len__(self) -> int:
        return self._live

    def __bool__(self) -> bool:
        return self._live > 0

    def __iter__(self) -> "Iterator[Delivery]":
        return iter([d for d in self._items if d.held])

    def add(self, d: "Delivery") -> None:
        d.held = True
        self._live += 1
        self._items.append(d)

    def settle(self, d: "Delivery") -> bool:
        """It is in flight no longer; True when it was the first."""
        items = self._items
        first = items.head() is d
        d.held = False
        self._live -= 1
        if first:
            items.popleft()
            while items and not items.head().held:
                items.popleft()
        elif len(items) > 2 * self._live + SPARE:
            self._items = Fifo([one for one in items if one.held])
        return first

    def give_back(self, d: "Delivery") -> None:
        """It may be added again."""
        if d.held:
            d.held = False
            self._live -= 1
            items = self._items
            items.remove(d)
            while items and not items.head().held:
                items.popleft()

    def has(self, seq: i64) -> bool:
        for d in self._items:
            if d.held and d.message.seq == seq:
                return True
        return False

    def seqs(self) -> set[int]:
        """Their positions in the log."""
        found: set[int] = set()
        for d in self._items:
            if d.held:
                found.add(d.message.seq)
        return found

    def lowest(self, end: i64) -> i64:
        """The first position, ``end`` when that comes before it or nothing is in flight."""
        low = end
        for d in self._items:
            if d.held:
                low = min(low, d.message.seq)
        return low

    def clear(self) -> None:
        for d in self._items:
            d.held = False
        self._items.clear()
        self._live = 0
