"""An MQTT 5.0 client on gmqtt for ``forebay pub`` and ``forebay sub``: the one module that knows gmqtt's ways.

What gmqtt leaves to its user and this module adds: an acknowledgement's reason code, a window that waits instead of
failing, publishing again what a lost session forgot, DUP on what is sent again, QoS 2 received once, and reconnecting
with a growing delay. A message is acknowledged when ``deliver`` has returned True for it, and not before.
"""

import asyncio
import logging
import ssl
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import gmqtt
from gmqtt.mqtt.handler import MQTTConnectError
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

_WINDOW_MAX = 100
_ANSWER_TIMEOUT_S = 20.0
_WITH_WILL = 0x04
_NO_RECONNECT = -2  # gmqtt compares a count from 0 with this; -1 would be "always"

_log = logging.getLogger("gmqtt")  # what matters of it comes back as an exception
_log.propagate = False
_log.addHandler(logging.NullHandler())

Deliver = Callable[[str, bytes, bool], "bool | asyncio.Future[None]"]
"""(topic, payload, retained) -> take it; False leaves it with the broker, a future takes it when it is done."""


class Will(NamedTuple):
    """What the broker publishes when the connection breaks."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


class LostError(Exception):
    """The broker cannot be reached or the connection broke; trying again may help."""


class RefusedError(Exception):
    """The broker said no; trying again does not help."""


class _Outgoing:
    """One message until the broker has it."""

    def __init__(self, topic: str, payload: bytes, qos: int, retain: bool) -> None:
        self.topic, self.payload, self.qos, self.retain = topic, payload, qos, retain
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class _Unacknowledged:
    """gmqtt's store of what is sent and not acknowledged, by packet id; the method names are gmqtt's."""

    def __init__(self) -> None:
        self.packets: dict[int, bytes] = {}
        self.messages: dict[int, _Outgoing] = {}
        self.forgotten: deque[_Outgoing] = deque()  # their session is gone: to be sent as new
        self.codes: dict[int, int] = {}
        self.last_mid = 0

    def push_message(self, mid: int, raw_package: bytes) -> None:
        self.packets[mid] = raw_package
        self.last_mid = mid

    def remove_message_by_mid(self, mid: int) -> None:
        self.packets.pop(mid, None)
        code = self.codes.pop(mid, 0)
        message = self.messages.pop(mid, None)
        if message is not None and not message.done.done():
            message.done.set_result(code)

    @property
    def is_empty(self) -> bool:
        return not self.packets

    async def wait_empty(self) -> None:
        """At once: a connection is open when it is, not when all of the last one is acknowledged."""

    def clear(self) -> None:
        self.packets.clear()
        self.forgotten.extend(self.messages.values())
        self.messages.clear()

    def get_all(self) -> list[tuple[int, bytes]]:
        """What a resumed session must get again; PUBLISH packets (type 3) with DUP set [MQTT-3.3.1-1]."""
        return [
            (mid, bytes([raw[0] | 0x08]) + raw[1:] if raw[0] >> 4 == 3 else raw) for mid, raw in self.packets.items()
        ]


@final
class Link:
    """One client, over as many connections as it takes."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str = "",
        clean: bool = True,
        expiry_s: int = 0,
        username: str | None = None,
        password: bytes | None = None,
        tls: ssl.SSLContext | None = None,
        deliver: Deliver | None = None,
        will: Will | None = None,
        keepalive_s: int = 30,
    ) -> None:
        self.where = f"{host}:{port}"
        self.lost = asyncio.Event()
        self.qos = 0  # of the message that is being delivered
        self.properties: dict[str, str] = {}  # and its user properties
        self._address = (host, port)
        self._tls = tls
        self._expiry_s = expiry_s
        self._keepalive_s = keepalive_s
        self._deliver = deliver
        self._store = _Unacknowledged()
        self._window = 1
        self._changed = asyncio.Event()
        self._pings = self._answers = 0  # PINGREQ sent, PINGRESP received, on this connection
        self._connections = 0
        self._subacks: dict[int, asyncio.Future[Sequence[int]]] = {}
        self._unreleased: set[int] = set()  # QoS 2 packet ids received and not released
        self._reason = 0
        self._never = asyncio.Event()
        self._client = gmqtt.Client(
            client_id or f"forebay-{uuid.uuid4().hex[:16]}",
            clean_session=clean,
            optimistic_acknowledgement=False,
            will_message=None if will is None else gmqtt.Message(will.topic, will.payload, will.qos, will.retain),
            persistent_storage=self._store,
            logger=_log,
            session_expiry_interval=expiry_s,
        )
        self._client.set_config({"reconnect_retries": _NO_RECONNECT})
        if username is not None:
            self._client.set_auth_credentials(username, password)
        self._client.on_message = self._on_message
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._watch()

    def _watch(self) -> None:
        """Stand before those of gmqtt's packet handlers that leave something out."""
        self._handler = self._client._package_handler
        self._handler._handle_pingresp_packet = self._on_pingresp
        puback, pubrec = self._handler._handle_puback_packet, self._handler._handle_pubrec_packet
        pubrel, publish2 = self._handler._handle_pubrel_packet, self._handler._handle_qos_2_publish_packet

        def on_puback(cmd: int, packet: bytes) -> None:
            self._note_code(packet)
            puback(cmd, packet)
            self._changed.set()

        def on_pubrec(cmd: int, packet: bytes) -> None:
            self._note_code(packet)
            pubrec(cmd, packet)
            self._changed.set()

        def on_pubcomp(cmd: int, packet: bytes, known: Callable[[int, bytes], None]) -> None:
            known(cmd, packet)
            self._changed.set()

        def on_publish2(mid: int, packet: bytes, topic: str, properties: dict[str, Any]) -> None:
            if mid in self._unreleased:
                self._handler._send_pubrec(mid)
                return
            publish2(mid, packet, topic, properties | {"mid": mid})

        def on_pubrel(cmd: int, packet: bytes) -> None:
            self._unreleased.discard(int.from_bytes(packet[:2], "big"))
            pubrel(cmd, packet)
            self._changed.set()

        pubcomp = self._handler._handle_pubcomp_packet
        self._handler._handle_puback_packet = on_puback
        self._handler._handle_pubrec_packet = on_pubrec
        self._handler._handle_pubcomp_packet = lambda cmd, packet: on_pubcomp(cmd, packet, pubcomp)
        self._handler._handle_qos_2_publish_packet = on_publish2
        self._handler._handle_pubrel_packet = on_pubrel

    def _note_code(self, packet: bytes) -> None:
        if len(packet) > 2 and packet[2] >= 0x80:
            self._store.codes[int.from_bytes(packet[:2], "big")] = packet[2]

    async def open(self) -> None:
        """Connect and take up what was under way. Raises LostError or RefusedError."""
        self.lost.clear()
        self._connections += 1  # before anything can come
        connecting = asyncio.ensure_future(
            self._client.connect(*self._address, ssl=self._tls or False, keepalive=self._keepalive_s, raise_exc=True)
        )
        losing = asyncio.ensure_future(self.lost.wait())
        try:
            await asyncio.wait({connecting, losing}, timeout=_ANSWER_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                raise LostError(f"{self.where}: no answer to CONNECT")
            connecting.result()
        except MQTTConnectError as error:
            raise RefusedError(f"{self.where}: {error}") from None
        except OSError as error:
            raise LostError(f"{self.where}: cannot connect: {error.strerror or error}") from None
        finally:
            connecting.cancel()
            losing.cancel()
        self._count_pings()
        properties = self._handler._connack_properties
        # gmqtt hands out one packet id less than the broker's Receive Maximum, and fails beyond that.
        self._window = max(1, min(_WINDOW_MAX, properties.get("receive_maximum", [65535])[0] - 1))
        for mid in [mid for mid in self._handler.id_generator._used_ids if mid not in self._store.packets]:
            self._handler.id_generator.free_id(mid)
        while self._store.forgotten and not self.lost.is_set():
            await self._room()
            self._send(self._store.forgotten.popleft())
        self._changed.set()

    def _count_pings(self) -> None:
        """gmqtt sends some of its own, and their answers say less than that to a later one."""
        connection = self._client._connection
        send = connection._send_ping_request
        self._pings = self._answers = 0

        def counted() -> None:
            self._pings += 1
            send()

        connection._send_ping_request = counted

    async def reopen(self, retry_s: float) -> None:
        """Connect again, with growing pauses, for at most ``retry_s``. Raises LostError or RefusedError."""
        async for attempt in AsyncRetrying(
            wait=wait_exponential_jitter(multiplier=0.1, max=5, jitter=0.1),
            stop=stop_after_delay(retry_s),
            retry=retry_if_exception_type(LostError),
            reraise=True,
        ):
            with attempt:
                await self.open()

    async def publish(self, topic: str, payload: bytes, qos: int, retain: bool) -> "asyncio.Future[int]":
        """Send when the window has room; the future's result is the broker's reason code, once it has the message."""
        message = _Outgoing(topic, payload, qos, retain)
        await self._room()
        self._send(message)
        return message.done

    async def _room(self) -> None:
        while len(self._store.packets) >= self._window or self.lost.is_set():
            self._changed.clear()
            await self._changed.wait()

    def _send(self, message: _Outgoing) -> None:
        self._client.publish(message.topic, message.payload, qos=message.qos, retain=message.retain)
        if message.qos:
            self._store.messages[self._store.last_mid] = message
        else:
            message.done.set_result(0)

    async def subscribe(
        self, filters: Sequence[str], qos: int, *, again: bool = False, as_published: bool = False
    ) -> None:
        """Subscribe; ``again`` asks for no retained messages, ``as_published`` for the retain flag as it was sent.

        Raises LostError or RefusedError.
        """
        handling = 1 if again else 0
        self._client.subscriptions.clear()
        mid = self._client.subscribe(
            [
                gmqtt.Subscription(name, qos=qos, retain_as_published=as_published, retain_handling_options=handling)
                for name in filters
            ]
        )
        answer: asyncio.Future[Sequence[int]] = asyncio.get_running_loop().create_future()
        self._subacks[mid] = answer
        losing = asyncio.ensure_future(self.lost.wait())
        waiting: set[asyncio.Future[Any]] = {answer, losing}
        await asyncio.wait(waiting, timeout=_ANSWER_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        losing.cancel()
        del self._subacks[mid]
        if not answer.done():
            raise LostError(f"{self.where}: no answer to SUBSCRIBE")
        for name, code in zip(filters, answer.result(), strict=True):
            if code >= 0x80:
                raise RefusedError(f"{self.where}: subscription to {name} refused (reason code 0x{code:02x})")

    async def close(self, *, end_session: bool = False, with_will: bool = False) -> None:
        """Disconnect once what was taken is acknowledged; what was not taken stays with the broker.

        ``with_will``: the broker is to publish the will all the same.
        """
        asyncio.get_running_loop().set_exception_handler(_ignore_cancelled)
        for _ in range(3):  # the acknowledgement of the last delivery is written two turns after it
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(1):
                while self._unreleased and not self.lost.is_set():
                    self._changed.clear()
                    await self._changed.wait()
                await self._all_read()
        except (TimeoutError, LostError):
            pass
        if not self.lost.is_set():
            end = {"session_expiry_interval": 0} if end_session and self._expiry_s else {}
            await self._client.disconnect(reason_code=_WITH_WILL if with_will else 0, **end)
        elif self._client._connection is not None:
            self._client._connection._transport.abort()  # gmqtt leaves it open

    async def _all_read(self) -> None:
        """The broker has read our last acknowledgements.

        A close with deliveries unread is a reset, and what a broker has not read when it comes may be lost.
        """
        if self._deliver is not None and not self.lost.is_set():
            await self.passed()

    async def passed(self) -> None:
        """The broker has read all that was sent, QoS 0 too: it answers a ping after that. Raises LostError."""
        if not self.lost.is_set():
            self._client._connection._send_ping_request()
        wanted = self._pings
        while self._answers < wanted and not self.lost.is_set():
            self._changed.clear()
            await self._changed.wait()
        if self.lost.is_set():
            raise LostError(self.lost_reason())

    def _on_pingresp(self, cmd: int, packet: bytes) -> None:
        self._answers += 1
        self._changed.set()

    def lost_reason(self) -> str:
        """Why the connection ended, for people."""
        code = f" (reason code 0x{self._reason:02x})" if self._reason else ""
        return f"{self.where}: connection lost{code}"

    async def _on_message(
        self, client: gmqtt.Client, topic: str, payload: bytes, qos: int, properties: dict[str, Any]
    ) -> int:
        assert self._deliver is not None
        self.qos, self.properties = qos, dict(properties.get("user_property", ()))
        connection = self._connections
        taken = self._deliver(topic, payload, bool(properties["retain"]))
        if isinstance(taken, asyncio.Future):
            await taken
            taken = connection == self._connections  # on another one its packet id is another message's
        if not taken:
            # gmqtt acknowledges when this coroutine ends, whatever ends it: so it does not end.
            await self._never.wait()
        if qos == 2:
            self._unreleased.add(properties["mid"])
        return 0

    def _on_disconnect(self, client: gmqtt.Client, packet: object, exc: object = None) -> None:
        if isinstance(packet, bytes) and packet:
            self._reason = packet[0]
        self.lost.set()
        self._changed.set()

    def _on_subscribe(self, client: gmqtt.Client, mid: int, codes: Sequence[int], properties: object) -> None:
        if mid in self._subacks:
            self._subacks[mid].set_result(codes)


def _ignore_cancelled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The parked deliveries end with the loop, and gmqtt's callbacks do not expect that."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)
