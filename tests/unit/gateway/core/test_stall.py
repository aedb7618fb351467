"""A disk that takes everything but messages: they wait, all else goes on, and nothing is on disk too early."""

import pytest

from gateway.core.record import unpack_state
from tests import wire_format as mqtt
from tests.memory import MemoryBroker
from tests.station import Station


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"store.error_hold_s": "60s"})


def full(broker: MemoryBroker, milliseconds: int = 0) -> None:
    """So much time passes on a disk without room for messages."""
    broker.holding = True
    end = broker.now + milliseconds
    while True:
        broker.router.on_tick(broker.now)
        broker.pump()
        while (batch := broker.submitted) is not None:
            if batch.segment_id or any(data is not None for data in batch.retained.values()):
                broker.fail("disk full")
            else:
                assert broker.release_one()
        if broker.now >= end:
            return
        broker.now += 50


def room(broker: MemoryBroker) -> None:
    broker.release()
    broker.advance(2000)


def away(broker: MemoryBroker, qos: int = 1) -> Station:
    station = Station(broker, "r")
    station.subscribe("t/#", qos=qos)
    station.drop()
    broker.advance(2000)
    return station


def error(broker: MemoryBroker) -> object:
    store = broker.router.status(broker.now)["store"]
    assert isinstance(store, dict)
    return store["error"]


def drops(broker: MemoryBroker) -> object:
    return broker.router.status(broker.now)["drops"]


def test_a_collector_comes_back_and_drains_while_publishers_wait(broker: MemoryBroker) -> None:
    away(broker)
    publisher = Station(broker, "p", persistent=False)
    for number in range(3):
        publisher.publish("t/a", b"%d" % number)
    assert len(publisher.pids(mqtt.PUBACK)) == 3
    broker.hold()
    publisher.publish("t/a", b"3")
    full(broker)
    assert error(broker) == "disk full"
    back = Station(broker, "r")
    full(broker)
    connack, *back.early = back.come()
    assert connack.type == mqtt.CONNACK
    assert connack["present"] == 1
    full(broker, 100)
    assert back.take() == [b"0", b"1", b"2", b"3"]
    full(broker, 3000)
    assert broker.store.segments == {}, "what was taken is deleted"
    assert publisher.pids(mqtt.PUBACK) == [4], "its only receiver has acknowledged: no disk needed"
    assert error(broker) is None
    assert drops(broker) == {}


def test_those_who_wait_are_stored_in_order_once_there_is_room(broker: MemoryBroker) -> None:
    away(broker)
    publishers = [Station(broker, f"p{number}", persistent=False) for number in range(3)]
    broker.hold()
    for number, publisher in enumerate(publishers):
        publisher.publish("t/a", b"%d" % number)
        full(broker, 700)
    assert [publisher.pids(mqtt.PUBACK) for publisher in publishers] == [[], [], []]
    room(broker)
    assert [publisher.pids(mqtt.PUBACK) for publisher in publishers] == [[1], [1], [1]]
    broker.crash()
    assert Station(broker, "r").take() == [b"0", b"1", b"2"]


@pytest.mark.parametrize("crash", [False, True])
def test_an_incoming_qos_2_id_is_not_on_disk_before_its_message(broker: MemoryBroker, crash: bool) -> None:
    away(broker, 2)
    publisher = Station(broker, "p")
    broker.hold()
    publisher.publish("t/a", b"x", qos=2)
    full(broker, 3000)
    assert publisher.pids(mqtt.PUBREC) == []
    sid = broker.router.core.sessions["p"].sid
    assert unpack_state(broker.store.cursors[sid]).awaiting == []
    if crash:
        broker.holding = False
        broker.crash()
        publisher = Station(broker, "p")
        publisher.link.send(mqtt.publish("t/a", b"x", 2, False, True, 1, 5))
    room(broker)
    assert publisher.pids(mqtt.PUBREC) == [1]
    assert unpack_state(broker.store.cursors[sid]).awaiting == [1]
    back = Station(broker, "r")
    broker.advance(100)
    assert [packet["payload"] for packet in [*back.early, *back.come()] if packet.type == mqtt.PUBLISH] == [b"x"]


