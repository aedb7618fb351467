"""Files that a command changes while others may read or change them: replaced as a whole, or not at all."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold off other writers of the file; the lock is on its folder, since the file itself is replaced. Raises OSError.

    The folder is made where there is none. On leaving it, what was done there is on disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
        os.fsync(folder)
    finally:
        os.close(folder)


def replace(path: Path, data: bytes, mode: int = stat.S_IRUSR | stat.S_IWUSR) -> None:
    """Put a new file in the place of the old one at once; only the owner may read it. Raises OSError."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # it would keep the mode that it has
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    os.replace(new, path)
