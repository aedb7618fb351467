"""Keeps two brokers from sharing one data directory."""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import final

from gateway.replacing import hand_over
from gateway.store.errors import StoreError


@final
class DirectoryLock:
    """An exclusive flock that the kernel gives back however the process ends; the file names its holder."""

    def __init__(self, path: Path) -> None:
        """Take the lock or raise StoreError with the holder's pid in its one line."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            hand_over(path, path.parent)
        except OSError as error:
            raise StoreError(f"cannot write to the data directory {path.parent}: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise StoreError(
                f"the data directory {path.parent} is in use by another broker (pid {holder or 'unknown'})"
            ) from error
        with contextlib.suppress(OSError):  # a full disk: the lock holds without the pid
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Give the lock back; the file stays, since removing it would race with the next holder."""
        os.close(self._fd)
