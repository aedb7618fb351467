"""What a Raspberry Pi's settings write to its card, counted at a block device with a file system of its own.

1,000 messages of 200 bytes a second: nothing but the clock while the collector is there; while it is away no more than
four times the payload, its return counted in. ``forebay size`` says both within a fifth. No times: where the machine
is too slow for the rate, the model is asked for the rate that there was. FOREBAY_FLASH_S makes it longer.
"""

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import pytest

from gateway.boards import board
from gateway.cli.control import ask
from gateway.doctor.size import Load, size
from tests import wire_format as mqtt
from tests.harness import Broker
from tests.system.doctor.drivers import wait_until
from tests.system.loops import MIB, CountedDisk, counted_disk
from tests.wire import Wire

SECONDS = float(os.environ.get("FOREBAY_FLASH_S", "10"))
RATE = 1000
PAYLOAD = 200
TOPIC = "line/1/data"
BOARD = "pi-4"
NEAR = 0.2
ONLINE_BYTES_S = 20_000
AWAY_FACTOR = 4
LONG_S = 100


@final
class Publisher:
    """Publishes at QoS 1 at the rate, as long as PUBACKs come."""

    def __init__(self, port: int) -> None:
        self._wire = Wire.connect(port, "plc", timeout=60)
        self.count = 0
        self.seconds = 0.0

    def run(self, seconds: float) -> None:
        began, first, wanted = time.monotonic(), self.count, int(seconds * RATE)
        acked = threading.Thread(target=self._acks, args=(wanted,))
        acked.start()
        while self.count < first + wanted:
            due = first + min(int((time.monotonic() - began) * RATE) + 1, wanted)
            packets = [
                mqtt.publish(TOPIC, b"x" * PAYLOAD, 1, False, False, number % 60_000 + 1, 4)
                for number in range(self.count, due)
            ]
            self._wire.sock.sendall(b"".join(packets))
            self.count = due
            time.sleep(0.01)
        acked.join(120)
        assert not acked.is_alive(), "not all were acknowledged"
        self.seconds = time.monotonic() - began

    def _acks(self, wanted: int) -> None:
        left = wanted
        while left:
            packet = self._wire.read_packet(60)
            assert packet is not None and packet.type == mqtt.PUBACK
            left -= 1

    def close(self) -> None:
        self._wire.close()


def collect(port: int, taken: Any, stop: Any) -> None:
    """Take and acknowledge whatever comes, at once."""
    wire = Wire.connect(port, "historian", clean=False, timeout=60)
    while not stop.is_set():
        try:
            packet = wire.read_packet(0.2)
        except TimeoutError:
            continue
        if packet is None:
            return
        if packet.type == mqtt.PUBLISH:
            wire.send(mqtt.ack(mqtt.PUBACK, packet["pid"], 4))
            taken.value += 1
    wire.close()


@final
class Collector:
    """A process of its own: what publishes must not keep it from answering within the commit window."""

    def __init__(self, port: int) -> None:
        context = multiprocessing.get_context("fork")
        self._taken, self._stop = context.Value("q", 0), context.Event()
        self._process = context.Process(target=collect, args=(port, self._taken, self._stop))
        self._process.start()

    @property
    def taken(self) -> int:
        return int(self._taken.value)

    def close(self) -> None:
        self._stop.set()
        self._process.join(30)
        self._process.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CountedDisk]:
    with counted_disk(tmp_path / "card", int(160 * MIB + SECONDS * RATE * 400)) as made:
        yield made


@pytest.fixture
def broker(disk: CountedDisk, tmp_path: Path) -> Iterator[Broker]:
    made = Broker(disk.folder / "data", {"board": BOARD, "sys_interval": 0})
    made.log_file = tmp_path / "log"
    with made:
        with Wire.connect(made.port, "historian", clean=False) as wire:
            wire.subscribe("line/#", qos=1)
            wire.disconnect()
        yield made


def store(broker: Broker) -> dict[str, Any]:
    found: dict[str, Any] = ask(broker.data_dir / "control.sock", {"cmd": "status"})["store"]
    return found


def predicted(count: int, seconds: float) -> tuple[float, float]:
    """Bytes a message away, bytes a second online."""
    load = Load(rate=count / seconds, payload=PAYLOAD, topic=len(TOPIC), drain=5 * RATE)
    sized = size(load, board(BOARD))
    return sized.written_per_message, sized.written_s_online


def told(capsys: pytest.CaptureFixture[str], **figures: object) -> None:
    with capsys.disabled():
        if "FOREBAY_FLASH_S" in os.environ:
            print(json.dumps(figures))


@pytest.mark.timeout(600 + 10 * SECONDS)
def test_away_no_more_than_four_times_the_payload(
    disk: CountedDisk, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    before, commits = disk.written(), store(broker)["commits"]
    publisher = Publisher(broker.port)
    publisher.run(SECONDS)
    publisher.close()
    commits = store(broker)["commits"] - commits
    filled = disk.written() - before
    collector = Collector(broker.port)
    wait_until(lambda: collector.taken >= publisher.count, "all is drained", 300)
    collector.close()
    wait_until(lambda: not store(broker)["segments"], "all segments are gone", 60)
    time.sleep(3)  # what the store tidies when nobody writes
    written = disk.written() - before
    wanted, _ = predicted(publisher.count, publisher.seconds)
    told(
        capsys, device=disk.name, messages=publisher.count, seconds=round(publisher.seconds, 1), commits=commits,
        filled=filled, written=written, of_payload=round(written / publisher.count / PAYLOAD, 2),
        a_message=round(written / publisher.count), predicted=round(wanted), own=store(broker)["bytes_written"],
    )  # fmt: skip
    assert written <= AWAY_FACTOR * publisher.count * PAYLOAD
    if SECONDS >= LONG_S:  # else how long the last commits took is much of it
        assert written / publisher.count == pytest.approx(wanted, rel=NEAR)


@pytest.mark.timeout(600 + 10 * SECONDS)
def test_online_hardly_anything(disk: CountedDisk, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    collector = Collector(broker.port)
    publisher = Publisher(broker.port)
    publisher.run(8)  # blocks of packet ids become as long as the rate asks for
    came, before, commits = publisher.count, disk.written(), store(broker)["commits"]
    publisher.run(SECONDS)
    wait_until(lambda: collector.taken >= publisher.count, "all has come", 60)
    commits = store(broker)["commits"] - commits
    written = disk.written() - before
    _, wanted = predicted(publisher.count - came, publisher.seconds)
    told(
        capsys, device=disk.name, seconds=round(publisher.seconds, 1), commits=commits, written=written,
        a_second=round(written / publisher.seconds), predicted=round(wanted),
    )  # fmt: skip
    publisher.close()
    collector.close()
    assert written / publisher.seconds <= ONLINE_BYTES_S
    if SECONDS >= LONG_S:  # else one commit more or less is all of it
        assert written / publisher.seconds == pytest.approx(wanted, rel=NEAR)
