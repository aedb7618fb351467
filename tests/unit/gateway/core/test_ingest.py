"""Live, late or here already: what the core makes of the messages of a node; and the envelope."""

from typing import Any

import pytest

from gateway.core import nodes
from gateway.core.ingest import ID_BLOCK, IDS_KEY, own_only
from tests.core_rig import broker, connect, core_of
from tests.plant import TOPIC, Plant, T, envelope, late
from tests.spb_bytes import data, metric, nbirth, ndeath, payload


def test_the_envelope() -> None:
    plant = Plant()
    plant.broker.router.bridge.set_utc(T + 5, True, plant.broker.now)
    plant.born()
    first = envelope(plant.say("NDATA", data(1)))
    assert first == {
        "forebay-id": first["forebay-id"], "forebay-received": str(T + 5), "forebay-clock": "synchronised",
        "forebay-late": "0", "forebay-qos": "0",
    }  # fmt: skip
    plant.broker.router.bridge.set_utc(T + 9, False, plant.broker.now)
    second = envelope(plant.say("NDATA", data(2), qos=1))
    assert (second["forebay-received"], second["forebay-clock"], second["forebay-qos"]) == (
        str(T + 9), "unsynchronised", "1",
    )  # fmt: skip
    assert int(second["forebay-id"]) == int(first["forebay-id"]) + 1


def test_what_a_publisher_writes_into_the_envelope_is_taken_out() -> None:
    plant = Plant()
    plant.born()
    writer = connect(plant.broker, "w", clean=True)
    writer.publish(
        TOPIC.format("NDATA"), data(1), content_type="x", user_property=[("a", "b"), ("forebay-id", "7"), ("c", "d")]
    )
    got = plant.collector.take()
    names = [name for name, _ in got.props["user_property"]]
    assert names[:2] == ["a", "c"]
    assert names.count("forebay-id") == 1
    assert got.props["content_type"] == "x"


def test_own_only_leaves_all_else_as_it_is() -> None:
    pair = b"\x26\x00\x01a\x00\x08forebay-"
    props = b"\x01\x01\x03\x00\x01t\x08\x00\x01r\x09\x00\x02cd" + pair
    assert own_only(props) == props
    assert own_only(b"\x26\x00\x08forebay-\x00\x00" + pair) == pair


def test_a_message_leaves_when_it_is_on_disk_and_not_before() -> None:
    plant = Plant()
    plant.born()
    plant.broker.hold()
    plant.edge.publish(TOPIC.format("NDATA"), data(1))
    plant.collector.expect_nothing()
    plant.broker.release()
    plant.collector.take(payload=data(1))


def test_what_waits_for_its_commit_holds_nothing_else_up_and_keeps_its_place() -> None:
    plant = Plant(commit_window_ms=20)
    plant.collector.subscribe("plain", qos=1)
    plant.born()
    other = connect(plant.broker, "other", clean=True)
    plant.broker.hold()
    plant.edge.publish(TOPIC.format("NDATA"), data(1))
    other.publish("plain", b"behind", qos=1)
    plant.collector.expect_nothing()
    plant.broker.release()
    assert [got.payload for got in plant.collector.take_all()] == [data(1), b"behind"]


def test_a_crash_before_the_commit_shows_nobody_an_id() -> None:
    plant = Plant()
    plant.born()
    seen = int(envelope(plant.say("NDATA", data(1)))["forebay-id"])
    plant.broker.hold()
    plant.edge.publish(TOPIC.format("NDATA"), data(2))
    plant.broker.crash()
    plant.collector = connect(plant.broker, "collector")
    plant.collector.take_all()
    plant.come(0)
    fresh = int(envelope(plant.say("NBIRTH", nbirth(1)))["forebay-id"])
    assert fresh > seen
    assert fresh >= plant.broker.store.meta[IDS_KEY] - ID_BLOCK  # type: ignore[operator]


def test_elided_only_on_request_and_only_with_ids_that_are_safe() -> None:
    """Delivered before it is on disk: then a crash must not give its id to another message."""
    plant = Plant(commit_window_ms=20, bridge_elide=True)
    plant.born()
    plant.broker.hold()
    plant.edge.publish(TOPIC.format("NDATA"), data(1))
    seen = int(envelope(plant.collector.take(payload=data(1)))["forebay-id"])
    plant.broker.advance(100)
    assert plant.broker.submitted is None or not plant.broker.submitted.segment_id
    plant.broker.crash()
    plant.collector = connect(plant.broker, "collector")
    plant.collector.take_all()
    plant.come(0)
    assert int(envelope(plant.say("NBIRTH", nbirth(1)))["forebay-id"]) > seen


