"""How fast something may go on: token buckets, filled by time."""

from typing import final

from mypy_extensions import i64


@final
class Bucket:
    """So many in a time span, all of them at once if need be. Its level counts thousandths of a second of each."""

    def __init__(self, count: int, seconds: int, now: int) -> None:
        self._rate: i64 = count  # per millisecond, of a level at which one costs ``_cost``
        self._cost: i64 = seconds * 1000
        self._full: i64 = count * seconds * 1000
        self._level: i64 = self._full
        self._at: i64 = now

    def wait(self, now: i64) -> i64:
        """Milliseconds until there is room for one more, 0 = now."""
        passed: i64 = now - self._at
        if passed > 0:
            self._at = now
            if passed >= (self._full - self._level) // self._rate + 1:
                self._level = self._full
            else:
                self._level += passed * self._rate
        if self._level >= self._cost:
            return 0
        return (self._cost - self._level + self._rate - 1) // self._rate

    def spend(self) -> None:
        self._level -= self._cost


@final
class Meter:
    """Several limits that all hold, and those of another meter that many share."""

    def __init__(self, rates: list[tuple[int, int]], shared: "Meter | None", now: int) -> None:
        self._buckets: list[Bucket] = [Bucket(count, seconds, now) for count, seconds in rates]
        self._shared = shared

    def wait(self, now: i64) -> i64:
        """Milliseconds until there is room for one more, 0 = now."""
        longest: i64 = 0
        for bucket in self._buckets:
            wait = bucket.wait(now)
            if wait > longest:
                longest = wait
        if self._shared is not None:
            wait = self._shared.wait(now)
            if wait > longest:
                longest = wait
        return longest

    def spend(self) -> None:
        """One has gone through."""
        for bucket in self._buckets:
            bucket.spend()
        if self._shared is not None:
            self._shared.spend()
