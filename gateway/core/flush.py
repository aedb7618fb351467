"""The flush-state cache: for which connections PUBLISHes wait unflushed, and when they must go.

It exists only while the direct or the device path gathers. The count of what waits is the client's own
(``Client.waiting``): it is taken together with the bytes, so that no write can fall between a flush and its count.
"""

from typing import Final, final

from mypy_extensions import i64

from gateway.core.model import Client

EVICTED: Final = "Client session was evicted due to cache size limit"


@final
class Entry:
    """Times in gateway ms."""

    def __init__(self, now: i64) -> None:
        self.wrote: i64 = now
        self.flushed: i64 = now


@final
class FlushCache:
    """``size_max`` entries, one for each connection that was written to within ``expiration_ms``.

    Every ``interval_ms`` those go whose last flush is more than ``idle_ms`` ago; while nothing waits, nothing runs.
    """

    def __init__(self, size_max: i64, expiration_ms: i64, interval_ms: i64, idle_ms: i64) -> None:
        self.size_max = size_max
        self.expiration_ms = expiration_ms
        self.interval_ms = interval_ms
        self.idle_ms = idle_ms
        self.evicted: int = 0  # connections, because there were too many
        self.run_at: i64 = 0  # gateway ms of the next look at those that wait, 0 = none does
        self._entries: dict[Client, Entry] = {}  # that written to longest ago first
        self._last: Client | None = None  # that at the end
        self._waiting: dict[Client, bool] = {}  # and some that were flushed meanwhile

    def __len__(self) -> int:
        return len(self._entries)

    def wrote(self, c: Client, now: i64) -> bool:
        """A PUBLISH was put on the connection; True when it must be flushed now, for there are enough."""
        c.waiting += 1
        e = self._entries.get(c)
        if e is None:
            e = Entry(now)
            self._entries[c] = e
        else:
            e.wrote = now
            if c is not self._last:
                del self._entries[c]
                self._entries[c] = e
        self._last = c
        if c.waiting >= c.buffer:
            return True
        self._waiting[c] = True
        if not self.run_at:
            self.run_at = now + self.interval_ms
        return False

    def overflow(self) -> Client | None:
        """Take out the one written to longest ago while there are too many; what waits for it must be flushed."""
        if len(self._entries) <= self.size_max:
            return None
        oldest = next(iter(self._entries))
        self.forget(oldest)
        self.evicted += 1
        return oldest

    def flushed(self, c: Client, now: i64) -> None:
        """Everything that waited has been written."""
        e = self._entries.get(c)
        if e is not None:
            e.flushed = now

    def forget(self, c: Client) -> None:
        """The connection has ended, or its entry has."""
        self._entries.pop(c, None)
        self._waiting.pop(c, False)
        if not self._waiting:
            self.run_at = 0
        if self._last is c:
            self._last = None

    def run(self, now: i64) -> list[Client]:
        """Those to flush: idle for too long, or expired."""
        due: list[Client] = []
        if self.run_at and now >= self.run_at:
            for c in list(self._waiting):
                if c.waiting == 0:
                    del self._waiting[c]
                elif now - self._entries[c].flushed > self.idle_ms:
                    del self._waiting[c]
                    due.append(c)
            self.run_at = now + self.interval_ms if self._waiting else 0
        expired: list[Client] = []
        for c, e in self._entries.items():
            if now - e.wrote < self.expiration_ms:
                break
            expired.append(c)
        for c in expired:
            self.forget(c)
            if c.waiting:
                due.append(c)
        return due

    def due(self) -> i64:
        """Gateway ms at which run() has something to do, 0 = never."""
        at = self.run_at
        if self._entries:
            expires: i64 = next(iter(self._entries.values())).wrote + self.expiration_ms
            if at == 0 or expires < at:
                at = expires
        return at

    def everything(self) -> list[Client]:
        """All for which something waits."""
        return [c for c in self._waiting if c.waiting]
