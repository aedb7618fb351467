"""What the machines ask of whoever drives them, and what they tell.

A machine takes what happened and returns a list of these; it never calls out. ``Publish``, ``Subscribe`` and
``Disconnect`` are for the connection, in their order; the rest is for the program around it.
"""

from dataclasses import dataclass, field
from typing import final

from sparkplug.model import Metric, Payload
from sparkplug.topic import NodeId


@final
@dataclass(frozen=True, slots=True)
class Publish:
    topic: str
    payload: bytes
    qos: int
    retain: bool


@final
@dataclass(frozen=True, slots=True)
class Connect:
    """Connect with a clean session (5.0: session expiry 0) and this will, to the server of that number."""

    will: Publish
    server: int = 0


@final
@dataclass(frozen=True, slots=True)
class Subscribe:
    """Filters, each with its QoS."""

    filters: tuple[tuple[str, int], ...]


@final
@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection. ``with_will``: an MQTT 5.0 client says 0x04, so that the server publishes the will
    [tck-id-payloads-ndeath-will-message-publisher-disconnect-mqtt50]."""

    with_will: bool = False


@final
@dataclass(frozen=True, slots=True)
class Command:
    """A host wants a metric of the node (``device`` None) or of a device to have this value."""

    device: str | None
    name: str
    value: object


@final
@dataclass(frozen=True, slots=True)
class Online:
    """A node (``device`` None) or a device was born; ``at`` is UTC ms."""

    id: NodeId
    device: str | None
    at: int


@final
@dataclass(frozen=True, slots=True)
class Offline:
    """A node (``device`` None) or a device is gone and its metrics are stale, since ``at`` (UTC ms)."""

    id: NodeId
    device: str | None
    at: int


@final
@dataclass(frozen=True, slots=True)
class Data:
    """Values of a node (``device`` None) or a device, births included, names filled in.

    ``late``: from before the birth in force, so history whatever its metrics say.
    """

    id: NodeId
    device: str | None
    payload: Payload
    late: bool
    metrics: list[Metric] = field(default_factory=list)  # those whose name is known


@final
@dataclass(frozen=True, slots=True)
class Missing:
    """Messages of a node that never came: ``count`` of them, or more by a multiple of 256."""

    id: NodeId
    count: int


@final
@dataclass(frozen=True, slots=True)
class Refused:
    """A message that was not taken, or not in full, and why."""

    topic: str
    reason: str


Action = Publish | Subscribe | Disconnect | Command | Online | Offline | Data | Missing | Refused
