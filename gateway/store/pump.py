"""Between the core and the store: one commit under way at a time, answers brought back to the event loop."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, final

from gateway.core.batch import Batch
from gateway.core.router import Router
from gateway.log import Log
from gateway.store.clock import offset_at_start, read_clocks, stamp
from gateway.store.connection import DAMAGED, LOST
from gateway.store.frozen import FrozenStore
from gateway.store.sqlite import Store

STAMP_MS: Final = 60_000  # how much time at most is lost for expiry when the machine dies
STAMP_ALONE: Final = 0  # the number of a batch that is none of the router's; its numbers start at 1
RETRY_MS: Final = 5_000
USAGE_MS: Final = 1_000

KEY_RUNNING: Final = "broker.running"  # 1 from the first commit to the last: still 1 at a start means a crash
KEY_EXACT: Final = "broker.exact"  # 0 once a crash may have lost counts


def _none(_now: int) -> dict[str, int | str]:
    return {}


@final
class StorePump:
    """Moves batches, reads and their answers; all methods run on the event loop but the two callbacks of the store.

    ``rows`` gives what else is stored with the clock. ``answered`` is called after the router was told something, so
    that its output gets carried out.
    """

    def __init__(self, now: Callable[[], int], log: Log, rows: Callable[[int], dict[str, int | str]] = _none) -> None:
        self.offset_ms = 0  # gateway time is CLOCK_BOOTTIME and this
        self.exact = True  # the counters miss nothing
        self.interval_ms = 0  # from the start of a commit to that of the next
        self.fatal = ""  # the database is damaged or gone: no commit will work before the next start
        self._now = now
        self._rows = rows
        self._log = log
        self._running = 1
        self._flying: Batch | None = None
        self._stamp_at = 0
        self._usage_at = 0
        self._next_at = 0
        self._waits: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def restore(self, meta: Mapping[str, int | str]) -> None:
        """Go on with the clock and the counters where the last run left them."""
        self.offset_ms = offset_at_start(meta, read_clocks())
        self.exact = meta.get(KEY_RUNNING, 0) == 0 and meta.get(KEY_EXACT, 1) == 1

    def start(self, store: Store | FrozenStore, router: Router, answered: Callable[[], None]) -> None:
        self._store = store
        self._router = router
        self._answered = answered
        self._loop = asyncio.get_running_loop()
        store.start()

    @property
    def idle(self) -> bool:
        """Whether no commit is under way."""
        return self._flying is None

    def run(self, now: int) -> None:
        """Hand over what the router has for the store; call after every turn that touched the router."""
        for token, ids in self._router.take_reads():
            self._store.read(token, ids)
        if self._flying is not None:
            return
        if now < self._next_at:
            if self._waits is None:
                assert self._loop is not None
                self._waits = self._loop.call_later((self._next_at - now) / 1000, self._waited)
            return
        batch = self._router.take_batch(now)
        if now >= self._stamp_at:
            self._stamp_at = now + STAMP_MS
            if batch is None:
                batch = Batch(STAMP_ALONE)
            batch.meta.update(stamp(read_clocks(), self.offset_ms))
            batch.meta.update(self._rows(now))
            batch.meta[KEY_RUNNING] = self._running
            batch.meta[KEY_EXACT] = int(self.exact)
        if batch is None:
            return
        self._flying = batch
        self._next_at = now + self.interval_ms
        self._store.submit(batch)

    def finish(self) -> None:
        """The next commit is the last one: it says that this was no crash."""
        self._running = 0
        self._stamp_at = 0
        self._next_at = 0
        self.run(self._now())

    def _waited(self) -> None:
        self._waits = None
        self._answered()

    def tick(self, now: int) -> None:
        """Tell the router what the disk holds, about once a second."""
        if now >= self._usage_at:
            self._report_usage(now)

    def on_done(self, number: int, error: str | None) -> None:
        """The store's thread: a commit is on disk, or failed."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._done, number, error)

    def on_read(self, token: int, rows: list[tuple[int, bytes]]) -> None:
        """The store's thread: the answer of a read."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._segments, token, rows)

    def _done(self, number: int, error: str | None) -> None:
        now = self._now()
        self._flying = None
        if error is not None and error.startswith((DAMAGED, LOST)):
            self.fatal = error
        if number == STAMP_ALONE:
            if error is not None:
                self._log.noise("clock", f"the clock's stamp could not be stored: {error}", "warning")
        elif error is None:
            self._router.on_committed(number, now)
        else:
            self._router.on_commit_failed(number, error, now)
        if error is None:
            self._report_usage(now)
        else:
            self._stamp_at = now + RETRY_MS
        self._answered()

    def _segments(self, token: int, rows: list[tuple[int, bytes]]) -> None:
        self._router.on_segments(token, rows, self._now())
        self._answered()

    def _report_usage(self, now: int) -> None:
        self._usage_at = now + USAGE_MS
        self._router.on_store_usage(self._store.stats().used_bytes, now)
        self._answered()
