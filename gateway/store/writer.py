"""The thread that commits: one batch at a time, checkpoints between commits, and tidies while nobody writes."""

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

from gateway.core.batch import Batch
from gateway.store import apply
from gateway.store.connection import LOST, PAGE_BYTES, Connect, is_corrupt, one_line
from gateway.store.spare import Spare, is_full
from gateway.store.stats import CommitTimes, StoreStats, WriteMeter
from gateway.synced import is_read_only

_log: Final = logging.getLogger("forebay.store")

_CHECKPOINT_BYTES: Final = 4 * 1024 * 1024  # of the write-ahead log
_IDLE_S: Final = 1.0
_VACUUM_PAUSE_S: Final = 0.02
_VACUUM_PAGES: Final = 512  # freed in one go, while idle
_SLACK_PAGES: Final = 1024  # free pages that stay in the file: they will be needed again
_GAUGE_S: Final = 0.2
_GAUGE_BYTES: Final = 1024 * 1024  # written; the budget is kept by what the gauge says
_ROOM_BYTES: Final = 1024 * 1024  # never given to messages: taking them away writes a little, too

# beside the database: the next start checks the whole file
SUSPECT: Final = ".suspect"

OnDone = Callable[[int, str | None], None]


@final
class Writer:
    """Owns the connection that writes. After any failure it is dropped and opened anew."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        connect: Connect,
        path: Path,
        min_free_bytes: int,
        spare: Spare,
        on_done: OnDone,
    ) -> None:
        """``connection`` is a fresh one; ``connect`` opens another. Raises sqlite3.Error."""
        self._connection: sqlite3.Connection | None = connection
        self._connect = connect
        self._directory = path.parent
        self._wal = path.with_name(path.name + "-wal")
        self._suspect = path.with_name(path.name + SUSPECT)
        self._min_free_bytes = min_free_bytes
        self._spare = spare
        self._on_done = on_done
        self._jobs: SimpleQueue[Batch | Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._times = CommitTimes()
        self._meter = WriteMeter()
        self._commits = 0
        self._failed = 0
        self._last_error = ""
        self._upkeep_error = ""  # of checkpoint or vacuum
        self._wal_mark = 0  # the meter at the last checkpoint
        self._gauged_at = 0.0
        self._gauged_bytes = 0
        self._pages_used = 0
        self._free_bytes = 0
        apply.prepare(connection)
        self._path = path
        self._file = _identity(path)
        self._gauge()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Commit one batch; ``on_done`` hears of it on the writer's thread."""
        self._jobs.put(batch)

    def call(self, answer: Callable[[], None]) -> None:
        """Let the thread call this when it comes to it: it is still there."""
        self._jobs.put(answer)

    def close(self) -> None:
        """Finish what was submitted; as the last connection this writes the log back and removes it."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def report(self, stats: StoreStats) -> None:
        """Fill in the writer's figures."""
        stats.used_bytes = self._pages_used * PAGE_BYTES  # with those that are still in the log
        stats.free_bytes = self._free_bytes
        stats.commits = self._commits
        stats.failed_commits = self._failed
        stats.last_error = self._last_error or self._upkeep_error
        stats.last_commit_ms = self._times.last_ms
        stats.max_commit_ms = self._times.max_ms
        stats.p50_commit_ms = self._times.percentile(50)
        stats.p99_commit_ms = self._times.percentile(99)
        stats.commit_ms_counts = self._times.counts.copy()
        stats.commit_ms_sum = self._times.sum_ms
        stats.bytes_written = self._meter.last

    def _run(self) -> None:
        self._meter.attach()
        wait: float | None = None
        while True:
            try:
                job = self._jobs.get(timeout=wait)
            except Empty:
                wait = self._tidy()
                continue
            if job is None:
                break
            if not isinstance(job, Batch):
                job()
                continue
            reason = self._commit(job)
            self._on_done(job.number, reason)
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
                refusal = self._lost() or self._unsynced()
        except Exception as error:  # whatever it was, the caller must hear of its batch
            refusal = one_line(error)
            if not isinstance(error, (sqlite3.Error, OSError)):
                _log.exception("a batch could not be written")
            self._distrust(error)
            if is_full(error) and not batch.segment_id and self._spare.spend():
                self._checkpoint()
                return self._commit(batch)
        if refusal is not None:
            self._failed += 1
            self._last_error = refusal
            return refusal
        self._times.add((time.perf_counter() - started) * 1000.0)
        self._commits += 1
        self._last_error = ""
        return None

    def _lost(self) -> str | None:
        """Deleted or replaced under a running broker: no start will ever open what goes on in the open file."""
        try:
            if _identity(self._path) == self._file:
                return None
        except FileNotFoundError:
            return f"{LOST}: {self._path} was deleted"
        except OSError:
            return None  # not a word about the file itself
        return f"{LOST}: {self._path} was replaced"

    def _unsynced(self) -> str | None:
        """It became read-only while this was written: then fsync may have said yes and done nothing."""
        if not is_read_only(os.statvfs(self._directory)):
            return None
        return f"{LOST}: {self._directory} became read-only in the middle of a commit"

    def _refusal(self, batch: Batch) -> str | None:
        """Why this batch must wait: the file is gone or read-only, or it would take room that is not for messages."""
        lost = self._lost()
        if lost is not None:
            return lost
        figures = os.statvfs(self._directory)
        if is_read_only(figures):
            return f"{self._directory}: read-only file system"
        if not batch.segment_id:
            return None
        size = len(batch.records) + len(batch.targets)
        least = max(self._min_free_bytes, _ROOM_BYTES)
        if _room(figures) - 2 * size - self._wal_bytes() >= least:
            return None
        self._checkpoint()
        # a fresh log is written over the old one, and free pages of the file are taken first
        in_log = max(0, size - _file_bytes(self._wal))
        in_file = max(0, size + self._wal_bytes() - self._gauge() * PAGE_BYTES)
        left = self._free_bytes - in_log - in_file
        if left >= least:
            return None
        return f"disk full: {max(left, 0)} bytes would be left, at least {least} must stay free"

    def _distrust(self, error: Exception) -> None:
        """Drop the connection after a failure: what a failed fsync left in its caches cannot be relied on."""
        if is_corrupt(error):
            with contextlib.suppress(OSError):
                self._suspect.touch()
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
        if self._last_error or self._upkeep_error or self._wal_bytes() >= _CHECKPOINT_BYTES:
            # after a failure too: on a full disk the next commit can then write over the log from its start
            self._checkpoint()
        grown = self._meter.last - self._gauged_bytes
        if grown >= _GAUGE_BYTES or time.monotonic() - self._gauged_at >= _GAUGE_S:
            self._gauge()

    def _checkpoint(self) -> None:
        if self._connection is None:
            return
        try:
            if is_read_only(os.statvfs(self._directory)):
                return  # what is written back would not be synced, and the log be taken for free
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._wal_mark = self._meter.read()
            self._upkeep_error = ""
        except (sqlite3.Error, OSError) as error:
            # nothing is lost: the log keeps what could not be written back
            self._upkeep_failed("checkpoint", error)

    def _upkeep_failed(self, what: str, error: Exception) -> None:
        reason = f"{what}: {one_line(error)}"
        if reason != self._upkeep_error:  # it is tried again and again: told once
            self._upkeep_error = reason
            _log.warning("%s", reason)
        self._distrust(error)

    def _tidy(self) -> float | None:
        """Give free pages back while nobody writes; the seconds until it wants to go on, None when done."""
        free = self._gauge()
        if self._upkeep_error and self._connection is not None:
            self._checkpoint()
            return _IDLE_S
        if self._connection is None or free <= _SLACK_PAGES:
            return None
        try:
            # its rows have no columns, which makes execute() stop after the first page
            self._connection.executescript(f"PRAGMA incremental_vacuum({min(_VACUUM_PAGES, free - _SLACK_PAGES)})")
        except sqlite3.Error as error:
            self._upkeep_failed("vacuum", error)
            return None
        self._checkpoint()  # only this shortens the file
        return _VACUUM_PAUSE_S

    def _gauge(self) -> int:
        """Refresh the gauges; the number of free pages in the file."""
        self._gauged_at = time.monotonic()
        self._gauged_bytes = self._meter.last
        free = 0
        try:
            self._free_bytes = _room(os.statvfs(self._directory))
            self._spare.restore(self._free_bytes, max(self._min_free_bytes, _ROOM_BYTES))
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


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _room(figures: os.statvfs_result) -> int:
    return figures.f_bavail * figures.f_frsize
