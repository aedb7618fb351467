"""Delayed messages: on disk before they are acknowledged, published once at their time, also over a crash."""

from typing import Any

import pytest

from gateway.core.delayed import BURST
from gateway.core.message import Message
from gateway.core.record import pack_delayed
from tests.conformance.client import Client
from tests.core_rig import backlog_of, broker, connect, core_of, session_of
from tests.memory import MemoryBroker

TOPIC_NAME_INVALID = 0x90
NOT_AUTHORIZED = 0x87
QUOTA_EXCEEDED = 0x97


def away(b: MemoryBroker, filter: str = "t/#", qos: int = 1, name: str = "w") -> None:
    client = connect(b, name)
    client.subscribe(filter, qos=qos)
    client.drop()
    b.advance(2_000)


def got(b: MemoryBroker, name: str = "w") -> list[bytes]:
    client = connect(b, name)
    found = [p.payload for p in client.take_all()]
    client.drop()
    b.advance(2_000)
    return found


def drops(b: MemoryBroker) -> dict[str, int]:
    return core_of(b).ledger.drops(0)


def waiting(b: MemoryBroker) -> Any:
    return b.router.status(b.now)["delayed"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_it_comes_at_its_time_and_not_before(qos: int) -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t/#", qos=2)
    publisher = connect(b, "p")
    publisher.put("$delayed/5/t/a", b"x", qos, content_type="text/plain", user_property=[("k", "v")])
    b.advance(4_000)
    client.expect_nothing()
    b.advance(1_500)
    message = client.take(topic="t/a", payload=b"x", qos=qos, retain=False)
    assert message.props == {"content_type": "text/plain", "user_property": [("k", "v")]}
    b.advance(10_000)
    client.expect_nothing()
    assert not b.store.delayed


@pytest.mark.parametrize("version", [3, 4])
def test_it_works_for_old_clients(version: int) -> None:
    b = broker()
    client = connect(b, "s", version)
    client.subscribe("t", qos=1)
    client.put("$delayed/1/t", b"x")
    b.advance(1_200)
    client.take(topic="t", payload=b"x")


@pytest.mark.parametrize(
    "topic",
    [
        "$delayed/",
        "$delayed/5",
        "$delayed/5/",
        "$delayed//t",
        "$delayed/x/t",
        "$delayed/-1/t",
        "$delayed/+1/t",
        "$delayed/1.5/t",
        "$delayed/1_0/t",
        "$delayed/ 1/t",
        "$delayed/٣/t",
        "$delayed/²/t",
        "$delayed/4294968/t",
        "$delayed/99999999999999999999/t",
        "$delayed/5/$delayed/5/t",
    ],
)
def test_a_bad_interval_or_topic_is_refused(topic: str) -> None:
    b = broker()
    wild = "+" in topic
    for qos in (1, 2):
        client = connect(b, f"p{qos}")
        if wild:  # no topic name at all
            client.publish(topic, b"x", qos)
            client.expect_closed(TOPIC_NAME_INVALID)
        else:
            assert client.put(topic, b"x", qos).reason == TOPIC_NAME_INVALID
    if not wild:
        connect(b, "old", 4).put(topic, b"x")
        connect(b, "zero").put(topic, b"x", 0)
        assert drops(b) == {"delayed": 4}
    assert waiting(b)["messages"] == 0


def test_the_longest_interval() -> None:
    b = broker()
    assert connect(b, "p").put("$delayed/4294967/t", b"x").reason == 0
    assert waiting(b)["next_ms"] == 4_294_967_000


def test_no_interval_at_all_is_at_once() -> None:
    b = broker()
    away(b)
    connect(b, "p").put("$delayed/0/t/a", b"x")
    b.advance(10)
    assert backlog_of(b, "w").count == 1
    b.crash()
    assert got(b) == [b"x"]
    assert not b.store.delayed


@pytest.mark.parametrize("topic", ["$SYS/broker/x", "$SYS", "$sparkplug/certificates/spBv1.0/g/NBIRTH/n"])
def test_a_topic_that_is_not_for_clients_is_not_for_them_later(topic: str) -> None:
    b = broker()
    client = connect(b, "p")
    direct = client.put(topic, b"x").reason
    assert client.put(f"$delayed/1/{topic}", b"x").reason == direct


def test_nobody_hears_of_it_before() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("$delayed/#", qos=1)
    client.subscribe("#", qos=1)
    connect(b, "p").put("$delayed/5/t", b"x")
    client.expect_nothing()
    b.advance(6_000)
    client.take(topic="t")


def test_a_will_cannot_be_delayed_this_way() -> None:
    b = broker()
    client = Client(b.open(), 5)
    client.send_connect("p", will=("$delayed/5/t", b"x", 1, False))
    client.expect_refused(TOPIC_NAME_INVALID)


def test_messages_of_one_moment_keep_their_order_however_many() -> None:
    b = broker(receive_maximum=1000)
    away(b)
    publisher = connect(b, "p")
    expected = [b"%d" % n for n in range(2 * BURST + 50)]
    for payload in expected:
        publisher.put("$delayed/60/t/a", payload)
    b.advance(61_000)
    assert got(b) == expected


def test_acknowledged_is_on_disk() -> None:
    b = broker()
    publisher = connect(b, "p")
    b.hold()
    pid = publisher.publish("$delayed/5/t", b"x", 1)
    publisher.expect_nothing()
    assert not b.store.delayed
    b.release()
    publisher.expect("PUBACK", pid=pid, reason=0)
    assert len(b.store.delayed) == 1


def test_qos_2_is_taken_once() -> None:
    b = broker()
    away(b, qos=2)
    publisher = connect(b, "p")
    b.hold()
    pid = publisher.publish("$delayed/5/t/a", b"x", 2)
    publisher.send(publisher.wire.publish("$delayed/5/t/a", b"x", 2, pid=pid, dup=True))
    publisher.expect_nothing()
    b.release()
    publisher.expect("PUBREC", pid=pid, reason=0)
    publisher.expect("PUBREC", pid=pid, reason=0)
    publisher.send(publisher.wire.publish("$delayed/5/t/a", b"x", 2, pid=pid, dup=True))
    publisher.expect("PUBREC", pid=pid, reason=0)
    assert waiting(b)["messages"] == 1
    b.advance(6_000)
    assert got(b) == [b"x"]


def test_a_crash_costs_nothing_and_moves_nothing() -> None:
    b = broker()
    away(b)
    connect(b, "p").put("$delayed/60/t/a", b"late")
    connect(b, "p").put("$delayed/10/t/a", b"soon")
    b.advance(5_000)
    b.crash()
    b.advance(4_000)
    assert backlog_of(b, "w").count == 0
    b.advance(1_500)
    assert backlog_of(b, "w").count == 1
    b.crash()
    b.advance(30_000)
    b.crash()
    b.now += 100_000  # it is away when the last one is due
    b.crash()
    b.advance(10)
    assert got(b) == [b"soon", b"late"]
    b.crash()
    b.advance(100_000)
    assert got(b) == []
    assert not b.store.delayed


def test_an_id_is_not_given_twice() -> None:
    b = broker()
    away(b)
    connect(b, "p").put("$delayed/60/t/a", b"1")
    b.crash()
    connect(b, "p").put("$delayed/61/t/a", b"2")
    assert len(b.store.delayed) == 2
    b.advance(62_000)
    assert got(b) == [b"1", b"2"]


def test_publication_and_removal_are_one_commit() -> None:
    b = broker()
    away(b)
    connect(b, "p").put("$delayed/5/t/a", b"x")
    b.hold()
    b.advance(6_000)
    batch = b.submitted
    assert batch is not None
    assert batch.segment_id
    assert batch.delayed == {1: None}
    b.crash()
    b.advance(10)
    assert got(b) == [b"x"]


def test_with_nobody_to_hear_it_it_is_removed_all_the_same() -> None:
    b = broker()
    connect(b, "p").put("$delayed/5/t/a", b"x")
    b.advance(6_000)
    assert not b.store.delayed
    assert core_of(b).ledger.no_subscriber == 1


def test_it_is_retained_at_its_time() -> None:
    b = broker()
    connect(b, "p").put("$delayed/5/t", b"x", retain=True)
    b.advance(4_000)
    assert "t" not in b.store.retained
    b.advance(2_000)
    assert "t" in b.store.retained
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    client.take(topic="t", payload=b"x", retain=True)
    client.put("$delayed/5/t", b"", retain=True)
    b.advance(6_000)
    assert "t" not in b.store.retained


def test_its_expiry_runs_while_it_waits() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    publisher = connect(b, "p")
    publisher.put("$delayed/5/t", b"gone", message_expiry_interval=4)
    publisher.put("$delayed/5/t", b"left", message_expiry_interval=20)
    b.advance(6_000)
    message = client.take(payload=b"left")
    assert message.props["message_expiry_interval"] in (14, 15)
    client.expect_nothing()
    assert drops(b) == {"expired": 1}


def test_the_expiry_that_others_are_given_runs_from_its_publication() -> None:
    b = broker(message_expiry_s=10)
    away(b)
    connect(b, "p").put("$delayed/60/t/a", b"x")
    b.advance(65_000)
    assert got(b) == [b"x"]


def test_no_local_holds_for_it() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=1, no_local=True)
    client.put("$delayed/1/t", b"x")
    connect(b, "p").put("$delayed/1/t", b"y")
    b.advance(2_000)
    client.take(payload=b"y")
    client.expect_nothing()


