"""A broker in memory for the tests of a consumer: no socket, no waiting.

    async with TestConsumer(app) as test:
        await test.publish("press/7/temp", b"21.5")
        assert test.answers == ["ack"]

Copies come back as deliveries; those for later when ``advance`` says that the time is over.
"""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final

from gateway.consumer.app import Consumer
from gateway.consumer.declaration import Subscription, subscriptions
from gateway.consumer.dispatch import Dispatcher
from gateway.consumer.message import Delivery, Outgoing
from gateway.consumer.stats import Stats
from gateway.core.topics import matches
from gateway.mqtt.packets import Properties
from gateway.mqtt.reasons import NO_MATCHING_SUBSCRIBERS

_DELAYED: Final = "$delayed/"


@final
class MemoryDelivery:
    """One delivery of the broker in memory. ``answer`` is "ack", "left", or "" while it is neither."""

    def __init__(self, message: Outgoing, qos: int, identifiers: list[int], retain: bool, broker: "_Memory") -> None:
        self.topic: str = message.topic
        self.payload: bytes = message.payload
        self.qos: int = qos
        self.retain: bool = retain
        self.dup: bool = False
        self.answer: str = ""
        self.properties: Properties = message.properties or Properties()
        self.subscription_identifiers: list[int] = identifiers
        self._broker = broker

    @property
    def expiry_s(self) -> int:
        return self.properties.message_expiry_interval

    @property
    def user_properties(self) -> list[tuple[str, str]]:
        return self.properties.user_properties

    def ack(self) -> bool:
        self.answer = self.answer or "ack"
        return self.qos > 0

    def leave(self) -> None:
        if not self.answer:
            self.answer = "left"
            self._broker.left += 1


@final
class _Memory:
    """The broker."""

    def __init__(self, wanted: list[Subscription], receive_maximum: int, identifiers: bool) -> None:
        self.connected: bool = True
        self.receive_maximum: int = receive_maximum
        self.left: int = 0
        self.now_s: float = 0.0
        self.published: list[Outgoing] = []
        self.deliveries: list[MemoryDelivery] = []
        self.deliver: Callable[[Delivery], None]
        self._wanted, self._identifiers = wanted, identifiers
        self._later: list[tuple[float, Outgoing]] = []

    @property
    def slots(self) -> int:
        return sum(1 for one in self.deliveries if one.qos and one.answer != "ack")

    async def publish(self, message: Outgoing) -> int:
        self.published.append(message)
        if message.topic.startswith(_DELAYED):
            seconds, _, topic = message.topic[len(_DELAYED) :].partition("/")
            self._later.append((self.now_s + int(seconds), message._replace(topic=topic)))
            return 0
        return 0 if self.route(message, False) else NO_MATCHING_SUBSCRIBERS

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        due = sorted((one for one in self._later if one[0] <= self.now_s), key=lambda one: one[0])
        self._later = [one for one in self._later if one[0] > self.now_s]
        for _, message in due:
            self.route(message, False)

    def route(self, message: Outgoing, retain: bool) -> bool:
        matching = [one for one in self._wanted if matches(one.plain, message.topic)]
        for one in matching:
            identifiers = [one.identifier] if self._identifiers else []
            delivery = MemoryDelivery(message, min(message.qos, one.qos), identifiers, retain, self)
            self.deliveries.append(delivery)
            self.deliver(delivery)
        return bool(matching)


@final
class TestConsumer:
    """Runs the handlers of ``app`` as ``app.run`` would, without a broker.

    A failure under ``on_error="stop"`` is raised at the end of the block.
    """

    __test__ = False  # for pytest

    def __init__(self, app: Consumer) -> None:
        wanted = subscriptions(app.registrations, app.version)
        self._app = app
        self._broker = _Memory(wanted, app.receive_maximum, app.version >= 5)
        self._folder = tempfile.TemporaryDirectory()
        journal = Path(self._folder.name) / "journal"
        self._dispatcher = Dispatcher(wanted, self._broker, journal, app.retry_count, app.version)
        self._broker.deliver = self._dispatcher.deliver

    @property
    def published(self) -> list[Outgoing]:
        """All that the consumer published; a topic of ``$delayed/SECONDS/TOPIC`` is a copy for later."""
        return self._broker.published

    @property
    def deliveries(self) -> list[MemoryDelivery]:
        """All that came for the handlers."""
        return self._broker.deliveries

    @property
    def answers(self) -> list[str]:
        """What became of each delivery: "ack", "left", or "" while it is neither."""
        return [one.answer for one in self._broker.deliveries]

    @property
    def stats(self) -> Stats:
        """As ``app.stats``."""
        return self._dispatcher.stats()

    async def __aenter__(self) -> Self:
        try:
            await self._dispatcher.start()
            self._dispatcher.on_connected(False, self._app.version >= 5, True)
        except BaseException:
            await self._dispatcher.finish(0)
            self._folder.cleanup()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._dispatcher.finish(self._app.shutdown_timeout)
        self._folder.cleanup()
        if self._dispatcher.failure is not None and error is None:
            raise self._dispatcher.failure

    async def publish(
        self, topic: str, payload: bytes = b"", *, qos: int = 1, retain: bool = False,
        user_properties: list[tuple[str, str]] | None = None, properties: Properties | None = None,
    ) -> None:  # fmt: skip
        """As another client would; returns when what follows is over: handlers, copies at once, and their handlers."""
        said = properties or Properties()
        said.user_properties = said.user_properties + list(user_properties or ())
        self._broker.route(Outgoing(topic, payload, qos, said), retain)
        await self.settle()

    async def advance(self, seconds: float) -> None:
        """Let time pass: copies that are due by then come. Returns as ``publish`` does."""
        self._broker.advance(seconds)
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing waits for a handler, is in one, or is being settled."""
        await asyncio.sleep(0)
        while self._dispatcher.busy and not self._dispatcher.stopped.is_set():  # noqa: ASYNC110 (cheaper than telling)
            await asyncio.sleep(0.001)
