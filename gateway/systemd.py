"""What systemd and this process say to each other: sd_notify(3), sd_listen_fds(3), sd_watchdog_enabled(3).

All of it comes by the environment. Where there is none of it nothing is said, and every call here does nothing.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Final, final

FIRST_DESCRIPTOR: Final = 3
BEATS: Final = 3  # in the time after which systemd takes this process for dead
_OURS: Final = (
    "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
)  # fmt: skip


@final
class Handed:
    """Listening sockets that were open before this process began, so that nobody was refused in between."""

    def __init__(self, sockets: list[tuple[str, socket.socket]]) -> None:
        """Each with its name in the socket unit (``FileDescriptorName``)."""
        self._sockets = sockets

    def take(self, family: int, address: object) -> socket.socket | None:
        """The one of this address, as ``getsockname`` has it; it is not given twice."""
        host_and_port = address[:2] if isinstance(address, tuple) else address
        for number, (_, sock) in enumerate(self._sockets):
            own = sock.getsockname()
            if sock.family == family and (own[:2] if isinstance(own, tuple) else own) == host_and_port:
                return self._sockets.pop(number)[1]
        return None

    def named(self, name: str) -> list[socket.socket]:
        """Those of this name that nobody has taken by their address."""
        found = [sock for own, sock in self._sockets if own == name]
        self._sockets = [(own, sock) for own, sock in self._sockets if own != name]
        return found

    def left(self) -> list[object]:
        """The addresses that nobody has taken."""
        return [sock.getsockname() for _, sock in self._sockets]


@final
class Systemd:
    """The service manager, as a unit of ``Type=notify`` sees it."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """Takes what is meant for this process alone out of ``environ``: its children must not answer for it."""
        told = {name: environ.pop(name) for name in _OURS if name in environ}
        self._address = told.get("NOTIFY_SOCKET", "")
        self._socket: socket.socket | None = None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        self.beat_s = _watchdog_s(told) / BEATS
        """Seconds between two beats; 0 where nobody waits for them."""
        self.handed = Handed(_sockets(told))

    def close(self) -> None:
        """Say nothing any more."""
        if self._socket is not None:
            self._socket.close()

    def tell(self, *lines: str) -> None:
        """Send assignments such as ``STATUS=...``; a manager that does not take them is no reason to stop."""
        if self._socket is not None:
            address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
            with contextlib.suppress(OSError):
                self._socket.sendto("\n".join(lines).encode(), address)

    def ready(self, status: str) -> None:
        """It serves, at the start and after each reload; ``status`` is a line for ``systemctl status``."""
        self.tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        self.tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str) -> None:
        self.tell("STOPPING=1", f"STATUS={status}")

    def beat(self, through: Callable[[Callable[[], None]], None]) -> None:
        """From now on feed the watchdog from the running event loop, as long as ``through`` calls what it is given.

        Who feeds is the thread behind ``through``: when it or the event loop stands still, nobody does.
        """
        if self.beat_s:
            through(self._alive)
            asyncio.get_running_loop().call_later(self.beat_s, self.beat, through)

    def _alive(self) -> None:
        self.tell("WATCHDOG=1")


def _watchdog_s(told: Mapping[str, str]) -> float:
    if told.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    text = told.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isdecimal() else 0.0


def _sockets(told: Mapping[str, str]) -> list[tuple[str, socket.socket]]:
    text = told.get("LISTEN_FDS", "")
    if told.get("LISTEN_PID") != str(os.getpid()) or not text.isdecimal():
        return []
    names = told.get("LISTEN_FDNAMES", "").split(":")
    found = []
    for number in range(int(text)):
        try:
            os.set_inheritable(FIRST_DESCRIPTOR + number, False)
            sock = socket.socket(fileno=FIRST_DESCRIPTOR + number)
        except OSError:
            continue  # no socket: nothing of ours
        if sock.type == socket.SOCK_STREAM and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
            found.append((names[number] if number < len(names) else "", sock))
        else:
            sock.detach()
    return found