def test_without_the_bridge_qos_0_is_qos_0() -> None:
    plant = Plant(bridge=False)
    plant.edge.publish(TOPIC.format("NDATA"), data(1))
    got = plant.collector.expect("PUBLISH", qos=0, payload=data(1))
    assert "user_property" not in got.props
    assert core_of(plant.broker).nodes.sources == {}


def test_in_order_nothing_is_told_but_the_birth() -> None:
    plant = Plant()
    plant.say("NBIRTH", nbirth(0, 0, T))
    for number in range(1, 300):
        assert late(plant.say("NDATA", data(number % 256, time=T + number))) == "0"
    assert plant.events() == [(nodes.BORN, 0, 0)]
    assert plant.node.expected == 300 % 256


def test_a_hole_is_a_gap_and_what_fills_it_is_late() -> None:
    plant = Plant()
    plant.born()
    plant.say("NDATA", data(1, time=T + 1))
    assert late(plant.say("NDATA", data(4, time=T + 4))) == "0"
    assert plant.events() == [(nodes.GAP, 2, 4)]
    assert plant.node.missing == {2, 3}
    assert late(plant.say("NDATA", data(2, time=T + 2))) == "1"
    assert plant.events() == []
    assert late(plant.say("NDATA", data(3, time=T + 3))) == "1"
    assert plant.events() == [(nodes.FILLED, 0, 0)]
    assert late(plant.say("NDATA", data(5, time=T + 5))) == "0"


def test_a_gap_over_the_end_of_the_counter() -> None:
    plant = Plant()
    plant.born()
    plant.node.expected = 255
    plant.say("NDATA", data(1, time=T + 1))
    assert plant.events() == [(nodes.GAP, 255, 1)]
    assert plant.node.missing == {255, 0}


def test_an_old_seq_after_a_new_birth_is_late_and_no_gap() -> None:
    """What was in flight comes again after the birth, as paho sends it."""
    plant = Plant()
    plant.born(0, T)
    plant.say("NDATA", data(1, time=T + 1))
    plant.edge.drop()
    plant.collector.take()  # the death
    plant.come(1)
    plant.born(1, T + 100)
    assert late(plant.say("NDATA", data(57, time=T + 57), qos=1)) == "1"
    assert plant.events() == []
    assert late(plant.say("NDATA", data(1, time=T + 101))) == "0"


def test_the_same_before_the_birth_as_mqtt_js_sends_it() -> None:
    plant = Plant()
    plant.born(0, T)
    plant.edge.drop()
    plant.collector.take()
    plant.events()
    plant.come(1)
    assert late(plant.say("NDATA", data(57, time=T + 57), qos=1)) == "1"
    assert late(plant.say("NDATA", data(58, time=T + 58), qos=1)) == "1"
    assert plant.events() == [(nodes.EARLY, 57, 0)]  # told once
    plant.born(1, T + 100)
    assert late(plant.say("NDATA", data(1, time=T + 101))) == "0"


def test_historical_is_late_in_its_order_and_out_of_it() -> None:
    plant = Plant()
    plant.born()
    assert late(plant.say("NDATA", data(1, time=T + 5, historical=True))) == "1"
    assert late(plant.say("NDATA", data(2, time=T + 6))) == "0"
    assert late(plant.say("NDATA", data(9, time=T + 7, historical=True))) == "1"
    assert late(plant.say("NDATA", data(3, time=T + 8))) == "0"
    assert plant.events() == []


@pytest.mark.parametrize("qos", [1, 2])
def test_the_same_seq_and_bytes_again_are_given_to_nobody_but_acknowledged(qos: int) -> None:
    plant = Plant()
    plant.born()
    plant.say("NDATA", data(1, time=T + 1), qos)
    plant.quiet("NDATA", data(1, time=T + 1), qos)
    source = core_of(plant.broker).nodes.sources[TOPIC.format("NDATA")]
    assert source.repeated == 1
    assert plant.events() == []


