"""Sparkplug libraries of others on one side, on the other collectors that are away while the gateway is killed.

A collector of ours is there all the time. Whatever it has seen with an ingest id the others must get too, in the same
order, births first: paho and mqtt.js, each as MQTT 5.0 and 3.1.1 client.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, final

import pytest

from gateway.cli.control import ask
from tests.drill.drill import Collecting
from tests.drill.record import digest, first, read
from tests.harness import Broker
from tests.system import drivers, peers
from tests.system.test_probe import until

PLAN: Final[dict[str, Any]] = {
    "birth": {"count": ["Int64", 0], "state": ["String", "on"]},
    "data": {"count": ["Int64", 1], "state": ["String", "off"]},
    "pause_s": 0.02,
}
OWN_CLIENTS: Final = ("wrapper",)  # its device is a client of its own, so there is no order between node and device
KINDS: Final = [(kind, version) for kind in ("paho", "mqttjs") for version in (4, 5)]


@final
class Collector:
    """A client of others as a process; ``got`` is ingest id, topic and payload in hex of each message."""

    def __init__(self, kind: str, version: int, port: int) -> None:
        self.name, self.version = f"{kind}-{version}", version
        program = str(drivers.HERE / "clients" / f"{kind}_collector.{'mjs' if kind == 'mqttjs' else 'py'}")
        self._line = ["node" if kind == "mqttjs" else sys.executable, program, str(port), self.name, str(version)]
        self.got: list[tuple[int, str, str]] = []

    def start(self) -> None:
        self._ready = threading.Event()
        self.process = subprocess.Popen(self._line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._follow, args=(self.process,))
        self._thread.start()
        assert self._ready.wait(60), f"{self.name} is not connected"

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            words = line.split()
            if words[0] == "READY":
                self._ready.set()
            else:
                self.got.append((int(words[1]), words[2], words[3]))

    def stop(self) -> None:
        with self.process as process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data") as running:
        yield running


def speaking(broker: Broker) -> list[str]:
    """Nodes of which 20 messages of data have come."""
    rows = ask(broker.data_dir / "control.sock", {"cmd": "sparkplug_nodes"})
    return [row["node"] for row in rows if sum(row["qos"].get("NDATA", ())) >= 20]


def published(collectors: list[Collector], broker: Broker) -> None:
    """The peers say what they have to say; the gateway is killed in the middle of it."""
    for collector in collectors:
        collector.start()
        collector.stop()
    streams = [peers.start(peer, broker.port, PLAN | {"rounds": 100_000}) for peer in peers.PEERS]
    try:
        until(lambda: len(speaking(broker)) == len(streams), lambda: str(speaking(broker)))
        broker.kill9()
    finally:
        for process in streams:
            with process:
                process.kill()
    broker.start()
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(peers.run, peer, broker.port, PLAN | {"rounds": 20}) for peer in peers.PEERS]
    for run in runs:
        run.result()


def quiet(there: Collecting) -> None:
    """Nothing more has come for a second."""
    count, since = -1, time.monotonic()
    while time.monotonic() < since + 1:
        if there.count != count:
            count, since = there.count, time.monotonic()
        time.sleep(0.05)


def births_first(topics: list[str]) -> list[str]:
    """Data of a node or device that is not born."""
    born: set[str] = set()
    found = []
    for topic in topics:
        _, _, kind, who = topic.split("/", 3)
        if kind in ("NBIRTH", "DBIRTH"):
            born.add(who)
        elif kind in ("NDATA", "DDATA") and who not in born:
            found.append(topic)
        elif kind == "NDEATH" and who in OWN_CLIENTS:
            born.discard(who)
        elif kind == "NDEATH":
            born = {one for one in born if one.split("/")[0] != who}
        elif kind == "DDEATH":
            born.discard(who)
    return found


@pytest.mark.timeout(400)
def test_collectors_that_are_away_get_everything_in_order_births_first(broker: Broker, tmp_path: Path) -> None:
    for why in [*map(peers.missing, peers.PEERS), drivers.missing("mqttjs")]:
        if why:
            pytest.skip(why)
    collectors = [Collector(kind, version, broker.port) for kind, version in KINDS]
    there = Collecting("there", broker.port, tmp_path)
    with ExitStack() as stack:
        stack.callback(there.stop)
        there.ready()
        published(collectors, broker)
        quiet(there)
        broker.restart()
        quiet(there)
        seen = [(one.id, one.digest) for one in first(read(there.file))]
        for collector in collectors:
            collector.start()
            stack.callback(collector.stop)
        until(
            lambda: all(len(one.got) >= len(seen) for one in collectors),
            lambda: str([len(one.got) for one in collectors]),
        )
    topics = [topic for _, topic, _ in collectors[0].got]
    assert births_first(topics) == []
    for peer in peers.PEERS:
        kinds = {topic.split("/")[2] for topic in topics if topic.split("/")[3] == peer.node}
        assert kinds == {"NBIRTH", "DBIRTH", "NDATA", "DDATA", "DDEATH", "NDEATH"}, peer.node
        births = [topic for topic in topics if topic == f"spBv1.0/peers/NBIRTH/{peer.node}"]
        assert len(births) >= 2, f"{peer.node} was not there before and after the kill"
    for collector in collectors:
        assert [digest(topic, bytes.fromhex(payload)) for _, topic, payload in collector.got] == [
            one for _, one in seen
        ]
        ids = [id for id, _, _ in collector.got]
        assert ids == ([id for id, _ in seen] if collector.version == 5 else [0] * len(seen)), collector.name
        assert collector.version == 4 or ids == sorted(set(ids))
