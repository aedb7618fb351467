"""The three outbound paths over real sockets: which messages come in which read, and when."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.harness import Broker
from tests.wire import Wire
from tests.wire_format import Packet

LONG_MS, IDLE_MS, INTERVAL_MS = 120_000, 1500, 100
SOON_S = 30.0  # "at once" is before the long idle time, however busy the machine is
SILENT_S = 0.4
GATHER: dict[str, object] = {
    "mqtt.write-and-flush": False,
    "mqtt.persistent-session.device.persisted-messages.write-and-flush": False,
    "mqtt.buffered-delivery.idle-session-flush-timeout-ms": LONG_MS,
    "mqtt.buffered-delivery.scheduler-execution-interval-ms": INTERVAL_MS,
    "client_type": "app-*=application",
}
DIRECT, DEVICE, APPLICATION = "direct", "device", "application"
GATHERING = [DIRECT, DEVICE]
ALL = [DIRECT, DEVICE, APPLICATION]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("paths") / "data", GATHER) as started:
        yield started
        assert "Traceback" not in started.log()


@pytest.fixture(scope="module")
def restless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One whose idle time is short."""
    settings = {**GATHER, "mqtt.buffered-delivery.idle-session-flush-timeout-ms": IDLE_MS}
    with Broker(tmp_path_factory.mktemp("restless") / "data", settings) as started:
        yield started


WIRES: list[Wire] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while WIRES:
        WIRES.pop().close()


class Taker:
    """A subscriber of its own topic; ``read`` is one read of the socket, with the time it took to come."""

    count = 0

    def __init__(self, broker: Broker, path: str, qos: int, version: int = 5) -> None:
        Taker.count += 1
        self.topic = f"t/{Taker.count}"
        self.broker, self.path, self.qos, self.version = broker, path, qos, version
        self.name = f"{'app' if path == APPLICATION else 'dev'}-{Taker.count}"
        self.wire = self.connect()
        self.wire.subscribe(self.topic, qos=qos)
        self.wire.ping()

    def connect(self) -> Wire:
        persistent = self.path != DIRECT
        props = [(mqtt.SESSION_EXPIRY, 600)] if persistent and self.version == 5 else []
        WIRES.append(Wire.connect(self.broker.port, self.name, self.version, clean=not persistent, props=props))
        return WIRES[-1]

    def read(self, timeout: float) -> list[Packet]:
        """What one read brings; empty when nothing has come in this time."""
        data = bytes(self.wire.data)  # what came with the last packet of a handshake
        self.wire.data.clear()
        if not data:
            self.wire.sock.settimeout(timeout)
            try:
                data = self.wire.sock.recv(1 << 20)
            except TimeoutError:
                return []
        found = []
        while data:
            size = mqtt.frame_size(data)
            assert size and size <= len(data), "a packet was cut"
            found.append(mqtt.parse(data[:size], self.version))
            data = data[size:]
        return found

    def published(self) -> Packet:
        """The first PUBLISH that comes along with an answer to a PINGREQ: it may have to be on disk before."""
        end = time.monotonic() + SOON_S
        while time.monotonic() < end:
            self.wire.send(b"\xc0\x00")
            for packet in self.read(SOON_S):
                if packet.type == mqtt.PUBLISH:
                    return packet
        raise AssertionError("nothing was published")

    def silent(self) -> bool:
        return self.read(SILENT_S) == []


class Giver:
    """A publisher whose messages reach the broker one by one, each in a turn of its own."""

    def __init__(self, broker: Broker) -> None:
        self.wire = Wire.connect(broker.port, version=5)
        WIRES.append(self.wire)

    def give(self, taker: Taker, *numbers: int, qos: int | None = None) -> None:
        for number in numbers:
            self.wire.publish(taker.topic, str(number).encode(), taker.qos if qos is None else qos)
            self.wire.ping()


def numbers(packets: list[Packet]) -> list[int]:
    return [int(packet["payload"]) for packet in packets if packet.type == mqtt.PUBLISH]


def kinds(packets: list[Packet]) -> list[int]:
    return [packet.type for packet in packets]


paths = pytest.mark.parametrize("path", GATHERING)
levels = pytest.mark.parametrize("qos", [0, 1])