def test_the_same_seq_with_other_bytes_is_another_message() -> None:
    """A counter that has gone round, or a fault: never dropped."""
    plant = Plant()
    plant.born()
    plant.say("NDATA", data(1, 5, T + 1), 1)
    plant.say("NDATA", data(1, 6, T + 1), 1)
    assert [kind for kind, *_ in plant.events()] == [nodes.GAP]


def test_the_same_bytes_in_order_are_no_repetition() -> None:
    """A device whose clock stands still says the same after 256 messages."""
    plant = Plant()
    plant.born()
    for number in range(1, 520):
        plant.say("NDATA", data(number % 256, time=T + 1), 1)
    assert plant.events() == []


def test_a_repetition_over_a_reconnect_although_its_seq_is_the_next() -> None:
    """The PUBACK was lost: seq 1 of the old session comes again where seq 1 of the new one is expected."""
    plant = Plant()
    plant.born(0, T)
    plant.say("NDATA", data(1, time=T + 1), 1)
    plant.edge.drop()
    plant.collector.take()
    plant.come(1)
    plant.born(1, T + 100)
    plant.quiet("NDATA", data(1, time=T + 1), 1)
    assert late(plant.say("NDATA", data(1, time=T + 101), 1)) == "0"
    assert plant.events() == []


def test_without_a_timestamp_nothing_is_a_repetition() -> None:
    plant = Plant()
    plant.born()
    body = payload(metric("", 1, 1), time=None, seq=1)
    plant.say("NDATA", body, 1)
    plant.say("NDATA", body, 1)


def test_qos_0_is_never_a_repetition() -> None:
    plant = Plant()
    plant.born()
    plant.say("NDATA", data(1, time=T + 1), 0)
    plant.say("NDATA", data(1, time=T + 1), 0)


def test_what_the_disk_refused_is_no_repetition_when_it_comes_again() -> None:
    plant = Plant(error_hold_ms=1000)
    plant.born()
    sender = connect(plant.broker, "sender", clean=True)
    plant.broker.hold()
    sender.publish(TOPIC.format("NDATA"), data(1), qos=1, pid=1)
    for _ in range(6):
        if plant.broker.submitted is not None:
            plant.broker.fail()
        plant.broker.advance(500)
    sender.expect("PUBACK", pid=1, reason=0x97)
    while plant.broker.submitted is not None and plant.broker.submitted.segment_id:
        plant.broker.fail()
    plant.broker.release()
    plant.broker.advance(2000)
    sender.publish(TOPIC.format("NDATA"), data(1), qos=1, pid=2)
    sender.expect("PUBACK", pid=2, reason=0)
    plant.collector.take(payload=data(1))


def test_the_answer_to_a_repetition_waits_for_the_first_one() -> None:
    plant = Plant()
    plant.born()
    plant.broker.hold()
    plant.edge.publish(TOPIC.format("NDATA"), data(1), qos=1, pid=1)
    plant.edge.publish(TOPIC.format("NDATA"), data(1), qos=1, pid=2)
    plant.edge.expect_nothing()
    plant.broker.release()
    assert [plant.edge.expect("PUBACK").pid for _ in range(2)] == [1, 2]
    plant.collector.take(payload=data(1))
    plant.collector.expect_nothing()


def test_the_answer_to_a_repetition_waits_also_on_another_connection() -> None:
    """There nothing stands before it: only the commit of the first one holds it back."""
    plant = Plant()
    plant.born()
    again = connect(plant.broker, "again", version=4, clean=True)
    plant.broker.hold()
    plant.edge.publish(TOPIC.format("NDATA"), data(1), qos=1, pid=1)
    again.publish(TOPIC.format("NDATA"), data(1), qos=1, pid=2)
    again.expect_nothing()
    plant.broker.release()
    assert again.expect("PUBACK").pid == 2
    plant.collector.take(payload=data(1))
    plant.collector.expect_nothing()


def test_the_will_is_ingested_like_any_death() -> None:
    plant = Plant(will_qos=0)
    plant.born(0)
    plant.edge.drop()
    got = plant.collector.take(topic=TOPIC.format("NDEATH"), payload=ndeath(0), qos=1)
    assert (late(got), envelope(got)["forebay-qos"]) == ("0", "0")
    assert sorted(plant.events()) == [(nodes.DIED, 0, 0), (nodes.LEFT, 0, 0)]
    assert not plant.node.born


