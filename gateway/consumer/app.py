"""The consumer SDK: programs that read from a broker and settle each message.

    from gateway.consumer.app import Consumer, MqttTopic, retry_after

    app = Consumer("mqtt://127.0.0.1", client_id="press-7")

    @app.subscribe(MqttTopic("press/7/temp"), max_attempts=5, dead_letter="dead/press", decode="json")
    async def on_temperature(message):
        ...

    asyncio.run(app.run())

docs/consumer.md says the rest.
"""

import asyncio
import contextlib
import re
import signal
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar, final

from gateway.client import Client, LostError, RefusedError
from gateway.consumer.address import address_of
from gateway.consumer.connection import BrokerTransport, first
from gateway.consumer.declaration import Handler, Registration, subscriptions
from gateway.consumer.decoding import Decode, DecodeError
from gateway.consumer.dispatch import Dispatcher
from gateway.consumer.handling import HandlerError
from gateway.consumer.journal import JournalError
from gateway.consumer.message import Message
from gateway.consumer.outcome import OnDecodeError, OnError, Outcome, ack, drop, let_go, retry, retry_after
from gateway.consumer.settlement import RETRY_COUNT, AckError
from gateway.consumer.source import DeclarationError, MqttFilter, MqttTopic, Source
from gateway.consumer.stats import HandlerStats, Stats

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = [
    "AckError",
    "Consumer",
    "DeclarationError",
    "DecodeError",
    "HandlerError",
    "HandlerStats",
    "JournalError",
    "LostError",
    "Message",
    "MqttFilter",
    "MqttTopic",
    "Outcome",
    "RefusedError",
    "Stats",
    "ack",
    "drop",
    "let_go",
    "retry",
    "retry_after",
]

WEEK_S: Final = 604_800
WINDOW: Final = 200
_VERSIONS: Final = {"5.0": 5, "3.1.1": 4}

_H = TypeVar("_H", bound=Handler)


