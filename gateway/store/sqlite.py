"""The embedded database: one writer thread that commits a batch at a time, and a reader for the log.

The event loop only submits and is called back on the store's threads. The thread that writes knows no session.
"""

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, final

from gateway.core.batch import Batch, Snapshot
from gateway.store import apply, salvage
from gateway.store.connection import PAGE_BYTES, connect, is_corrupt, is_damage, one_line
from gateway.store.errors import StoreError
from gateway.store.load import load
from gateway.store.lock import DirectoryLock
from gateway.store.migrations import migrate
from gateway.store.reader import OnRead, SegmentReader
from gateway.store.stats import CommitTimes, StoreStats, WriteMeter

_log: Final = logging.getLogger("forebay.store")

_CHECK_BYTES: Final = 32 * 1024 * 1024  # a file up to this size is checked whole after a crash
_CHECKPOINT_BYTES: Final = 4 * 1024 * 1024  # of the write-ahead log
_IDLE_S: Final = 1.0
_VACUUM_PAUSE_S: Final = 0.02
_VACUUM_PAGES: Final = 512  # freed in one go, while idle
_SLACK_PAGES: Final = 1024  # free pages that stay in the file: they will be needed again
_GAUGE_S: Final = 0.2

OnDone = Callable[[int, str | None], None]


