"""The embedded database: one thread that commits a batch at a time, and one that reads the message log.

The event loop only submits and is called back on the store's threads. No thread of the store knows a session.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from gateway.core.batch import Batch, Snapshot
from gateway.store import salvage
from gateway.store.connection import PAGE_BYTES, connect, is_damage, one_line
from gateway.store.errors import StoreError
from gateway.store.load import load
from gateway.store.lock import DirectoryLock
from gateway.store.migrations import migrate
from gateway.store.reader import OnRead, SegmentReader
from gateway.store.spare import Spare, is_full
from gateway.store.stats import StoreStats
from gateway.store.writer import SUSPECT, OnDone, Writer

_CHECK_BYTES: Final = 32 * 1024 * 1024  # a file up to this size is checked whole after a crash
_READER_CACHE_BYTES: Final = 256 * 1024  # a segment is read once: keeping its pages would serve nobody
_SMALLEST_BYTES: Final = 512  # of a database; SQLite takes a shorter file for a new one and writes over it


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
        self._durability = durability
        self._cache_bytes = cache_bytes
        self._min_free_bytes = min_free_bytes
        self._on_done = on_done
        self._on_read = on_read
        self._lock: DirectoryLock | None = None
        self._writer: Writer | None = None
        self._reader: SegmentReader | None = None
        self._running = False

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
            spare = Spare(salvage.beside(self._path, ".spare"))
            try:
                snapshot, connection = self._open_or_salvage()
            except sqlite3.Error as error:
                if not (is_full(error) and spare.spend()):
                    raise
                snapshot, connection = self._open_or_salvage()
            self._writer = Writer(connection, self._connect, self._path, self._min_free_bytes, spare, self._on_done)
            self._reader = SegmentReader(self._connect_reader, self._on_read)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StoreError(f"cannot open {self._path}: {one_line(error)}") from error
        except BaseException:
            self.close()
            raise
        return snapshot

    def _open_or_salvage(self) -> tuple[Snapshot, sqlite3.Connection]:
        damage = salvage.finish_interrupted(self._path) + salvage.set_aside_unreadable_log(self._path)
        suspect = salvage.beside(self._path, SUSPECT)
        crashed = _size(self._wal) > 0  # a clean end leaves no log
        thorough = bool(damage) or suspect.exists() or (crashed and _size(self._path) <= _CHECK_BYTES)
        try:
            snapshot, connection = self._open_file(thorough)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            damage += salvage.salvage(self._path, one_line(error))
            snapshot, connection = self._open_file(False)
        suspect.unlink(missing_ok=True)
        snapshot.damage[:0] = damage
        return snapshot, connection

    def _open_file(self, thorough: bool) -> tuple[Snapshot, sqlite3.Connection]:
        if 0 < _size(self._path) < _SMALLEST_BYTES:
            raise sqlite3.DatabaseError("too short for a database")
        if _size(self._path) % PAGE_BYTES and not _size(self._wal):  # SQLite reads zeros there
            raise sqlite3.DatabaseError("its end is missing")
        connection = self._connect()
        try:
            migrate(connection, self._path)
            if thorough:
                verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if verdict != "ok":
                    raise sqlite3.DatabaseError(f"check failed: {' '.join(verdict.split())}")
            return load(connection), connection
        except BaseException:
            connection.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        return connect(self._path, self._durability, self._cache_bytes)

    def _connect_reader(self) -> sqlite3.Connection:
        return connect(self._path, self._durability, _READER_CACHE_BYTES)

    def read_now(self, ids: list[int]) -> list[tuple[int, bytes]]:
        """Records of segments on the caller's thread; only before ``start``."""
        assert self._reader is not None and not self._running
        return self._reader.fetch(ids)

    def start(self) -> None:
        """Start the threads; after ``open``."""
        assert self._reader is not None and self._writer is not None and not self._running
        self._running = True
        self._reader.start()
        self._writer.start()

    def submit(self, batch: Batch) -> None:
        """Commit one batch; the next only after ``on_done(batch.number, reason or None)``.

        None: durable as promised. A reason: nothing of it is applied; the caller may submit it again. Only when the
        reason begins with "database damaged" or "database gone" is that in vain: the next ``open`` takes what is there.
        """
        assert self._writer is not None
        self._writer.submit(batch)

    def call(self, answer: Callable[[], None]) -> None:
        """Let the thread that commits call this when it comes to it."""
        assert self._writer is not None
        self._writer.call(answer)

    def read(self, token: int, ids: list[int]) -> None:
        """Read segments; ``on_read(token, [(segment_id, records), ...])``, b"" for what is gone or damaged."""
        assert self._reader is not None
        self._reader.submit(token, ids)

    def stats(self) -> StoreStats:
        """A reading that waits for no lock; sizes are refreshed at most every 0.2 s, after a commit or when idle."""
        stats = StoreStats()
        stats.file_bytes = _size(self._path) + _size(self._wal)
        if self._writer is not None:
            self._writer.report(stats)
        if self._reader is not None:
            stats.damaged = self._reader.damaged
        return stats

    def close(self) -> None:
        """Finish what was submitted and asked, write the log back and give the directory free."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
