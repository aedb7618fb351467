"""From the connection to the handlers and back: whose a delivery is, what is held, and the end of it all."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, final

from gateway.consumer.copies import Copies
from gateway.consumer.declaration import Registration, Subscription, check_overlaps
from gateway.consumer.handling import Handling
from gateway.consumer.message import Delivery, Joint, Outgoing
from gateway.consumer.settling import Settler
from gateway.consumer.stats import WARN_SHARE, HandlerStats, Stats
from gateway.core.topics import matches

_ROUTES_MAX: Final = 4096
_FLUSH_MIN_S: Final = 1.0

_log = logging.getLogger("forebay.consumer")


class Transport(Protocol):
    """Where messages come from and go to."""

    @property
    def connected(self) -> bool:
        """A connection is open, and its subscriptions are made."""
        ...

    @property
    def receive_maximum(self) -> int: ...
    @property
    def slots(self) -> int:
        """Of the Receive Maximum that are taken on this connection."""
        ...

    @property
    def left(self) -> int:
        """Of these, those that nothing will be answered to."""
        ...

    async def publish(self, message: Outgoing) -> int:
        """The broker's reason code, once it has the message."""
        ...


@final
class _Route:
    """Those who take turns at one subscription."""

    __slots__ = ("handlings", "turn")

    def __init__(self, handlings: list[Handling]) -> None:
        self.handlings: list[Handling] = handlings
        self.turn: int = 0

    def next(self) -> Handling:
        if len(self.handlings) == 1:
            return self.handlings[0]
        self.turn = (self.turn + 1) % len(self.handlings)
        return self.handlings[self.turn]


