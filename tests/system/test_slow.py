"""Consumers that do not acknowledge, hardly read, or answer what nobody asked: whom they harm, on all three paths.

The healthy neighbour's deliveries are counted, not timed: it gets all, in order, while the other one misbehaves.
"""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.harness import Broker
from tests.wire import Wire

MB = 1_000_000
COUNT = 3000
SIZE = 10_000  # 30 MB in all
BATCH = 20
PATHS = ["direct", "device", "application"]
QUEUE = 8 * MB
ROOM = QUEUE + 14 * MB  # what waits, and what the allocator keeps of what has gone


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A fresh one each time: memory that another test has left free would hide what this one takes."""
    settings = {
        "client_type": "app-*=application",
        "mqtt.max_mqueue_bytes": QUEUE,
        "mqtt.max_waiting_bytes": 64 * MB,
        "durability": "os",
    }
    with Broker(tmp_path / "data", settings) as started:
        yield started
        assert "defect" not in started.log()
        assert "Traceback" not in started.log()


def consumer(broker: Broker, path: str, name: str, qos: int, *, narrow: bool = False) -> Wire:
    """A subscriber of ``t`` on this path; ``narrow``: its socket takes little."""
    persistent = path != "direct"
    sock = socket.socket()
    if narrow:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", broker.port))
    wire = Wire(sock, 5)
    props = [(mqtt.SESSION_EXPIRY, 600)] if persistent else []
    wire.send(mqtt.connect(f"{'app' if path == 'application' else 'dev'}-{name}", 5, not persistent, 0, None, props))
    wire.expect(mqtt.CONNACK, code=0)
    wire.subscribe(f"t/{path}/{name.partition('.')[0]}", qos=qos)
    return wire


def run(
    broker: Broker,
    path: str,
    topic: str,
    healthy: Wire,
    misbehave: Callable[[int], None],
    qos: int = 1,
    count: int = COUNT,
) -> int:
    """Publish all, and see each batch arrive at the healthy one; the most memory that the broker took."""
    most = 0
    with Wire.connect(broker.port, version=5) as publisher:
        for start in range(0, count, BATCH):
            for number in range(start, start + BATCH):
                publisher.publish(f"t/{path}/{topic}", str(number).encode().ljust(SIZE), qos)
            misbehave(start)
            for number in range(start, start + BATCH):
                packet = healthy.wait_for(mqtt.PUBLISH)
                assert int(packet["payload"]) == number
                healthy.settle(packet)
            if qos:
                for _ in range(BATCH):
                    publisher.wait_for(mqtt.PUBACK)
            most = max(most, broker.rss_bytes())
    return most


def end(broker: Broker, *wires: Wire) -> None:
    for wire in wires:
        if wire.sock.fileno() >= 0:
            wire.sock.close()


paths = pytest.mark.parametrize("path", PATHS)


@paths
def test_one_that_stops_to_acknowledge(broker: Broker, path: str) -> None:
    """It gets its window and no more; its queue is bounded; the publisher is answered."""
    before = broker.rss_bytes()
    healthy, silent = consumer(broker, path, "ack.good", 1), consumer(broker, path, "ack.bad", 1)
    got: list[int] = []

    def read(_: int) -> None:
        while True:
            try:
                packet = silent.read_packet(0.002)
            except TimeoutError:
                return
            assert packet is not None
            got.append(packet["pid"])

    most = run(broker, path, "ack", healthy, read)
    read(0)
    assert len(got) == len(set(got)) == 32, "its window"
    assert most < before + ROOM
    silent.ping()
    end(broker, healthy, silent)


@paths
@pytest.mark.parametrize("qos", [0, 1])
def test_one_that_reads_byte_by_byte(broker: Broker, path: str, qos: int) -> None:
    """What its socket does not take waits within the limits, or on disk, or is dropped and counted (QoS 0)."""
    before = broker.rss_bytes()
    name = f"slow{qos}"
    healthy, slow = consumer(broker, path, name + ".good", qos), consumer(broker, path, name + ".bad", qos, narrow=True)

    def one_byte(_: int) -> None:
        assert slow.sock.recv(1)

    most = run(broker, path, name, healthy, one_byte, qos)
    assert most < before + ROOM
    end(broker, healthy, slow)


def flood(kind: int) -> bytes:
    return b"".join(mqtt.ack(kind, pid, 5) for pid in range(30_000, 31_000))


@paths
@pytest.mark.parametrize("reads", [True, False], ids=["reading its answers", "reading nothing"])
def test_one_that_floods_acknowledgements_of_unknown_ids(broker: Broker, path: str, reads: bool) -> None:
    """Each is answered or ignored as the standard says; who does not read his answers is read no further."""
    before = broker.rss_bytes()
    name = f"flood{reads}"
    healthy = consumer(broker, path, name + ".good", 1)
    wild = consumer(broker, path, name + ".bad", 1, narrow=not reads)
    packets = b"".join(flood(kind) for kind in (mqtt.PUBACK, mqtt.PUBREC, mqtt.PUBREL, mqtt.PUBCOMP))
    wild.sock.setblocking(False)
    left = bytearray()

    def more(_: int) -> None:
        if not left:
            left.extend(packets)
        try:
            del left[: wild.sock.send(left[:16_384])]
        except BlockingIOError:
            pass
        if reads:
            try:
                while wild.sock.recv(1 << 20):
                    pass
            except BlockingIOError:
                pass

    most = run(broker, path, name, healthy, more, count=COUNT // 6)
    assert most < before + ROOM
    end(broker, healthy, wild)


def test_many_that_read_nothing_are_bounded_together(tmp_path: Path) -> None:
    """30 with 5 MB each would be 150 MB; together they have 40."""
    settings = {"mqtt.max_waiting_bytes": 40 * MB, "mqtt.max_inflight": 4}
    with Broker(tmp_path / "data", settings) as broker:
        slow = [consumer(broker, "direct", f"many.{n}", 1, narrow=True) for n in range(30)]
        healthy = consumer(broker, "direct", "many.good", 1)
        before = broker.rss_bytes()

        # each of the slow ones has a topic of its own beside: bytes that no other shares
        for n, wire in enumerate(slow):
            wire.subscribe(f"own/{n}", qos=1)
        with Wire.connect(broker.port, version=5) as publisher:
            for number in range(100):
                for n in range(len(slow)):
                    publisher.publish(f"own/{n}", bytes(50_000), 1)
                publisher.publish("t/direct/many", str(number).encode(), 1)
                packet = healthy.wait_for(mqtt.PUBLISH)
                assert int(packet["payload"]) == number
                healthy.settle(packet)
                for _ in range(len(slow) + 1):
                    publisher.wait_for(mqtt.PUBACK)
            assert broker.rss_bytes() < before + 70 * MB
        end(broker, healthy, *slow)
        assert "Traceback" not in broker.log()
