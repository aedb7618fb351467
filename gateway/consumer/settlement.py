"""What follows an outcome, as actions in their order: pure, so that the order stands in one place.

A copy comes before the acknowledgement of its original: who dies between the two leaves a message twice, never none.
"""

from typing import Final, NamedTuple, TypeAlias, final

from gateway.consumer.outcome import Kind, Outcome

RETRY_COUNT: Final = "x-ruststream-retry-count"
"""The user property in which copies carry how often the message was tried before."""

_COUNT_MAX: Final = 2**64 - 1


@final
class AckError(Exception):
    """An outcome that MQTT cannot carry out. It is logged and counted, never raised to a handler.

    ``kind`` is "unsupported": the protocol has no way to say it.
    """

    kind: str

    def __init__(self, text: str, kind: str = "unsupported") -> None:
        super().__init__(text)
        self.kind = kind


@final
class Declared(NamedTuple):
    """What a registration says of retries. ``copy_to`` is the topic of copies, None where it has none."""

    max_attempts: int | None = None
    dead_letter: str | None = None
    copy_to: str | None = None

    @property
    def cap(self) -> int | None:
        """Deliveries that one message gets, the first one included. A dead-letter topic alone lets one fail once."""
        return self.max_attempts if self.max_attempts is not None else None if self.dead_letter is None else 1


@final
class Copy(NamedTuple):
    """Publish a copy, and go on when it is safe: acknowledged by the broker, or on our disk.

    ``tries`` is its retry count; None leaves the properties as they came.
    """

    topic: str
    tries: int | None
    delay_s: float = 0.0


@final
class Acknowledge(NamedTuple):
    """PUBACK or PUBREC for the original."""


@final
class Leave(NamedTuple):
    """Nothing is sent for the original; its slot stays taken."""


@final
class Report(NamedTuple):
    """Say that this cannot be done."""

    error: AckError


@final
class GiveUp(NamedTuple):
    """Say that the message had its last attempt and there is no dead-letter topic."""


Action: TypeAlias = Copy | Acknowledge | Leave | Report | GiveUp

_ACKNOWLEDGE: Final = (Acknowledge(),)
_LEAVE: Final = (Leave(),)
_NO_ACK: Final = Report(AckError("a QoS 0 delivery has nothing to acknowledge"))
_NO_RETRY: Final = Report(AckError("MQTT sends nothing again on a live connection, and neither attempts nor a "
                                   "dead-letter topic are declared"))  # fmt: skip
_NO_TOPIC: Final = Report(AckError("there is no topic for the copy: the filter names none in retry_to"))


def settle(qos: int, count: int, outcome: Outcome, declared: Declared) -> tuple[Action, ...]:
    """What to do for a delivery of this QoS and retry count, in this order; each action waits for the one before."""
    kind = outcome.kind
    if kind is Kind.ACK or kind is Kind.DROP:
        return _ACKNOWLEDGE if qos else (_NO_ACK,)
    if kind is Kind.LET_GO:
        return _leave(qos)
    cap = declared.cap
    if cap is None and kind is Kind.RETRY:
        return (_NO_RETRY, *_leave(qos))
    if cap is not None and count + 1 >= cap:
        last: Action = GiveUp() if declared.dead_letter is None else Copy(declared.dead_letter, None)
        return (last, *_acknowledge(qos))
    if declared.copy_to is None:
        return (_NO_TOPIC, *_leave(qos))
    return (Copy(declared.copy_to, count + 1, outcome.delay_s), *_acknowledge(qos))


def _acknowledge(qos: int) -> tuple[Action, ...]:
    return _ACKNOWLEDGE if qos else ()


def _leave(qos: int) -> tuple[Action, ...]:
    return _LEAVE if qos else ()


def undecoded(qos: int, declared: Declared) -> tuple[Action, ...]:
    """What follows a payload that does not decode, without another policy: the dead letter if there is one."""
    if declared.dead_letter is None:
        return _acknowledge(qos)
    return (Copy(declared.dead_letter, None), *_acknowledge(qos))


def count_of(user_properties: list[tuple[str, str]], name: str = RETRY_COUNT) -> int:
    """How often the message was tried before; absent or malformed = 0."""
    for key, value in user_properties:
        if key == name:
            plain = value.isascii() and value.isdigit() and len(value) <= 20
            return int(value) if plain and int(value) <= _COUNT_MAX else 0
    return 0


def counted(user_properties: list[tuple[str, str]], count: int, name: str = RETRY_COUNT) -> list[tuple[str, str]]:
    """The same properties in the same order, with this retry count instead of any other."""
    return [pair for pair in user_properties if pair[0] != name] + [(name, str(count))]
