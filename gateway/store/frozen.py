"""In the place of the store where the disk cannot be written: everything waits, nothing is said to be kept.

What the database holds is read where that is possible, so that sessions and retained messages are known. Where it is
not, one session stands for all that may be there: it wants everything, so no message is taken for one that nobody is
to get.
"""

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

from gateway.core.batch import Batch, Snapshot
from gateway.core.limits import NEVER
from gateway.store.connection import one_line
from gateway.store.load import load
from gateway.store.migrations import SCHEMA, versions
from gateway.store.reader import OnRead, SegmentReader
from gateway.store.stats import StoreStats
from gateway.store.writer import OnDone

UNREADABLE: Final = "$unreadable"  # the session that stands for those that cannot be read
_QOS2: Final = 2  # as options of a subscription
_DISK: Final = (errno.EROFS, errno.EIO, errno.EUCLEAN, errno.ENODEV, errno.ENXIO)


def why_frozen(folder: Path) -> str:
    """Why nothing can be written there: the file system is read-only or damaged; "" when it can. Raises OSError."""
    probe = folder / ".probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as e:
        if e.errno not in _DISK:
            raise
        return f"{folder}: {e.strerror}"
    return ""


@final
class FrozenStore:
    """As ``Store``, but each commit fails with the reason."""

    def __init__(self, path: Path, reason: str, on_done: OnDone, on_read: OnRead) -> None:
        self._path = path
        self._reason = f"read-only: {reason}"
        self._on_done = on_done
        self._on_read = on_read
        self._reader: SegmentReader | None = None
        self._failed = 0

    def open(self) -> Snapshot:
        """What can be read."""
        try:
            connection = self._connect()
            try:
                schema, oldest = versions(connection)
                if schema < SCHEMA or oldest > SCHEMA:
                    raise sqlite3.DatabaseError(f"of another version (schema {schema})")
                snapshot = load(connection)
                snapshot.bridge = list(snapshot.bridge)  # the connection is closed below
            finally:
                connection.close()
            self._reader = SegmentReader(self._connect, self._on_read)
        except (sqlite3.Error, OSError) as e:
            snapshot = Snapshot()
            snapshot.sessions = [(1, UNREADABLE, 0, NEVER, 0)]
            snapshot.subscriptions = [(1, "#", _QOS2, 0)]
            snapshot.damage.append(f"{self._path}: cannot be read: {one_line(e)}; no message is taken at QoS 1 or 2")
        snapshot.damage.insert(0, f"{self._reason}: nothing can be kept until that is over")
        return snapshot

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("SELECT count(*) FROM meta").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def read_now(self, ids: list[int]) -> list[tuple[int, bytes]]:
        return [(id, b"") for id in ids] if self._reader is None else self._reader.fetch(ids)

    def start(self) -> None:
        if self._reader is not None:
            self._reader.start()

    def submit(self, batch: Batch) -> None:
        self._failed += 1
        self._on_done(batch.number, self._reason)

    def call(self, answer: Callable[[], None]) -> None:
        """No thread commits, so none can hang."""
        answer()

    def read(self, token: int, ids: list[int]) -> None:
        if self._reader is not None:
            self._reader.submit(token, ids)
        else:
            self._on_read(token, [(id, b"") for id in ids])

    def stats(self) -> StoreStats:
        stats = StoreStats()
        stats.failed_commits = self._failed
        stats.last_error = self._reason
        try:
            figures: Any = os.statvfs(self._path.parent)
            stats.free_bytes = figures.f_bavail * figures.f_frsize
            stats.file_bytes = self._path.stat().st_size
        except OSError:
            pass
        return stats

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
