"""Uplinks that lead back to where they came from: what is published somewhere arrives everywhere, and rests then."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.cli.control import NoBrokerError, ask
from tests import wire_format as mqtt
from tests.harness import Broker, free_port
from tests.system.disks import until
from tests.wire import Wire
from tests.wire_format import Packet

COUNT = 20
NAMES = "abc"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def gateways(stack: ExitStack, folder: Path, links: dict[str, str], direction: str) -> dict[str, Broker]:
    """Gateways by name, each with an uplink to the one that ``links`` says, once all of them forward."""
    ports = {name: free_port() for name in NAMES[: len(set(links) | set(links.values()))]}
    made: dict[str, Broker] = {}
    for name, port in ports.items():
        settings = {}
        if name in links:
            row = {
                "name": "next",
                "addresses": [f"mqtt://127.0.0.1:{ports[links[name]]}"],
                "rules": [{"direction": direction, "filter": "x/#"}],
                "heartbeat": 1,
            }
            settings["uplink"] = json.dumps([row])
        made[name] = Broker(folder / name, settings, port=port)
        stack.callback(made[name].kill9)
        made[name].start(wait=False)
    for broker in made.values():
        broker.wait_ready()
    for name in links:
        until(lambda: forwards(made[name]), f"{name} forwards", 30)  # noqa: B023
    return made


def forwards(broker: Broker) -> bool:
    try:
        rows = ask(broker.data_dir / "control.sock", {"cmd": "uplinks"})
    except NoBrokerError:
        return False  # its socket comes a moment after its port
    return [row["state"] for row in rows] == ["forwarding"]


def arrivals(made: dict[str, Broker]) -> dict[str, Counter[bytes]]:
    """What a subscriber of each gateway gets of what is published at each, until all is there and no more comes."""
    subscribers = {name: Wire.connect(broker.port, "sub") for name, broker in made.items()}
    for wire in subscribers.values():
        wire.subscribe("x/#", qos=1)
    for name, broker in made.items():
        with Wire.connect(broker.port, "pub") as wire:
            for number in range(COUNT):
                wire.publish_done(f"x/{name}", f"{name}{number}".encode(), qos=1)
    found: dict[str, Counter[bytes]] = {}
    for name, wire in subscribers.items():
        found[name] = Counter()
        while len(found[name]) < COUNT * len(made):
            _count(wire, wire.wait_for(mqtt.PUBLISH), found[name])
        for packet in wire.until_quiet(1):
            _count(wire, packet, found[name])
        wire.close()
    return found


def _count(wire: Wire, packet: Packet, found: Counter[bytes]) -> None:
    if packet.type == mqtt.PUBLISH:
        found[packet["payload"]] += 1
        wire.ack(mqtt.PUBACK, packet["pid"])


def test_both_ways(stack: ExitStack, tmp_path: Path) -> None:
    made = gateways(stack, tmp_path, {"a": "b"}, "both")
    everything = Counter(f"{name}{number}".encode() for name in "ab" for number in range(COUNT))
    assert arrivals(made) == {"a": everything, "b": everything}


def test_a_ring_of_three(stack: ExitStack, tmp_path: Path) -> None:
    made = gateways(stack, tmp_path, {"a": "b", "b": "c", "c": "a"}, "out")
    everything = Counter(f"{name}{number}".encode() for name in "abc" for number in range(COUNT))
    assert arrivals(made) == {"a": everything, "b": everything, "c": everything}


def test_a_ring_of_three_both_ways_comes_to_rest(stack: ExitStack, tmp_path: Path) -> None:
    """There are two ways to each, so all come, and none more often than that."""
    made = gateways(stack, tmp_path, {"a": "b", "b": "c", "c": "a"}, "both")
    everything = {f"{name}{number}".encode() for name in "abc" for number in range(COUNT)}
    for found in arrivals(made).values():
        assert set(found) == everything
        assert max(found.values()) <= 2
