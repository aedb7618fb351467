"""Carries out what ``settlement`` decides: publish, acknowledge, leave, and say what cannot be done."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, final

from gateway.consumer.copies import Copies
from gateway.consumer.declaration import Registration
from gateway.consumer.message import Delivery, Joint, Message, Outgoing
from gateway.consumer.outcome import Kind, Outcome
from gateway.consumer.settlement import (
    Acknowledge,
    Action,
    Copy,
    Declared,
    GiveUp,
    Leave,
    count_of,
    counted,
    settle,
    undecoded,
)
from gateway.consumer.source import DeclarationError, check_topic
from gateway.consumer.stats import HandlerStats
from gateway.mqtt.packets import Properties

TASKS_MAX: Final = 1000  # copies under way before handlers wait for them

_log = logging.getLogger("forebay.consumer")


@final
class Settler:
    """For the deliveries of one handler. ``left`` is told of each that stays unacknowledged."""

    def __init__(
        self, registration: Registration, copies: Copies, stats: HandlerStats, count_name: str, version: int,
        left: Callable[[], None],
    ) -> None:  # fmt: skip
        self.name: str = registration.name
        self.tasks: set[asyncio.Task[None]] = set()
        self._declared = registration.declared
        self._retry_to = registration.source.retry_to
        self._copies, self._stats, self._count_name, self._version = copies, stats, count_name, version
        self._left = left
        self._told: set[str] = set()

    def settle(self, item: Delivery | Joint, outcome: Outcome) -> None:
        """Begin what follows the outcome, and end it at once unless a copy must be safe first."""
        delivery = item.delivery if isinstance(item, Joint) else item
        stats, kind = self._stats, outcome.kind
        if kind is Kind.ACK and delivery.qos:
            stats.acked += 1
            item.ack()
            return
        declared, count = self._declared, 0
        if kind is Kind.ACK:
            stats.acked += 1
        elif kind is Kind.DROP:
            stats.dropped += 1
        elif kind is Kind.RETRY_AFTER or (kind is Kind.RETRY and declared.cap is not None):
            count = count_of(delivery.user_properties, self._count_name)
            if callable(self._retry_to) and (declared.cap is None or count + 1 < declared.cap):
                declared = self._with_topic(self._retry_to, delivery)
        self._do(item, delivery, settle(delivery.qos, count, outcome, declared))

    def _with_topic(self, retry_to: Callable[[Message[Any]], str], delivery: Delivery) -> Declared:
        try:
            topic = check_topic(retry_to(Message(delivery.payload, delivery, self._count_name)), "retry_to")
        except Exception as error:
            _log.error(
                "%s: no topic for a copy: %s",
                self.name,
                error,
                exc_info=not isinstance(error, DeclarationError),
                extra=self._about(delivery),
            )
            return self._declared
        return self._declared._replace(copy_to=topic)

    def undecoded(self, item: Delivery | Joint) -> None:
        """The payload did not decode: to the dead-letter topic, or gone."""
        delivery = item.delivery if isinstance(item, Joint) else item
        if self._declared.dead_letter is None:
            self._stats.dropped += 1
        self._do(item, delivery, undecoded(delivery.qos, self._declared))

    def _do(self, item: Delivery | Joint, delivery: Delivery, actions: tuple[Action, ...]) -> None:
        for i, action in enumerate(actions):
            if isinstance(action, Copy):
                task = asyncio.get_running_loop().create_task(self._copy(item, delivery, action, actions[i + 1 :]))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
                return
            if isinstance(action, Acknowledge):
                item.ack()
            elif isinstance(action, Leave):
                self._leave(item)
            elif isinstance(action, GiveUp):
                self._stats.given_up += 1
                _log.warning(
                    "%s: %s had its last attempt, and no dead-letter topic is declared",
                    self.name,
                    delivery.topic,
                    extra=self._about(delivery),
                )
            else:
                self._stats.unsupported += 1
                text = str(action.error)
                # at QoS 0 no window bounds how often that is
                level = logging.DEBUG if delivery.qos == 0 and text in self._told else logging.WARNING
                self._told.add(text)
                _log.log(
                    level,
                    "%s: AckError %s: %s",
                    self.name,
                    action.error.kind,
                    text,
                    extra={"ack_error": action.error.kind, **self._about(delivery)},
                )

    def _leave(self, item: Delivery | Joint) -> None:
        self._stats.left += 1
        item.leave()
        self._left()

    async def _copy(self, item: Delivery | Joint, delivery: Delivery, copy: Copy, then: tuple[Action, ...]) -> None:
        """What follows waits until the copy is safe; what is not safe is not acknowledged."""
        try:
            safe = await self._safe(delivery, copy)
        except asyncio.CancelledError:
            safe = False  # too late for it: the original comes again
        except Exception:
            _log.exception("%s: a copy to %s cannot be published", self.name, copy.topic, extra=self._about(delivery))
            safe = False
        if safe:
            self._do(item, delivery, then)
        else:
            self._stats.copies_refused += 1
            if delivery.qos:
                self._leave(item)
            else:
                self._do(item, delivery, then)

    async def _safe(self, delivery: Delivery, copy: Copy) -> bool:
        stats = self._stats
        properties = self._properties(delivery, copy) if self._version >= 5 else None
        if copy.delay_s > 0 and properties is not None and 0 <= properties.message_expiry_interval <= copy.delay_s:
            stats.expired += 1
            _log.warning(
                "%s: %s expires before its copy is due", self.name, delivery.topic, extra=self._about(delivery)
            )
            return True
        # never QoS 2: after a crash the broker would take a new packet for one that it knows by its id
        message = Outgoing(copy.topic, delivery.payload, 1, properties)
        if not await self._copies.make(message, copy.delay_s):
            return False
        if copy.tries is None:
            stats.dead_lettered += 1
        elif copy.delay_s > 0:
            stats.delayed += 1
        else:
            stats.retried += 1
        return True

    def _properties(self, delivery: Delivery, copy: Copy) -> Properties:
        """Those that a publisher gave, with the retry count of the copy."""
        given, made = delivery.properties, Properties()
        made.payload_format_indicator = given.payload_format_indicator
        made.message_expiry_interval = given.message_expiry_interval
        made.content_type = given.content_type
        made.response_topic = given.response_topic
        made.correlation_data = given.correlation_data
        made.user_properties = list(given.user_properties)
        if copy.tries is not None:
            made.user_properties = counted(made.user_properties, copy.tries, self._count_name)
        return made

    def _about(self, delivery: Delivery) -> dict[str, object]:
        return {"handler": self.name, "topic": delivery.topic, "qos": delivery.qos}
