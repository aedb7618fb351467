"""A first-in first-out queue that costs next to nothing while it is empty; most are, most of the time."""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar, cast, final

from mypy_extensions import i64

T = TypeVar("T")

SPARE: Final = 64  # taken places at the front before they are given back


@final
class Fifo(Generic[T]):
    """A list with a moving front: collections.deque takes 600 bytes when empty, and there are five for each client."""

    def __init__(self, items: list[T] | None = None) -> None:
        self._items: list[T] = items if items is not None else []
        self._front: i64 = 0

    def __len__(self) -> int:
        return len(self._items) - self._front

    def __bool__(self) -> bool:
        return len(self._items) > self._front

    def __iter__(self) -> Iterator[T]:
        return iter(self._items[self._front :])

    def head(self) -> T:
        """The next one, which stays. Raises IndexError when empty."""
        return self._items[self._front]

    def append(self, item: T) -> None:
        self._items.append(item)

    def popleft(self) -> T:
        """The next one. Raises IndexError when empty."""
        items = self._items
        front = self._front
        item = items[front]
        items[front] = cast(T, None)  # what was taken must not stay alive with its place
        front += 1
        if front == len(items):
            self._items = []
            front = 0
        elif front >= SPARE and front * 2 > len(items):
            del items[:front]
            front = 0
        self._front = front
        return item

    def appendleft(self, item: T) -> None:
        self._settle()
        self._items.insert(0, item)

    def insert(self, at: int, item: T) -> None:
        self._settle()
        self._items.insert(at, item)

    def remove(self, item: T) -> None:
        """Raises ValueError when it is not there."""
        self._settle()
        self._items.remove(item)

    def clear(self) -> None:
        self._items = []
        self._front = 0

    def _settle(self) -> None:
        del self._items[: self._front]
        self._front = 0
