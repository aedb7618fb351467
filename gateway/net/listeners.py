"""Listening sockets: accept, refuse what is too much, hand each connection to the event loop."""

import asyncio
import errno
import ipaddress
import socket
import ssl
from typing import Final, cast, final

from gateway.log import Log
from gateway.net.connection import Connection, Turn
from gateway.net.tls import HANDSHAKE_TIMEOUT_S

BACKLOG: Final = 4096  # the kernel cuts it to net.core.somaxconn
ACCEPTS_PER_TURN: Final = 64
ACCEPT_PAUSE_S: Final = 1.0
SHORT_OF_MEANS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


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


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to every address of ``host`` ("" is every interface), not yet listening. Raises ListenError."""
    name = address_text(host or "*", port)
    bound: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, proto, _, address in dict.fromkeys(found):
            bound.append(_bind_one(family, kind, proto, address))
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


@final
class Listener:
    """One listening socket.

    ``tls`` and ``anonymous`` (whether a client needs no user name) may change
    at any time; they hold for the connections that come next.
    """

    def __init__(self, sock: socket.socket, turn: Turn, log: Log, tls: ssl.SSLContext | None = None) -> None:
        self.anonymous = False
        self.tls = tls
        self.host, self.port = sock.getsockname()[:2]
        self._sock = sock
        self._turn = turn
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._starting: set[asyncio.Task[None]] = set()  # accepted, the transport (with TLS the handshake) not done
        self._pause: asyncio.TimerHandle | None = None
        self._short = False

    def __str__(self) -> str:
        return address_text(self.host, self.port) + (" (TLS)" if self.tls is not None else "")

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
        if self.tls is not None:
            for task in self._starting:
                task.cancel()

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError):
                self._short = False  # all who came are in
                return
            except OSError as e:
                if e.errno in SHORT_OF_MEANS:
                    self._rest(e)
                    return
                continue  # this one peer went away before it was accepted
            self._admit(sock, address_text(address[0], address[1]))

    def _admit(self, sock: socket.socket, peer: str) -> None:
        router = self._turn.router
        if router.full():
            sock.close()
            self._log.noise("refused: max_connections", f"{peer} refused: max_connections reached")
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
            await self._loop.connect_accepted_socket(lambda: connection, sock, ssl=tls, ssl_handshake_timeout=timeout)
        except (OSError, TimeoutError) as e:  # ssl.SSLError is an OSError
            sock.close()
            self._log.noise("no connection", f"{peer} did not get through: {_why(e)}")
        except asyncio.CancelledError:
            sock.close()

    def _rest(self, error: OSError) -> None:
        """Out of descriptors or memory: the socket stays readable, so watching it would spin the loop."""
        self._loop.remove_reader(self._sock.fileno())
        self._pause = self._loop.call_later(ACCEPT_PAUSE_S, self._wake)
        if not self._short:
            self._short = True
            self._log.warning(f"{self} accepts nobody for now: {error.strerror}")

    def _wake(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock.fileno(), self._on_acceptable)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error) or type(error).__name__