@final
class Consumer:
    """Handlers, and the session that they share.

    Args:
        url: ``mqtt://user@host:port`` or ``mqtts://...``.
        client_id: the session is found again by it.
        session_expiry: seconds that the broker keeps what comes while this is away; 0 = it keeps nothing, and what is
            left unacknowledged never comes back.
        receive_maximum: messages of QoS 1 and 2 that may be unsettled at once, 1 to 65535.
        version: "5.0", or "3.1.1", which has no attempts, no shared subscriptions and no overlapping filters.
        password, tls: for what the URL should not say, and for another TLS than the system's.
        journal: where copies wait that the broker cannot delay; made when it is first needed.
        retry_count: the user property in which copies carry how often the message was tried.
        on_error, on_decode_error: for handlers that do not say their own.
        shutdown_timeout: seconds that handlers and copies have at the end; None = as long as they take.

    Raises DeclarationError.
    """

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        session_expiry: float | timedelta = WEEK_S,
        receive_maximum: int = WINDOW,
        version: Literal["5.0", "3.1.1"] = "5.0",
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
        keepalive: int = 30,
        journal: str | Path | None = None,
        retry_count: str = RETRY_COUNT,
        on_error: OnError = "stop",
        on_decode_error: OnDecodeError = "dead_letter",
        shutdown_timeout: float | None = 30.0,
    ) -> None:
        if not client_id:
            raise DeclarationError("client_id: expected a name, since the session is found again by it")
        if not 1 <= receive_maximum <= 65_535:
            raise DeclarationError(f"receive_maximum={receive_maximum}: expected 1 to 65535")
        if not 0 <= keepalive <= 65_535:
            raise DeclarationError(f"keepalive={keepalive}: expected 0 to 65535 seconds")
        if version not in _VERSIONS:
            raise DeclarationError(f'version={version!r}: expected "5.0" or "3.1.1"')
        expiry_s = session_expiry.total_seconds() if isinstance(session_expiry, timedelta) else session_expiry
        if not 0 <= expiry_s <= 0xFFFF_FFFF:
            raise DeclarationError(f"session_expiry={session_expiry!r}: expected 0 to 4294967295 seconds")
        self.client_id: str = client_id
        self.receive_maximum: int = receive_maximum
        self.version: int = _VERSIONS[version]
        self.retry_count: str = retry_count
        self.journal: Path = Path(journal or f"{re.sub(r'[^A-Za-z0-9._-]', '_', client_id)}.copies.db")
        self.shutdown_timeout: float | None = shutdown_timeout
        self._address = address_of(url, password, tls)
        self._expiry_s = int(expiry_s)
        self._keepalive = keepalive
        self._on_error, self._on_decode_error = on_error, on_decode_error
        self._registrations: list[Registration] = []
        self._dispatcher: Dispatcher | None = None
        self._last: Stats | None = None

    def subscribe(
        self,
        source: Source | str,
        *,
        qos: int = 1,
        shared: str | None = None,
        max_attempts: int | None = None,
        dead_letter: str | None = None,
        max_workers: int = 1,
        batch: int | None = None,
        decode: Decode = bytes,
        on_error: OnError | None = None,
        on_decode_error: OnDecodeError | None = None,
    ) -> Callable[[_H], _H]:
        """Have a function handle what is published there.

        Args:
            source: MqttTopic (a plain string is one) or MqttFilter.
            qos: 0, 1 or 2.
            shared: the group that shares the deliveries ($share).
            max_attempts: deliveries that a message gets, the first one included.
            dead_letter: where a message goes after the last; without ``max_attempts`` after the first.
            max_workers: calls of the handler at one time. With 1 messages are handled in their order.
            batch: the handler gets lists of so many messages, or what came within 20 ms of the first.
            decode: ``bytes``, ``str``, ``"json"``, ``"sparkplug"``, a dataclass, a pydantic model, or a function.
            on_error: what follows an exception: "stop", "drop", "retry", or an outcome such as retry_after(5).
            on_decode_error: what follows a payload that does not decode; "dead_letter" drops it where there is none.

        Raises DeclarationError; what only all registrations together show, ``run`` raises.
        """
        place = MqttTopic(source) if isinstance(source, str) else source

        def register(handler: _H) -> _H:
            registration = Registration(
                handler, place, qos, shared, max_attempts, dead_letter, max_workers, batch, decode,
                self._on_error if on_error is None else on_error,
                self._on_decode_error if on_decode_error is None else on_decode_error,
            )  # fmt: skip
            registration.check(self.version)
            self._registrations.append(registration)
            return handler

        return register

    @property
    def registrations(self) -> Sequence[Registration]:
        """All that was subscribed to."""
        return tuple(self._registrations)

    @property
    def stats(self) -> Stats:
        """What was done, and what is held now; after the end, what it was then."""
        if self._dispatcher is not None:
            return self._dispatcher.stats()
        return self._last or Stats(False, 0, self.receive_maximum, 0, 0, 0, 0, 0, 0, 0)

    def metrics(self, registry: "CollectorRegistry | None" = None) -> None:
        """Show ``stats`` to Prometheus (needs prometheus_client); without a registry, in its default one."""
        from gateway.consumer.metrics import register

        register(lambda: self.stats, registry)

    def stop(self) -> None:
        """Have ``run`` end: handlers finish, copies leave, the session stays."""
        if self._dispatcher is not None:
            self._dispatcher.stop()

    async def run(self, *, signals: bool = True) -> None:
        """Consume until ``stop``, or until SIGINT or SIGTERM where ``signals`` (and this is the main thread).

        Raises DeclarationError, RefusedError (the broker says no for good, or another client took the session),
        JournalError, and HandlerError under ``on_error="stop"``.
        """
        if self._dispatcher is not None:
            raise RuntimeError("this consumer runs already")
        wanted = subscriptions(self._registrations, self.version)
        broker = BrokerTransport(self.receive_maximum, self._expiry_s)
        dispatcher = Dispatcher(wanted, broker, self.journal, self.retry_count, self.version)
        client = self._client(dispatcher, broker)
        broker.attach(client, dispatcher)
        self._dispatcher = dispatcher
        running: asyncio.Task[None] | None = None
        with _signals(self.stop) if signals else contextlib.nullcontext():
            try:
                await dispatcher.start()
                running = asyncio.ensure_future(client.run())
                await first(running, client.connected, dispatcher.stopped)
                if client.connected.is_set() and not dispatcher.stopped.is_set():
                    await broker.subscribe(wanted)
                await first(running, dispatcher.stopped)
            finally:
                self._last = dispatcher.stats()
                ended = running is not None and running.done()
                await dispatcher.finish(self.shutdown_timeout, reachable=not ended)
                await client.close()
                if running is not None:
                    await asyncio.wait({running})
                self._last, self._dispatcher = dispatcher.stats(), None
        if dispatcher.failure is not None:
            raise dispatcher.failure
        if running is not None:
            running.result()

    def _client(self, dispatcher: Dispatcher, broker: BrokerTransport) -> Client:
        address = self._address
        return Client(
            address.host, address.port, client_id=self.client_id, version=self.version, clean=not self._expiry_s,
            expiry_s=self._expiry_s, receive_maximum=self.receive_maximum, keepalive_s=self._keepalive,
            username=address.username, password=address.password, tls=address.tls,
            deliver=dispatcher.deliver, on_connected=broker.on_connected, on_lost=broker.on_lost,
        )  # fmt: skip


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM stop, where this is the thread that may say so."""
    loop = asyncio.get_running_loop()
    wanted = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    for one in wanted:
        loop.add_signal_handler(one, stop)
    try:
        yield
    finally:
        for one in wanted:
            loop.remove_signal_handler(one)
