"""Three nats-servers and gateways before them under load, while any of them is killed: nothing acknowledged is lost,
the order stays, what comes twice was on its way. And an application that changes gateways goes on where it was.

FOREBAY_ENGINE_S is how long servers are killed (6 s), FOREBAY_ENGINE_MOVES how often the application moves (4 times; 20
in the long form), FOREBAY_SEED what is random.
"""

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self, final

import pytest

from gateway.cli.control import ask
from tests import wire_format as mqtt
from tests.engines import nats_binary, nats_cluster, nats_settings
from tests.harness import Broker
from tests.system.flow import BROKEN, Sink, Source
from tests.wire import Wire

SECONDS = float(os.environ.get("FOREBAY_ENGINE_S", "6"))
MOVES = int(os.environ.get("FOREBAY_ENGINE_MOVES", "4"))
SEED = int(os.environ.get("FOREBAY_SEED", str(time.time_ns() % 100_000)))
RATE: Final = 300
PATIENCE_S: Final = 90.0
TOPIC: Final = "line/7/data"
MOVE_S_MAX: Final = 5.0  # measured in the long form alone, on a machine that has nothing else to do
MOVES_LONG: Final = 20


@final
class Cluster:
    """The servers, and ``count`` gateways that have them as their engine."""

    def __init__(self, folder: Path, count: int) -> None:
        self.servers = nats_cluster(folder)
        for server in self.servers:
            server.start()
        settings = nats_settings(self.servers)
        self.gateways = [Broker(folder / f"gateway{n}", settings) for n in range(count)]
        for gateway in self.gateways:
            gateway.start()
        for gateway in self.gateways:
            self.up(gateway)

    def up(self, gateway: Broker) -> None:
        until(lambda: state(gateway) == "up", gateway)

    def close(self) -> None:
        for one in [*self.gateways, *self.servers]:
            one.kill9()


def state(gateway: Broker) -> str:
    try:
        return str(ask(gateway.data_dir / "control.sock", {"cmd": "status"})["engine"]["state"])
    except Exception as e:
        return str(e)


def until(true: Callable[[], object], gateway: Broker) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, f"seed {SEED}\n{gateway.log()[-3000:]}"
        time.sleep(0.05)


@contextlib.contextmanager
def cluster(folder: Path, gateways: int) -> Iterator[Cluster]:
    _, why = nats_binary()
    if why:
        pytest.skip(why)
    made = Cluster(folder, gateways)
    try:
        yield made
    finally:
        made.close()


def firsts(numbers: list[int]) -> list[int]:
    """Each number once, where it came first."""
    return list(dict.fromkeys(numbers))


@pytest.mark.timeout(300 + 3 * SECONDS)
def test_killed_servers_and_gateways_cost_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with cluster(tmp_path, 1) as site:
        gateway, kills = site.gateways[0], 0
        with Sink("127.0.0.1", gateway.port, TOPIC) as sink, Source(gateway.port, TOPIC, RATE) as source:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                time.sleep(chance.uniform(0.5, 1.5))
                victim = chance.choice([gateway, *site.servers])
                victim.kill9()
                time.sleep(chance.uniform(0.0, 1.0))
                victim.start()
                kills += victim is gateway
            count = source.finish(PATIENCE_S)
            until(lambda: set(sink.numbers) >= set(range(count)), gateway)
            came = list(sink.numbers)
    assert firsts(came) == list(range(count)), f"seed {SEED}"
    # what the source sent again, and what the gateway had in hand: for the application, and for the engine
    assert len(came) - count <= source.repeated + kills * (1000 + 500), f"seed {SEED}"


@final
class Nomad(threading.Thread):
    """An application that reads at one gateway until it is told to go to another; ``numbers`` is what came."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__(daemon=True)
        self.numbers: list[int] = []
        self.present: list[int] = []  # what each CONNACK said
        self.gaps: list[float] = []  # from the move to the first message
        self._ports, self._at = ports, 0
        self._moving, self._ended = threading.Event(), threading.Event()
        self._moved_at = 0.0

    def __enter__(self) -> Self:
        with self._connected() as wire:
            wire.subscribe(TOPIC, "line/+/other", qos=1)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join(PATIENCE_S)

    def move(self) -> None:
        """To the next gateway; returns once something has come there."""
        before = len(self.gaps)
        self._at = (self._at + 1) % len(self._ports)
        self._moved_at = time.monotonic()
        self._moving.set()
        end = time.monotonic() + PATIENCE_S
        while len(self.gaps) == before:
            assert time.monotonic() < end, "nothing came"
            time.sleep(0.005)

    def _connected(self) -> Wire:
        wire = Wire.connect(self._ports[self._at], "app-nomad", 4, clean=False, timeout=PATIENCE_S)
        assert wire.connack is not None
        self.present.append(wire.connack["present"])
        return wire

    def run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(*BROKEN), self._connected() as wire:
                wire.subscribe(TOPIC, qos=1)
                wire.subscribe("line/+/other", qos=1)
                self._moving.clear()
                self._read(wire)

    def _read(self, wire: Wire) -> None:
        while not self._ended.is_set() and not self._moving.is_set():
            try:
                packet = wire.read_packet(0.02) if not wire.waiting else wire.waiting.popleft()
            except TimeoutError:
                continue
            if packet is None:
                return
            wire.history.clear()
            if packet.type == mqtt.PUBLISH:
                self.numbers.append(int(packet["payload"]))
                if self._moved_at:
                    self.gaps.append(time.monotonic() - self._moved_at)
                    self._moved_at = 0.0
                wire.send(mqtt.ack(mqtt.PUBACK, packet["pid"]))


@pytest.mark.timeout(300 + 10 * MOVES)
def test_an_application_that_changes_gateways_goes_on_where_it_was(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with cluster(tmp_path, 2) as site:
        with Nomad([gateway.port for gateway in site.gateways]) as nomad:
            with Source(site.gateways[0].port, TOPIC, RATE) as source:
                for _ in range(MOVES):
                    time.sleep(chance.uniform(0.2, 0.8))
                    nomad.move()
                count = source.finish(PATIENCE_S)
                until(lambda: set(nomad.numbers) >= set(range(count)), site.gateways[0])
            came, gaps = list(nomad.numbers), nomad.gaps
    assert firsts(came) == list(range(count)), f"seed {SEED}"
    assert nomad.present[:3] == [0, 1, 0], nomad.present
    assert len(gaps) == MOVES
    print("gaps after a move", [round(gap, 2) for gap in gaps])
    assert MOVES < MOVES_LONG or max(gaps) < MOVE_S_MAX, gaps
    assert len(came) - count <= MOVES * 1000, f"seed {SEED}"
