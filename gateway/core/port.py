"""What the Sparkplug bridge has of the core: what happened to nodes comes out; rows, messages and the time go in."""

from typing import final

from gateway.core import fanout
from gateway.core.ingest import command_deadline
from gateway.core.message import Message
from gateway.core.nodes import Event, Node
from gateway.core.routes import route_of
from gateway.core.state import Core


@final
class BridgePort:
    """``now`` is gateway time in ms."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def take_events(self) -> list[Event]:
        """What happened to nodes since the last call, in its order."""
        events = self._core.nodes.events
        self._core.nodes.events = []
        return events

    def nodes(self) -> list[Node]:
        """All nodes that were heard of or whose births are kept."""
        return list(self._core.nodes.by_key.values())

    def node(self, key: str) -> Node | None:
        """By "group/edge node"."""
        return self._core.nodes.by_key.get(key)

    def keep(self, key: str, data: bytes | None, now: int) -> None:
        """A row of the bridge's table, with the next commit; None deletes it."""
        self._core.commit.bridge[key] = data
        self._core.lazy(now)

    def publish(self, topic: str, payload: bytes, qos: int, retain: bool, now: int) -> bool:
        """A message of the gateway's own; False when nobody subscribes to it."""
        core = self._core
        route = route_of(core, topic)
        m = Message(route.topic, payload, qos, retain, b"", command_deadline(core, route, 0, now))
        if retain:
            fanout.retain(core, route, m)
            core.lazy(now)
        return fanout.deliver_all(core, route, m, None, False, now)

    def listens(self, node: Node, topic: str) -> bool:
        """Whether the connection that speaks for the node subscribes to this topic."""
        c = node.client if node.client is not None else node.speaker
        if c is None or c.session is None:
            return False
        for t in route_of(self._core, topic).targets:
            if t.owner is c.session:
                return True
        return False

    def set_utc(self, utc_ms: int, exact: bool, now: int) -> None:
        """What the wall clock shows now, and whether it is synchronised."""
        nodes = self._core.nodes
        nodes.utc_offset_ms = utc_ms - now
        nodes.utc_exact = exact

    def utc_ms(self, now: int) -> int:
        """Gateway time as UTC."""
        return now + self._core.nodes.utc_offset_ms

    def healthy(self) -> bool:
        """Whether the disk takes what is to be kept."""
        return not self._core.error_since and not self._core.full_since
