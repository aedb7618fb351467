"""What somebody saw of MQTT clients and a server, as plain records. ``at`` is UTC ms, when it was seen.

``client`` tells clients apart: a client id, or any other name that stays the same; ``server`` likewise.
"""

from dataclasses import dataclass
from typing import final

from sparkplug.actions import Publish
from sparkplug.topic import NodeId


@final
@dataclass(frozen=True, slots=True)
class Connected:
    """A CONNECT that was accepted. ``version`` is the protocol level, ``expiry_s`` that of the session (5.0)."""

    client: str
    at: int
    version: int
    clean: bool
    will: Publish | None
    expiry_s: int = 0
    server: str = ""


@final
@dataclass(frozen=True, slots=True)
class Published:
    """A PUBLISH from a client."""

    client: str
    at: int
    message: Publish
    server: str = ""


@final
@dataclass(frozen=True, slots=True)
class Subscribed:
    """A SUBSCRIBE from a client: filters with their QoS."""

    client: str
    at: int
    filters: tuple[tuple[str, int], ...]
    server: str = ""


@final
@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is closed; ``reason`` is that of a DISCONNECT from the client, None when it sent none."""

    client: str
    at: int
    reason: int | None
    server: str = ""


@final
@dataclass(frozen=True, slots=True)
class Delivered:
    """A PUBLISH to a client."""

    client: str
    at: int
    message: Publish
    server: str = ""


@final
@dataclass(frozen=True, slots=True)
class Marked:
    """A host application took a node (``device`` None) or a device for gone since ``since``, its metrics for stale."""

    client: str
    at: int
    id: NodeId
    device: str | None
    since: int
    stale: bool


Observation = Connected | Published | Subscribed | Disconnected | Delivered | Marked
