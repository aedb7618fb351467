"""What a handler gets, and what the SDK needs of whoever brings and takes messages."""

from typing import Generic, NamedTuple, Protocol, TypeVar, final

from gateway.consumer.settlement import count_of
from gateway.mqtt.packets import Properties

T = TypeVar("T")


class Delivery(Protocol):
    """One message as it came; ``ack`` or ``leave`` settles it, once, in any order."""

    @property
    def topic(self) -> str: ...
    @property
    def qos(self) -> int: ...
    @property
    def retain(self) -> bool: ...
    @property
    def dup(self) -> bool: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def expiry_s(self) -> int: ...
    @property
    def subscription_identifiers(self) -> list[int]: ...
    @property
    def properties(self) -> Properties: ...
    @property
    def user_properties(self) -> list[tuple[str, str]]: ...
    def ack(self) -> bool:
        """Acknowledge; False where no answer will leave."""
        ...

    def leave(self) -> None:
        """Send nothing, now or later."""
        ...


@final
class Outgoing(NamedTuple):
    """A message to publish; ``properties`` is None below MQTT 5.0."""

    topic: str
    payload: bytes
    qos: int
    properties: Properties | None = None


@final
class Message(Generic[T]):
    """One message for a handler. ``value`` is the payload as ``decode`` made it."""

    __slots__ = ("_count_name", "_delivery", "value")

    value: T

    def __init__(self, value: T, delivery: Delivery, count_name: str) -> None:
        self.value = value
        self._delivery = delivery
        self._count_name = count_name

    @property
    def topic(self) -> str:
        """Where it was published."""
        return self._delivery.topic

    @property
    def payload(self) -> bytes:
        """As it came."""
        return self._delivery.payload

    @property
    def qos(self) -> int:
        """Of this delivery: 0, 1 or 2."""
        return self._delivery.qos

    @property
    def retain(self) -> bool:
        """It was kept as the topic's last value, and not published just now."""
        return self._delivery.retain

    @property
    def dup(self) -> bool:
        """The broker sent it before."""
        return self._delivery.dup

    @property
    def attempt(self) -> int:
        """1 with the first delivery, and one more with each copy."""
        return 1 + count_of(self._delivery.user_properties, self._count_name)

    @property
    def user_properties(self) -> list[tuple[str, str]]:
        """In the publisher's order, repeats kept; none on MQTT 3.1.1."""
        return self._delivery.user_properties

    @property
    def content_type(self) -> str | None:
        """What the publisher says of the payload; None where it says nothing."""
        return self._delivery.properties.content_type

    @property
    def response_topic(self) -> str | None:
        """Where the publisher waits for an answer; None where it does not."""
        return self._delivery.properties.response_topic

    @property
    def correlation_data(self) -> bytes | None:
        """What an answer must carry."""
        return self._delivery.properties.correlation_data

    @property
    def expiry_s(self) -> int:
        """Seconds of life that were left when it came; -1 = it does not end."""
        return self._delivery.expiry_s

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, attempt {self.attempt}, {self.value!r})"


class Settled(Protocol):
    """Who wants to know when a delivery is answered, or never will be."""

    def ack(self) -> bool: ...
    def leave(self) -> None: ...


@final
class Joint:
    """One delivery that several handlers read: acknowledged when all are done with it, left when one leaves it."""

    __slots__ = ("_left", "_open", "delivery")

    delivery: Delivery

    def __init__(self, delivery: Delivery, handlers: int) -> None:
        self.delivery = delivery
        self._open = handlers
        self._left = False

    def ack(self) -> bool:
        return self._one(False)

    def leave(self) -> None:
        self._one(True)

    def _one(self, left: bool) -> bool:
        self._open -= 1
        self._left = self._left or left
        if self._open:
            return True
        if self._left:
            self.delivery.leave()
            return True
        return self.delivery.ack()