@pytest.mark.parametrize("path", ALL)
@levels
def test_write_and_flush_sends_each_message_with_its_turn(tmp_path: Path, path: str, qos: int) -> None:
    """The default of the first two; and the end of each batch on the third, whose default is to gather."""
    with Broker(tmp_path / "data", {"client_type": "app-*=application"}) as started:
        taker, giver = Taker(started, path, qos), Giver(started)
        for number in range(3):
            giver.give(taker, number)
            assert numbers(taker.read(SOON_S)) == [number]


@paths
@levels
def test_only_the_count_flushes_and_one_read_brings_all(broker: Broker, path: str, qos: int) -> None:
    taker, giver = Taker(broker, path, qos), Giver(broker)
    giver.give(taker, 0, 1, 2, 3)
    assert taker.silent()
    giver.give(taker, 4)
    assert numbers(taker.read(SOON_S)) == [0, 1, 2, 3, 4]
    giver.give(taker, 5)
    assert taker.silent()


@paths
@levels
def test_the_count_is_each_connection_s_own(broker: Broker, path: str, qos: int) -> None:
    giver = Giver(broker)
    one, other = Taker(broker, path, qos), Taker(broker, path, qos)
    for number in range(4):
        giver.give(one, number)
        giver.give(other, number)
    assert one.silent() and other.silent()
    giver.give(other, 4)
    assert numbers(other.read(SOON_S)) == [0, 1, 2, 3, 4]
    assert one.silent()


@pytest.mark.parametrize("count", [0, 1])
def test_a_count_of_0_or_1_lets_nothing_wait(tmp_path: Path, count: int) -> None:
    counts = ("mqtt.buffered-msg-count", "mqtt.persistent-session.device.persisted-messages.buffered-msg-count")
    with Broker(tmp_path / "data", {**GATHER, **dict.fromkeys(counts, count)}) as started:
        giver = Giver(started)
        for taker in [Taker(started, path, qos) for path in GATHERING for qos in (0, 1)]:
            for number in range(3):
                giver.give(taker, number)
                assert numbers(taker.read(SOON_S)) == [number]


@pytest.mark.parametrize("flush", [True, False])
def test_what_one_turn_brings_shares_a_write(tmp_path: Path, flush: bool) -> None:
    """None waits for a later turn; ``flush`` is for the third path, which else gathers within the batch."""
    settings = {
        "client_type": "app-*=application",
        "mqtt.persistent-session.app.persisted-messages.write-and-flush": flush,
    }
    with Broker(tmp_path / "data", settings) as started:
        giver = Giver(started)
        for taker in [Taker(started, path, qos) for path in ALL for qos in (0, 1)]:
            some = [mqtt.publish(taker.topic, str(n).encode(), taker.qos, pid=n + 1, version=5) for n in range(25)]
            giver.wire.send(b"".join(some))
            assert numbers(taker.read(SOON_S)) == list(range(25))


@paths
@levels
def test_idle_time_flushes_once_it_has_passed(restless: Broker, path: str, qos: int) -> None:
    begin = time.monotonic()  # it counts from the last flush on
    taker, giver = Taker(restless, path, qos), Giver(restless)
    giver.wire.send(b"".join(mqtt.publish(taker.topic, b"%d" % n, qos, pid=n + 1, version=5) for n in range(2)))
    assert numbers(taker.read(SOON_S)) == [0, 1]
    assert time.monotonic() - begin >= IDLE_MS / 1000 - 0.05


@paths
@levels
def test_every_other_packet_flushes_at_once_and_takes_along_what_waits(broker: Broker, path: str, qos: int) -> None:
    taker, giver = Taker(broker, path, qos), Giver(broker)
    giver.give(taker, 0, 1)
    taker.wire.send(b"\xc0\x00")
    came = taker.read(SOON_S)
    assert kinds(came) == [mqtt.PUBLISH, mqtt.PUBLISH, mqtt.PINGRESP]
    assert numbers(came) == [0, 1]


