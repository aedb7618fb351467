"""Births: certificates, and on disk for as long as a queue has something that refers to them."""

import pytest

from gateway.core.births import row_key
from gateway.core.nodes import EARLY, Source
from gateway.settings.table import Sources, load
from tests.conformance.client import Client
from tests.core_rig import broker, connect, core_of
from tests.memory import MemoryBroker
from tests.spb_bytes import data, metric, nbirth, payload

NBIRTH, DBIRTH = "spBv1.0/g/NBIRTH/e", "spBv1.0/g/DBIRTH/e/d"
T = 1_700_000_000_000


def source(b: MemoryBroker, topic: str = NBIRTH) -> Source:
    return core_of(b).nodes.sources[topic]


def edge(b: MemoryBroker) -> Client:
    return connect(b, "edge", version=4, clean=True)


def stored(b: MemoryBroker) -> list[str]:
    return [key.split(" ", 2)[2] for key in sorted(b.store.bridge)]


def test_a_birth_is_shown_as_a_retained_certificate_and_is_itself_not_retained() -> None:
    """[tck-id-conformance-mqtt-aware-nbirth-mqtt-topic, -retain, dbirth-mqtt-topic, -retain]"""
    b = broker()
    client = edge(b)
    device = payload(metric("x", 1, 7), time=T + 1, seq=1)
    client.publish(NBIRTH, nbirth(3))
    client.publish(DBIRTH, device)
    late = connect(b, "late", clean=True)
    late.subscribe("$sparkplug/certificates/#", qos=1)
    shown = {got.topic: (got.payload, got.retain) for got in late.take_all()}
    assert shown == {
        "$sparkplug/certificates/" + NBIRTH: (nbirth(3), True),
        "$sparkplug/certificates/" + DBIRTH: (device, True),
    }
    late.subscribe("spBv1.0/#", qos=1)
    late.expect_nothing()


def test_who_watches_the_certificates_gets_each_new_one() -> None:
    b = broker()
    watcher = connect(b, "w", clean=True)
    watcher.subscribe("$sparkplug/#", qos=0)
    client = edge(b)
    client.publish(NBIRTH, nbirth(3))
    watcher.expect("PUBLISH", topic="$sparkplug/certificates/" + NBIRTH, retain=False)
    client.publish(NBIRTH, nbirth(3, 0, T + 1))
    watcher.expect("PUBLISH", payload=nbirth(3, 0, T + 1))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_clients_write_no_certificates(qos: int) -> None:
    b = broker()
    writer = connect(b, "w", clean=True)
    topic = "$sparkplug/certificates/" + NBIRTH
    writer.publish(topic, b"forged", qos=qos, retain=True)
    if qos:
        writer.expect("PUBACK" if qos == 1 else "PUBREC", reason=0x87)
    assert core_of(b).retained.get(topic) is None
    assert core_of(b).ledger.drops(0)["acl"] == 1


def test_no_will_writes_certificates() -> None:
    b = broker()
    client = Client(b.open(), 5)
    client.send_connect("x", will=("$sparkplug/certificates/" + NBIRTH, b"forged", 1, True))
    client.expect("CONNACK", reason=0x90)


def test_births_and_certificates_outlive_a_crash() -> None:
    b = broker()
    client = edge(b)
    client.put(NBIRTH, nbirth(3), 1)
    b.advance(2000)
    b.crash()
    assert [birth.payload for birth in source(b).births] == [nbirth(3)]
    node = source(b).node
    assert (node.born, node.bd_seq, node.birth_time) == (True, 3, T)
    late = connect(b, "late", clean=True)
    late.subscribe("$sparkplug/#", qos=0)
    late.expect("PUBLISH", payload=nbirth(3), retain=True)


def test_an_old_birth_stays_while_a_queue_has_data_of_it() -> None:
    b = broker()
    connect(b, "c").subscribe("spBv1.0/#", qos=1)
    connect(b, "c").drop()
    client = edge(b)
    client.publish(NBIRTH, nbirth(3, 0, T))
    client.publish("spBv1.0/g/NDATA/e", data(1, time=T + 1))
    client.publish(NBIRTH, nbirth(3, 0, T + 9))
    client.publish(NBIRTH, nbirth(3, 0, T + 10))
    b.advance(3000)
    ids = [birth.id for birth in source(b).births]
    assert len(ids) == 3
    assert [birth.payload for birth in source(b).births] == [b"", b"", nbirth(3, 0, T + 10)]  # the others: on disk
    b.crash()
    assert [birth.id for birth in source(b).births] == ids
    assert [birth.payload for birth in source(b).births] == [b"", b"", nbirth(3, 0, T + 10)]
    kept = [row[8:] for key, row in sorted(b.store.bridge.items()) if key.endswith(NBIRTH)]
    assert kept == [nbirth(3, 0, T), nbirth(3, 0, T + 9), nbirth(3, 0, T + 10)]
    collector = connect(b, "c")
    collector.take()
    b.advance(3000)
    assert [birth.id for birth in source(b).births] == ids  # its data is still owed
    collector.take()
    collector.take()
    b.advance(3000)
    assert [birth.id for birth in source(b).births] == ids[2:]
    assert stored(b) == [NBIRTH]