def test_an_outgoing_qos_2_delivery_waits_for_its_message(broker: MemoryBroker) -> None:
    receiver = Station(broker, "r")
    receiver.subscribe("t/#", qos=2)
    broker.advance(2000)
    publisher = Station(broker, "p", persistent=False)
    broker.hold()
    publisher.publish("t/a", b"x", qos=2)
    full(broker, 3000)
    assert receiver.come() == []
    sid = broker.router.core.sessions["r"].sid
    assert unpack_state(broker.store.cursors[sid]).sent == []
    room(broker)
    assert [packet["payload"] for packet in receiver.come()] == [b"x"]
    assert [pid for pid, _, _ in unpack_state(broker.store.cursors[sid]).sent] != []


def test_a_retained_message_waits_too(broker: MemoryBroker) -> None:
    publisher = Station(broker, "p", persistent=False)
    broker.hold()
    publisher.publish("t/a", b"x", retain=True)
    full(broker, 3000)
    assert publisher.pids(mqtt.PUBACK) == []
    assert error(broker) == "disk full"
    room(broker)
    assert publisher.pids(mqtt.PUBACK) == [1]
    assert "t/a" in broker.store.retained
    assert error(broker) is None


def test_a_session_that_ends_meanwhile_takes_its_share_along(broker: MemoryBroker) -> None:
    station = away(broker)
    publisher = Station(broker, "p", persistent=False)
    broker.hold()
    publisher.publish("t/a", b"x")
    full(broker, 1000)
    Station(broker, "r", persistent=False, clean=True)
    full(broker, 1000)
    assert publisher.pids(mqtt.PUBACK) == [1]
    assert drops(broker) == {"session_end": 1}
    room(broker)
    assert error(broker) is None
    assert station.client_id not in broker.router.core.sessions or not broker.router.core.segments


def test_after_the_hold_they_are_given_back_and_the_trouble_is_over(broker: MemoryBroker) -> None:
    broker = MemoryBroker({"store.error_hold_s": "5s"})
    away(broker)
    publisher = Station(broker, "p", persistent=False)
    broker.hold()
    publisher.publish("t/a", b"x")
    full(broker, 6500)
    answers = [packet for packet in publisher.come() if packet.type == mqtt.PUBACK]
    assert [(packet["pid"], packet["code"]) for packet in answers] == [(1, 0x97)]
    assert drops(broker) == {"disk": 1}
    full(broker, 2000)
    assert error(broker) is None
    room(broker)
    publisher.publish("t/a", b"y")
    assert publisher.pids(mqtt.PUBACK) == [2]
    broker.crash()
    assert Station(broker, "r").take() == [b"y"]


def dead(broker: MemoryBroker, milliseconds: int) -> None:
    """So much time passes on a disk that takes nothing."""
    broker.holding = True
    end = broker.now + milliseconds
    while broker.now < end:
        broker.router.on_tick(broker.now)
        broker.pump()
        if broker.submitted is not None:
            broker.fail("Read-only file system")
        broker.now += 50


@pytest.mark.parametrize(("version", "code"), [(5, 0x88), (4, 3)])
def test_who_comes_to_a_dead_disk_is_told_after_the_hold(version: int, code: int) -> None:
    broker = MemoryBroker({"store.error_hold_s": "2s"})
    broker.holding = True
    first = Station(broker, "first", version)
    assert first.connack is None
    dead(broker, 1500)
    assert first.come() == []
    dead(broker, 2500)
    (packet,) = first.come()
    assert (packet.type, packet["code"]) == (mqtt.CONNACK, code)
    second = Station(broker, "second", version)
    dead(broker, 2500)
    (packet,) = second.come()
    assert (packet.type, packet["code"]) == (mqtt.CONNACK, code)
    passing = Station(broker, "passing", version, persistent=False, clean=True)
    assert passing.connack is not None
    room(broker)
    third = Station(broker, "third", version)
    assert third.connack is not None and third.connack["code"] == 0