def test_a_command_does_not_wait_for_its_node_longer_than_others() -> None:
    b = broker()
    away(b, "spBv1.0/#")
    connect(b, "p").put("$delayed/60/spBv1.0/g/NCMD/n", b"x")
    b.advance(61_000)
    assert backlog_of(b, "w").count == 1
    b.advance(31_000)
    assert backlog_of(b, "w").count == 0


def test_a_copy_of_a_nodes_message_is_not_the_nodes_word() -> None:
    b = broker()
    away(b, "spBv1.0/#")
    connect(b, "p").put("$delayed/5/spBv1.0/g/NDATA/n", b"x")
    b.advance(6_000)
    assert not b.router.bridge.take_events()
    assert got(b) == [b"x"]


def test_so_many_and_no_more() -> None:
    b = broker(delayed_messages_max=2)
    publisher = connect(b, "p")
    for _ in range(2):
        assert publisher.put("$delayed/5/t", b"x").reason == 0
    assert publisher.put("$delayed/5/t", b"x").reason == QUOTA_EXCEEDED
    assert publisher.put("$delayed/5/t", b"x", 2).reason == QUOTA_EXCEEDED
    publisher.put("$delayed/5/t", b"x", 0)
    assert drops(b) == {"delayed": 3}
    b.advance(6_000)
    assert publisher.put("$delayed/5/t", b"x").reason == 0