def test_with_nothing_queued_only_the_last_birth_stays() -> None:
    b = broker()
    client = edge(b)
    for number in range(5):
        client.put(NBIRTH, nbirth(3, 0, T + number), 1)
        b.advance(3000)
    assert [birth.payload for birth in source(b).births] == [nbirth(3, 0, T + 4)]
    assert list(b.store.bridge) == [row_key(source(b), source(b).births[0])]


def test_ids_go_on_behind_the_births_that_are_kept() -> None:
    """Else a birth of before the start would stand before messages that it has nothing to do with."""
    b = broker()
    connect(b, "c").subscribe("spBv1.0/#", qos=1)
    edge(b).publish(NBIRTH, nbirth(3))
    b.advance(2000)
    b.crash()
    assert core_of(b).next_seq > source(b).births[0].id


@pytest.mark.parametrize(
    ("key", "value"),
    [("birth x " + NBIRTH, bytes(8)), ("birth 5 nothing/known", bytes(8)), ("birth 5 " + NBIRTH, b"short")],
)
def test_a_row_that_makes_no_sense_is_told_and_removed(key: str, value: bytes) -> None:
    b = broker()
    b.store.bridge[key] = value
    b.crash()
    assert any("makes no sense" in line for line in b.router.take_alarms())
    b.advance(3000)
    assert b.store.bridge == {}


def test_what_is_not_a_birth_is_left_alone() -> None:
    b = broker()
    b.store.bridge["node g/e"] = b"{}"
    b.crash()
    b.advance(3000)
    assert b.store.bridge == {"node g/e": b"{}"}


def test_a_disk_without_room_keeps_the_birth_in_memory_only() -> None:
    b = broker(error_hold_ms=600_000)
    client = edge(b)
    other = connect(b, "other", clean=False)
    b.hold()
    other.publish("x", b"", qos=1, retain=True, pid=1)
    b.fail()
    client.publish(NBIRTH, nbirth(3))
    assert [birth.payload for birth in source(b).births] == [nbirth(3)]
    assert not [key for key in core_of(b).commit.bridge if key.startswith("birth")]


def without_bridge(b: MemoryBroker) -> None:
    limits = load(Sources(sets=("bridge.enabled=false",)), {}).limits()
    limits.commit_window_ms = 0
    b.limits = limits


def certificates(b: MemoryBroker) -> list[str]:
    return [topic for topic, _ in core_of(b).retained.match("$sparkplug/#")]


@pytest.mark.parametrize("crash", [False, True])
def test_with_the_bridge_off_nothing_is_shown_that_nobody_follows(crash: bool) -> None:
    b = broker()
    client = edge(b)
    client.put(NBIRTH, nbirth(3), 1)
    client.put(NBIRTH, nbirth(3, 0, T + 1), 1)
    b.advance(2000)
    assert certificates(b) == ["$sparkplug/certificates/" + NBIRTH]
    on = b.limits
    without_bridge(b)
    if crash:
        b.crash()
    else:
        b.router.reload(b.limits, b.now)
    b.advance(2000)
    assert certificates(b) == []
    assert b.store.bridge == {}
    b.limits = on
    b.router.reload(on, b.now)
    client = edge(b)
    client.put("spBv1.0/g/NDATA/e", data(7, time=T + 9), 1)
    assert EARLY in [event.kind for event in b.router.bridge.take_events()]  # and so it is asked for a birth
    client.put(NBIRTH, nbirth(4, 0, T + 10), 1)
    assert certificates(b) == ["$sparkplug/certificates/" + NBIRTH]


def test_of_the_births_at_a_start_only_those_in_force_are_held() -> None:
    b = broker()
    connect(b, "c").subscribe("spBv1.0/#", qos=1)
    connect(b, "c").drop()
    client = edge(b)
    for number in range(12):  # as text "10" stands before "9"
        client.put(NBIRTH, nbirth(3, 0, T + number), 1)
    b.advance(2000)
    assert len(b.store.bridge) == 12
    b.crash()
    assert [birth.payload for birth in source(b).births] == [*[b""] * 11, nbirth(3, 0, T + 11)]
    assert [birth.id for birth in source(b).births] == sorted(birth.id for birth in source(b).births)
