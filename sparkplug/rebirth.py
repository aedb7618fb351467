"""Which nodes to ask for a rebirth, and when: a back-off for each node and one budget for all.

A rebirth is the whole of a node's metrics. If a host asked for it at every doubt, a bad link would turn into a storm.
"""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar, final

from sparkplug.sequence import due

_PAUSE_MS: Final = 5_000  # after the first request, then twice as long each time
_PAUSE_MS_MAX: Final = 300_000

K = TypeVar("K")


@final
class _Asked:
    __slots__ = ("at", "pause")

    def __init__(self, at: int, pause: int) -> None:
        self.at = at
        self.pause = pause


@final
class Rebirths(Generic[K]):
    """At most ``burst`` requests at once and one each ``every_ms`` in the long run."""

    def __init__(self, burst: int = 10, every_ms: int = 500) -> None:
        self.every_ms = every_ms
        self.burst = burst
        self._wanted: dict[K, None] = {}  # a set that keeps its order
        self._asked: dict[K, _Asked] = {}
        self._credit = burst * every_ms  # ms; a request takes every_ms
        self._counted = 0  # time up to which credit is counted

    def want(self, key: K) -> None:
        """Ask that node when its back-off and the budget allow it, and again until ``done``."""
        self._wanted[key] = None

    def done(self, key: K) -> None:
        """The node gave birth or died. Its back-off stays: one that needs a rebirth after each is left in peace."""
        self._wanted.pop(key, None)

    def clear(self) -> None:
        """Nobody can be asked any more; the back-offs stay."""
        self._wanted.clear()

    @property
    def waiting(self) -> int:
        """How many nodes are to be asked, or were and did not answer."""
        return len(self._wanted)

    def grant(self, now: int) -> Iterator[K]:
        """The nodes to be asked now."""
        self._credit = min(self.burst * self.every_ms, self._credit + max(0, now - self._counted))
        self._counted = now
        for key in list(self._wanted):
            if self._credit < self.every_ms:
                return
            asked = self._asked.get(key)
            if asked is None or due(asked.at, 2 * asked.pause + _PAUSE_MS, now):
                self._asked[key] = _Asked(now, _PAUSE_MS)
            elif due(asked.at, asked.pause, now):
                self._asked[key] = _Asked(now, min(_PAUSE_MS_MAX, 2 * asked.pause))
            else:
                continue
            self._credit -= self.every_ms
            del self._wanted[key]
            self._wanted[key] = None  # behind those that were not asked yet
            yield key