def test_a_death_of_another_session_is_stale() -> None:
    """The half-open connection of before: its will comes after the new birth."""
    plant = Plant()
    old = plant.come(0, name="old")
    plant.born(0)
    plant.come(1, name="new")
    plant.born(1)
    old.drop()
    got = plant.collector.take(payload=ndeath(0))
    assert late(got) == "1"
    assert plant.events() == [(nodes.STALE_DEATH, 0, 1)]
    assert plant.node.born
    assert late(plant.say("NDATA", data(1))) == "0"


def test_a_death_that_comes_twice_is_one() -> None:
    plant = Plant()
    plant.born(0)
    plant.say("NDEATH", ndeath(0), 1)
    plant.say("NDEATH", ndeath(0), 1)
    assert [kind for kind, *_ in plant.events()] == [nodes.DIED]


def test_a_birth_with_the_bd_seq_of_the_death_is_in_doubt() -> None:
    plant = Plant()
    plant.born(0)
    plant.say("NDEATH", ndeath(0), 1)
    plant.events()
    plant.say("NBIRTH", nbirth(0, 0, T + 5))
    assert plant.events() == [(nodes.BORN, 1, 0)]
    plant.say("NBIRTH", nbirth(0, 0, T + 6))  # the rebirth
    assert plant.events() == [(nodes.BORN, 0, 0)]


def test_an_old_birth_never_takes_the_place_of_a_newer_one() -> None:
    plant = Plant()
    plant.born(1, T + 100)
    assert late(plant.say("NBIRTH", nbirth(0, 0, T), 1)) == "1"
    assert plant.events() == [(nodes.OLD_BIRTH, T, T + 100)]
    assert (plant.node.bd_seq, plant.node.birth_time) == (1, T + 100)
    topic = TOPIC.format("NBIRTH")
    assert [birth.payload for birth in core_of(plant.broker).nodes.sources[topic].births] == [nbirth(1, 0, T + 100)]


def test_a_birth_after_a_clock_was_set_back_counts() -> None:
    plant = Plant()
    plant.broker.router.bridge.set_utc(T, True, plant.broker.now)
    plant.born(1, T + 3_600_000)
    assert late(plant.say("NBIRTH", nbirth(1, 0, T + 1), 1)) == "0"
    assert late(plant.say("NDATA", data(1, time=T + 2))) == "0"
    assert plant.node.birth_time == T + 1
    plant.broker.router.bridge.set_utc(T, False, plant.broker.now)  # nobody knows who is right
    plant.say("NBIRTH", nbirth(1, 0, T + 3_600_000))
    assert late(plant.say("NBIRTH", nbirth(1, 0, T + 3), 1)) == "1"


def test_an_old_device_birth_is_late_and_names_nothing() -> None:
    plant = Plant()
    topic = "spBv1.0/g/DBIRTH/e/d"
    plant.born(1, T + 100)
    plant.edge.put(topic, payload(metric("new", 1, 7), time=T + 101, seq=1), 1)
    plant.edge.put(topic, payload(metric("old", 1, 7), time=T + 1, seq=9), 1)
    assert plant.events() == [(nodes.OLD_BIRTH, T + 1, T + 100)]
    births = core_of(plant.broker).nodes.sources[topic].births
    assert [birth.payload for birth in births] == [payload(metric("new", 1, 7), time=T + 101, seq=1)]


def test_on_a_new_connection_a_birth_counts_whatever_its_time() -> None:
    """A device without a clock of its own starts in the past."""
    plant = Plant()
    plant.born(1, T + 100)
    plant.come(2, name="again")
    plant.born(2, T - 1000)
    assert late(plant.say("NDATA", data(1, time=T - 999))) == "0"


def test_an_unreadable_payload_is_kept_and_counted() -> None:
    plant = Plant()
    plant.born()
    plant.say("NDATA", b"\x12\x05no")
    assert core_of(plant.broker).nodes.sources[TOPIC.format("NDATA")].unreadable == 1
    assert late(plant.say("NDATA", data(1))) == "0"


