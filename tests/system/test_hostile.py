"""What a hostile or unlucky peer does to a running broker: its memory, its answers and the others stay as they are."""

import os
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.harness import Broker
from tests.wire import Wire

MB = 1_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data") as started:
        Wire.connect(started.port, "first").close()  # all of it is loaded
        yield started
        assert "defect" not in started.log()
        assert "Traceback" not in started.log()


def wait_until_below(broker: Broker, most: int) -> int:
    deadline = time.monotonic() + 30
    while broker.rss_bytes() > most and time.monotonic() < deadline:
        time.sleep(0.1)
    return broker.rss_bytes()


def test_long_topics_are_not_remembered(broker: Broker) -> None:
    before = broker.rss_bytes()
    with Wire.connect(broker.port, "long") as wire:
        for i in range(1500):
            wire.publish(f"{i}/" + "x" * 60_000)
        wire.ping()
    assert wait_until_below(broker, before + 20 * MB) < before + 20 * MB


@pytest.mark.parametrize("qos", [0, 1])
def test_more_retained_messages_than_a_queue_holds_all_come(broker: Broker, qos: int) -> None:
    count = 12_000
    with Wire.connect(broker.port, "source") as source:
        source.send(b"".join(mqtt.publish(f"r/{i}", b"x" * 300, 1, True, pid=i + 1) for i in range(count)))
        for _ in range(count):
            source.expect(mqtt.PUBACK)
    with Wire.connect(broker.port, "sub") as sub:
        sub.subscribe("r/#", qos=qos)
        time.sleep(0.3)  # as slow as it likes
        topics = set()
        for _ in range(count):
            packet = sub.wait_for(mqtt.PUBLISH)
            topics.add(packet["topic"])
            if qos:
                sub.puback(packet["pid"])
        assert len(topics) == count


def test_large_messages_leave_no_memory_behind(broker: Broker) -> None:
    before = broker.rss_bytes()
    slow = [Wire.connect(broker.port, f"slow{i}", clean=i % 2 == 0) for i in range(40)]
    for i, wire in enumerate(slow):
        wire.subscribe("big", qos=i // 2 % 2)
    with Wire.connect(broker.port, "source") as source:
        for _ in range(60):
            source.publish_done("big", os.urandom(MB), qos=1)
        assert broker.rss_bytes() < before + 400 * MB
    for wire in slow:
        wire.close()
    assert wait_until_below(broker, before + 40 * MB) < before + 40 * MB


@pytest.mark.parametrize("what", ["database", "directory"])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(tmp_path: Path, what: str) -> None:
    broker = Broker(tmp_path / "data").start()
    with Wire.connect(broker.port, "away", version=5, clean=False, props=[(mqtt.SESSION_EXPIRY, 1000)]) as away:
        away.subscribe("t", qos=1)
    with Wire.connect(broker.port, "source", version=5) as source:
        source.publish_done("t", b"kept")
        if what == "directory":
            shutil.rmtree(broker.data_dir)
        else:
            for file in broker.data_dir.glob("forebay.db*"):
                file.unlink()
        source.publish("t", b"not kept", qos=1)
        source.expect(mqtt.DISCONNECT, code=0x8B)
    assert broker.process is not None
    assert broker.process.wait(60) == 1
    assert "database gone" in broker.log()


def test_one_segment_is_a_whole_life(broker: Broker) -> None:
    with Wire.connect(broker.port, "sink", clean=False) as sink:
        sink.subscribe("whole", qos=2)
        want = []
        for version in (4, 5):
            for clean in (True, False):
                for qos in (0, 1, 2):
                    name = f"w{version}{clean}{qos}"
                    data = mqtt.connect(name, version, clean, will=mqtt.Will("whole", b"will"))
                    data += mqtt.subscribe([("x", 1)], 1, version)
                    data += mqtt.publish("whole", name.encode(), qos, pid=2 if qos else 0, version=version)
                    with Wire.open(broker.port, version) as wire:
                        wire.send(data + b"\xe0\0")
                        while wire.read_packet() is not None:
                            pass
                    want.append(name.encode())
        got = []
        for _ in want:
            packet = sink.wait_for(mqtt.PUBLISH)
            got.append(packet["payload"])
            if packet["qos"] == 1:
                sink.puback(packet["pid"])
            elif packet["qos"] == 2:
                sink.send(b"\x50\x02" + struct.pack("!H", packet["pid"]))
        assert got == want
