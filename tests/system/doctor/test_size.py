"""The model of ``forebay size`` against a real broker: bytes on disk, bytes written, RAM. No times."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.control import ask
from gateway.doctor.size import DRAINED, FRAME, PAGE, STAMP_PAGES, Load, pages_of, ram_bytes, row_bytes, written_bytes
from tests import wire_format as mqtt
from tests.harness import Broker
from tests.system.doctor.drivers import wait_until
from tests.wire import Wire

TOPIC = "t/line1/data"
NEAR = 0.2
CLIENTS = 300


def store(broker: Broker) -> dict[str, Any]:
    found: dict[str, Any] = ask(broker.data_dir / "control.sock", {"cmd": "status"})["store"]
    return found


def settled(broker: Broker) -> dict[str, Any]:
    """Once the gauges have been read after the last commit."""
    time.sleep(1.3)
    return store(broker)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data", {"sys_interval": 0}) as started:
        with Wire.connect(started.port, "s", clean=False) as wire:
            wire.subscribe("t/#", qos=1)
        yield started


@pytest.mark.parametrize(("together", "payload", "groups"), [(1, 64, 1000), (1, 1000, 900), (20, 200, 500)])
def test_disk_and_bytes_written_while_the_collector_is_away(
    broker: Broker, together: int, payload: int, groups: int
) -> None:
    before = settled(broker)
    with Wire.connect(broker.port, "p") as publisher:
        pid = 0
        for _ in range(groups):
            data = b""
            for _ in range(together):
                pid = pid % 60_000 + 1
                data += mqtt.publish(TOPIC, b"x" * payload, 1, False, False, pid, 4)
            publisher.send(data)
            for _ in range(together):
                publisher.expect(mqtt.PUBACK)
    after = settled(broker)
    commits = after["commits"] - before["commits"]
    load = Load(rate=1, payload=payload, topic=len(TOPIC))
    leaf, pages = pages_of(row_bytes(load, together * groups / commits))
    assert after["used_bytes"] - before["used_bytes"] == pytest.approx(commits * (leaf + pages * PAGE), rel=NEAR)
    wanted = commits * written_bytes(leaf, pages)
    assert after["bytes_written"] - before["bytes_written"] == pytest.approx(wanted, rel=NEAR)
    drained = drain(broker, together * groups) - before["bytes_written"]
    assert drained == pytest.approx(wanted + commits * DRAINED * (leaf + pages * PAGE), rel=NEAR)


def drain(broker: Broker, count: int) -> int:
    """The collector takes all; the bytes written when that is over."""
    with Wire.connect(broker.port, "s", clean=False) as collector:
        for _ in range(count):
            packet = collector.wait_for(mqtt.PUBLISH)
            collector.send(mqtt.ack(mqtt.PUBACK, packet["pid"], 4))
    wait_until(lambda: not store(broker)["segments"], "all segments are gone")
    time.sleep(2)
    return int(settled(broker)["bytes_written"])


def test_nothing_is_written_for_a_collector_that_answers_at_once(broker: Broker) -> None:
    broker.settings["store.commit_window_ms"] = 1000  # at once, as far as a busy machine goes
    broker.restart()
    stop = threading.Event()
    with Wire.connect(broker.port, "s", clean=False) as collector, Wire.connect(broker.port, "p") as publisher:

        def answer() -> None:
            while not stop.is_set():
                try:
                    packet = collector.read_packet(0.1)
                except TimeoutError:
                    continue
                if packet is not None and packet.type == mqtt.PUBLISH:
                    collector.send(mqtt.ack(mqtt.PUBACK, packet["pid"], 4))

        thread = threading.Thread(target=answer)
        thread.start()
        before = settled(broker)
        for pid in range(1, 401):
            publisher.send(mqtt.publish(TOPIC, b"x" * 64, 1, False, False, pid, 4))
            publisher.expect(mqtt.PUBACK)
        after = settled(broker)
        stop.set()
        thread.join()
    slow = 0.1 * 400 * written_bytes(*pages_of(row_bytes(Load(rate=1, payload=64, topic=len(TOPIC)), 1)))
    assert after["bytes_written"] - before["bytes_written"] < slow + STAMP_PAGES * FRAME


def test_ram(broker: Broker) -> None:
    load = Load(rate=1000, payload=200, topic=len(TOPIC), connections=CLIENTS, outage_s=20)
    clients = [Wire.connect(broker.port, f"c{number}") for number in range(CLIENTS)]
    for number, client in enumerate(clients):
        client.subscribe(f"cmd/{number}")
    publisher = clients[0]
    for _ in range(200):
        publisher.send(b"".join(mqtt.publish(TOPIC, b"x" * 200, 1, False, False, pid, 4) for pid in range(1, 101)))
        for _ in range(100):
            publisher.expect(mqtt.PUBACK)
    assert broker.rss_bytes() == pytest.approx(ram_bytes(load, 100), rel=NEAR)
    for client in clients:
        client.close()
