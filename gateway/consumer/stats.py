"""What the consumer did and holds, as numbers."""

from dataclasses import dataclass, field
from typing import Final, final

WARN_SHARE: Final = 0.75  # of the window: held for good by deliveries that are left unacknowledged


@final
@dataclass
class HandlerStats:
    """Counts of one handler since the start."""

    received: int = 0  # deliveries, copies and repetitions too
    acked: int = 0  # the handler was done with it
    dropped: int = 0
    retried: int = 0  # copies published at once
    delayed: int = 0  # copies for later
    dead_lettered: int = 0
    given_up: int = 0  # had the last attempt, and there is no dead-letter topic
    left: int = 0  # unacknowledged for good: they come back when the session resumes
    unsupported: int = 0  # outcomes that MQTT cannot carry out (AckError)
    decode_errors: int = 0
    handler_errors: int = 0
    copies_refused: int = 0  # by the broker; their originals are left
    expired: int = 0  # their life ends before the copy was due
    overflowed: int = 0  # QoS 0, let go since the handler is too slow
    handler_s: float = 0.0  # time spent in the handler


@final
@dataclass(frozen=True)
class Stats:
    """A look at the consumer. ``connected``: a connection is open and its subscriptions are made.

    ``slots`` of the ``receive_maximum`` are taken on this connection, ``unsettled`` of them for good, by deliveries
    that will never be acknowledged on it. ``waiting`` deliveries have no handler yet, ``running`` ones have. ``copies``
    are on their way to the broker, ``journal`` ones wait on our disk.
    """

    connected: bool
    connections: int
    receive_maximum: int
    slots: int
    unsettled: int
    waiting: int
    running: int
    copies: int
    journal: int
    unrouted: int  # came for no filter of ours, and were acknowledged
    handlers: dict[str, HandlerStats] = field(default_factory=dict)
