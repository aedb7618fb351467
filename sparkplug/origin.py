"""What the republisher knows of its sources: their births, and what of each is still to be said."""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import final

from sparkplug.actions import Action
from sparkplug.epochs import Epochs
from sparkplug.model import Metric, PropertySet
from sparkplug.topic import NodeId


@final
@dataclass(frozen=True, slots=True)
class ToSource:
    """Publish this at the broker of the sources: a command, at QoS 0 and not retained."""

    topic: str
    payload: bytes


Told = Action | ToSource


@final
@dataclass(frozen=True, slots=True)
class Kept:
    """A birth to write down. ``current``: in force, and then whether its source is ``alive``."""

    topic: str
    data: bytes
    current: bool
    alive: bool


class Kind(Enum):
    DATA = auto()
    BIRTH = auto()
    DEATH = auto()


@final
class Node:
    """An edge node of the sources."""

    __slots__ = ("alive", "asked_at", "bd_seq", "epochs", "id")

    def __init__(self, id: NodeId) -> None:
        self.id = id
        self.epochs = Epochs()
        self.alive = False
        self.bd_seq: int | None = None
        self.asked_at: int | None = None  # for a rebirth that has not come


@final
class Target:
    """Our device for a node (``device`` None) or a device of the sources."""

    __slots__ = ("alive", "barriers", "device", "doubt_since", "id", "latest", "name", "queue", "restate")

    def __init__(self, name: str, id: NodeId, device: str | None) -> None:
        self.name = name
        self.id = id
        self.device = device
        self.latest: dict[str, Metric] = {}  # as the source's birth has them, with the newest values that came
        self.alive = False  # at the source, as far as its messages were read
        self.queue: deque[Entry] = deque()
        self.barriers = 0  # births and deaths in the queue
        self.restate = False  # the newest values went out as history only
        self.doubt_since: int | None = None  # its node was born again, it was not


@final
class Entry:
    """A part of a source's message that is to be said of one device."""

    __slots__ = ("key", "kind", "metrics", "target")

    def __init__(self, kind: Kind, target: Target, key: Hashable | None, metrics: list[Metric]) -> None:
        self.kind = kind
        self.target = target
        self.key = key
        self.metrics = metrics


def shape(metrics: Iterable[Metric]) -> dict[str | None, tuple[int, PropertySet | None]]:
    """What makes a birth another one, values aside."""
    return {metric.name: (metric.datatype, metric.properties) for metric in metrics}
