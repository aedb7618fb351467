"""The control socket: one JSON object on a line asks, one answers."""

import asyncio
import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast, final

LINE_BYTES_MAX: Final = 65_536
PATH_BYTES_MAX: Final = 107  # of sockaddr_un, without the closing zero

Handler = Callable[[dict[str, Any], "ControlProtocol"], Any]
"""Gets a command and who asked."""


class CommandError(Exception):
    """A command that cannot be carried out; the text goes to who asked."""


def listen(path: Path) -> socket.socket:
    """A listening Unix socket at ``path`` that only its owner can open; a stale one is replaced. Raises OSError."""
    if path.is_socket():
        path.unlink()  # the data directory's lock says that nobody serves it
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old_mask = os.umask(0o177)
    try:
        with ShortPath(path) as short:
            sock.bind(short)
        sock.listen(16)
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(old_mask)
    sock.setblocking(False)
    return sock


@final
class ShortPath:
    """The path, or where it is too long for a Unix socket the same file seen through its open folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= PATH_BYTES_MAX:
            return str(self._path)
        self._folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._folder}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        if self._folder >= 0:
            os.close(self._folder)


@final
class ControlProtocol(asyncio.Protocol):
    """One who asks. ``handler`` gets each command and returns what JSON can hold, or raises CommandError.

    ``at_end``, where a command has set it, is called when the connection has ended.
    """

    def __init__(self, handler: Handler) -> None:
        self.at_end: Callable[[], None] | None = None
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._full = False  # answers wait that it does not read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has the methods, not the base

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self.at_end is not None:
            self.at_end()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._go_on()

    def pause_writing(self) -> None:
        self._full = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        if self._transport is not None:
            self._transport.resume_reading()
        self._go_on()

    def _go_on(self) -> None:
        """Answer what was asked, as long as the answers are read."""
        start = 0
        while not self._full and (end := self._buffer.find(b"\n", start)) >= 0:
            self._answer(self._buffer[start:end])
            start = end + 1
        self._buffer = self._buffer[start:]
        if not self._full and len(self._buffer) > LINE_BYTES_MAX and self._transport is not None:
            self._transport.close()

    def _answer(self, line: bytes) -> None:
        if self._transport is None:
            return
        answer: dict[str, Any]
        try:
            answer = {"ok": True, "result": self._handler(_command(line), self)}
        except CommandError as e:
            answer = {"ok": False, "error": str(e)}
        self._transport.write(json.dumps(answer).encode() + b"\n")


def _command(line: bytes) -> dict[str, Any]:
    try:
        command = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise CommandError(f"not JSON: {e}") from e
    if not isinstance(command, dict):
        raise CommandError("a command is a JSON object")
    return command


@final
class ControlServer:
    """Serves ``path`` until closed; the file goes with it."""

    def __init__(self, path: Path, server: asyncio.Server) -> None:
        self._path = path
        self._server = server

    @classmethod
    async def start(cls, path: Path, handler: Handler) -> "ControlServer":
        sock = listen(path)
        server = await asyncio.get_running_loop().create_unix_server(lambda: ControlProtocol(handler), sock=sock)
        return cls(path, server)

    def close(self) -> None:
        self._server.close()
        try:
            if stat.S_ISSOCK(self._path.lstat().st_mode):
                self._path.unlink()
        except FileNotFoundError:
            pass
