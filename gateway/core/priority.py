"""Topic priorities: which queue of a session a message joins, and how many that sends before others have their turn."""

from typing import Final, final

from mypy_extensions import i64

from gateway.core.topics import matches

SHIFT: Final = 10  # EMQX's multiplier: (priority + 1) * 10 messages are a turn
HIGHEST: Final = 1_000_000  # what the default priority "highest" counts as
CACHE_MAX: Final = 10_000  # topics


@final
class Priorities:
    """Topic filters with a priority of 1 to 255 each: the topic itself where it is listed, else the first that matches.

    What no filter matches has priority 0, which counts as below all others, or above them when ``highest``.
    """

    def __init__(self, rows: list[tuple[str, int]], highest: bool) -> None:
        self.on: bool = len(rows) > 0
        self.highest = highest
        self._exact: dict[bytes, int] = {}
        self._filters: list[tuple[str, int]] = []
        self._found: dict[bytes, int] = {}  # by filter, of topics that were asked for
        for filter, priority in rows:
            if "+" in filter or "#" in filter:
                self._filters.append((filter, priority))
            else:
                self._exact.setdefault(filter.encode(), priority)
        self.text: str = " ".join([f"{priority}={filter}" for filter, priority in rows]) if rows else ""
        if rows and highest:
            self.text += " highest"

    def of(self, topic: bytes) -> int:
        """1 to 255, or 0 for one that has none."""
        if not self.on:
            return 0
        exact = self._exact.get(topic)
        if exact is not None:
            return exact
        if not self._filters:
            return 0
        known = self._found.get(topic)
        if known is not None:
            return known
        priority = self._search(topic.decode())
        if len(self._found) >= CACHE_MAX:
            self._found = {}
        self._found[topic] = priority
        return priority

    def _search(self, name: str) -> int:
        for filter, priority in self._filters:
            if matches(filter, name):
                return priority
        return 0

    def weight(self, priority: i64) -> i64:
        """What orders the queues of a session."""
        return HIGHEST if priority == 0 and self.highest else priority

    def turn(self, priority: i64) -> i64:
        """Messages that one queue sends in a round, while others wait."""
        return (self.weight(priority) + 1) * SHIFT
