"""``forebay sparkplug republish`` between two gateways: the destination is away, both are killed, all values arrive."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.cli.control import ask
from gateway.client import Client, Delivery, Subscription
from sparkplug.check.checker import Checker
from sparkplug.check.verdicts import Outcome
from sparkplug.payload import decode
from tests.harness import Broker
from tests.sparkplug_relay import Relay

COUNT = 60
LIVE_S = 4  # longer than a busy machine takes to hand a value on
DEVICES = [f"Plant:node-{node}:device-{device}" for node in (1, 2) for device in (1, 2)]
CLIENT = "forebay-republish-Out-edge"


class Collector:
    """A kept session at the destination: values of Counter by device, and the last type of message of each."""

    def __init__(self, port: int) -> None:
        self.names: dict[int, str] = {}
        self.counts: dict[str, list[tuple[int, int, bool]]] = {name: [] for name in DEVICES}
        self.last: dict[str, str] = {}
        self.link = Client("127.0.0.1", port, client_id="col", clean=False, expiry_s=600, deliver=self.deliver)

    def deliver(self, one: Delivery) -> None:
        self._count(one.topic, one.payload)
        one.ack()

    def _count(self, topic: str, payload: bytes) -> None:
        _, _, type, _, *device = topic.split("/")
        if device and type != "DCMD":
            self.last[device[0]] = type
            for one in decode(payload).metrics:
                if type == "DBIRTH":
                    self.names[one.alias or 0] = one.name or ""
                elif type == "DDATA" and self.names[one.alias or 0] == "Counter":
                    assert isinstance(one.value, int) and one.timestamp is not None
                    self.counts[device[0]].append((one.value, one.timestamp, one.is_historical))

    async def open(self) -> None:
        await self.link.reopen(60)
        await self.link.subscribe([Subscription("spBv1.0/Out/#")])


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    with Broker(tmp_path / "here") as here, Broker(tmp_path / "there") as there:
        yield here, there


async def until(true: Callable[[], bool], what: str) -> None:
    for _ in range(1200):
        if true():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"waited for {what}")


def command(*arguments: object) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "gateway", "sparkplug", *map(str, arguments), "--json"]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def subscribed(broker: Broker) -> bool:
    rows = ask(broker.data_dir / "control.sock", {"cmd": "sessions"})
    return any(row["client_id"] == CLIENT and row["subscriptions"] for row in rows)


@pytest.mark.timeout(400)
async def test_everything_arrives_once_the_destination_is_back(brokers: tuple[Broker, Broker], tmp_path: Path) -> None:
    here, there = brokers
    checker = Checker(grace_ms=60_000)
    collector = Collector(there.port)
    await collector.open()
    async with Relay("there", there.port, checker.see) as relay:
        arguments = ("Out/edge", "--to", "127.0.0.1", "--to-port", relay.port, "--port", here.port, "--live", LIVE_S)
        republisher = command("republish", *arguments, "--state", tmp_path / "state.json")
        try:
            await until(lambda: subscribed(here), "the session at the sources")
            nodes = command(
                "simulate", "--nodes", 2, "--devices", 2, "--metrics", 2, "--rate", 60, "--count", COUNT,
                "--group", "Plant", "--port", here.port,
            )  # fmt: skip
            await until(lambda: all(len(seen) > 5 for seen in collector.counts.values()), "live values")
            assert not any(historical for seen in collector.counts.values() for _, _, historical in seen[:5])
            there.kill9()
            republisher.kill()
            republisher.communicate()
            said = json.loads((await asyncio.to_thread(nodes.communicate, timeout=120))[0])
            assert said["DDATA"] == COUNT * len(DEVICES)
            await asyncio.sleep(LIVE_S + 0.5)  # what waits is history by then
            republisher = command("republish", *arguments, "--state", tmp_path / "state.json")
            there.start()
            await collector.open()
            await until(
                lambda: all(collector.last.get(name) == "DDEATH" for name in DEVICES), "the deaths of the sources"
            )
        finally:
            republisher.send_signal(signal.SIGTERM)
            out, err = republisher.communicate(timeout=60)
        assert republisher.returncode == 0, err
        summary = json.loads(out)
    await collector.link.close()
    assert (summary["refused"], summary["waiting"]) == (0, 0)
    for name, seen in collector.counts.items():
        assert {value for value, _, _ in seen} == set(range(1, COUNT + 1)), name
        assert len({(value, at) for value, at, _ in seen}) == COUNT, "a value has two times"
        assert all(historical for value, _, historical in seen if value == COUNT)
    failed = [one for one in checker.findings() if one.outcome is Outcome.FAIL]
    assert failed == []
