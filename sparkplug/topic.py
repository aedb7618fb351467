"""Sparkplug topics: parsed into a typed result, built from checked ids.

``spBv1.0/GROUP/TYPE/NODE[/DEVICE]`` and ``spBv1.0/STATE/HOST`` (3.0), ``STATE/HOST`` (2.2) [tck-id-topic-structure].
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, final

NAMESPACE: Final = "spBv1.0"
STATE: Final = "STATE"
CERTIFICATES: Final = "$sparkplug/certificates/"
_TOPIC_BYTES_MAX: Final = 65535


class TopicError(ValueError):
    """The topic, or an id for one, is not Sparkplug B; the text says what is wrong with it."""


class MessageType(StrEnum):
    """What an edge node, a device or a command for one sends; STATE is a topic form of its own."""

    NBIRTH = "NBIRTH"
    NDEATH = "NDEATH"
    NDATA = "NDATA"
    NCMD = "NCMD"
    DBIRTH = "DBIRTH"
    DDEATH = "DDEATH"
    DDATA = "DDATA"
    DCMD = "DCMD"


_TYPES: Final = {str(name): name for name in MessageType}
OF_DEVICES: Final = frozenset({MessageType.DBIRTH, MessageType.DDEATH, MessageType.DDATA, MessageType.DCMD})
COMMANDS: Final = frozenset({MessageType.NCMD, MessageType.DCMD})


class NodeId(NamedTuple):
    """The edge node descriptor, unique in an installation [tck-id-...-namespace-unique-edge-node-descriptor]."""

    group: str
    node: str

    def __str__(self) -> str:
        return f"{self.group}/{self.node}"


@final
@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of an edge node; ``device`` is None for the four types of the node itself."""

    type: MessageType
    id: NodeId
    device: str | None = None

    def __str__(self) -> str:
        text = f"{NAMESPACE}/{self.id.group}/{self.type}/{self.id.node}"
        return text if self.device is None else f"{text}/{self.device}"


@final
@dataclass(frozen=True, slots=True)
class StateTopic:
    """A topic where a host says whether it is online; ``legacy`` is the form of 2.2."""

    host: str
    legacy: bool = False

    def __str__(self) -> str:
        return f"{STATE}/{self.host}" if self.legacy else f"{NAMESPACE}/{STATE}/{self.host}"


def check_id(what: str, value: str) -> str:
    """The id, if it may stand in a topic [tck-id-topic-structure-namespace-valid-group-id and its like].

    ``what`` names it in the error. Raises TopicError.
    """
    if not value:
        raise TopicError(f"{what} is empty")
    for char in "+/#\0":
        if char in value:
            raise TopicError(f"{what} {value!r} holds {char!r}")
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise TopicError(f"{what} {value!r} is not UTF-8") from None
    if length > _TOPIC_BYTES_MAX:
        raise TopicError(f"{what} has {length} bytes, more than a topic takes")
    return value


def build(type: MessageType, id: NodeId, device: str | None = None) -> str:
    """The topic of checked ids. Raises TopicError, also when the device id is missing or too many."""
    check_id("group id", id.group)
    check_id("edge node id", id.node)
    if device is not None:
        check_id("device id", device)
    if (device is None) == (type in OF_DEVICES):
        raise TopicError(f"{type} {'needs a' if device is None else 'takes no'} device id")
    return _fits(str(Topic(type, id, device)))


def build_state(host: str, *, legacy: bool = False) -> str:
    """The STATE topic of a host. Raises TopicError."""
    return _fits(str(StateTopic(check_id("host id", host), legacy)))


def parse(topic: str) -> Topic | StateTopic:
    """What the topic says. Raises TopicError."""
    levels = topic.split("/")
    if levels[0] != NAMESPACE:
        if levels[0] == STATE and len(levels) == 2:
            return StateTopic(check_id("host id", levels[1]), legacy=True)
        raise TopicError(f"the namespace is {levels[0]!r}, not {NAMESPACE}")
    if len(levels) == 3 and levels[1] == STATE:
        return StateTopic(check_id("host id", levels[2]))
    if not 4 <= len(levels) <= 5:
        raise TopicError(f"{len(levels)} levels, not 4 or 5")
    type = _TYPES.get(levels[2])
    if type is None:
        raise TopicError(f"no message type {levels[2]!r}")
    device = levels[4] if len(levels) == 5 else None
    if (device is None) == (type in OF_DEVICES):
        raise TopicError(f"{type} {'needs a' if device is None else 'takes no'} device id")
    for what, value in zip(("group id", "edge node id", "device id"), (levels[1], *levels[3:]), strict=False):
        check_id(what, value)
    return Topic(type, NodeId(levels[1], levels[3]), device)


def _fits(topic: str) -> str:
    length = len(topic.encode())
    if length > _TOPIC_BYTES_MAX:
        raise TopicError(f"the topic has {length} bytes, more than {_TOPIC_BYTES_MAX}")
    return topic