@pytest.mark.parametrize("damaged", [b"", b"\xff\xff", b'{"json":1}', nbirth(2)[:-3]])
@pytest.mark.parametrize("topic", [TOPIC.format("NBIRTH"), "spBv1.0/g/DBIRTH/e/d"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_birth_that_cannot_be_read_is_late_and_the_one_in_force_stays(topic: str, damaged: bytes, qos: int) -> None:
    plant = Plant()
    plant.collector.subscribe("spBv1.0/g/DBIRTH/e/d", qos=1)
    plant.born(1)
    plant.edge.put("spBv1.0/g/DBIRTH/e/d", payload(metric("x", 1, 7), time=T + 1, seq=1), 0)
    plant.collector.take()
    core = core_of(plant.broker)
    source = core.nodes.sources[topic]
    before = [birth.payload for birth in source.births]
    plant.edge.put(topic, damaged, qos)
    assert late(plant.collector.take(payload=damaged)) == "1"
    assert [birth.payload for birth in source.births] == before
    shown = core.retained.get("$sparkplug/certificates/" + topic)
    assert shown is not None
    assert shown.payload == before[-1]
    assert (source.unreadable, source.late, plant.node.born, plant.node.bd_seq) == (1, 1, True, 1)
    assert late(plant.say("NDATA", data(2, time=T + 2))) == "0"


def test_data_without_seq_is_counted_by_nobody() -> None:
    plant = Plant()
    plant.born()
    plant.say("NDATA", payload(metric("", 1, 1), time=T + 1))
    assert plant.events() == []
    assert plant.node.expected == 1


def test_a_disk_that_is_behind_holds_the_node_back() -> None:
    """QoS 0 cannot be refused, so the node is read no further while the trouble is young."""
    plant = Plant(error_hold_ms=10_000)
    plant.born()
    plant.broker.hold()
    plant.edge.publish(TOPIC.format("NDATA"), data(1))
    plant.broker.fail()
    plant.edge.publish(TOPIC.format("NDATA"), data(2))
    assert plant.broker.router.status(plant.broker.now)["parked"] == 1
    plant.broker.release()
    plant.broker.advance(2000)
    assert [got.payload for got in plant.collector.take_all()] == [data(1), data(2)]


def test_qos_0_that_a_failing_disk_does_not_take_in_time_is_a_counted_drop() -> None:
    plant = Plant(error_hold_ms=1000)
    plant.born()
    plant.broker.hold()
    plant.edge.publish(TOPIC.format("NDATA"), data(1))
    viewer = connect(plant.broker, "viewer", clean=True, expiry=0)
    for _ in range(6):
        if plant.broker.submitted is not None:
            plant.broker.fail()
        plant.broker.advance(500)
    viewer.subscribe("spBv1.0/#", qos=0)
    plant.edge.publish(TOPIC.format("NDATA"), data(2))
    viewer.expect("PUBLISH", payload=data(2), qos=0)
    row: Any = plant.broker.router.session("collector", plant.broker.now)
    assert row["drops"] == {"disk": 1}
    while plant.broker.submitted is not None and plant.broker.submitted.segment_id:
        plant.broker.fail()
    plant.broker.release()
    plant.broker.advance(2000)
    plant.collector.take(payload=data(1))
    plant.collector.expect_nothing()


def test_a_memory_session_gets_the_message_as_it_was() -> None:
    plant = Plant()
    viewer = connect(plant.broker, "viewer", version=4, clean=True)
    viewer.subscribe("spBv1.0/#", qos=1)
    plant.born()
    viewer.expect("PUBLISH", qos=0)
    plant.say("NDATA", data(1))
    viewer.expect("PUBLISH", payload=data(1), qos=0)
    plant.say("NDATA", data(2), 1)
    viewer.expect("PUBLISH", payload=data(2), qos=1)


def test_a_command_does_not_wait_for_long() -> None:
    b = broker(command_expiry_ms=5000)
    node = connect(b, "node", clean=False)
    node.subscribe("spBv1.0/g/NCMD/e", qos=1)
    node.drop()
    host = connect(b, "host", clean=True)
    host.put("spBv1.0/g/NCMD/e", b"old", 1)
    b.advance(4000)
    host.put("spBv1.0/g/NCMD/e", b"new", 1)
    b.advance(2000)
    assert [got.payload for got in connect(b, "node").take_all()] == [b"new"]
