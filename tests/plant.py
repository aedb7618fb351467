"""A Sparkplug node, a collector and the gateway between them, in memory."""

from typing import Any

from gateway.core.nodes import Node
from tests.conformance.client import Client, Got
from tests.core_rig import broker, connect, core_of
from tests.spb_bytes import nbirth, ndeath

TOPIC = "spBv1.0/g/{}/e"
T = 1_700_000_000_000


class Plant:
    """A broker with a collector that is there, and a node ``e`` of group ``g``."""

    def __init__(self, will_qos: int = 1, **limits: Any) -> None:
        self.broker = broker(**limits)
        self.collector = connect(self.broker, "collector")
        for kind in ("NBIRTH", "NDATA", "NDEATH"):
            self.collector.subscribe(TOPIC.format(kind), qos=1)
        self.will_qos = will_qos
        self.edge = self.come(0)

    def come(self, bd_seq: int, clean: bool = True, name: str = "edge") -> Client:
        will = (TOPIC.format("NDEATH"), ndeath(bd_seq), self.will_qos, False)
        self.edge = connect(self.broker, name, version=4, clean=clean, will=will)
        return self.edge

    def say(self, kind: str, body: bytes, qos: int = 0, client: Client | None = None) -> Got:
        """Publish, and what the collector gets of it."""
        (client or self.edge).put(TOPIC.format(kind), body, qos)
        return self.collector.take(payload=body, qos=1)

    def quiet(self, kind: str, body: bytes, qos: int = 1) -> None:
        """Publish what the collector is not to get."""
        self.edge.put(TOPIC.format(kind), body, qos)
        self.collector.expect_nothing()

    def born(self, bd_seq: int = 0, time: int = T) -> None:
        assert late(self.say("NBIRTH", nbirth(bd_seq, 0, time))) == "0"
        self.events()

    @property
    def node(self) -> Node:
        return core_of(self.broker).nodes.by_key["g/e"]

    def events(self) -> list[tuple[int, int, int]]:
        return [(e.kind, e.a, e.b) for e in self.broker.router.bridge.take_events()]


def envelope(got: Got) -> dict[str, str]:
    return dict(got.props["user_property"])


def late(got: Got) -> str:
    return envelope(got)["forebay-late"]
