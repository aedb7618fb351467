"""A network namespace for the far end of a link, whose packets can vanish without a word.

Where this process may not make one, the far end is on loopback, and only what needs no namespace can be tried.
"""

import contextlib
import ctypes
import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self, final

_CLONE_NEWNET: Final = 0x40000000
_NOBODY: Final = "02:00:00:00:00:fe"  # a link-layer address that no interface has


@functools.cache
def possible() -> bool:
    """Root in a container may still lack the right."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"forebay-{os.getpid()}"
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except RuntimeError:
        return False
    return True


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@final
class Namespace:
    """``with``: it is there, joined to this one by a pair of interfaces. ``host`` is its address."""

    def __init__(self, number: int) -> None:
        """``number``, from 0 to 16383, tells those apart that are there at the same time."""
        net = f"10.213.{number >> 6}"
        low = (number & 63) * 4
        self.real = possible()
        self.host = f"{net}.{low + 2}" if self.real else "127.0.0.1"
        self._here = f"{net}.{low + 1}"
        self._name = f"forebay{number}"
        self._near, self._far = f"fb{number}a", f"fb{number}b"

    def __enter__(self) -> Self:
        if self.real:
            _ip("netns", "add", self._name)
            try:
                self._join()
            except RuntimeError:
                _ip("netns", "del", self._name)
                raise
        return self

    def _join(self) -> None:
        _ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self._name)
        _ip("addr", "add", f"{self._here}/30", "dev", self._near)
        _ip("link", "set", self._near, "up")
        _ip("-n", self._name, "addr", "add", f"{self.host}/30", "dev", self._far)
        _ip("-n", self._name, "link", "set", self._far, "up")
        _ip("-n", self._name, "link", "set", "lo", "up")

    def __exit__(self, *_: object) -> None:
        if self.real:
            _ip("link", "del", self._near)  # by itself it would go some time after the namespace
            _ip("netns", "del", self._name)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """What this thread starts and which sockets it makes belong to the namespace."""
        if not self.real:
            yield
            return
        libc = ctypes.CDLL(None, use_errno=True)
        with Path("/proc/thread-self/ns/net").open("rb") as home, Path(f"/run/netns/{self._name}").open("rb") as there:
            if libc.setns(there.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                libc.setns(home.fileno(), _CLONE_NEWNET)

    def blackhole(self, answers_only: bool = False) -> None:
        """Packets vanish, both ways or only those that come back; nobody is told."""
        if not answers_only:
            _ip("neigh", "replace", self.host, "lladdr", _NOBODY, "dev", self._near, "nud", "permanent")
        _ip("-n", self._name, "neigh", "replace", self._here, "lladdr", _NOBODY, "dev", self._far, "nud", "permanent")

    def restore(self) -> None:
        for words in (
            ("neigh", "del", self.host, "dev", self._near),
            ("-n", self._name, "neigh", "del", self._here, "dev", self._far),
        ):
            with contextlib.suppress(RuntimeError):  # there is none where it was not poisoned
                _ip(*words)