OTHERS = {
    "PUBACK": (mqtt.publish("other/topic", b"x", 1, pid=900, version=5), mqtt.PUBACK),
    "PUBREC": (mqtt.publish("other/topic", b"x", 2, pid=901, version=5), mqtt.PUBREC),
    "PUBCOMP": (mqtt.ack(mqtt.PUBREL, 902, 5), mqtt.PUBCOMP),
    "SUBACK": (mqtt.subscribe([("other/nobody", 1)], 903, 5, []), mqtt.SUBACK),
    "UNSUBACK": (mqtt.unsubscribe(["other/none"], 904, 5), mqtt.UNSUBACK),
    "PUBREL": (mqtt.ack(mqtt.PUBREC, 905, 5), mqtt.PUBREL),
}


@paths
@pytest.mark.parametrize("kind", OTHERS)
def test_each_kind_of_other_packet_takes_along_what_waits(broker: Broker, path: str, kind: str) -> None:
    taker, giver = Taker(broker, path, 0), Giver(broker)
    giver.give(taker, 0, 1)
    sent, answer = OTHERS[kind]
    taker.wire.send(sent)
    came: list[Packet] = []
    end = time.monotonic() + SOON_S
    while len(came) < 3 and time.monotonic() < end:
        came += taker.read(SOON_S)
    assert kinds(came) == [mqtt.PUBLISH, mqtt.PUBLISH, answer]


@paths
def test_a_pubrel_flushes_at_once_and_takes_along_what_waits(broker: Broker, path: str) -> None:
    taker, giver = Taker(broker, path, 2), Giver(broker)
    giver.give(taker, 0, qos=2)
    first = taker.published()
    giver.give(taker, 1, qos=0)
    assert taker.silent()
    taker.wire.pubrec(first["pid"])
    assert kinds(taker.read(SOON_S)) == [mqtt.PUBLISH, mqtt.PUBREL]


@paths
@levels
def test_retained_messages_after_a_subscribe_leave_at_once(broker: Broker, path: str, qos: int) -> None:
    taker, giver = Taker(broker, path, qos), Giver(broker)
    giver.wire.publish(taker.topic + "/kept", b"7", qos, retain=True)
    giver.wire.ping()
    giver.give(taker, 0)
    taker.wire.send(mqtt.subscribe([(taker.topic + "/kept", qos)], 99, 5, []))
    came: list[Packet] = []
    end = time.monotonic() + SOON_S
    while len(came) < 3 and time.monotonic() < end:
        came += taker.read(SOON_S)
    assert numbers(came) == [0, 7]


@paths
def test_a_full_window_flushes(tmp_path: Path, path: str) -> None:
    counts = {"mqtt.buffered-msg-count": 50, "mqtt.persistent-session.device.persisted-messages.buffered-msg-count": 50}
    with Broker(tmp_path / "data", {**GATHER, **counts, "mqtt.max_inflight": 3}) as started:
        taker, giver = Taker(started, path, 1), Giver(started)
        giver.give(taker, 0, 1)
        assert taker.silent()
        giver.give(taker, 2)
        assert numbers(taker.read(SOON_S)) == [0, 1, 2]


@paths
@levels
def test_eviction_by_size_flushes_the_least_recent_with_a_line(tmp_path: Path, path: str, qos: int) -> None:
    size = {"mqtt.buffered-delivery.session-cache-max-size": 2}
    with Broker(tmp_path / "data", {**GATHER, **size}) as started:
        giver = Giver(started)
        takers = [Taker(started, path, qos) for _ in range(3)]
        for taker in (takers[0], takers[1], takers[0], takers[2]):
            giver.give(taker, 1)
        assert numbers(takers[1].read(SOON_S)) == [1]
        assert takers[0].silent()
        assert started.log().count("INFO Client session was evicted due to cache size limit: 2\n") == 1


@paths
@levels
def test_eviction_by_expiry_flushes(tmp_path: Path, path: str, qos: int) -> None:
    times = {"session-cache-expiration-ms": 600, "idle-session-flush-timeout-ms": LONG_MS}
    with Broker(
        tmp_path / "data", {**GATHER, **{f"mqtt.buffered-delivery.{k}": v for k, v in times.items()}}
    ) as started:
        taker, giver = Taker(started, path, qos), Giver(started)
        begin = time.monotonic()
        giver.give(taker, 0)
        assert numbers(taker.read(SOON_S)) == [0]
        assert time.monotonic() - begin >= 0.55