def test_so_many_bytes_and_no_more() -> None:
    b = broker(delayed_bytes_max=1000)
    publisher = connect(b, "p")
    assert publisher.put("$delayed/5/t", b"x" * 800).reason == 0
    assert publisher.put("$delayed/5/t", b"x" * 800).reason == QUOTA_EXCEEDED
    assert publisher.put("$delayed/5/t", b"x" * 10).reason == 0


def test_an_old_client_that_cannot_be_told_sends_it_again() -> None:
    b = broker(delayed_messages_max=1)
    publisher = connect(b, "p", 4)
    publisher.put("$delayed/5/t", b"x")
    publisher.publish("$delayed/5/t", b"y", 1)
    publisher.expect_closed(silent=True)


def test_status_counts_it() -> None:
    b = broker()
    assert waiting(b) == {"messages": 0, "bytes": 0, "next_ms": None}
    publisher = connect(b, "p")
    publisher.put("$delayed/60/t", b"x" * 100)
    publisher.put("$delayed/30/t", b"x" * 100)
    shown = waiting(b)
    assert (shown["messages"], shown["next_ms"]) == (2, 30_000)
    assert 200 < shown["bytes"] < 300
    b.crash()
    assert waiting(b) == shown


def test_a_damaged_row_is_left_out() -> None:
    b = broker()
    away(b)
    connect(b, "p").put("$delayed/60/t/a", b"x")
    b.store.delayed[7] = b"\x00\x01"
    b.store.delayed[8] = pack_delayed(b.now, "p", Message(b"\xff", b"", 1, False))
    b.crash()
    assert len([line for line in b.router.take_alarms() if "delayed message" in line]) == 2
    b.advance(2_000)
    assert list(b.store.delayed) == [1]
    b.advance(60_000)
    assert got(b) == [b"x"]


