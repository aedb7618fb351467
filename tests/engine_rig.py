"""A broker in memory with an engine that the test is."""

from collections.abc import Mapping, Sequence

from gateway.core.engine import Arrived
from gateway.core.engine_port import EnginePort
from gateway.mqtt.packets import Publish
from tests.conformance.client import Client
from tests.core_rig import connect
from tests.memory import MemoryBroker


def with_engine(settings: Mapping[str, object] | None = None, up: bool = True) -> MemoryBroker:
    broker = MemoryBroker({"client_type": "app-*=application", **(settings or {})})
    port_of(broker).configure(True, ["plant/#"], broker.now)
    if up:
        come_up(broker)
    broker.pump()
    return broker


def come_up(broker: MemoryBroker, window: int = 1000, largest: int = 0) -> None:
    port_of(broker).attach(None, "engine", window, largest, broker.now)
    broker.pump()


def port_of(broker: MemoryBroker) -> EnginePort:
    return broker.router.engine


def taken(broker: MemoryBroker) -> list[Publish]:
    broker.pump()
    return port_of(broker).take()


def keep(broker: MemoryBroker, packets: Sequence[Publish]) -> None:
    port_of(broker).kept([p.packet_id for p in packets if p.packet_id], broker.now)
    broker.pump()


def application(broker: MemoryBroker, name: str = "app-1", qos: int = 1, filter: str = "plant/#") -> Client:
    client = connect(broker, name)
    client.subscribe(filter, qos=qos)
    return client


def bring(broker: MemoryBroker, *positions: int, name: str = "app-1", topic: bytes = b"plant/x", qos: int = 1) -> None:
    arrived = [Arrived(position, topic, b"%d" % position, qos, False, b"", 0) for position in positions]
    port_of(broker).bring(name, arrived, broker.now)
    broker.pump()


def payloads(packets: Sequence[Publish]) -> list[bytes]:
    return [p.payload for p in packets]
