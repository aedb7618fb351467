"""Runs the republisher between two brokers: a kept session at the sources' one, an edge node at the destination.

A message of a source is acknowledged when the destination has read what came of it. Sparkplug data go at QoS 0, which
nobody acknowledges; but a broker answers a ping only after it has read what was sent before.
"""

import asyncio
import ssl
import time
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, final

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from gateway.bridge.republish_state import Remembered, save
from gateway.client import Client, Delivery, LostError, Subscription, Will
from sparkplug.actions import Action, Disconnect, Publish, Subscribe
from sparkplug.node import Phase
from sparkplug.origin import Told, ToSource
from sparkplug.republish import Republisher
from sparkplug.topic import CERTIFICATES

_TICK_S: Final = 0.05
_LEAVE_S: Final = 5.0


@final
@dataclass(slots=True)
class Place:
    """A broker and who we are there."""

    host: str
    port: int
    client_id: str
    username: str | None = None
    password: bytes | None = None
    tls: ssl.SSLContext | None = None
    keepalive_s: int = 30


@final
@dataclass(slots=True)
class Totals:
    """What was done."""

    taken: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    lost: int = 0
    commands: int = 0


def _now() -> int:
    """UTC in ms."""
    return time.time_ns() // 1_000_000


@final
class Republishing:
    """``filters``: the topics of the sources; ``expiry_s``: how long their broker keeps what comes while this is away;
    ``retry_s``: how long a broker that is lost is tried again, then LostError. ``others`` are tried in their turn when
    the destination cannot be reached; who is connected stays there."""

    def __init__(
        self,
        machine: Republisher,
        source: Place,
        destination: Place,
        *,
        filters: list[str],
        state: Path,
        expiry_s: int,
        retry_s: float,
        others: Sequence[Place] = (),
    ) -> None:
        self.totals = Totals()
        self._machine = machine
        self._filters, self._state, self._retry_s = filters, state, retry_s
        self._destinations: deque[Place] = deque((destination, *others))  # the one to try next at the head
        self._outbox: deque[Action] = deque()
        self._commands: asyncio.Queue[ToSource] = asyncio.Queue()
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._opened = False
        self._fault: Exception | None = None
        self._waiting: deque[tuple[Hashable, Delivery]] = deque()  # to be acknowledged, in their order
        self._done: set[Hashable] = set()
        self._source = Client(
            source.host, source.port, client_id=source.client_id, clean=False, expiry_s=expiry_s,
            username=source.username, password=source.password, tls=source.tls, deliver=self._from_source,
            keepalive_s=source.keepalive_s,
        )  # fmt: skip

    async def run(self) -> None:
        """Until stopped. Raises LostError, RefusedError, StateFileError."""
        tasks = [asyncio.ensure_future(one) for one in (self._take(), self._give(), self._stopped())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.stop()
            await asyncio.wait(tasks[1:2], timeout=_LEAVE_S if self._machine.node.phase is not Phase.OFFLINE else 0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if not self._opened:
                self._source.lost.set()  # what is half open is of no use
            await self._source.close()
        self._remember()
        if self._fault is not None:
            raise self._fault
        for task in done:
            task.result()

    def stop(self) -> None:
        """Say goodbye and end."""
        self._stopping.set()
        self._wake.set()

    async def _stopped(self) -> None:
        await self._stopping.wait()

    def _remember(self) -> None:
        save(self._state, Remembered(self._machine.node.bd_seq, self._machine.snapshot()))
        self._machine.births_changed = False

    # The sources

    async def _take(self) -> None:
        """The session at the sources' broker, over as many connections as it takes."""
        await self._source.reopen(self._retry_s)
        self._opened = True
        self._do(self._machine.ask_all(_now()))
        while True:
            filters = [*self._filters, *(CERTIFICATES + name for name in self._filters)]
            try:
                await self._source.subscribe([Subscription(name, 1, retain_handling=1) for name in filters])
                await self._pass_commands()
            except LostError:
                if not self._source.lost.is_set():
                    raise
            # what was not acknowledged comes again
            self._waiting.clear()
            self._done.clear()
            await self._source.reopen(self._retry_s)

    async def _pass_commands(self) -> None:
        """As long as the connection lasts. Raises LostError."""
        losing = asyncio.ensure_future(self._source.lost.wait())
        try:
            while not self._source.lost.is_set():
                getting = asyncio.ensure_future(self._commands.get())
                await asyncio.wait({getting, losing}, return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    command = getting.result()
                    await self._source.send(command.topic, command.payload, 0)
                    self.totals.commands += 1
                getting.cancel()
        finally:
            losing.cancel()
        raise LostError(self._source.lost_reason())

    def _from_source(self, one: Delivery) -> None:
        topic, payload = one.topic, one.payload
        if one.retain and not topic.startswith(CERTIFICATES):
            one.ack()  # of another time
            return
        said = dict(one.user_properties)
        received, id = said.get("forebay-received", ""), said.get("forebay-id")
        key: Hashable = (topic, sha256(payload).digest()) if id is None else id
        self.totals.taken += 1
        if one.qos:
            self._waiting.append((key, one))
        try:
            actions = self._machine.take(
                key, topic, payload, _now(), late=said.get("forebay-late") == "1",
                received=int(received) if received.isdecimal() else None,
            )  # fmt: skip
            self._do(actions)
            self._acknowledge()
        except Exception as error:
            self._fault = error
            self.stop()

    def _acknowledge(self) -> None:
        """In the order in which they came, as MQTT wants it; what the births said is on disk before."""
        if self._machine.births_changed:
            self._remember()
        self._done.update(self._machine.settled())
        while self._waiting and self._waiting[0][0] in self._done:
            key, one = self._waiting.popleft()
            self._done.discard(key)
            one.ack()

    def _do(self, actions: Iterable[Told]) -> None:
        for action in actions:
            if isinstance(action, ToSource):
                self._commands.put_nowait(action)
            else:
                self._outbox.append(action)
        self._wake.set()

    # The destination

    async def _give(self) -> None:
        """One session after another. Raises LostError when none begins for ``retry_s``, RefusedError."""
        while not self._stopping.is_set():
            try:
                async for attempt in AsyncRetrying(
                    wait=wait_exponential_jitter(multiplier=0.1, max=5, jitter=0.1),
                    stop=stop_after_delay(self._retry_s),
                    retry=retry_if_exception_type(LostError),
                    reraise=True,
                ):
                    with attempt:
                        link = await self._open()
            except LostError:
                if self._stopping.is_set():
                    return
                raise
            try:
                await self._session(link)
            except LostError:
                self.totals.lost += 1
            finally:
                self._outbox.clear()
                self._machine.disconnected(_now())
                self._acknowledge()

    async def _open(self) -> Client:
        """A connection with the next will; its bdSeq is on disk before. Raises LostError, RefusedError."""
        place, will = self._destinations[0], self._machine.connect(_now()).will
        self._remember()
        link = Client(
            place.host, place.port, client_id=place.client_id, username=place.username, password=place.password,
            tls=place.tls, deliver=self._from_destination, keepalive_s=place.keepalive_s,
            will=Will(will.topic, will.payload, will.qos, will.retain),
        )  # fmt: skip
        try:
            await link.open()
        except BaseException as error:
            if isinstance(error, LostError):
                self._destinations.rotate(-1)
            self._machine.disconnected(_now())
            link.lost.set()  # what is half open is of no use
            await link.close()
            raise
        self.totals.sessions += 1
        return link

    async def _session(self, link: Client) -> None:
        """One connection, to its end. Raises LostError."""
        watching = asyncio.ensure_future(self._wake_when_lost(link))
        try:
            self._outbox.clear()
            self._do(self._machine.connected(_now()))
            while await self._perform(link):
                if self._machine.unconfirmed:
                    mark = self._machine.sent
                    await link.passed()
                    self._machine.confirmed(mark)
                    self._acknowledge()
                if self._stopping.is_set():
                    self._do(self._machine.leave(_now()))
                    if await self._perform(link):
                        await link.close()
                    return
                self._do(self._machine.tick(_now()))
                if not self._outbox:
                    await self._sleep()
        except BaseException:
            await link.close()
            raise
        finally:
            watching.cancel()

    async def _wake_when_lost(self, link: Client) -> None:
        await link.lost.wait()
        self._wake.set()

    async def _sleep(self) -> None:
        """Until something comes, or the next tick."""
        self._wake.clear()
        try:
            async with asyncio.timeout(_TICK_S):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _perform(self, link: Client) -> bool:
        """Do what the machine said; False when it ended the session. Raises LostError."""
        while self._outbox:
            if link.lost.is_set():
                break
            match self._outbox.popleft():
                case Publish(topic, payload, qos, retain):
                    await link.send(topic, payload, qos, retain)
                    self.totals.sent[topic.split("/")[2]] += 1
                case Subscribe(filters):
                    await link.subscribe([Subscription(name) for name, _ in filters])
                case Disconnect(with_will):
                    await link.close(with_will=with_will)
                    return False
        if link.lost.is_set():
            raise LostError(link.lost_reason())
        return True

    def _from_destination(self, one: Delivery) -> None:
        self._do(self._machine.message(one.topic, one.payload, _now(), retained=one.retain))
        one.ack()