# a disk in trouble


def refuse(b: MemoryBroker, milliseconds: int) -> None:
    """So much time passes on a disk that takes no message, of whichever kind."""
    b.holding = True
    end = b.now + milliseconds
    while True:
        b.router.on_tick(b.now)
        b.pump()
        while (batch := b.submitted) is not None:
            if batch.segment_id or any(data is not None for data in batch.delayed.values()):
                b.fail("disk full")
            else:
                assert b.release_one()
        if b.now >= end:
            return
        b.now += 50


def room(b: MemoryBroker) -> None:
    b.release()
    b.advance(2_000)


def test_without_room_it_is_not_acknowledged_and_not_lost() -> None:
    b = broker(error_hold_ms=60_000)
    away(b)
    publisher = connect(b, "p")
    b.hold()
    pid = publisher.publish("$delayed/5/t/a", b"x", 1)
    refuse(b, 10_000)
    publisher.expect_nothing()
    assert not b.store.delayed
    room(b)
    publisher.expect("PUBACK", pid=pid, reason=0)
    b.advance(1_000)
    assert not b.store.delayed
    assert got(b) == [b"x"]


def test_what_is_due_waits_for_room() -> None:
    b = broker(error_hold_ms=60_000)
    away(b)
    publisher = connect(b, "p")
    publisher.put("$delayed/5/t/a", b"x")
    b.hold()
    publisher.publish("t/b", b"full", 1)
    refuse(b, 10_000)
    assert len(b.store.delayed) == 1
    room(b)
    assert not b.store.delayed
    assert got(b) == [b"full", b"x"]


@pytest.mark.parametrize("crash", [False, True])
def test_published_without_room_it_stays_on_disk(crash: bool) -> None:
    """The commit with its publication fails: the end of its waiting must not get to the disk before it."""
    b = broker(error_hold_ms=60_000)
    away(b)
    connect(b, "p").put("$delayed/5/t/a", b"x")
    b.hold()
    b.advance(6_000)
    refuse(b, 3_000)
    assert len(b.store.delayed) == 1
    if crash:
        b.holding = False
        b.crash()
    room(b)
    assert not b.store.delayed
    assert got(b) == [b"x"]


@pytest.mark.parametrize("version", [4, 5])
def test_given_back_it_does_not_come_later(version: int) -> None:
    b = broker(error_hold_ms=5_000)
    away(b)
    publisher = connect(b, "p", version)
    b.hold()
    pid = publisher.publish("$delayed/60/t/a", b"x", 1)
    publisher.publish("$delayed/60/t/a", b"zero", 0)
    refuse(b, 7_000)
    if version == 5:
        publisher.expect("PUBACK", pid=pid, reason=QUOTA_EXCEEDED)
    else:
        publisher.expect_closed(silent=True)
    assert drops(b) == {"disk": 1}
    room(b)
    assert waiting(b)["messages"] == 1  # QoS 0 is nobody's to send again
    b.advance(60_000)
    assert got(b) == []
    assert waiting(b) == {"messages": 0, "bytes": 0, "next_ms": None}


def test_at_the_budget_its_publishers_wait() -> None:
    b = broker(store_bytes_max=1_000_000)
    publisher = connect(b, "p")
    b.router.on_store_usage(2_000_000, b.now)
    pid = publisher.publish("$delayed/5/t", b"x", 1)
    publisher.expect_nothing()
    b.router.on_store_usage(0, b.now)
    b.pump()
    publisher.expect("PUBACK", pid=pid, reason=0)


# what a client is told


def test_the_connack_says_that_the_broker_has_it() -> None:
    b = broker()
    assert connect(b, "new").connack.props["user_property"] == [("forebay-delayed", "1")]
    assert "user_property" not in connect(b, "old", 4).connack.props


def test_a_small_client_is_not_told() -> None:
    """[MQTT-3.2.2-20]"""
    b = broker()
    size = len(connect(b, "whole").connack.raw)
    assert "user_property" in connect(b, "fits", maximum_packet_size=size).connack.props
    small = connect(b, "small", maximum_packet_size=size - 1)
    assert "user_property" not in small.connack.props
    assert small.connack.props["receive_maximum"] == 1000
    assert session_of(b, "small").client is not None
