"""File systems that were made read-only by force: files that are open can be written on, and ext4 syncs nothing."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def is_read_only(figures: os.statvfs_result) -> bool:
    """Of the file system with these figures."""
    return bool(figures.f_flag & os.ST_RDONLY)


@contextmanager
def synced(folder: Path) -> Iterator[None]:
    """What is written and synced there inside is on disk afterwards. Raises OSError where fsync's yes means nothing."""
    _require(folder)
    yield
    _require(folder)


def _require(folder: Path) -> None:
    if is_read_only(os.statvfs(folder)):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))
