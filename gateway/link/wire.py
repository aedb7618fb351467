"""One connection's bytes, under gmqtt: received ones go to our codec, messages and their answers stay with us."""

import asyncio
import time
from typing import Any, Final, Protocol, final

from gmqtt.mqtt.connection import MQTTConnection
from gmqtt.mqtt.protocol import BaseMQTTProtocol, MQTTProtocol

from gateway.link.deliveries import Incoming
from gateway.link.sending import Sending
from gateway.mqtt import packets, reasons
from gateway.mqtt.decode import Decoder
from gateway.mqtt.errors import PacketError
from gateway.mqtt.outgoing import Outgoing
from gateway.mqtt.packets import Ack, Packet, Publish

_OLD_REFUSAL: Final = b"\x20\x02\x00\x01"  # a broker of before 5.0 does not know our version
_DEAD: Final = 1.5  # keep alive intervals without a byte
_PING: Final = 0.7  # and without one in one of the directions
_WATCHES: Final = 5  # looks at it in one interval


class Owner(Protocol):
    """The session that a connection is of."""

    packet_bytes_max: int
    incoming: Incoming
    sending: Sending
    is_open: bool
    is_held: bool
    wire: "Wire | None"

    def managed(self, packet: Packet) -> None:
        """What is neither a message nor its acknowledgement. Raises PacketError."""

    def ping(self) -> int: ...
    def note(self, reason: int, text: str) -> None: ...
    def broken(self, reason: int, text: str) -> None: ...
    def abort(self) -> None: ...
    def ended(self, wire: "Wire") -> None: ...


@final
class Wire(MQTTProtocol):  # type: ignore[misc]
    """One connection's bytes. What is put is written at the end of the loop's turn, or of what was just read."""

    def __init__(self, session: Owner, version: int, **settings: Any) -> None:
        super().__init__(**settings)
        self._session = session
        self._decoder = Decoder(session.packet_bytes_max, version)
        self._decoder.passes_over = version != packets.V5  # who cannot be told of the limit would send it for ever
        self._version = version
        self._out = Outgoing()
        self._is_due = False
        self._is_over = False

    def put(self, data: bytes) -> None:
        self._out.write(data)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self.flush)

    def put_puback(self, packet_id: int) -> None:
        self._out.write_puback(packet_id)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was put."""
        self._is_due = False
        if self._out.size and self._transport is not None and not self._transport.is_closing():
            self._connection._last_data_out = time.monotonic()
            self._transport.write(self._out.take())

    def write_data(self, data: bytes) -> None:
        self.flush()
        super().write_data(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        BaseMQTTProtocol.connection_made(self, transport)  # and not gmqtt's read loop

    def data_received(self, data: bytes) -> None:
        if self._connection is None or self._is_over:
            return
        self._connection._last_data_in = time.monotonic()
        session, decoder = self._session, self._decoder
        incoming, sending = session.incoming, session.sending
        decoder.feed(data)
        self._is_due = True
        try:
            while (packet := decoder.next()) is not None:
                if isinstance(packet, Publish):
                    incoming.on_publish(packet)
                elif isinstance(packet, Ack):
                    if packet.type == packets.PUBACK:
                        sending.on_puback(packet.packet_id, packet.reason)
                    elif packet.type == packets.PUBREC:
                        sending.on_pubrec(packet.packet_id, packet.reason)
                    elif packet.type == packets.PUBREL:
                        incoming.on_pubrel(packet.packet_id, self)
                    else:
                        sending.on_pubcomp(packet.packet_id, packet.reason)
                else:
                    session.managed(packet)
                    if session.wire is not self:
                        break
        except PacketError as error:
            self._is_over = True
            is_old = data == _OLD_REFUSAL and not session.is_open
            session.broken(reasons.UNSUPPORTED_PROTOCOL_VERSION if is_old else error.reason, error.text)
        finally:
            self.flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        super().pause_writing()
        self._session.sending.blocked(True)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._session.sending.blocked(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        BaseMQTTProtocol.connection_lost(self, None)
        self._session.ended(self)


@final
class Connection(MQTTConnection):  # type: ignore[misc]
    """Keeps alive; gmqtt alone waits twice the interval, and then for a full buffer to drain into a dead link."""

    def __init__(self, session: Owner, *arguments: Any, **settings: Any) -> None:
        self._session = session
        super().__init__(*arguments, **settings)

    def _keep_connection(self) -> None:
        if self.is_closing() or not self._keepalive:
            return
        now = time.monotonic()
        if self._session.is_held:
            self._last_data_in = now
        if now - self._last_data_in >= _DEAD * self._keepalive:
            self._session.note(reasons.KEEP_ALIVE_TIMEOUT, "the broker is silent")
            self._session.abort()
            return
        if now - min(self._last_data_in, self._last_data_out) >= _PING * self._keepalive:
            self._session.ping()
        self._keep_connection_callback = asyncio.get_running_loop().call_later(
            self._keepalive / _WATCHES, self._keep_connection
        )
