"""Registrations, and all that can be known to be wrong about them before a connection is open."""

import inspect
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from gateway.consumer.decoding import Decode, decoder
from gateway.consumer.outcome import Kind, OnDecodeError, OnError, Outcome
from gateway.consumer.settlement import Declared
from gateway.consumer.source import DeclarationError, MqttFilter, MqttTopic, Source, check_topic, overlap
from gateway.core.topics import matches

_HASH_MAX: Final = 2_000_000  # a small identifier takes fewer bytes with each delivery

Handler = Callable[..., Any]
"""``async def handler(message)``, or a plain function, which runs in a thread; with ``batch`` it gets a list."""


@final
@dataclass(frozen=True)
class Registration:
    """One handler and what it reads."""

    handler: Handler
    source: Source
    qos: int = 1
    shared: str | None = None
    max_attempts: int | None = None
    dead_letter: str | None = None
    max_workers: int = 1
    batch: int | None = None
    decode: Decode = bytes
    on_error: OnError = "stop"
    on_decode_error: OnDecodeError = "dead_letter"

    @property
    def name(self) -> str:
        """For people and metrics."""
        return getattr(self.handler, "__name__", type(self.handler).__name__)

    @property
    def wire_filter(self) -> str:
        """As SUBSCRIBE has it."""
        return f"$share/{self.shared}/{self.source.filter}" if self.shared else self.source.filter

    @property
    def declared(self) -> Declared:
        """What holds for every delivery; a topic of copies that a function makes is not in it."""
        retry_to = self.source.retry_to
        return Declared(self.max_attempts, self.dead_letter, retry_to if isinstance(retry_to, str) else None)

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function, bound methods and callable objects too."""
        return any(map(inspect.iscoroutinefunction, (self.handler, type(self.handler).__call__)))

    def check(self, version: int) -> None:
        """What is wrong with it alone. Raises DeclarationError."""
        where = f"{self.name}: {self.source!r}"
        if not isinstance(self.source, MqttTopic | MqttFilter):
            raise DeclarationError(f"{where}: expected a topic, MqttTopic or MqttFilter")
        if self.qos not in (0, 1, 2):
            raise DeclarationError(f"{where}: qos={self.qos!r}, expected 0, 1 or 2")
        if self.shared is not None and (not self.shared or any(char in self.shared for char in "/+#")):
            raise DeclarationError(f'{where}: shared="{self.shared}", expected a name without /, + and #')
        if self.shared and version < 5:
            raise DeclarationError(f"{where}: shared subscriptions need MQTT 5.0")
        self._check_retries(where, version)
        for name in ("max_workers", "batch"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise DeclarationError(f"{where}: {name}={number}, expected 1 or more")
        _check_policy(f"{where}: on_error", self.on_error, ("drop", "retry", "stop"))
        _check_policy(f"{where}: on_decode_error", self.on_decode_error, ("dead_letter", "drop", "retry", "stop"))
        decoder(self.decode)

    def _check_retries(self, where: str, version: int) -> None:
        if self.max_attempts is not None:
            if self.max_attempts < 1:
                raise DeclarationError(f"{where}: max_attempts={self.max_attempts}, expected 1 or more")
            if version < 5:
                raise DeclarationError(
                    f"{where}: max_attempts needs MQTT 5.0: attempts are counted in a user property, and 3.1.1 has none"
                )
        if self.dead_letter is not None:
            check_topic(self.dead_letter, f"{where}: dead_letter")
        if self.source.retry_to is None and self._makes_copies():
            raise DeclarationError(
                f"{where}: retries need a topic for the copies, expected MqttFilter(..., retry_to=TOPIC)"
            )

    def _makes_copies(self) -> bool:
        """Whether what is declared can lead to a copy that is not a dead letter."""
        policies = (self.on_error, self.on_decode_error)
        after = any(isinstance(policy, Outcome) and policy.kind is Kind.RETRY_AFTER for policy in policies)
        cap = self.declared.cap
        return after if cap is None else cap > 1


def _check_policy(where: str, policy: object, words: tuple[str, ...]) -> None:
    if not isinstance(policy, Outcome) and policy not in words:
        named = ", ".join(f'"{word}"' for word in words)
        raise DeclarationError(f"{where}={policy!r}: expected {named} or an outcome such as retry_after(5)")


@final
@dataclass(frozen=True)
class Subscription:
    """One filter on the wire and those whose handlers take turns at it. ``identifier`` is made from the filter, so that
    what a session kept for an earlier run finds its handler in a later one with other registrations."""

    wire_filter: str
    plain: str
    qos: int
    identifier: int
    registrations: tuple[Registration, ...]


def subscriptions(registrations: Sequence[Registration], version: int) -> list[Subscription]:
    """All that goes on the wire, topics of copies that nobody reads included. Raises DeclarationError."""
    if not registrations:
        raise DeclarationError("nothing is subscribed to: expected @app.subscribe(...) before the start")
    found: dict[str, Subscription] = {}
    for one in registrations:
        one.check(version)
        _add(found, one, one.wire_filter, one.source.filter)
    filters = [subscription.plain for subscription in found.values()]
    for one in registrations:
        if one.dead_letter is not None:
            for filter in filters:
                if matches(filter, one.dead_letter):
                    raise DeclarationError(
                        f'{one.name}: dead_letter="{one.dead_letter}" is read by the consumer\'s own "{filter}": '
                        "a dead letter would come straight back"
                    )
        copies = one.declared.copy_to
        if copies is not None and not any(matches(filter, copies) for filter in filters):
            if one.dead_letter == copies:
                raise DeclarationError(f'{one.name}: retry_to and dead_letter are both "{copies}"')
            _add(found, one, f"$share/{one.shared}/{copies}" if one.shared else copies, copies)
    _check_dead_letters(registrations, found)
    return list(found.values())


def _check_dead_letters(registrations: Sequence[Registration], found: dict[str, Subscription]) -> None:
    """Once more, since the topics of copies have come in."""
    for one in registrations:
        for subscription in found.values():
            if one.dead_letter is not None and matches(subscription.plain, one.dead_letter):
                raise DeclarationError(f'{one.name}: dead_letter="{one.dead_letter}" is a topic of copies')


def _add(found: dict[str, Subscription], one: Registration, wire: str, plain: str) -> None:
    known = found.get(wire)
    if known is None:
        taken = {subscription.identifier for subscription in found.values()}
        identifier = zlib.crc32(wire.encode()) % _HASH_MAX + 1
        while identifier in taken:
            identifier += 1
        found[wire] = Subscription(wire, plain, one.qos, identifier, (one,))
    elif one not in known.registrations:
        if known.qos != one.qos:
            raise DeclarationError(
                f'{one.name}: "{wire}" is subscribed to with QoS {known.qos} and {one.qos}, expected one'
            )
        found[wire] = Subscription(wire, plain, one.qos, known.identifier, (*known.registrations, one))


def check_overlaps(wanted: Sequence[Subscription], why: str) -> None:
    """Refuse filters that only identifiers can tell apart, where there are none: ``why``. Raises DeclarationError."""
    for i, one in enumerate(wanted):
        for other in wanted[:i]:
            if overlap(one.plain, other.plain):
                raise DeclarationError(
                    f'"{one.wire_filter}" and "{other.wire_filter}" overlap, and {why}: '
                    "what is delivered cannot be told apart"
                )
