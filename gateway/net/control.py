"""The control socket: one JSON object on a line asks, one answers.

Rows that an answer has as an iterator are made and sent some at a time, so that a list of thousands holds up nobody.
"""

import asyncio
import errno
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast, final
from zlib import crc32

LINE_BYTES_MAX: Final = 65_536
_DISK: Final = (errno.EROFS, errno.EIO, errno.ENOENT)
PATH_BYTES_MAX: Final = 107  # of sockaddr_un, without the closing zero
SLICE_S: Final = 0.001  # of the event loop, for rows at a time
PAUSE_S: Final = 0.004  # in which everybody else is served

Handler = Callable[[dict[str, Any], "ControlProtocol"], Any]
"""Gets a command and who asked."""


class CommandError(Exception):
    """A command that cannot be carried out; the text goes to who asked."""


def elsewhere(path: Path) -> Path:
    """Where the socket is when its folder cannot be written, or read."""
    told, own = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0], Path("/run/forebay")
    if told or own.is_dir():
        folder = Path(told) if told else own
    else:
        folder = Path("/run") if os.geteuid() == 0 else Path(f"/tmp/forebay-{os.geteuid()}")
    return folder / f"forebay-{crc32(os.fsencode(path.absolute())):08x}.sock"


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

    In place of a list it may return an iterator, alone or as a value of a dict: it is used over many turns of the loop.

    ``at_end``, where a command has set it, is called when the connection has ended.
    """

    def __init__(self, handler: Handler) -> None:
        self.at_end: Callable[[], None] | None = None
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._full = False  # answers wait that it does not read
        self._answering: Iterator[str] | None = None  # what is left of a long answer
        self._pausing = False  # in it
        self._next: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has the methods, not the base

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self._answering = None
        if self.at_end is not None:
            self.at_end()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._go_on()

    def become(self, protocol: asyncio.Protocol) -> bool:
        """What comes after this command's answer is for another protocol."""
        self._next = protocol
        return True

    def pause_writing(self) -> None:
        self._full = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        self._continue()

    def _go_on(self) -> None:
        """Answer what was asked, as long as the answers are read."""
        start = 0
        while (
            not self._full
            and self._answering is None
            and self._next is None
            and (end := self._buffer.find(b"\n", start)) >= 0
        ):
            self._answer(self._buffer[start:end])
            start = end + 1
        self._buffer = self._buffer[start:]
        if self._transport is not None and not self._full and self._answering is None:
            if self._next is not None:
                self._hand_over(self._transport, self._next)
            elif len(self._buffer) > LINE_BYTES_MAX:
                self._transport.close()

    def _answer(self, line: bytes) -> None:
        if self._transport is None:
            return
        try:
            self._answering = _pieces(self._handler(_command(line), self))
        except CommandError as e:
            self._transport.write(json.dumps({"ok": False, "error": str(e)}).encode() + b"\n")
        else:
            self._send()

    def _send(self) -> None:
        """A slice of the answer; what is left comes after a pause, or when what went before has been read."""
        if self._transport is None or self._answering is None:
            return
        end, made = time.monotonic() + SLICE_S, []
        for piece in self._answering:
            made.append(piece)
            if time.monotonic() >= end:
                self._transport.pause_reading()
                asyncio.get_running_loop().call_later(PAUSE_S, self._after_pause)
                self._pausing = True
                break
        else:
            self._answering = None
        self._transport.write("".join(made).encode())

    def _after_pause(self) -> None:
        self._pausing = False
        self._continue()

    def _continue(self) -> None:
        """With the answer, or the next question."""
        if self._full or self._pausing or self._transport is None:
            return
        try:
            self._send()
        except Exception:
            self._transport.abort()  # half an answer is none
            raise
        if self._answering is None and not self._full:
            self._transport.resume_reading()
            self._go_on()

    def _hand_over(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        self._transport = None
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._buffer:
            protocol.data_received(self._buffer)


def _pieces(result: Any) -> Iterator[str]:
    """A line with the answer, a row at a time where there are many."""
    yield '{"ok": true, "result": '
    if isinstance(result, Iterator):
        yield from _rows(result)
    elif isinstance(result, dict) and any(isinstance(value, Iterator) for value in result.values()):
        for number, (key, value) in enumerate(result.items()):
            yield f"{', ' if number else '{'}{json.dumps(key)}: "
            yield from _rows(value) if isinstance(value, Iterator) else (json.dumps(value),)
        yield "}"
    else:
        yield json.dumps(result)
    yield "}\n"


def _rows(rows: Iterator[Any]) -> Iterator[str]:
    yield "["
    for number, row in enumerate(rows):
        yield f", {json.dumps(row)}" if number else json.dumps(row)
    yield "]"


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
        """At ``path``, or elsewhere() when its folder cannot be written, or is not there. Raises OSError."""
        try:
            sock = listen(path)
        except OSError as e:
            if e.errno not in _DISK:
                raise
            path = elsewhere(path)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if path.parent.stat().st_uid not in (0, os.geteuid()):
                raise
            sock = listen(path)
        server = await asyncio.get_running_loop().create_unix_server(lambda: ControlProtocol(handler), sock=sock)
        return cls(path, server)

    def close(self) -> None:
        self._server.close()
        try:
            if stat.S_ISSOCK(self._path.lstat().st_mode):
                self._path.unlink()
        except OSError:
            pass  # gone already, or on a file system that has become read-only: the next start replaces it
