"""The client for everything that is not the broker: MQTT 5.0 and 3.1.1, deliveries settled later, nothing lost.

gmqtt keeps the connection; what it leaves to its user or gets wrong is in ``gateway.link``
(docs/decisions/0001-client.md). A message is acknowledged when its delivery was, and not before; a message that was
taken for sending is sent until the broker has it.
"""

import asyncio
import ssl
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, final

from gateway.link.deliveries import Delivery as Delivery
from gateway.link.deliveries import Incoming
from gateway.link.keeping import Outbox as Outbox
from gateway.link.retrying import for_a_time, until_closed
from gateway.link.sending import Sending
from gateway.link.session import Session
from gateway.link.subscribing import Subscriptions
from gateway.link.terms import ENDED_FOR_GOOD, PERMANENT, named, peer_of, reason_of
from gateway.link.terms import LostError as LostError
from gateway.link.terms import Peer as Peer
from gateway.link.terms import RefusedError as RefusedError
from gateway.link.terms import Subscription as Subscription
from gateway.link.terms import Will as Will
from gateway.mqtt import reasons
from gateway.mqtt.packets import V5, Connack
from gateway.mqtt.packets import Properties as Properties

_ANSWER_TIMEOUT_S: Final = 20.0
_LEAVE_S: Final = 1.0
_STEADY_S: Final = 10.0  # a connection that lasted so long was a good one
_UNLIMITED: Final = 65535


