"""What a handler says about a delivery: ``ack()``, ``drop()``, ``retry()``, ``retry_after(d)``, or nothing at all."""

from datetime import timedelta
from enum import StrEnum
from typing import Final, Literal, TypeAlias, final


@final
class Kind(StrEnum):
    """The kinds of outcome."""

    ACK = "ack"
    DROP = "drop"
    RETRY = "retry"
    RETRY_AFTER = "retry_after"
    LET_GO = "let_go"


@final
class Outcome(Exception):
    """Returned or raised by a handler; made by the functions below. ``delay_s`` counts for ``retry_after`` alone."""

    kind: Kind
    delay_s: float

    def __init__(self, kind: Kind, delay_s: float = 0.0) -> None:
        super().__init__(kind, delay_s)
        self.kind = kind
        self.delay_s = delay_s

    def __str__(self) -> str:
        return f"{self.kind.value}({self.delay_s:g} s)" if self.kind is Kind.RETRY_AFTER else self.kind.value


def ack() -> Outcome:
    """The message is done: it is acknowledged. To return nothing says the same."""
    return Outcome(Kind.ACK)


def drop() -> Outcome:
    """The message is of no use: it is acknowledged and let go, since MQTT has no other way to end it."""
    return Outcome(Kind.DROP)


def retry() -> Outcome:
    """Once more.

    Under ``max_attempts`` or ``dead_letter`` a copy is published at once. With neither, the message stays
    unacknowledged, holds a slot of the Receive Maximum and comes back when the session resumes.
    """
    return Outcome(Kind.RETRY)


def retry_after(delay: float | timedelta) -> Outcome:
    """Once more after ``delay`` seconds (0 and more): a copy is published then. Raises ValueError."""
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"retry_after({delay!r}): expected 0 seconds or more")
    return Outcome(Kind.RETRY_AFTER, seconds)


def let_go() -> Outcome:
    """No outcome: the message, or the batch, stays unacknowledged and comes back when the session resumes."""
    return Outcome(Kind.LET_GO)


ACK: Final = Outcome(Kind.ACK)
DROP: Final = Outcome(Kind.DROP)
LET_GO: Final = Outcome(Kind.LET_GO)
RETRY: Final = Outcome(Kind.RETRY)

OnError: TypeAlias = Outcome | Literal["drop", "retry", "stop"]
"""What follows an exception that a handler did not catch; "stop" ends the consumer, the message unsettled."""

OnDecodeError: TypeAlias = Outcome | Literal["dead_letter", "drop", "retry", "stop"]
"""What follows a payload that does not decode; "dead_letter" is ``drop`` where there is no such topic."""
