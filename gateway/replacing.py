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
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        hand_over(path.parent, path.parent.parent)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
        os.fsync(folder)
    finally:
        os.close(folder)


def hand_over(new: Path, like: Path) -> None:
    """What root makes gets the owner of ``like``: a gateway of another user could not read it. Raises OSError."""
    if os.geteuid() == 0:
        owner = like.stat()
        os.chown(new, owner.st_uid, owner.st_gid)


def replace(path: Path, data: bytes, mode: int = stat.S_IRUSR | stat.S_IWUSR, lasting: bool = True) -> None:
    """Put a new file in the place of the old one at once; only the owner may read it. Raises OSError.

    Its owner is that of the old one, or of the folder. Unless ``lasting``, a loss of power may cost the contents, and
    a disk that hangs is not waited for.
    """
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # it would keep the mode that it has
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(data)
        out.flush()
        if lasting:
            os.fsync(out.fileno())
    hand_over(new, path if path.exists() else path.parent)
    os.replace(new, path)