@pytest.mark.parametrize("version", [4, 5])
def test_shutdown_flushes_all_of_it(tmp_path: Path, version: int) -> None:
    with Broker(tmp_path / "data", GATHER) as started:
        giver = Giver(started)
        takers = [Taker(started, path, qos, version) for path in GATHERING for qos in (0, 1)]
        for taker in takers:
            giver.give(taker, 0, 1)
        assert all(taker.silent() for taker in takers[:1])
        assert started.process is not None
        started.process.terminate()
        for taker in takers:
            assert numbers(taker.read(SOON_S)) == [0, 1]
        while WIRES:
            WIRES.pop().close()
        assert started.process.wait(30) == 0


@paths
def test_a_connection_that_ends_leaves_nothing_that_would_be_flushed_to_the_next(broker: Broker, path: str) -> None:
    """QoS 1 of a persistent session comes again on the next connection, as a new message there; QoS 0 was sent."""
    taker, giver = Taker(broker, path, 1), Giver(broker)
    giver.give(taker, 0)
    taker.wire.close()
    taker.wire = taker.connect()
    if path == DIRECT:
        assert taker.silent()
        return
    assert numbers(taker.read(SOON_S)) == [0]
    giver.give(taker, 1)
    assert taker.silent()


def test_the_end_of_a_batch_flushes_whatever_the_count(broker: Broker) -> None:
    """25 that waited: two counts of ten and five over, all there long before the idle time."""
    taker, giver = Taker(broker, APPLICATION, 1), Giver(broker)
    taker.wire.disconnect()
    giver.give(taker, *range(25))
    taker.wire = taker.connect()
    came: list[Packet] = []
    while len(came) < 25:
        more = taker.read(SOON_S)
        assert more, came
        came += more
    assert numbers(came) == list(range(25))


def test_more_than_a_batch_follows_behind_it(tmp_path: Path) -> None:
    """500 with room for all: three batches, none of which waits for an answer or for more traffic."""
    with Broker(tmp_path / "data", {"client_type": "app-*=application", "mqtt.max_inflight": 1000}) as started:
        taker, giver = Taker(started, APPLICATION, 1), Giver(started)
        taker.wire.disconnect()
        for number in range(500):
            giver.wire.publish(taker.topic, str(number).encode(), 1)
        for _ in range(500):
            giver.wire.wait_for(mqtt.PUBACK)
        taker.wire = taker.connect()
        assert [int(taker.wire.expect(mqtt.PUBLISH, SOON_S)["payload"]) for _ in range(500)] == list(range(500))


def test_the_publishes_and_pubrels_of_a_batch_come_in_one_read(broker: Broker) -> None:
    taker, giver = Taker(broker, APPLICATION, 2), Giver(broker)
    giver.give(taker, 0, 1, 2)
    came: list[Packet] = []
    while len(came) < 3:
        came += taker.read(SOON_S) or pytest.fail("nothing came")
    taker.wire.pubrec(came[0]["pid"])
    assert kinds(taker.read(SOON_S)) == [mqtt.PUBREL]
    taker.wire.close()
    taker.wire = Wire.open(broker.port, 5)
    WIRES.append(taker.wire)
    taker.wire.send(mqtt.connect(taker.name, 5, False, 60, None, [(mqtt.SESSION_EXPIRY, 600)]))
    assert kinds(taker.read(SOON_S)) == [mqtt.CONNACK, mqtt.PUBREL, mqtt.PUBLISH, mqtt.PUBLISH]


def test_another_type_keeps_what_is_queued(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", {"client_type": "app-*=application"}) as started:
        taker, giver = Taker(started, APPLICATION, 1), Giver(started)
        taker.wire.disconnect()
        for number in range(10):
            giver.wire.publish_done(taker.topic, str(number).encode())
        started.settings = {}
        started.restart()
        taker.wire = taker.connect()
        assert [int(packet["payload"]) for packet in taker.wire.take(10)] == list(range(10))


def test_what_waits_is_bytes_that_the_broker_holds_not_the_kernel(broker: Broker) -> None:
    """A message that waits was not written: the socket of the subscriber has nothing to read."""
    taker, giver = Taker(broker, DIRECT, 0), Giver(broker)
    giver.give(taker, 0)
    taker.wire.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        taker.wire.sock.recv(1, socket.MSG_PEEK)