@final
class Dispatcher:
    """Everything behind one transport. ``failure`` is what ended it, where ``stopped`` is set for that."""

    def __init__(
        self, subscriptions: Sequence[Subscription], transport: Transport, journal: Path, count_name: str, version: int
    ) -> None:
        self.copies: Copies = Copies(transport.publish, journal)
        self.stopped: asyncio.Event = asyncio.Event()
        self.failure: Exception | None = None
        self.connections: int = 0
        self.unrouted: int = 0
        self._subscriptions = subscriptions
        self._transport = transport
        self._count_name, self._version = count_name, version
        self._identifiers = version >= 5
        self._warned = 0
        self._handlings: dict[int, Handling] = {}
        self._routes: dict[int, _Route] = {}
        self._by_topic: dict[str, list[_Route]] = {}
        for subscription in subscriptions:
            handlings = [self._handling(one) for one in subscription.registrations]
            self._routes[subscription.identifier] = _Route(handlings)

    def _handling(self, registration: Registration) -> Handling:
        known = self._handlings.get(id(registration))
        if known is None:
            stats = HandlerStats()
            settler = Settler(registration, self.copies, stats, self._count_name, self._version, self._note_left)
            known = Handling(registration, settler, stats, self._count_name, self.fail)
            self._handlings[id(registration)] = known
        return known

    async def start(self) -> None:
        """Handlers can take deliveries. Raises JournalError."""
        for handling in self._handlings.values():
            handling.start()
        await self.copies.start()

    def on_connected(self, session_present: bool, identifiers: bool, delayed: bool) -> None:
        """A connection is open, nothing has come on it yet. Raises DeclarationError where this broker cannot do it."""
        if not identifiers:
            why = "MQTT 3.1.1 has no subscription identifiers" if self._version < 5 else (
                "this broker has no subscription identifiers")  # fmt: skip
            check_overlaps(self._subscriptions, why)
        self._identifiers = identifiers
        self.copies.through_broker = delayed
        self.connections += 1
        self._warned = 0
        if session_present:
            for handling in self._handlings.values():
                handling.forget()

    def deliver(self, delivery: Delivery) -> None:
        """Hand it to its handler, or to each of several."""
        identifiers = delivery.subscription_identifiers
        if len(identifiers) == 1:
            route = self._routes.get(identifiers[0])
            if route is not None:
                route.next().put(delivery, delivery.qos)
                return
        routes = [self._routes[one] for one in identifiers if one in self._routes] or self._of_topic(delivery.topic)
        if not routes:
            self._unroutable(delivery)
            return
        handlings = list(dict.fromkeys(route.next() for route in routes))
        if len(handlings) == 1:
            handlings[0].put(delivery, delivery.qos)
            return
        joint = Joint(delivery, len(handlings))
        for handling in handlings:
            handling.put(joint, delivery.qos)

    def _of_topic(self, topic: str) -> list[_Route]:
        """Where identifiers say nothing: without them at most one filter matches, since overlaps are refused."""
        routes = self._by_topic.get(topic)
        if routes is None:
            if len(self._by_topic) >= _ROUTES_MAX:
                self._by_topic.clear()
            routes = self._by_topic[topic] = [
                self._routes[one.identifier] for one in self._subscriptions if matches(one.plain, topic)
            ]
        return routes

    def _unroutable(self, delivery: Delivery) -> None:
        """The session has a subscription of an earlier run that no handler here reads."""
        self.unrouted += 1
        if self.unrouted == 1:
            _log.warning(
                "%s is read by no handler, an earlier run of this client id subscribed to it: acknowledged and let go",
                delivery.topic,
                extra={"topic": delivery.topic},
            )
        delivery.ack()

    def _note_left(self) -> None:
        """Say when the window fills up with what will never be acknowledged."""
        left, window = self._transport.left, self._transport.receive_maximum
        about = {"unsettled": left, "receive_maximum": window}
        if left >= window and self._warned < 2:
            self._warned = 2
            _log.error(
                "all %d slots of the Receive Maximum are held by unsettled deliveries: nothing of QoS 1 and 2 comes "
                "until the session resumes on a new connection",
                window,
                extra=about,
            )
        elif left >= window * WARN_SHARE and not self._warned:
            self._warned = 1
            _log.warning(
                "%d of %d slots of the Receive Maximum are held by unsettled deliveries", left, window, extra=about
            )

    def fail(self, error: Exception) -> None:
        """End: deliveries that nobody has taken stay unacknowledged. The first error is the one that is told."""
        if self.failure is None:
            self.failure = error
        self.stop()

    def stop(self) -> None:
        """Stop taking."""
        for handling in self._handlings.values():
            handling.stop_taking()
        self.stopped.set()

    async def finish(self, timeout_s: float | None, *, reachable: bool = True) -> None:
        """Let handlers end and copies leave, for ``timeout_s`` at most; what is not done by then comes again.

        Copies cannot leave where the broker is not ``reachable`` any more.
        """
        self.stop()
        loop = asyncio.get_running_loop()
        end = None if timeout_s is None else loop.time() + timeout_s
        in_time = await asyncio.gather(*[handling.finish(timeout_s) for handling in self._handlings.values()])
        if not all(in_time):
            _log.warning("handlers were still busy after %g s: what they had comes again", timeout_s or 0)
        tasks = [task for handling in self._handlings.values() for task in handling.settler.tasks]
        if tasks:
            left_s = 0.0 if not reachable else None if end is None else max(_FLUSH_MIN_S, end - loop.time())
            _, late = await asyncio.wait(tasks, timeout=left_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self.copies.close()

    @property
    def busy(self) -> bool:
        """Whether something waits for a handler, is in one, or is being settled."""
        return any(one.waiting or one.running or one.settler.tasks for one in self._handlings.values())

    def stats(self) -> Stats:
        handlings = list(self._handlings.values())
        named: dict[str, HandlerStats] = {}
        for one in handlings:
            name = one.name
            while name in named:
                name += "'"
            named[name] = one.stats
        return Stats(
            self._transport.connected, self.connections, self._transport.receive_maximum, self._transport.slots,
            self._transport.left, sum(one.waiting for one in handlings), sum(one.running for one in handlings),
            sum(len(one.settler.tasks) for one in handlings), self.copies.journaled, self.unrouted, named,
        )  # fmt: skip
