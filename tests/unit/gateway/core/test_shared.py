"""Shared groups: who gets what when members come, go and end."""

from tests.core_rig import broker, connect, core_of, fill, session_of
from tests.memory import MemoryBroker

SHARE = "$share/g/t"


def books(b: MemoryBroker) -> None:
    """matched = acknowledged + in flight + queued + dropped, for each member."""
    for row in b.router.sessions(b.now):
        if row["kind"] == "session":
            drops = row["drops"]
            assert isinstance(drops, dict)
            assert row["matched"] == row["acknowledged"] + row["inflight"] + row["queue_messages"] + sum(  # type: ignore[operator]
                drops.values()
            ), row


def test_what_an_ended_member_had_goes_to_another_in_its_place() -> None:
    b = broker()
    one = connect(b, "one", receive_maximum=2)
    one.subscribe(SHARE, qos=1)
    fill(b, "t", 4)
    assert [got.payload for got in one.drain()] == [b"0", b"1"]
    two = connect(b, "two", receive_maximum=10)
    two.subscribe(SHARE, qos=1)
    assert [got.payload for got in two.drain()] == [b"2", b"3"]
    connect(b, "one", clean=True)  # its old session ends
    assert [got.payload for got in two.drain()] == [b"0", b"1"]
    books(b)
    two.ack_many("PUBACK", list(session_of(b, "two").inflight))
    b.advance(2000)
    assert not core_of(b).segments


def test_what_came_back_and_was_acknowledged_out_of_order_comes_no_more() -> None:
    b = broker()
    one = connect(b, "one", receive_maximum=1)
    one.subscribe(SHARE, qos=1)
    two = connect(b, "two", receive_maximum=3)
    two.subscribe(SHARE, qos=1)
    fill(b, "t", 4)
    first = one.drain()
    rest = two.drain()
    assert len(first) + len(rest) == 4
    connect(b, "one", clean=True)
    for got in rest:
        two.ack("PUBACK", got.pid)
    again = two.drain()
    assert [got.payload for got in again] == [got.payload for got in first]
    two.drop()
    b.advance(2000)
    b.crash()
    two = connect(b, "two")
    assert [got.payload for got in two.drain()] == [got.payload for got in first]


def test_a_sent_qos_2_message_goes_to_nobody_else_and_is_counted() -> None:
    """[MQTT-4.8.2-5]"""
    b = broker()
    one = connect(b, "one")
    one.subscribe(SHARE, qos=2)
    fill(b, "t", 1, qos=2)
    one.expect("PUBLISH")
    two = connect(b, "two")
    two.subscribe(SHARE, qos=2)
    connect(b, "one", clean=True)
    two.expect_nothing()
    assert core_of(b).ledger.drops(core_of(b).groups[SHARE].sid) == {"shared_qos2": 1}


def test_a_staged_qos_2_message_goes_to_another_member() -> None:
    b = broker()
    one = connect(b, "one")
    one.subscribe(SHARE, qos=2)
    two = connect(b, "two", receive_maximum=1)
    two.subscribe(SHARE, qos=2)
    publisher = connect(b, "p", clean=True, expiry=0)
    b.hold()
    publisher.publish("t", b"0", 2)
    one.disconnect(expiry=0)
    b.release()
    two.take(payload=b"0")
    b.advance(2000)
    assert not core_of(b).segments


def test_who_joins_gets_what_waited_for_the_group() -> None:
    b = broker()
    connect(b, "one").subscribe(SHARE, qos=1)
    connect(b, "one").drop()
    fill(b, "t", 3)
    two = connect(b, "two")
    two.subscribe(SHARE, qos=1)
    assert [two.take().payload for _ in range(3)] == [b"0", b"1", b"2"]


def test_members_of_a_memory_group_take_over_what_waits() -> None:
    b = broker()
    one = connect(b, "one", clean=True, expiry=0, receive_maximum=1)
    one.subscribe(SHARE, qos=1)
    fill(b, "t", 3)
    assert len(session_of(b, "one").queue) == 2
    two = connect(b, "two", clean=True, expiry=0)
    two.subscribe(SHARE, qos=1)
    one.drop()
    assert sorted(got.payload for got in two.drain()) == [b"0", b"1", b"2"]
    books(b)
    assert core_of(b).ledger.drops(0) == {}


def test_the_last_member_takes_the_group_along() -> None:
    b = broker()
    one = connect(b, "one")
    one.subscribe(SHARE, qos=1)
    one.drop()
    fill(b, "t", 2)
    sid = core_of(b).groups[SHARE].sid
    one = connect(b, "one")
    one.unsubscribe(SHARE)
    b.advance(2000)
    assert not core_of(b).groups
    assert not b.store.segments
    assert sid not in b.store.sessions
    assert core_of(b).ledger.drops(0) == {"session_end": 2}


def test_a_received_qos_2_message_comes_to_nobody_after_a_crash() -> None:
    """The group's cursor is written with the PUBREC."""
    b = broker()
    one = connect(b, "one")
    one.subscribe(SHARE, qos=2)
    fill(b, "t", 1, qos=2)
    got = one.expect("PUBLISH")
    one.ack("PUBREC", got.pid)
    one.expect("PUBREL")
    b.crash()
    two = connect(b, "two")
    two.subscribe(SHARE, qos=2)
    two.expect_nothing()
