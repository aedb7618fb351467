"""``forebay sparkplug simulate`` against a running broker: what a conforming host sees of it."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.client import Client, Delivery, Subscription
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import decode, encode
from tests.command import Forebay
from tests.harness import Broker, free_port


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data") as running:
        yield running


class Watcher:
    """Everything under spBv1.0, in order."""

    def __init__(self, port: int) -> None:
        self.seen: list[tuple[str, Payload]] = []
        self.came = asyncio.Event()
        self.link = Client("127.0.0.1", port, deliver=self.deliver)

    def deliver(self, one: Delivery) -> None:
        if "/STATE/" not in one.topic:
            self.seen.append((one.topic.removeprefix("spBv1.0/Simulation/"), decode(one.payload)))
        self.came.set()
        one.ack()

    def topics(self) -> list[str]:
        return [topic for topic, _ in self.seen]

    async def until(self, topic: str, count: int = 1) -> None:
        async with asyncio.timeout(60):
            while self.topics().count(topic) < count:
                self.came.clear()
                await self.came.wait()


class Simulation:
    """The command as a process."""

    def __init__(self, port: int, *arguments: str) -> None:
        line = [sys.executable, "-m", "gateway", "sparkplug", "simulate", "--port", str(port), "--json", *arguments]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    async def end(self) -> dict[str, Any]:
        out, err = await asyncio.to_thread(self.process.communicate, timeout=60)
        assert self.process.returncode == 0, err
        found: dict[str, Any] = json.loads(out)
        return found


async def watching(port: int) -> Watcher:
    watcher = Watcher(port)
    await watcher.link.open()
    await watcher.link.subscribe([Subscription("spBv1.0/#")])
    return watcher


def values(payload: Payload) -> dict[str | int | None, object]:
    return {metric.name or metric.alias: metric.value for metric in payload.metrics}


async def test_births_data_and_deaths_in_their_order(broker: Broker) -> None:
    watcher = await watching(broker.port)
    simulation = Simulation(
        broker.port, "--nodes", "1", "--devices", "2", "--metrics", "6", "--rate", "50", "--count", "3"
    )
    await watcher.until("NDEATH/node-1", 2)
    said = await simulation.end()
    await watcher.link.close()
    assert watcher.topics() == [
        "NBIRTH/node-1",
        "DBIRTH/node-1/device-1",
        "DBIRTH/node-1/device-2",
        *["DDATA/node-1/device-1", "DDATA/node-1/device-2"] * 3,
        "DDEATH/node-1/device-1",
        "DDEATH/node-1/device-2",
        *["NDEATH/node-1"] * 2,
    ]
    assert [payload.seq for _, payload in watcher.seen] == [*range(11), None, None]
    birth, data = watcher.seen[1][1], watcher.seen[3][1]
    assert [metric.name for metric in birth.metrics][:2] == ["Counter", "Signals/Double 1"]
    assert len(data.metrics) == 6
    counter = birth.metrics[0].alias
    assert [values(payload)[counter] for topic, payload in watcher.seen if "DDATA/node-1/device-1" in topic] == [
        1,
        2,
        3,
    ]
    assert {name: said[name] for name in ("nodes", "devices", "metrics", "NBIRTH", "DBIRTH", "DDATA", "NDEATH")} == {
        "nodes": 1, "devices": 2, "metrics": 12, "NBIRTH": 1, "DBIRTH": 2, "DDATA": 6, "NDEATH": 1,
    }  # fmt: skip
    assert (said["rebirths"], said["lost"], said["refused"], said["waiting"]) == (0, 0, 0, 0)


async def test_commands_and_rebirth(broker: Broker) -> None:
    watcher = await watching(broker.port)
    simulation = Simulation(broker.port, "--devices", "1", "--metrics", "2", "--rate", "0.01")
    await watcher.until("DBIRTH/node-1/device-1")
    alias = watcher.seen[-1][1].metrics[1].alias
    command = encode(Payload(1, [Metric(None, alias, 1, DataType.Double, 99.5)]), with_datatypes=False)
    await watcher.link.send("spBv1.0/Simulation/DCMD/node-1/device-1", command, 1, False)
    await watcher.until("DDATA/node-1/device-1")
    assert values(watcher.seen[-1][1]) == {alias: 99.5}
    rebirth = encode(Payload(1, [Metric("Node Control/Rebirth", None, 1, DataType.Boolean, True)]))
    await watcher.link.send("spBv1.0/Simulation/NCMD/node-1", rebirth, 1, False)
    await watcher.until("DBIRTH/node-1/device-1", 2)
    assert values(watcher.seen[-1][1])["Signals/Double 1"] == 99.5
    simulation.process.send_signal(signal.SIGINT)
    said = await simulation.end()
    await watcher.until("NDEATH/node-1")
    await watcher.link.close()
    assert (said["NBIRTH"], said["rebirths"], said["commands"], said["DDEATH"]) == (2, 1, 1, 1)


async def test_a_killed_node_leaves_its_will(broker: Broker) -> None:
    watcher = await watching(broker.port)
    simulation = Simulation(broker.port, "--devices", "0", "--rate", "20")
    await watcher.until("NDATA/node-1", 2)
    simulation.process.kill()
    simulation.process.communicate()
    await watcher.until("NDEATH/node-1")
    await watcher.link.close()
    assert watcher.topics().count("NDEATH/node-1") == 1
    births = [payload for topic, payload in watcher.seen if topic == "NBIRTH/node-1"]
    assert watcher.seen[-1][1].metrics[0].value == births[0].metrics[0].value


async def test_what_changes_while_the_broker_is_away_comes_afterwards(broker: Broker) -> None:
    watcher = await watching(broker.port)
    simulation = Simulation(broker.port, "--devices", "0", "--metrics", "1", "--rate", "20", "--count", "30")
    await watcher.until("NDATA/node-1", 3)
    broker.restart()
    await watcher.link.reopen(20)
    await watcher.link.subscribe([Subscription("spBv1.0/#")])
    said = await simulation.end()
    await watcher.link.close()
    assert (said["lost"], said["sessions"], said["NBIRTH"], said["waiting"], said["dropped"]) == (1, 2, 2, 0, 0)


async def test_waiting_for_the_primary_host(broker: Broker) -> None:
    watcher = await watching(broker.port)
    simulation = Simulation(broker.port, "--devices", "0", "--primary-host", "plant", "--rate", "50", "--count", "2")
    state = json.dumps({"online": True, "timestamp": time.time_ns() // 1_000_000}).encode()
    # retained, so that it reaches the node whenever that has subscribed
    await watcher.link.send("spBv1.0/STATE/plant", state, 1, True)
    await watcher.until("NDEATH/node-1")
    await simulation.end()
    await watcher.link.close()
    assert watcher.topics()[0] == "NBIRTH/node-1"


def test_bad_options(forebay: Forebay) -> None:
    done = forebay("sparkplug", "simulate", "--group", "a/b")
    assert (done.code, done.err) == (2, "forebay: --group 'a/b' holds '/': expected text without + / #\n")
    assert forebay("sparkplug", "simulate", "--nodes", "0").code == 2
    done = forebay("sparkplug", "simulate", "--port", str(free_port()), "--retry", "0", "--json")
    assert done.code == 3
    assert "cannot connect" in done.err
    assert json.loads(done.out)["sessions"] == 0
