"""From an address to an open connection on which nothing was said yet: name, TCP, TLS, WebSocket."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, cast, final

from gateway.net.tls import TlsError, client_context
from gateway.settings.uplink import UplinkRow
from gateway.settings.uplink_kinds import Remote

STEP_TIMEOUT_S: Final = 10.0

Told = Callable[[str, str], None]
"""Gets the name of a step that worked, and what came of it."""


class DialError(Exception):
    """One line: which step failed, and why. ``refused``: it will fail again until somebody changes something."""

    def __init__(self, step: str, why: str, refused: bool = False) -> None:
        super().__init__(f"{step}: {why}")
        self.step, self.why, self.refused = step, why, refused


@final
class Held(asyncio.Protocol):
    """An open connection that waits for its user, then hands everything on to it.

    ``user`` has the methods of asyncio.Protocol. ``error`` is what ended the connection, if that was an error.
    """

    def __init__(self) -> None:
        self.lost = False
        self.error: Exception | None = None
        self.transport: asyncio.Transport | None = None
        self._user: asyncio.Protocol | None = None
        self._early = bytearray()

    def take(self, user: asyncio.Protocol) -> None:
        """From now on it is the user's; one that is lost already is told so at once."""
        assert self.transport is not None
        self._user = user
        user.connection_made(self.transport)
        if self._early:
            user.data_received(bytes(self._early))
        if self.lost:
            user.connection_lost(self.error)

    def close(self) -> None:
        """Once what was written is on its way."""
        if self.transport is not None:
            self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's has the methods, not the base

    def data_received(self, data: bytes) -> None:
        if self._user is not None:
            self._user.data_received(data)
        else:
            self._early += data

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost, self.error = True, exc
        if self._user is not None:
            self._user.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._user is not None:
            self._user.pause_writing()

    def resume_writing(self) -> None:
        if self._user is not None:
            self._user.resume_writing()


def why(error: BaseException) -> str:
    """For people, on one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, TimeoutError):
        return f"no answer within {STEP_TIMEOUT_S:g} s"
    # the loops put their own words in place of the system's
    text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return " ".join(text.split()) or type(error).__name__


async def dial(uplink: UplinkRow, remote: Remote, told: Told = lambda step, what: None) -> Held:
    """Connect to one address. Raises DialError; the socket is closed then."""
    context = tls_context(uplink) if remote.tls else None
    sock = await _connected(uplink, remote, told)
    held = Held()
    protocol: asyncio.Protocol = held
    if remote.websocket:
        from gateway.net.websocket import ClientWebSocket  # only where one is asked for

        default = 443 if remote.tls else 80
        host = f"[{remote.host}]" if ":" in remote.host else remote.host
        named = host if remote.port == default else f"{host}:{remote.port}"
        protocol = ClientWebSocket(held, named, remote.path)
    try:
        name = (uplink.server_name or remote.host) if context is not None else None
        timeout = STEP_TIMEOUT_S if context is not None else None
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: protocol, sock=sock, ssl=context, server_hostname=name, ssl_handshake_timeout=timeout
        )
    except (OSError, ValueError) as e:
        sock.close()
        raise DialError("TLS", why(e), isinstance(e, ssl.SSLCertVerificationError | ValueError)) from None
    except asyncio.CancelledError:
        sock.close()
        raise
    if context is not None:
        told("TLS", _secured(transport))
    if protocol is not held:
        await _upgraded(protocol, transport, remote, told)
    return held


async def _upgraded(protocol: Any, transport: asyncio.BaseTransport, remote: Remote, told: Told) -> None:
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            await protocol.opened
    except (OSError, TimeoutError) as e:
        cast(asyncio.Transport, transport).abort()
        raise DialError("WebSocket", why(e), "HTTP status 4" in str(e)) from None
    except asyncio.CancelledError:
        cast(asyncio.Transport, transport).abort()
        raise
    told("WebSocket", remote.path)


async def _connected(uplink: UplinkRow, remote: Remote, told: Told) -> socket.socket:
    """A connected socket to the first of the host's addresses that answers."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            found = await loop.getaddrinfo(remote.host, remote.port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError) as e:
        raise DialError("DNS", f"{remote.host}: {why(e)}") from None
    told("DNS", ", ".join(dict.fromkeys(str(address[4][0]) for address in found)))
    last = DialError("TCP", "no address")
    for family, kind, proto, _, address in found:
        sock = socket.socket(family, kind, proto)
        try:
            sock.setblocking(False)
            _tune(sock, uplink.keep_alive_s)
            async with asyncio.timeout(STEP_TIMEOUT_S):
                await loop.sock_connect(sock, address)
        except (OSError, TimeoutError) as e:
            sock.close()
            last = DialError("TCP", f"{address[0]} port {remote.port}: {why(e)}")
        except asyncio.CancelledError:
            sock.close()
            raise
        else:
            told("TCP", f"{address[0]} port {remote.port}")
            return sock
    raise last


def _tune(sock: socket.socket, keep_alive_s: int) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # of Linux: what is sent and not acknowledged for so long ends the link
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, keep_alive_s * 1500)


def tls_context(uplink: UplinkRow) -> ssl.SSLContext:
    """From its files as they are now. Raises DialError."""
    try:
        return client_context(uplink.ca, uplink.cert, uplink.key, insecure=uplink.insecure, alpn=uplink.alpn)
    except TlsError as e:
        raise DialError("TLS", str(e), True) from None


def _secured(transport: asyncio.BaseTransport) -> str:
    """Version, and who the broker is."""
    link = transport.get_extra_info("ssl_object")
    names = [value for part in (link.getpeercert() or {}).get("subject", ()) for key, value in part]
    return ", ".join([link.version() or "TLS", *names])
