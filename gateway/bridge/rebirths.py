"""When a node is asked for a rebirth: what is missing gets a moment to come after all; then, within a budget, once.

A rebirth restores current values, not history; so what stayed missing is recorded before.
"""

from typing import Final, final

from gateway.bridge.observer import Observer
from gateway.core.nodes import BORN, DIED, EARLY, FILLED, FORGOTTEN, GAP, LEFT, NBIRTH, Event, Node
from gateway.core.port import BridgePort
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import encode
from sparkplug.rebirth import Rebirths
from sparkplug.source import REBIRTH

_BURST: Final = 10  # requests at once
_MINUTE_MS: Final = 60_000


@final
class _Hole:
    """A gap that may still be filled."""

    def __init__(self, node: Node, due: int, from_ms: int, to_ms: int) -> None:
        self.node = node
        self.due = due  # gateway ms
        self.from_ms = from_ms
        self.to_ms = to_ms
        self.missing = 0


@final
class Asking:
    """``reorder_ms``: how long a message may be missing. At most ``per_minute`` requests for all nodes; 0 = none."""

    def __init__(self, port: BridgePort, observer: Observer) -> None:
        self.reorder_ms = 2000
        self._port = port
        self._observer = observer
        self._per_minute = 0
        self._rebirths: Rebirths[str] = Rebirths()
        self._holes: dict[str, _Hole] = {}
        self._answering: set[str] = set()  # asked, and neither born nor dead since
        self._early: dict[str, int] = {}  # nodes whose data came without a birth -> gateway ms when they are asked

    def configure(self, reorder_ms: int, per_minute: int) -> None:
        self.reorder_ms = reorder_ms
        if per_minute != self._per_minute:
            self._per_minute = per_minute
            every_ms = max(1, _MINUTE_MS // per_minute) if per_minute else _MINUTE_MS
            self._rebirths = Rebirths(_BURST, every_ms)

    def event(self, event: Event, now: int) -> None:
        """Something happened to a node; ``now`` in gateway ms."""
        key, kind = event.node.key, event.kind
        if kind == GAP:
            hole = self._holes.get(key)
            if hole is None:
                hole = _Hole(event.node, now + self.reorder_ms, event.heard or event.at, event.at)
                self._holes[key] = hole
            hole.to_ms = event.at
            hole.missing += (event.b - event.a) % 256
            self._observer.gap(event.node, (hole.from_ms, hole.to_ms, hole.missing))
        elif kind == FILLED:
            self._holes.pop(key, None)
            self._observer.gap(event.node, None)
        elif kind == EARLY:
            self._early[key] = now + self.reorder_ms
        elif kind == FORGOTTEN:
            self._early.pop(key, None)
            self._holes.pop(key, None)
            self._rebirths.done(key)
            self._answering.discard(key)
        elif kind in (BORN, DIED, LEFT):
            self._early.pop(key, None)
            self._close(key)
            self._rebirths.done(key)
            if kind == BORN and event.a and key not in self._answering:
                self._rebirths.want(key)  # the birth may be one of before the death: only a fresh one is believed
            self._answering.discard(key)

    def _close(self, key: str) -> Node | None:
        """Nothing will fill the gap any more."""
        hole = self._holes.pop(key, None)
        if hole is None:
            return None
        left = len(hole.node.missing)
        self._observer.hole(hole.node, hole.from_ms, hole.to_ms, min(hole.missing, left) if left else hole.missing)
        return hole.node

    def want(self, node: Node) -> None:
        """Somebody asks for a rebirth of this node."""
        self._rebirths.want(node.key)

    def tick(self, now: int) -> None:
        for key in [key for key, hole in self._holes.items() if hole.due <= now]:
            if self._close(key) is not None:
                self._rebirths.want(key)
        for key in [key for key, due in self._early.items() if due <= now]:
            del self._early[key]
            self._rebirths.want(key)
        if not self._per_minute:
            self._rebirths.clear()
            return
        for key in self._rebirths.grant(now):
            self.ask(key, now)

    def ask(self, key: str, now: int) -> bool:
        """Send the request at once; False when the node is not there, does not listen to commands, or knows none.

        A library that does not know the request may lose its connection over it.
        """
        node = self._port.node(key)
        if node is None:
            return False
        topic = f"spBv1.0/{node.group}/NCMD/{node.edge}"
        if not can_rebirth(node) or not self._port.listens(node, topic):
            self._rebirths.done(key)
            return False
        metric = Metric(REBIRTH, None, self._port.utc_ms(now), DataType.Boolean, True)
        payload = encode(Payload(self._port.utc_ms(now), [metric]), with_datatypes=False)
        self._port.publish(topic, payload, 0, False, now)
        self._answering.add(key)
        self._observer.asked(key)
        return True


def can_rebirth(node: Node) -> bool:
    """Whether its birth has the metric; a node without one answers no request."""
    births = [source for source in node.sources if source.kind == NBIRTH and source.births]
    return not births or any(source.rebirth for source in births)
