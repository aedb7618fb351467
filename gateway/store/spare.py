"""A little of the disk held in reserve, so that a full one can still be opened and emptied."""

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Final, final

SPARE_BYTES: Final = 1024 * 1024

_FULL: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR_WRITE)


def is_full(error: BaseException) -> bool:
    """Whether more room might help; a file system says so in several ways."""
    return getattr(error, "sqlite_errorcode", None) in _FULL


@final
class Spare:
    """A file that is given up when nothing else is left, and made again when there is room."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._there = path.exists()

    def spend(self) -> bool:
        """Give it up; False when it was gone already."""
        had, self._there = self._there, False
        with contextlib.suppress(OSError):
            self._path.unlink()
        return had

    def restore(self, free_bytes: int, least_bytes: int) -> None:
        """Make it again where that leaves ``least_bytes`` of the free ones, and some more."""
        if self._there or free_bytes < least_bytes + 2 * SPARE_BYTES:
            return
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, SPARE_BYTES)
            finally:
                os.close(fd)
            self._there = True
        except OSError:
            self.spend()
