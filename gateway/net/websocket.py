"""MQTT over WebSocket, for both sides: what stands between a socket's transport and the protocol object of MQTT.

Imported only where a listener or an uplink asks for it. Frames are handed on as they come in, whole or not, since
packets need not end where frames do [MQTT-6.0.0-2]: what a peer can make wait here is one read.
"""

import asyncio
import ipaddress
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, cast, final
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

SUBPROTOCOL: Final = "mqtt"  # [MQTT-6.0.0-3]
OLD_SUBPROTOCOL: Final = "mqttv3.1"  # what clients of before 3.1.1 call it
HANDSHAKE_TIMEOUT_S: Final = 10.0


class WebSocketError(ConnectionError):
    """The other side does not speak MQTT over WebSocket; the text is one line."""


@final
class Stream(asyncio.Transport):
    """The open connection as MQTT sees it: bytes in, bytes out. Each ``write`` is one binary frame [MQTT-6.0.0-1]."""

    def __init__(self, socket: asyncio.Transport, session: WSConnection) -> None:
        super().__init__()
        self._socket = socket
        self._session = session
        self._said_close = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._said_close and not self._socket.is_closing():
            self._socket.write(self._session.send(BytesMessage(data=bytes(data))))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Say that this was the last; the peer answers and is read until then."""
        self.say_close(CloseReason.NORMAL_CLOSURE)

    def close(self) -> None:
        """Say so, and close once it is written."""
        self.say_close(CloseReason.NORMAL_CLOSURE)
        self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def say_close(self, code: int) -> None:
        """The closing frame, once."""
        if self._said_close or self._socket.is_closing():
            return
        self._said_close = True
        try:
            self._socket.write(self._session.send(CloseConnection(code=code)))
        except LocalProtocolError:
            pass  # both sides have said it

    def is_closing(self) -> bool:
        return self._said_close or self._socket.is_closing()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def send_event(self, event: Event) -> None:
        """A frame that is not data."""
        if not self._said_close and not self._socket.is_closing():
            self._socket.write(self._session.send(event))


class WebSocket(asyncio.Protocol, ABC):
    """Drives ``inner`` (the methods of asyncio.Protocol) once the handshake is done; before that it knows nothing."""

    def __init__(self, inner: asyncio.Protocol, role: ConnectionType) -> None:
        self._inner = inner
        self._session = WSConnection(role)
        self._socket: asyncio.Transport | None = None
        self._stream: Stream | None = None  # once it is open
        self._timer: asyncio.TimerHandle | None = None
        self._over = False  # what comes now is thrown away

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)  # uvloop's has the methods, not the base
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_TIMEOUT_S, self._too_late)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        try:
            self._session.receive_data(data)
            for event in self._session.events():
                if not self._over:
                    self._on_event(event)
        except RemoteProtocolError as e:
            self._fail(str(e), e.event_hint)
        except (LocalProtocolError, UnicodeError) as e:  # header lines are decoded by the library
            self._fail(str(e), None)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._stop_timer()
        if self._stream is not None:
            self._inner.connection_lost(exc)
        else:
            self._failed(str(exc) if exc is not None else "closed during the handshake")
        self._socket = self._stream = None

    def pause_writing(self) -> None:
        if self._stream is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._stream is not None:
            self._inner.resume_writing()

    @abstractmethod
    def _on_handshake(self, event: Event) -> None:
        """What came before it is open."""

    @abstractmethod
    def _failed(self, why: str) -> None:
        """The handshake has come to nothing."""

    def _on_event(self, event: Event) -> None:
        stream = self._stream
        if stream is None:
            self._on_handshake(event)
        elif isinstance(event, BytesMessage):
            if event.data:
                self._inner.data_received(bytes(event.data))
        elif isinstance(event, Ping):
            stream.send_event(event.response())
        elif isinstance(event, CloseConnection):  # said by the peer, or by the library of what breaks the rules
            self._end(stream, event.code)
        elif isinstance(event, TextMessage):
            self._end(stream, CloseReason.UNSUPPORTED_DATA)

    def _end(self, stream: Stream, code: int) -> None:
        self._over = True
        stream.say_close(code)
        if self._socket is not None:
            self._socket.close()

    def _open(self) -> None:
        assert self._socket is not None
        self._stop_timer()
        self._stream = Stream(self._socket, self._session)
        self._inner.connection_made(self._stream)

    def _fail(self, why: str, answer: Event | None) -> None:
        """The handshake leads to nothing."""
        self._over = True
        socket = self._socket
        if socket is None:
            return
        if self._stream is not None:
            socket.abort()
            return
        if isinstance(answer, RejectConnection) and not self._session.client:
            try:
                socket.write(self._session.send(answer))
            except LocalProtocolError:
                pass  # what came is too broken for an answer
        self._failed(why)
        socket.close()

    def _too_late(self) -> None:
        if self._socket is not None:
            self._over = True
            self._failed("no handshake in time")
            self._socket.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@final
class ServerWebSocket(WebSocket):
    """The side that listens.

    A page in a browser tells where it comes from (``Origin``): unless that is the address that it connects to, it must
    be among ``origins`` ("*" = any), since the browser may stand where clients need no password.
    ``refused`` is told once why a connection came to nothing.
    """

    def __init__(self, inner: asyncio.Protocol, origins: Sequence[str], refused: Callable[[str], None]) -> None:
        super().__init__(inner, ConnectionType.SERVER)
        self._origins = origins
        self._refused: Callable[[str], None] | None = refused

    def _on_handshake(self, event: Event) -> None:
        if not isinstance(event, Request):
            return
        offered = [name for name in event.subprotocols if name in (SUBPROTOCOL, OLD_SUBPROTOCOL)]
        headers = {name.lower(): value for name, value in event.extra_headers}
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not offered:
            self._fail("WebSocket without the subprotocol mqtt", RejectConnection(status_code=400))
        elif not origin_allowed(origin, event.host, self._origins):
            self._fail(f"WebSocket from a page of {origin[:200]!r}", RejectConnection(status_code=403))
        else:
            assert self._socket is not None
            self._socket.write(self._session.send(AcceptConnection(subprotocol=offered[0])))
            self._open()

    def _failed(self, why: str) -> None:
        refused, self._refused = self._refused, None
        if refused is not None and not self._stream:
            refused(why)


@final
class ClientWebSocket(WebSocket):
    """The side that dials; ``opened`` ends with the stream, or with WebSocketError."""

    def __init__(self, inner: asyncio.Protocol, host: str, path: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(inner, ConnectionType.CLIENT)
        self.opened: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()
        self._request = Request(
            host=host,
            target=path,
            subprotocols=[SUBPROTOCOL],
            extra_headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self._socket is not None
        self._socket.write(self._session.send(self._request))

    def _on_handshake(self, event: Event) -> None:
        if isinstance(event, AcceptConnection):
            if event.subprotocol != SUBPROTOCOL:
                self._fail("the server does not choose the subprotocol mqtt", None)
                return
            self._open()
            if not self.opened.done():
                assert self._stream is not None
                self.opened.set_result(self._stream)
        elif isinstance(event, RejectConnection):
            self._fail(f"the server answers with HTTP status {event.status_code}", None)

    def _failed(self, why: str) -> None:
        if not self.opened.done():
            self.opened.set_exception(WebSocketError(f"no WebSocket: {why}"))


def origin_allowed(origin: str, host: str, origins: Sequence[str]) -> bool:
    """Whether a page of ``origin`` ("" = no browser) may connect to ``host``, which is as the request has it.

    A name that is not listed proves nothing: whoever serves the page can make its name lead to this machine.
    """
    if not origin or "*" in origins or origin in origins:
        return True
    try:
        name = urlsplit(origin).hostname
        if name is None or name != urlsplit("//" + host).hostname:
            return False
        return name == "localhost" or ipaddress.ip_address(name) is not None
    except ValueError:
        return False


async def dial(
    inner: asyncio.Protocol,
    host: str,
    port: int,
    *,
    path: str = "/mqtt",
    tls: ssl.SSLContext | None = None,
    headers: Sequence[tuple[str, str]] = (),
) -> Stream:
    """Connect; ``inner`` gets ``connection_made`` with the stream that this gives back. Raises OSError.

    WebSocketError is one (a ConnectionError); time is bounded once the socket is connected, not before.
    """
    name = f"[{host}]" if ":" in host else host
    default = 443 if tls is not None else 80
    link = ClientWebSocket(inner, name if port == default else f"{name}:{port}", path, headers)
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: link, host, port, ssl=tls, server_hostname=host if tls is not None else None
    )
    try:
        return await link.opened
    except asyncio.CancelledError:
        transport.abort()
        raise
