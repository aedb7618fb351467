"""gmqtt's client with our hand on its wire: this and ``wire`` are the modules that know gmqtt's ways.

gmqtt connects, says CONNECT, SUBSCRIBE, UNSUBSCRIBE and DISCONNECT, hands out packet ids and keeps the connection
alive. Every byte that comes is decoded by our codec; messages and their acknowledgements stay with us, the rest is
given to gmqtt as it likes it.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, final

import gmqtt
from gmqtt.mqtt.package import Package

from gateway.link.deliveries import Incoming
from gateway.link.sending import Sending
from gateway.link.terms import Subscription, Will
from gateway.link.wire import Connection, Wire
from gateway.mqtt import packets, reasons
from gateway.mqtt.encode import encode
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import V5, Connack, Disconnect, Packet, Pingresp

_IDS_MAX: Final = 65536  # gmqtt hands out less than this
_GOODBYE_S: Final = 1.0  # for what is written to leave

_log = logging.getLogger("gmqtt")  # what matters of it comes back as an exception
_log.propagate = False
_log.addHandler(logging.NullHandler())


class _Ids:
    """gmqtt's packet ids. A peer's Receive Maximum limits what is under way, not which ids there are."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def lift_limit(self) -> None:
        self._generator._max = _IDS_MAX

    def next_id(self) -> int:
        packet_id: int = self._generator.next_id()
        return packet_id

    def free_id(self, id: int) -> None:
        self._generator.free_id(id)

    def use(self, id: int) -> None:
        self._generator._used_ids.add(id)


