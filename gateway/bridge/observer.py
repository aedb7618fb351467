"""What each Sparkplug node really does, from its traffic; kept over restarts.

The core counts (``core/nodes.py``) and tells what happens; here that becomes facts: who it is, how it connects, what it
may have lost and when. Times are UTC ms.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, final

from gateway.bridge.facts import LossWindow, NodeFacts
from gateway.core.model import Client
from gateway.core.nodes import BORN, COMMAND, LEFT, NBIRTH, TYPES, Event, Node, Source
from sparkplug.model import PayloadError
from sparkplug.payload import decode
from sparkplug.scan import Scan

KEY: Final = "node "  # a row is "node GROUP/EDGE"
RESTART_MARGIN_MS: Final = 1000  # what came right before the last commit may have been on its way
_CLIENT_IDS_MAX: Final = 100
_PROPERTIES: Final = {
    "Properties/Hardware Make": "make",
    "Properties/Hardware Model": "model",
    "Properties/FW": "firmware",
    "Properties/Firmware Version": "firmware",
}

Counts = dict[str, dict[str, list[int]]]  # device ("" = the node) -> message type -> how many at QoS 0, 1, 2


@final
class Observed:
    """One node. ``away``: since when nothing of it is kept, and why; None while it is there or left on purpose.

    ``gap``: from when to when, and how many are missing that may still come.
    """

    def __init__(self, key: str) -> None:
        self.facts = NodeFacts(key)
        self.client: Client | None = None
        self.connected = False
        self.away: tuple[int, str] | None = None
        self.gap: tuple[int, int, int] | None = None
        self.client_ids: set[str] = set()
        # what was counted before this start
        self.counts: Counts = {}
        self.resends = 0
        self.historical = 0
        self.total = -1  # messages when it was stored last

    def as_row(self) -> bytes:
        row = {
            "facts": self.facts.as_dict(), "counts": self.counts, "connected": self.connected, "away": self.away,
            "gap": self.gap,
        }  # fmt: skip
        return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


@final
class Observer:
    """The facts of all nodes, by "group/edge node"."""

    def __init__(self) -> None:
        self.nodes: dict[str, Observed] = {}
        self.changed: set[str] = set()
        self._scan = Scan()

    def load(self, rows: Iterable[tuple[str, bytes]], alive_ms: int) -> list[str]:
        """Go on from the rows of before; a line for each that makes no sense.

        ``alive_ms``: what came up to then is on disk. Of nodes that were there, all since may be lost.
        """
        bad = []
        for key, data in rows:
            if not key.startswith(KEY):
                continue
            found = Observed(key[len(KEY) :])
            try:
                row = json.loads(data)
                found.facts = NodeFacts.from_dict(row["facts"])
                found.away = None if row["away"] is None else (int(row["away"][0]), str(row["away"][1]))
                if row.get("gap") is not None:  # nothing fills it any more
                    start, end, missing = (int(each) for each in row["gap"])
                    _lost_in(found.facts, start, end, missing)
                    self.changed.add(found.facts.node)
                if row["connected"] and alive_ms:
                    found.away = (max(0, alive_ms - RESTART_MARGIN_MS), "restart")
                    self.changed.add(found.facts.node)
                counts = {device: dict(types) for device, types in row["counts"].items()}
            except (ValueError, TypeError, KeyError, AttributeError):
                bad.append(f"what was known of Sparkplug node {key[len(KEY) :]} makes no sense: left out")
                continue
            found.counts = counts
            found.resends, found.historical = found.facts.resends, found.facts.historical
            if found.facts.client_id:
                found.client_ids.add(found.facts.client_id)
            self.nodes[found.facts.node] = found
        return bad

    def of(self, key: str) -> Observed:
        found = self.nodes.get(key)
        if found is None:
            found = self.nodes[key] = Observed(key)
        return found

    def forget(self, key: str) -> None:
        """Its room was needed."""
        self.nodes.pop(key, None)
        self.changed.discard(key)

    def event(self, event: Event) -> None:
        """Something happened to a node."""
        if event.kind == BORN:
            self._born(event)
        elif event.kind == LEFT:
            self._left(event)

    def _born(self, event: Event) -> None:
        seen = self.of(event.node.key)
        facts = seen.facts
        fresh = event.client is not None and event.client is not seen.client
        if event.client is not None and fresh:
            if seen.client is not None and seen.away is None:  # the old link is half open: nothing came on it since
                seen.away = (event.heard or event.at, "connection")
            self._connected(seen, event.node, event.client, event.b)
        seen.connected = True
        if seen.away is not None:
            start, why = seen.away
            self.refresh(event.node)
            if _speaks_at_0(facts):
                facts.lost(LossWindow(start, event.at, why))
            seen.away = None
        if facts.rebirths_answered < facts.rebirths_asked:
            facts.rebirths_answered = facts.rebirths_asked
        if event.source is not None and event.source.births:
            _read_properties(facts, event.source.births[-1].payload)
        if fresh:
            self.mark(event.node)
        self.changed.add(event.node.key)

    def mark(self, node: Node) -> None:
        """From here on its QoS may be another."""
        self.refresh(node).facts.mark()

    def _connected(self, seen: Observed, node: Node, client: Client, bd_seq: int) -> None:
        facts = seen.facts
        seen.client = client
        facts.connects += 1
        connect = client.connect
        if connect is None:
            return
        facts.client_id = client.session.client_id if client.session is not None else connect.client_id
        if len(seen.client_ids) < _CLIENT_IDS_MAX:
            seen.client_ids.add(facts.client_id)
        facts.client_ids = max(facts.client_ids, len(seen.client_ids))
        facts.mqtt_version = connect.version
        facts.keep_alive_s = connect.keep_alive
        expires = connect.properties is None or connect.properties.session_expiry_interval <= 0
        facts.clean = connect.clean_start and (connect.version < 5 or expires)
        facts.will_qos = None
        will = connect.will
        if will is not None and will.topic.decode() == f"spBv1.0/{node.group}/NDEATH/{node.edge}":
            facts.will_qos = will.qos
            if self._scan.read(will.payload, True) and self._scan.bd_seq == bd_seq and bd_seq >= 0:
                facts.bdseq_match += 1
            else:
                facts.bdseq_differ += 1

    def _left(self, event: Event) -> None:
        seen = self.of(event.node.key)
        seen.connected = False
        seen.client = None
        if event.a == 0:
            seen.away = (event.heard or event.at, "connection")
        self.changed.add(event.node.key)

    def gap(self, node: Node, span: tuple[int, int, int] | None) -> None:
        """A gap that may still be filled, and (None) was; it is on disk, since a crash would leave it open."""
        seen = self.of(node.key)
        if (seen.gap is None) is not (span is None):  # one that grows is not written again and again
            self.changed.add(node.key)
        seen.gap = span

    def hole(self, node: Node, from_ms: int, to_ms: int, missing: int) -> None:
        """A gap in the sequence stayed open: ``missing`` messages, or more by a multiple of 256."""
        _lost_in(self.of(node.key).facts, from_ms, to_ms, missing)
        self.gap(node, None)
        self.changed.add(node.key)

    def asked(self, key: str) -> None:
        """The node was asked for a rebirth."""
        self.of(key).facts.rebirths_asked += 1
        self.changed.add(key)

    def refresh(self, node: Node) -> Observed:
        """The counters of the core go into the facts."""
        seen = self.of(node.key)
        facts = seen.facts
        facts.qos = {}
        for _, kind, counts in _counted(seen, node.sources):
            total = facts.qos.setdefault(kind, [0, 0, 0])
            for qos in (0, 1, 2):
                total[qos] += counts[qos]
        facts.resends = seen.resends + sum(source.resent for source in node.sources)
        facts.historical = seen.historical + sum(source.historical for source in node.sources)
        return seen

    def row(self, node: Node) -> bytes:
        """What is to be stored of a node, as of now."""
        seen = self.refresh(node)
        stored = Observed(node.key)
        stored.facts, stored.connected, stored.away, stored.gap = seen.facts, seen.connected, seen.away, seen.gap
        for device, kind, counts in _counted(seen, node.sources):
            stored.counts.setdefault(device, {})[kind] = counts
        seen.total = _total(node)
        return stored.as_row()

    def counted(self, node: Node) -> bool:
        """Whether messages came since the node was stored last."""
        return self.of(node.key).total != _total(node)

    def report(self, node: Node) -> dict[str, Any]:
        """One node, for people and programs."""
        seen = self.refresh(node)
        devices: Counts = {}
        for device, kind, counts in _counted(seen, node.sources):
            if device:
                devices.setdefault(device, {})[kind] = counts
        away = None if seen.away is None else {"from_ms": seen.away[0], "why": seen.away[1]}
        return {
            **seen.facts.as_dict(),
            "connected": node.client is not None,
            "born": node.born,
            "bd_seq": node.bd_seq if node.bd_seq >= 0 else None,
            "next_seq": node.expected if node.expected >= 0 else None,
            "missing": sorted(node.missing),
            "heard_ms": node.heard or None,
            "late": sum(source.late for source in node.sources),
            "repeated": sum(source.repeated for source in node.sources),
            "unreadable": sum(source.unreadable for source in node.sources),
            "rebirth": any(source.rebirth for source in node.sources if source.kind == NBIRTH),
            "loss_open": away,
            "devices": devices,
        }


def _lost_in(facts: NodeFacts, from_ms: int, to_ms: int, missing: int) -> None:
    facts.seq_gaps += 1
    facts.lost(LossWindow(from_ms, to_ms, "seq_gap", missing))


def _counted(seen: Observed, sources: Iterable[Source]) -> list[tuple[str, str, list[int]]]:
    """(device, message type, counts), those of before this start included."""
    found: Counts = {device: {kind: list(n) for kind, n in types.items()} for device, types in seen.counts.items()}
    for source in sources:
        if source.kind >= COMMAND or not source.qos0 + source.qos1 + source.qos2:
            continue
        counts = found.setdefault(source.device, {}).setdefault(TYPES[source.kind], [0, 0, 0])
        for qos, n in enumerate((source.qos0, source.qos1, source.qos2)):
            counts[qos] += n
    return [(device, kind, counts) for device, types in found.items() for kind, counts in types.items()]


def _speaks_at_0(facts: NodeFacts) -> bool:
    """Whether its data is lost with its link; as long as no data was seen the births tell."""
    qos = facts.data_qos()
    return facts.qos.get("NBIRTH", [0])[0] > 0 if qos is None else qos == 0


def _total(node: Node) -> int:
    return sum(source.qos0 + source.qos1 + source.qos2 for source in node.sources)


def _read_properties(facts: NodeFacts, payload: bytes) -> None:
    """Make, model and firmware, where the birth names them; others are not decoded."""
    if b"Properties/" not in payload:
        return
    try:
        metrics = decode(payload).metrics
    except PayloadError:
        return
    for metric in metrics:
        name = _PROPERTIES.get(metric.name or "")
        if name is not None and isinstance(metric.value, str):
            setattr(facts, name, metric.value)
