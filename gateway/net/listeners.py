"""Listening sockets: accept, refuse what is too much, hand each connection to the event loop."""

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast, final

from gateway.core.meter import Bucket
from gateway.log import Log
from gateway.net.connection import Connection, Turn
from gateway.net.control import ShortPath
from gateway.net.tls import HANDSHAKE_TIMEOUT_S
from gateway.systemd import Handed

BACKLOG: Final = 4096  # the kernel cuts it to net.core.somaxconn
ACCEPTS_PER_TURN: Final = 16  # so that a crowd at the door does not hold up those who are in
ACCEPT_PAUSE_S: Final = 1.0
SHORT_OF_MEANS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# ways in
TCP: Final = "tcp"
TLS: Final = "tls"
MTLS: Final = "mtls"
WS: Final = "ws"
WSS: Final = "wss"
UNIX: Final = "unix"
_SAID: Final = {
    TCP: "",
    TLS: " (TLS)",
    MTLS: " (TLS with certificates)",
    WS: " (WebSocket)",
    WSS: " (WebSocket, TLS)",
    UNIX: "",
}


class ListenError(Exception):
    """The address cannot be served; the text is one line that names it."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address; a name counts only when it is ``localhost``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind(host: str, port: int, handed: Handed | None = None) -> list[socket.socket]:
    """Sockets bound to every address of ``host`` ("" is every interface), not yet listening. Raises ListenError.

    Those that were handed over are taken instead of new ones.
    """
    name = address_text(host or "*", port)
    bound: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, proto, _, address in dict.fromkeys(found):
            given = handed.take(family, address) if handed is not None else None
            bound.append(given or _bind_one(family, kind, proto, address))
    except OSError as e:
        for sock in bound:
            sock.close()
        raise ListenError(f"cannot listen on {name}: {e.strerror or e}") from e
    return bound


def _bind_one(family: int, kind: int, proto: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # its IPv4 twin has a socket of its own
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def bind_unix(path: Path, mode: str) -> socket.socket:
    """A bound Unix socket that those may open whom ``mode`` (octal) lets; a stale one goes. Raises ListenError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        _take_away(path)
        with ShortPath(path) as short:
            sock.bind(short)
        path.chmod(int(mode, 8))
    except OSError as e:
        sock.close()
        raise ListenError(f"cannot listen on {path}: {e.strerror or e}") from e
    return sock


def _take_away(path: Path) -> None:
    """A socket that nobody serves any more; raises OSError when somebody does, or it is no socket."""
    if not path.is_socket():
        return  # binding tells what is wrong
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, ShortPath(path) as short:
        try:
            probe.connect(short)
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