@final
class Store:
    """Sessions, cursors and the message log in one SQLite file."""

    def __init__(
        self,
        path: Path,
        *,
        durability: str = "fsync",
        cache_bytes: int = 4 * 1024 * 1024,
        min_free_bytes: int = 0,
        on_done: OnDone,
        on_read: OnRead,
    ) -> None:
        """``durability``: "fsync" or "os". Callbacks come on the store's threads.

        ``min_free_bytes``: a batch with messages is refused when it would leave less on the file system.
        """
        assert durability in ("fsync", "os")
        self._path = path
        self._wal = salvage.beside(path, "-wal")
        self._suspect = salvage.beside(path, ".suspect")
        self._durability = durability
        self._cache_bytes = cache_bytes
        self._min_free_bytes = min_free_bytes
        self._on_done = on_done
        self._on_read = on_read
        self._lock: DirectoryLock | None = None
        self._connection: sqlite3.Connection | None = None
        self._reader: SegmentReader | None = None
        self._jobs: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._times = CommitTimes()
        self._meter = WriteMeter()
        self._commits = 0
        self._failed = 0
        self._last_error = ""
        self._wal_mark = 0  # the meter at the last checkpoint
        self._gauged_at = 0.0
        self._pages_used = 0
        self._free_bytes = 0

    # -- the start -------------------------------------------------------------------------------------------------

    def open(self) -> Snapshot:
        """Open or create, migrate, salvage if damaged, and read everything but the records.

        Raises StoreError with one line: not writable, in use, newer schema, no space to salvage.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the data directory {self._path.parent}: {error.strerror}") from error
        self._lock = DirectoryLock(self._path.parent / "forebay.lock")
        try:
            snapshot = self._open_or_salvage()
            self._reader = SegmentReader(self._connect, self._on_read)
            self._gauge()
            return snapshot
        except (sqlite3.Error, OSError) as error:
            self._abandon()
            raise StoreError(f"cannot open {self._path}: {one_line(error)}") from error
        except BaseException:
            self._abandon()
            raise

    def _open_or_salvage(self) -> Snapshot:
        damage = salvage.finish_interrupted(self._path) + salvage.set_aside_unreadable_log(self._path)
        crashed = _size(self._wal) > 0  # a clean end leaves no log
        thorough = bool(damage) or self._suspect.exists() or (crashed and _size(self._path) <= _CHECK_BYTES)
        try:
            snapshot = self._open_file(thorough)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            damage += salvage.salvage(self._path, one_line(error))
            snapshot = self._open_file(False)
        self._suspect.unlink(missing_ok=True)
        snapshot.damage[:0] = damage
        return snapshot

    def _open_file(self, thorough: bool) -> Snapshot:
        if 0 < _size(self._path) < 512:  # SQLite would take it for a new one and write over it
            raise sqlite3.DatabaseError("too short for a database")
        connection = self._connect()
        try:
            migrate(connection, self._path)
            if thorough:
                verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if verdict != "ok":
                    raise sqlite3.DatabaseError(f"check failed: {verdict}")
            snapshot = load(connection)
            apply.prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return snapshot

    def _connect(self) -> sqlite3.Connection:
        return connect(self._path, self._durability, self._cache_bytes)

    def _abandon(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_now(self, ids: list[int]) -> list[tuple[int, bytes]]:
        """Records of segments on the caller's thread; only before ``start``."""
        assert self._reader is not None
        assert self._thread is None
        return self._reader.fetch(ids)

    def start(self) -> None:
        """Start the threads; after ``open``."""
        assert self._reader is not None
        assert self._thread is None
        self._reader.start()
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    # -- the caller's side -----------------------------------------------------------------------------------------

    def submit(self, batch: Batch) -> None:
        """Commit one batch; the next only after ``on_done(batch.number, reason or None)``.

        None: durable as promised. A reason: nothing of it is applied; the caller may submit it again.
        """
        self._jobs.put(batch)

    def read(self, token: int, ids: list[int]) -> None:
        """Read segments; ``on_read(token, [(segment_id, records), ...])``, b"" for what is gone or damaged."""
        assert self._reader is not None
        self._reader.submit(token, ids)

    def stats(self) -> StoreStats:
        """A reading that touches neither disk nor lock; gauges are up to 0.2 s behind the last commit."""
        stats = StoreStats()
        stats.used_bytes = self._pages_used * PAGE_BYTES + self._wal_bytes()
        stats.file_bytes = _size(self._path) + _size(self._wal)
        stats.free_bytes = self._free_bytes
        stats.commits = self._commits
        stats.failed_commits = self._failed
        stats.last_error = self._last_error
        stats.last_commit_ms = self._times.last_ms
        stats.max_commit_ms = self._times.max_ms
        stats.p50_commit_ms = self._times.percentile(50)
        stats.p99_commit_ms = self._times.percentile(99)
        stats.bytes_written = self._meter.last
        stats.damaged = self._reader.damaged if self._reader is not None else 0
        return stats

    def close(self) -> None:
        """Finish what was submitted and asked, write the log back and give the directory free."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
        self._abandon()

    # -- the writer thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._meter.attach()
        wait: float | None = None
        while True:
            try:
                batch = self._jobs.get(timeout=wait)
            except Empty:
                wait = self._tidy()
                continue
            if batch is None:
                break
            reason = self._commit(batch)
            self._on_done(batch.number, reason)
            self._after_commit()
            wait = _IDLE_S
        self._meter.detach()

    def _commit(self, batch: Batch) -> str | None:
        started = time.perf_counter()
        try:
            refusal = self._refusal(batch)
            if refusal is None:
                if self._connection is None:
                    self._reopen()
                assert self._connection is not None
                self._connection.execute(apply.APPLY, apply.parameters(batch))
        except Exception as error:  # whatever it was, the caller must hear of its batch
            refusal = one_line(error)
            if not isinstance(error, (sqlite3.Error, OSError)):
                _log.exception("a batch could not be written")
            self._distrust(error)
        if refusal is not None:
            self._failed += 1
            self._last_error = refusal
            return refusal
        self._times.add((time.perf_counter() - started) * 1000.0)
        self._commits += 1
        self._last_error = ""
        return None

    def _refusal(self, batch: Batch) -> str | None:
        if not self._min_free_bytes or not batch.segment_id:
            return None
        left = _free_bytes(self._path.parent) - len(batch.records) - len(batch.targets)
        if left >= self._min_free_bytes:
            return None
        return f"disk full: {max(left, 0)} bytes would be left, at least {self._min_free_bytes} must stay free"

    def _distrust(self, error: Exception) -> None:
        """Drop the connection after a failure: what a failed fsync left in its caches cannot be relied on."""
        if is_corrupt(error):
            with contextlib.suppress(OSError):
                self._suspect.touch()  # the next start checks the whole file
        try:
            self._reopen()
        except (sqlite3.Error, OSError) as again:
            _log.warning("the database cannot be opened again yet: %s", one_line(again))

    def _reopen(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        connection = self._connect()
        try:
            apply.prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _after_commit(self) -> None:
        self._meter.read()
        if self._last_error or self._wal_bytes() >= _CHECKPOINT_BYTES:
            # after a failure too: on a full disk the next commit can then write over the log from its start
            self._checkpoint()
        if time.monotonic() - self._gauged_at >= _GAUGE_S:
            self._gauge()

    def _checkpoint(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._wal_mark = self._meter.read()
        except sqlite3.Error as error:
            # nothing is lost: the log keeps what could not be written back
            self._last_error = f"checkpoint: {one_line(error)}"
            _log.warning("%s", self._last_error)
            self._distrust(error)

    def _tidy(self) -> float | None:
        """Give free pages back while nobody writes; the seconds until it wants to go on, None when done."""
        free = self._gauge()
        if self._connection is None or free <= _SLACK_PAGES:
            return None
        try:
            # its rows have no columns, which makes execute() stop after the first page
            self._connection.executescript(f"PRAGMA incremental_vacuum({min(_VACUUM_PAGES, free - _SLACK_PAGES)})")
        except sqlite3.Error as error:
            self._last_error = f"vacuum: {one_line(error)}"
            self._distrust(error)
            return None
        self._checkpoint()  # only this shortens the file
        return _VACUUM_PAUSE_S

    def _gauge(self) -> int:
        """Refresh the gauges; the number of free pages in the file."""
        self._gauged_at = time.monotonic()
        free = 0
        try:
            self._free_bytes = _free_bytes(self._path.parent)
            if self._connection is not None:
                pages, free = self._connection.execute(
                    "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count"
                ).fetchone()
                self._pages_used = pages - free
        except (sqlite3.Error, OSError) as error:
            _log.warning("the size of the store cannot be read: %s", one_line(error))
        return free

    def _wal_bytes(self) -> int:
        return self._meter.last - self._wal_mark


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _free_bytes(directory: Path) -> int:
    figures = os.statvfs(directory)
    return figures.f_bavail * figures.f_frsize
