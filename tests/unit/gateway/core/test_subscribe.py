"""SUBSCRIBE and UNSUBSCRIBE on the way to the disk, and retained messages after them."""

import pytest

from gateway.core.backlog import drop_entry
from tests import wire_format
from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of


def test_suback_waits_for_the_disk_and_retained_messages_follow_it() -> None:
    b = broker()
    connect(b, "p").put("t", b"kept", 1, retain=True)
    client = connect(b, "s")
    b.hold()
    client.send(b"\x82\x07\x00\x01\x00\x00\x01t\x01")
    client.expect_nothing()
    b.release()
    client.expect("SUBACK", reasons=[1])
    client.take(payload=b"kept", retain=True)


def test_retained_messages_for_a_session_that_has_ended_leave_nothing_behind() -> None:
    b = broker()
    connect(b, "p").put("t", b"kept", 1, retain=True)
    client = connect(b, "s")
    b.hold()
    client.send(b"\x82\x07\x00\x01\x00\x00\x01t\x01")
    client.disconnect(expiry=0)
    b.release()
    b.advance(2000)
    assert core_of(b).next_segment == 1  # not even for a moment
    assert not core_of(b).segments
    assert not b.store.segments


def test_a_retained_qos_0_message_for_a_session_that_has_gone_is_counted() -> None:
    b = broker()
    connect(b, "p").put("t", b"kept", 0, retain=True)
    client = connect(b, "s")
    b.hold()
    client.send(b"\x82\x07\x00\x01\x00\x00\x01t\x01")
    client.drop()
    b.release()
    s = session_of(b, "s")
    assert core_of(b).ledger.unaccounted(s.sid, int(s.matched), int(s.settled), 0) == 0


def test_a_raised_retained_message_goes_through_the_log() -> None:
    b = broker(upgrade_qos=True)
    connect(b, "p").put("t", b"kept", 0, retain=True)
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    assert client.expect("PUBLISH").qos == 1
    assert backlog_of(b, "s").count == 1
    client.drop()
    b.crash()
    connect(b, "s").take(payload=b"kept", qos=1)


@pytest.mark.parametrize(
    ("version", "filter", "reason"),
    [(5, "a/#/b", 0x8F), (4, "a/#/b", 0x80), (5, "$share//t", 0x8F), (5, "$share/g", 0x8F), (5, "a/b/c/d", 0x8F)],
)
def test_bad_filters_are_refused_one_by_one(version: int, filter: str, reason: int) -> None:
    b = broker(max_topic_levels=3)
    client = connect(b, "s", version)
    assert client.subscribe(filter, "good", qos=1) == [reason, 1]
    assert list(session_of(b, "s").subscriptions) == ["good"]


def test_no_local_on_a_shared_subscription_is_a_protocol_error() -> None:
    """[MQTT-3.8.3-4]"""
    client = connect(broker(), "s")
    client.send(wire_format.subscribe([("$share/g/t", 1 | 4)], 1, 5))
    client.expect_closed(0x82)


def test_subscribe_and_unsubscribe_in_one_commit_leave_the_last_word() -> None:
    b = broker()
    client = connect(b, "s")
    b.hold()
    subscribe, unsubscribe = b"\x82\x07\x00\x01\x00\x00\x01t\x01", b"\xa2\x06\x00\x02\x00\x00\x01t"
    client.send(subscribe)  # on its way
    client.send(unsubscribe + subscribe)
    b.release()
    assert [client.recv().type for _ in range(3)] == ["SUBACK", "UNSUBACK", "SUBACK"]
    b.hold()
    client.send(b"\xc0\x00")
    client.send(subscribe)
    client.send(subscribe + unsubscribe)
    b.release()
    b.crash()
    assert not session_of(b, "s").subscriptions


def test_what_waited_when_it_unsubscribed_is_still_delivered() -> None:
    b = broker()
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("t", qos=1)
    fill(b, "t", 3)
    client.expect("PUBLISH", payload=b"0")
    client.unsubscribe("t")
    fill(b, "t", 1, start=3)
    assert backlog_of(b, "s").count == 3


def test_asking_again_before_the_answer_brings_retained_messages_once() -> None:
    """A thousand SUBSCRIBEs in one read must not copy all of them a thousand times."""
    b = broker()
    publisher = connect(b, "p", clean=True, expiry=0)
    for n in range(10):
        publisher.put(f"r/{n}", b"x", retain=True)
    client = connect(b, "s", receive_maximum=100)
    b.hold()
    client.send(wire_format.subscribe([("r/#", 1)], 1, 5) * 1000)
    b.release()
    got = client.drain()
    assert [one.type for one in got].count("SUBACK") == 1000
    assert [one.topic for one in got if one.type == "PUBLISH"] == [f"r/{n}" for n in range(10)]


@pytest.mark.parametrize("ranked", [False, True])
def test_who_subscribes_again_and_again_does_not_fill_the_disk(ranked: bool) -> None:
    b = broker(**({"mqueue_priorities": [("r/1", 9)]} if ranked else {}))
    if ranked:
        b.router.reload(b.limits, b.now)
        b.crash()
    publisher = connect(b, "p")
    for number in range(50):
        publisher.put(f"r/{number}", b"kept", 1, retain=True)
    client = connect(b, "s", receive_maximum=3)
    for turn in range(20):
        client.subscribe("r/#", qos=1)
        if turn % 5 == 4:
            client.unsubscribe("r/#")
        if turn % 7 == 6:
            client.drop()
            client = connect(b, "s", receive_maximum=3)
    s = session_of(b, "s")
    assert s.owed() <= 50 + 3 * 20
    client.subscribe("r/#", qos=1)
    client.drop()
    client = connect(b, "s")
    topics = {got.topic for got in client.take_all()}
    assert topics == {f"r/{number}" for number in range(50)}
    b.advance(2000)
    assert not core_of(b).copies


def test_what_was_sent_comes_again_with_the_next_subscribe() -> None:
    b = broker()
    connect(b, "p").put("r", b"kept", 1, retain=True)
    client = connect(b, "s")
    for _ in range(3):
        client.subscribe("r", qos=1)
        client.take(payload=b"kept", retain=True)


def test_a_newer_retained_message_comes_beside_the_one_that_waits() -> None:
    b = broker()
    publisher = connect(b, "p")
    publisher.put("q", b"first", 1, retain=True)
    publisher.put("r", b"old", 1, retain=True)
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("q", "r", qos=1)
    client.unsubscribe("q", "r")
    publisher.put("r", b"new", 1, retain=True)
    client.subscribe("r", qos=1)
    assert [got.payload for got in client.take_all()] == [b"first", b"old", b"new"]


def test_a_copy_that_was_dropped_is_made_again() -> None:
    b = broker()
    publisher = connect(b, "p")
    publisher.put("q", b"first", 1, retain=True)
    publisher.put("r", b"kept", 1, retain=True, message_expiry_interval=1000)
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("q", "r", qos=1)
    queue = backlog_of(b, "s")
    waits = queue.ram.head().message
    drop_entry(core_of(b), queue, waits, "evicted", b.now)
    client.subscribe("r", qos=1)
    assert [got.payload for got in client.take_all()] == [b"first", b"kept"]