@final
class Client:
    """One client, over as many connections as it takes.

    Either ``open`` each connection oneself (and ``reopen`` after ``lost``), or let ``run`` stay connected.

    ``deliver`` gets each message as a Delivery, in the order of receipt, and settles it then or later. ``on_connected``
    is called with session present before the first of them, ``on_lost`` with the reason, for people, when a connection
    is lost or ``run`` cannot make one. None of them may block.
    ``receive_maximum`` messages may be unsettled at once (5.0 only; 0 = 65535); ``max_inflight`` is our own window
    towards the broker, within its Receive Maximum. With an ``outbox`` messages that are not acknowledged survive this
    process. ``clean`` is for the first connection; those after it resume the session, where the broker keeps one.
    """

    def __init__(
        self,
        host: str,
        port: int = 1883,
        *,
        client_id: str = "",
        version: int = V5,
        clean: bool = True,
        expiry_s: int = 0,
        receive_maximum: int = 0,
        packet_bytes_max: int = 0,
        max_inflight: int = 100,
        keepalive_s: int = 30,
        username: str | None = None,
        password: bytes | None = None,
        tls: ssl.SSLContext | None = None,
        will: Will | None = None,
        user_properties: Sequence[tuple[str, str]] = (),
        deliver: Callable[[Delivery], object] | None = None,
        on_connected: Callable[[bool], object] | None = None,
        on_lost: Callable[[str], object] | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self.where: str = f"{host}:{port}"
        self.client_id: str = client_id or f"forebay-{uuid.uuid4().hex[:16]}"
        self.version: int = version
        self.lost: asyncio.Event = asyncio.Event()  # the connection that was open is over
        self.connected: asyncio.Event = asyncio.Event()  # one is open, and its subscriptions are made
        self.session_present: bool = False  # on this connection
        self.peer: Peer = Peer()  # of this connection
        self.connections: int = 0  # that were open, since the beginning
        self._address, self._tls, self._keepalive_s = (host, port), tls, keepalive_s
        self._expiry_s, self._clean = expiry_s, clean
        self._on_connected, self._on_lost = on_connected, on_lost
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._connack: asyncio.Future[Connack] | None = None
        self._connecting: asyncio.Future[None] | None = None
        self._reason, self._text = 0, ""
        self._is_up = False  # CONNACK said yes, and it is not over
        self._is_told = False  # its end
        self._incoming = Incoming(version, receive_maximum or _UNLIMITED, deliver)
        properties: dict[str, Any] = {}
        if expiry_s:
            properties["session_expiry_interval"] = expiry_s
        if receive_maximum:
            properties["receive_maximum"] = receive_maximum
        if packet_bytes_max:
            properties["maximum_packet_size"] = packet_bytes_max
        if user_properties:
            properties["user_property"] = list(user_properties)
        self._session = Session(
            self.client_id, version, self._incoming,
            clean=clean, will=will, properties=properties, packet_bytes_max=packet_bytes_max,
        )  # fmt: skip
        self._session.on_connack, self._session.on_over = self._begin, self._end
        self._session.on_pong = self._changed.set
        if username is not None:
            self._session.set_auth_credentials(username, password)
        self._subscriptions = Subscriptions(self._session, self.where)
        self._sending = self._session.sending = Sending(version, self._session.ids, max_inflight, outbox)

    # Connections

    async def open(self) -> None:
        """Connect once, and take up what was under way. Raises LostError or RefusedError."""
        self._closing.clear()
        self.lost.clear()
        self._reason, self._text, self._is_told = 0, "", False
        answer = self._connack = asyncio.get_running_loop().create_future()
        connecting = self._connecting = asyncio.ensure_future(
            self._session.connect(
                *self._address, ssl=self._tls or False, keepalive=self._keepalive_s, version=self.version
            )
        )
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                waiting: set[asyncio.Future[Any]] = {connecting, answer}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if connecting.done() and not connecting.cancelled():
                    connecting.result()
                if not connecting.cancelled():
                    self._judge(await answer)
                await connecting
            await self._subscriptions.restore(self.peer)
            self._sending.ready()
            if self.lost.is_set():
                raise self._loss()
        except BaseException as error:
            self._session.abort()
            self.lost.set()
            if isinstance(error, TimeoutError):
                raise LostError(f"{self.where}: no answer to CONNECT") from None
            if isinstance(error, asyncio.CancelledError) and not _is_cancelled():
                raise LostError(f"{self.where}: closed while connecting") from None
            if isinstance(error, OSError):
                raise LostError(f"{self.where}: cannot connect: {error.strerror or error}") from None
            raise
        finally:
            connecting.cancel()
            if answer.done() and not answer.cancelled():
                answer.exception()
            self._connack = self._connecting = None
        self.connected.set()

    def _judge(self, connack: Connack) -> None:
        """Raises RefusedError, or LostError where a refusal is for a time."""
        code = reason_of(connack, self.version)
        if code:
            said = connack.properties.reason_string if connack.properties is not None else None
            text = f"{self.where}: connection refused ({named(code)}{': ' + said if said else ''})"
            raise RefusedError(text, code) if code in PERMANENT else LostError(text)

    def _begin(self, connack: Connack) -> None:
        """CONNACK is here; what follows it must find everything in its place."""
        if connack.reason == 0:
            assert self._session.wire is not None
            self.peer = peer_of(connack, self.version)
            self.session_present = connack.session_present
            self.connections += 1
            self._is_up = True
            if not connack.session_present:
                self._subscriptions.forget()
            if self._expiry_s and self.version == V5:
                self._session._clean_session = False
            self._incoming.connected(self._session.wire, connack.session_present)
            if self._on_connected is not None:
                self._on_connected(connack.session_present)
            self._sending.connected(self._session.wire, self.peer, connack.session_present)
        if self._connack is not None and not self._connack.done():
            self._connack.set_result(connack)

    def _end(self, reason: int, text: str) -> None:
        """A connection is over."""
        self._reason, self._text = reason, text
        was_up, self._is_up = self._is_up, False
        self._incoming.disconnected()
        self._sending.disconnected()
        self.connected.clear()
        self.lost.set()
        self._changed.set()
        if self._connack is not None and not self._connack.done():
            refused = f"{self.where}: connection refused ({named(reason)}{': ' + text if text else ''})"
            no_answer = LostError(f"{self.where}: no answer to CONNECT")
            self._connack.set_exception(RefusedError(refused, reason) if reason in ENDED_FOR_GOOD else no_answer)
        elif was_up:
            self._tell(self.lost_reason())

    def _tell(self, why: str) -> None:
        """Once for each connection."""
        if self._on_lost is not None and not self._is_told and not self._closing.is_set():
            self._is_told = True
            self._on_lost(why)

    async def reopen(self, retry_s: float) -> None:
        """Connect again, with growing pauses, for at most ``retry_s``. Raises LostError or RefusedError."""
        await for_a_time(self.open, retry_s)

    async def run(self) -> None:
        """Connect and stay connected until ``close``, with pauses of 100 ms to 30 s that grow while it fails.

        Raises RefusedError where trying again does not help; that another client took the session over is such a
        refusal, since two that take it from each other for ever would be worse.
        """
        await until_closed(self._stay, self._closing)

    async def _stay(self) -> None:
        """One connection. Raises LostError when it was a short one, RefusedError."""
        loop = asyncio.get_running_loop()
        if self._closing.is_set():
            return
        try:
            await self.open()
        except LostError as error:
            if not self._closing.is_set():
                self._tell(str(error))
            raise
        began = loop.time()
        await self.lost.wait()
        if self._closing.is_set():
            return
        if self._reason in ENDED_FOR_GOOD or loop.time() - began < _STEADY_S:
            raise self._loss()

    def _loss(self) -> LostError | RefusedError:
        if self._reason in ENDED_FOR_GOOD:
            return RefusedError(self.lost_reason(), self._reason)
        return LostError(self.lost_reason())

    def lost_reason(self) -> str:
        """Why the connection ended, for people."""
        code = f" ({named(self._reason)}{': ' + self._text if self._text else ''})" if self._reason else ""
        return f"{self.where}: connection lost{code}"

    # Publishing

    async def send(
        self, topic: str, payload: bytes, qos: int = 1, retain: bool = False, properties: Properties | None = None
    ) -> "asyncio.Future[int]":
        """Send when the window has room; the future's result is the broker's reason code, once it has the message.

        0x10 (nobody subscribed) is success, 0x80 and more a failure; the future ends in LostError when this is closed
        before. QoS 1 and 2 are taken while there is no connection too, as many as the window holds. Raises
        RefusedError for what the broker said it does not take, ValueError for what cannot be encoded.
        """
        return await self._sending.publish(topic, payload, qos, retain, properties)

    async def publish(
        self, topic: str, payload: bytes, qos: int = 1, retain: bool = False, properties: Properties | None = None
    ) -> int:
        """Send, and wait until the broker has it: its reason code, 0 or 0x10.

        Raises RefusedError with the broker's code when it did not take it; otherwise as ``send``.
        """
        code = await (await self._sending.publish(topic, payload, qos, retain, properties))
        if code >= 0x80:
            raise RefusedError(f"{self.where}: message to {topic} refused ({named(code)})", code)
        return code

    # Subscribing

    async def subscribe(self, subscriptions: Iterable[Subscription]) -> list[int]:
        """Subscribe now, and again whenever a connection finds no session; the granted reason codes.

        Without a connection it is done at the next one, and the list is empty. Raises RefusedError, which names the
        filter, and LostError when the connection breaks meanwhile; then too it is done at the next one.
        """
        return await self._subscriptions.add(list(subscriptions), self.peer)

    async def unsubscribe(self, filters: Sequence[str]) -> None:
        """No more of these. Raises LostError."""
        await self._subscriptions.remove(filters, self.peer)

    # State

    @property
    def received(self) -> int:
        """Deliveries, since the beginning."""
        return self._incoming.received

    @property
    def unsettled(self) -> int:
        """Deliveries of QoS 1 and 2 of this connection that are not answered: they or one before are not settled."""
        return self._incoming.unsettled

    @property
    def left(self) -> int:
        """Deliveries of this connection that will not be answered; each holds a slot of ``receive_maximum``."""
        return self._incoming.left

    @property
    def under_way(self) -> int:
        """Messages that were taken for sending and are not acknowledged."""
        return self._sending.under_way

    def hold(self, is_held: bool) -> None:
        """Read no more of this connection, or again: for what no Receive Maximum bounds, QoS 0 and 3.1.1."""
        self._session.hold(is_held)

    async def passed(self) -> None:
        """The broker has read all that was sent, QoS 0 too: it answers a ping after that. Raises LostError."""
        if not self._session.is_open:
            raise LostError(self.lost_reason())
        wire, wanted = self._session.wire, self._session.ping()
        while self._session.wire is wire and self._session.answers < wanted:
            self._changed.clear()
            await self._changed.wait()
        if self._session.wire is not wire:
            raise LostError(self.lost_reason())

    async def close(self, *, end_session: bool = False, with_will: bool = False) -> None:
        """Disconnect once what was settled is answered; the rest stays with the broker, where it keeps the session.

        ``end_session``: it need not (5.0 only). ``with_will``: it is to publish the will all the same. ``run`` ends.
        """
        self._closing.set()
        if self._connecting is not None:
            self._connecting.cancel()
        session = self._session
        if session.is_open:
            try:
                async with asyncio.timeout(_LEAVE_S):
                    await self._all_read()
            except (TimeoutError, LostError):
                pass
        if session.is_open and not (with_will and self.version != V5):
            end = {"session_expiry_interval": 0} if end_session and self._expiry_s else {}
            code = reasons.DISCONNECT_WITH_WILL_MESSAGE if with_will else 0
            try:
                async with asyncio.timeout(_LEAVE_S):
                    await session.disconnect(reason_code=code, **end)
            except TimeoutError:
                pass
        session.abort()
        await self._sending.close()

    async def _all_read(self) -> None:
        """The broker has read our last answers, and QoS 2 is at its end.

        A close with deliveries unread is a reset, and what a broker has not read when it comes may be lost.
        """
        if self._incoming.received:
            await self.passed()
        while self._incoming.unreleased:
            await self.passed()
            await asyncio.sleep(0.005)


def _is_cancelled() -> bool:
    """Whether it is this task that is cancelled, and not one that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