@final
class Session(gmqtt.Client):  # type: ignore[misc]
    """One client's session, a connection at a time.

    ``on_connack`` gets the answer to CONNECT before any message of the connection is delivered; ``on_over`` the end of
    each connection, with the reason code that the peer or we gave (0 = none) and a text; ``on_pong`` is called after
    each PINGRESP.
    """

    def __init__(
        self,
        client_id: str,
        version: int,
        incoming: Incoming,
        *,
        clean: bool,
        will: Will | None,
        properties: dict[str, Any],
        packet_bytes_max: int,
    ) -> None:
        message = None if will is None else gmqtt.Message(will.topic, will.payload, will.qos, will.retain)
        # as bytes, since gmqtt counts the characters of a text
        super().__init__(client_id.encode(), clean_session=clean, will_message=message, logger=_log, **properties)
        self.version = version
        self.packet_bytes_max = packet_bytes_max
        self.incoming = incoming
        self.sending: Sending
        self.ids = _Ids(self._package_handler.id_generator)
        self.ids.lift_limit()
        self.on_connack: Callable[[Connack], None]
        self.on_over: Callable[[int, str], None]
        self.on_pong: Callable[[], None]
        self.is_open = False  # CONNACK came
        self.is_held = False  # we do not read
        self.wire: Wire | None = None
        self.pings = self.answers = 0  # PINGREQ sent, PINGRESP received, on this connection
        self._reason, self._text = 0, ""
        self._subacks: dict[int, asyncio.Future[Sequence[int]]] = {}
        self.on_subscribe = self._on_answer
        self.on_unsubscribe = self._on_answer

    async def _create_connection(
        self, host: str, port: int, ssl: ssl.SSLContext | bool, clean_session: bool, keepalive: int
    ) -> Connection:
        self._connack_received.clear()
        self._connection_lost.clear()
        self.is_open = self.is_held = False
        self.pings = self.answers = 0
        self._reason, self._text = 0, ""
        loop = asyncio.get_running_loop()
        state, ids = self._connection_state, self._package_handler.id_generator
        make = partial(Wire, self, self.version, connection_state=state, id_generator=ids)
        transport, wire = await loop.create_connection(make, host, port, ssl=ssl or None)
        self.wire = wire
        return Connection(
            self, transport, wire, clean_session, keepalive, package_handler=self._package_handler, logger=_log
        )

    async def reconnect(self, delay: bool = False) -> None:
        """Not gmqtt's own: whoever owns this knows when."""

    def managed(self, packet: Packet) -> None:
        """What is neither a message nor its acknowledgement."""
        if isinstance(packet, Pingresp):
            self.answers += 1
            self.on_pong()
        elif isinstance(packet, Disconnect):
            said = packet.properties.reason_string if packet.properties is not None else None
            self.note(packet.reason, said or "")
            self.sending.on_disconnect(packet.reason)
            self.abort()
        elif isinstance(packet, Connack) and not self.is_open:
            self.is_open = packet.reason == 0
            self.on_connack(packet)
            if self.is_open:
                self._give(packet)
                self.ids.lift_limit()
        elif packet.type in (packets.SUBACK, packets.UNSUBACK):
            self._give(packet)
        else:
            raise PacketError(reasons.PROTOCOL_ERROR, f"packet type {packet.type} at this place")

    def _give(self, packet: Packet) -> None:
        """To gmqtt, as it wants it: without the fixed header."""
        frame = encode(packet, self.version)
        start = 2
        while frame[start - 1] & 0x80:
            start += 1
        self._connection.put_package(Package(frame[0], frame[start:]))

    def _on_answer(self, client: object, packet_id: int, codes: Sequence[int], properties: object = None) -> None:
        answer = self._subacks.pop(packet_id, None)
        if answer is not None and not answer.done():
            answer.set_result(codes)

    def ask(self, subscriptions: Sequence[Subscription]) -> "asyncio.Future[Sequence[int]]":
        """SUBSCRIBE, all with the same identifier; the result are the reason codes of its SUBACK."""
        self.subscriptions.clear()
        is_5 = self.version == V5
        wanted = [
            gmqtt.Subscription(
                one.filter, one.qos, is_5 and one.no_local, is_5 and one.retain_as_published,
                one.retain_handling if is_5 else 0,
            )
            for one in subscriptions
        ]  # fmt: skip
        return self._answer(self.subscribe(wanted, subscription_identifier=subscriptions[0].identifier or None))

    def forget(self, filters: Sequence[str]) -> "asyncio.Future[Sequence[int]]":
        """UNSUBSCRIBE; the result are the reason codes of its UNSUBACK, none on 3.1.1."""
        return self._answer(self.unsubscribe([name.encode() for name in filters]))

    def _answer(self, packet_id: int) -> "asyncio.Future[Sequence[int]]":
        answer: asyncio.Future[Sequence[int]] = asyncio.get_running_loop().create_future()
        self._subacks[packet_id] = answer
        return answer

    def ping(self) -> int:
        """PINGREQ; the count of answers that says that this one is answered."""
        self.pings += 1
        self._connection._send_ping_request()
        return self.pings

    def hold(self, is_held: bool) -> None:
        """Read no more, or again."""
        if self.wire is None or self.is_held == is_held or self.wire._transport is None:
            return
        self.is_held = is_held
        if is_held:
            self.wire._transport.pause_reading()
        else:
            self.wire._transport.resume_reading()

    def note(self, reason: int, text: str) -> None:
        """Why the connection is about to end."""
        self._reason, self._text = reason, text

    def broken(self, reason: int, text: str) -> None:
        """End the connection for what the peer did, and tell it [MQTT-4.13.1-1]."""
        self.note(reason, text)
        if not self.is_open or self.wire is None:
            self.abort()
            return
        if self.version == V5:
            self.wire.put(encode(Disconnect(reason), V5))
            self.wire.flush()
        transport = self.wire._transport
        if transport is not None:
            transport.close()
            asyncio.get_running_loop().call_later(_GOODBYE_S, transport.abort)

    def abort(self) -> None:
        """End the connection at once, whatever waits to be written."""
        wire = self.wire
        if wire is None:
            return
        if wire._connection is not None:
            wire._connection._keep_connection_callback.cancel()
        if wire._transport is not None:
            wire._transport.abort()
        self.ended(wire)

    def ended(self, wire: Wire) -> None:
        """The connection is over."""
        if wire is not self.wire:
            return
        self.wire = None
        self.is_open = False
        for packet_id, answer in self._subacks.items():
            self.ids.free_id(packet_id)
            answer.cancel()
        self._subacks.clear()
        self.on_over(self._reason, self._text)
