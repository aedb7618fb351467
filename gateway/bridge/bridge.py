"""The bridge beside the core: takes what happened to nodes, keeps what is known of them, asks for rebirths."""

import base64
from collections.abc import Iterable, Iterator
from typing import Any, Final, final

from gateway.bridge.commands import WriteError, write
from gateway.bridge.host_state import KEY as HOST_KEY
from gateway.bridge.host_state import HostState
from gateway.bridge.observer import KEY, Observer
from gateway.bridge.rebirths import Asking, can_rebirth
from gateway.core.births import KEY as BIRTH
from gateway.core.nodes import DBIRTH, FORGOTTEN, NBIRTH, TYPES, Node, Tap
from gateway.core.port import BridgePort
from gateway.settings.table import Settings

COUNTERS_MS: Final = 30_000  # between two rounds in which counters are stored
LOOKING_MS: Final = 30_000  # a node's messages are kept so long after somebody asked for its values
ROUND_MAX: Final = 200  # nodes of such a round that one tick may take


class BridgeError(Exception):
    """What was asked cannot be done; one line."""


@final
class Bridge:
    """All methods run on the event loop; ``now`` is gateway time in ms."""

    def __init__(self, port: BridgePort, rows: Iterable[tuple[str, bytes]], alive_ms: int) -> None:
        found = [(key, data) for key, data in rows if not key.startswith(BIRTH)]
        self.observer = Observer()
        self.notes = self.observer.load(found, alive_ms)
        self._port = port
        self._host = HostState(port, dict(found).get(HOST_KEY, b"").decode(errors="replace"))
        self._asking = Asking(port, self.observer)
        self._counters_at = 0
        self._round: list[Node] = []  # whose counters are still to be looked at
        self._looked_at: dict[str, tuple[Node, int]] = {}  # until when

    def configure(self, settings: Settings, now: int) -> None:
        self._host.configure(settings.bridge_host_id, now)
        self._asking.configure(settings.bridge_reorder_timeout, settings.bridge_rebirths_per_minute)

    def run(self, now: int) -> None:
        """After each turn: take what happened, and store what changed by it."""
        for event in self._port.take_events():
            if event.kind == FORGOTTEN:
                self.observer.forget(event.node.key)
                self._port.keep(KEY + event.node.key, None, now)
            self.observer.event(event)
            self._asking.event(event, now)
        if self.observer.changed:
            self._store(now)

    def tick(self, now: int) -> None:
        """About once a second."""
        self._host.tick(now)
        self._asking.tick(now)
        for key in [key for key, (_, until) in self._looked_at.items() if now >= until]:
            self._looked_at.pop(key)[0].tap = None
        if now >= self._counters_at:
            self._counters_at = now + COUNTERS_MS
            self._round = self._port.nodes()
        if self._round:
            self._note_counters(self._round[:ROUND_MAX])
            del self._round[:ROUND_MAX]
        self.run(now)

    def leave(self, now: int) -> None:
        """Before the connections end."""
        self._host.stop(now)

    def stop(self, now: int) -> None:
        """Before the last commit."""
        self._note_counters(self._port.nodes())
        self.run(now)

    def _note_counters(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if self.observer.counted(node):
                self.observer.changed.add(node.key)

    def _store(self, now: int) -> None:
        for key in self.observer.changed:
            node = self._port.node(key)
            if node is None:  # known from before, and silent since
                self._port.keep(KEY + key, self.observer.of(key).as_row(), now)
            else:
                self._port.keep(KEY + key, self.observer.row(node), now)
        self.observer.changed.clear()

    def nodes(self) -> Iterator[dict[str, Any]]:
        """What is known of each node, by name; good for use over many turns."""
        found = {node.key: node for node in self._port.nodes() if node.sources}
        silent = [key for key in self.observer.nodes if key not in found]
        for key in silent:
            group, _, edge = key.partition("/")
            found[key] = Node(group, edge)
        return (self.observer.report(found[key]) for key in sorted(found))

    def totals(self) -> dict[str, int]:
        """Of all nodes together; they count over restarts."""
        facts = [seen.facts for seen in self.observer.nodes.values()]
        return {
            "nodes": len(facts),
            "online": sum(node.born and node.client is not None for node in self._port.nodes()),
            "seq_gaps": sum(one.seq_gaps for one in facts),
            "rebirths_asked": sum(one.rebirths_asked for one in facts),
            "rebirths_answered": sum(one.rebirths_answered for one in facts),
        }

    def values(self, key: str, after: int, now: int) -> dict[str, Any]:
        """What a node said since message ``after``: type, device and payload of each, in its order.

        ``fresh``: some are missing, or it is the first time that anybody asks; then they are its births in force, and
        what was said since these is not known. Raises BridgeError.
        """
        node = self._port.node(key)
        if node is None:
            raise BridgeError(f"{key} was never heard of: forebay sparkplug nodes lists the nodes")
        self._looked_at[key] = node, now + LOOKING_MS
        if node.tap is None:
            node.tap = Tap()
        said = node.tap.after(after) if after else None
        fresh = said is None
        if said is None:
            node.tap.clear()
            node.tap.number += 1  # a number of its own, so that the next question is not the first one again
            births = [s for s in node.sources if s.kind in (NBIRTH, DBIRTH) and s.births and s.births[-1].payload]
            births.sort(key=lambda source: source.kind)
            said = [(source.kind, source.device, source.births[-1].payload) for source in births]
        return {
            "fresh": fresh,
            "number": node.tap.number,
            "said": [[TYPES[kind], device, base64.b64encode(data).decode()] for kind, device, data in said],
        }

    def rebirth(self, key: str, now: int) -> None:
        """Ask a node now, budget or not: somebody wants it. Raises BridgeError."""
        node = self._port.node(key)
        if node is None:
            raise BridgeError(f"{key} was never heard of: forebay sparkplug nodes lists the nodes")
        if not can_rebirth(node):
            raise BridgeError(f"{key} has no Node Control/Rebirth in its birth, so it would not answer")
        if not self._asking.ask(key, now):
            raise BridgeError(f"{key} is not connected, or listens to no command")
        self.run(now)

    def write(self, key: str, name: object, datatype: object, value: object, now: int) -> None:
        """Write a value to a metric of a node, as its profile says. Raises BridgeError."""
        node = self._port.node(key)
        if node is None:
            raise BridgeError(f"{key} was never heard of: forebay sparkplug nodes lists the nodes")
        topic = f"spBv1.0/{node.group}/NCMD/{node.edge}"
        try:
            payload = write(node, name, datatype, value, self._port.utc_ms(now))
        except WriteError as e:
            raise BridgeError(str(e)) from e
        if not self._port.listens(node, topic):
            raise BridgeError(f"{key} is not connected, or listens to no command")
        self._port.publish(topic, payload, 0, False, now)
        self.observer.mark(node)