@final
class Listener:
    """One listening socket of one of the ways in (``kind``).

    What is set from outside may change at any time and holds for the connections that come next: ``tls``, where there
    is TLS and None = no usable certificate; ``anonymous``, whether a client needs no user name; ``origins`` of pages
    on a WebSocket; ``bucket``, how fast it takes connections; ``refuses(host)``, why one does not come in.
    """

    def __init__(
        self, sock: socket.socket, turn: Turn, log: Log, kind: str = TCP, path: Path | None = None, kept: bool = False
    ) -> None:
        """``path`` of a Unix socket; ``kept``: it is handed to the next process, too, so its file stays."""
        self.kind = kind
        self.path = path
        self._kept = kept
        self.secure = kind in (TLS, MTLS, WSS)
        self.anonymous = False
        self.tls: ssl.SSLContext | None = None
        self.origins: Sequence[str] = ()
        self.bucket: Bucket | None = None
        self.refuses: Callable[[str], str] = _welcome
        self.host: str = "unix" if kind == UNIX else sock.getsockname()[0]
        self.port: int = 0 if kind == UNIX else sock.getsockname()[1]
        self._sock = sock
        self._turn = turn
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._starting: set[asyncio.Task[None]] = set()  # accepted, the transport (with TLS the handshake) not done
        self._pause: asyncio.TimerHandle | None = None
        self._short = False

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.kind == UNIX or is_loopback(self.host)

    def __str__(self) -> str:
        return (str(self.path) if self.kind == UNIX else address_text(self.host, self.port)) + _SAID[self.kind]

    def start(self) -> None:
        """Accept from now on. Raises ListenError when another process got the port in between."""
        try:
            self._sock.listen(BACKLOG)
        except OSError as e:
            raise ListenError(f"cannot listen on {self}: {e.strerror or e}") from e
        self._loop.add_reader(self._sock.fileno(), self._on_acceptable)

    def close(self) -> None:
        """Stop accepting. Connections stay, those accepted just now come within a loop turn, TLS handshakes go."""
        if self._sock.fileno() < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        if self.path is not None and not self._kept:
            with contextlib.suppress(OSError):  # the next start replaces it
                self.path.unlink()
        if self.secure:
            for task in self._starting:
                task.cancel()

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            wait_ms = self.bucket.wait(self._turn.now()) if self.bucket is not None else 0
            if wait_ms:
                self._rest(wait_ms / 1000)  # they wait in the system's queue
                return
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError):
                self._short = False  # all who came are in
                return
            except OSError as e:
                if e.errno in SHORT_OF_MEANS:
                    self._run_short(e)
                    return
                continue  # this one peer went away before it was accepted
            if self.bucket is not None:
                self.bucket.spend()
            if self.kind == UNIX:
                self._admit(sock, "unix", _who(sock))
            else:
                self._admit(sock, address[0], address_text(address[0], address[1]))

    def _admit(self, sock: socket.socket, host: str, peer: str) -> None:
        why = "max_connections reached" if self._turn.router.full() else self.refuses(host)
        if self.secure and self.tls is None:
            why = "there is no usable certificate"
        if why:
            sock.close()
            self._log.noise(f"refused: {why}", f"{peer} refused: {why}")
            return
        sock.setblocking(False)
        task = self._loop.create_task(self._begin(sock, peer))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _begin(self, sock: socket.socket, peer: str) -> None:
        tls = self.tls
        timeout = HANDSHAKE_TIMEOUT_S if tls is not None else None
        try:
            # a compiled class has no Protocol for a base, only its methods
            connection = cast(asyncio.Protocol, Connection(self._turn, peer, self.anonymous))
            if self.kind in (WS, WSS):
                connection = self._over_websocket(connection, peer)
            await self._loop.connect_accepted_socket(lambda: connection, sock, ssl=tls, ssl_handshake_timeout=timeout)
        except (OSError, TimeoutError) as e:  # ssl.SSLError is an OSError
            sock.close()
            self._log.noise("no connection", f"{peer} did not get through: {_why(e)}")
        except asyncio.CancelledError:
            sock.close()

    def _over_websocket(self, connection: asyncio.Protocol, peer: str) -> asyncio.Protocol:
        from gateway.net.websocket import ServerWebSocket

        def refused(why: str) -> None:
            self._log.noise("no connection", f"{peer} did not get through: {why}")

        return ServerWebSocket(connection, self.origins, refused)

    def _run_short(self, error: OSError) -> None:
        """Out of descriptors or memory: the socket stays readable, so watching it would spin the loop."""
        self._rest(ACCEPT_PAUSE_S)
        if not self._short:
            self._short = True
            self._log.warning(f"{self} accepts nobody for now: {error.strerror}")

    def _rest(self, seconds: float) -> None:
        self._loop.remove_reader(self._sock.fileno())
        self._pause = self._loop.call_later(seconds, self._wake)

    def _wake(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock.fileno(), self._on_acceptable)


def _welcome(host: str) -> str:
    return ""


def _who(sock: socket.socket) -> str:
    """The process on the other side of a Unix socket."""
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return f"unix:pid={pid},uid={uid}"


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error) or type(error).__name__
