"""SUBSCRIBE and UNSUBSCRIBE on the way to the disk, and retained messages after them."""

import pytest

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
