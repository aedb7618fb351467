"""What time brings: keep alive, expiry, a full disk and one that fails."""

import pytest

from gateway.core.record import unpack_state
from tests.conformance.client import Client
from tests.core_rig import backlog_of, broker, connect, core_of, session_of
from tests.memory import MemoryBroker


def test_the_tick_says_what_is_due_next() -> None:
    b = broker()
    client = connect(b, "s", expiry=1)
    client.drop()
    b.advance(0)
    now = b.now
    assert b.router.on_tick(now) == min(now + 1000, core_of(b).checked_at + 1000)
    b.now += 500
    connect(b, "x", expiry=1).drop()
    assert b.router.on_tick(b.now) <= b.now + 1000


def test_who_never_connects_and_who_is_silent_are_closed() -> None:
    b = broker(connect_timeout_ms=3000)
    mute = Client(b.open(), 5)
    silent, alive = connect(b, "silent", keep_alive=2), connect(b, "alive", keep_alive=2)
    for _ in range(5):
        b.advance(1000)
        alive.ping()
    mute.expect_closed(silent=True)
    silent.expect_closed(0x8D)


def test_messages_on_disk_expire_with_their_segment() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    client.drop()
    publisher = connect(b, "p", clean=True)
    publisher.put("t", b"short", 1, message_expiry_interval=2)
    publisher.put("t", b"long", 1, message_expiry_interval=60)
    b.advance(5_000)
    assert backlog_of(b, "s").count == 1
    assert core_of(b).ledger.drops(session_of(b, "s").sid) == {"expired": 1}
    assert len(b.store.segments) == 1
    b.crash()
    b.advance(60_000)
    assert backlog_of(b, "s").count == 0
    assert not b.store.segments
    assert core_of(b).ledger.drops(session_of(b, "s").sid) == {"expired": 2}


def test_after_the_push_back_the_oldest_are_given_up_and_counted() -> None:
    b = broker(store_bytes_max=5_000, push_back_ms=3_000)
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    client.drop()
    publisher = connect(b, "p", clean=True)
    for n in range(100):
        publisher.publish("t", str(n).encode().ljust(100, b"x"), 1)
    assert len(core_of(b).parked) == 1
    took = backlog_of(b, "s").count
    b.advance(2_500)
    assert backlog_of(b, "s").count == took
    b.advance(10_000)
    drops = core_of(b).ledger.drops(session_of(b, "s").sid)
    assert set(drops) == {"evicted"}
    assert 0 < drops["evicted"] < took
    publisher.expect("PUBACK")
    found = [int(got.payload.rstrip(b"x")) for got in connect(b, "s").take_all()]
    assert found == list(range(drops["evicted"], drops["evicted"] + len(found)))


def trouble(version: int) -> tuple[MemoryBroker, Client, Client]:
    b = broker(error_hold_ms=2_000)
    client = connect(b, "s")
    client.subscribe("t", qos=2)
    publisher = connect(b, "p", version)
    b.hold()
    return b, client, publisher


def fail_for(b: MemoryBroker, ms: int) -> None:
    end = b.now + ms
    while b.now < end:
        if b.submitted is not None:
            b.fail()
        b.advance(250)


@pytest.mark.parametrize("version", [4, 5])
def test_a_store_that_fails_for_long_gives_publishes_back(version: int) -> None:
    b, client, publisher = trouble(version)
    publisher.publish("t", b"1", 1)
    publisher.publish("t", b"2", 2)
    fail_for(b, 1_500)
    link = publisher.link
    assert hasattr(link, "inbox")
    assert not link.inbox
    fail_for(b, 3_000)
    if version == 5:
        assert [publisher.recv().reason for _ in range(2)] == [0x97, 0x97]
    else:
        publisher.expect_closed(silent=True)
    b.release()
    b.advance(5_000)
    s = session_of(b, "s")
    assert core_of(b).ledger.drops(s.sid).get("disk", 0) >= 1
    assert core_of(b).ledger.unaccounted(s.sid, int(s.matched), int(s.settled), len(s.inflight)) == 0
    assert session_of(b, "p").awaiting == {}
    client.take_all()
    b.advance(2_000)
    assert not core_of(b).segments
    assert not b.store.segments


def test_a_refused_id_is_free_again_also_after_a_crash_and_without_its_connection() -> None:
    """Else the next message of that id is taken for a duplicate and lost."""
    b, _, publisher = trouble(5)
    publisher.publish("t", b"1", 2, pid=7)
    publisher.drop()
    fail_for(b, 4_000)
    assert session_of(b, "p").awaiting == {}
    assert b.submitted is None or unpack_state(b.submitted.cursors[session_of(b, "p").sid]).awaiting == []
    b.advance(600)
    b.release_one()
    b.crash()
    publisher = connect(b, "p")
    publisher.publish("t", b"2", 2, pid=7)
    publisher.expect("PUBREC", pid=7)
    assert backlog_of(b, "s").count == 1


def test_what_the_store_has_in_hand_is_not_given_back() -> None:
    """It may get to the disk yet."""
    b, client, publisher = trouble(5)
    publisher.publish("t", b"1", 1)
    b.fail()
    b.release_one()  # what goes on without messages
    b.advance(600)
    assert b.submitted is not None
    assert b.submitted.segment_id  # it hangs
    b.advance(10_000)
    publisher.expect_nothing()
    b.release()
    publisher.expect("PUBACK", reason=0)
    client.take_all()
    b.advance(2_000)
    assert not b.store.segments


def test_a_delivery_whose_id_cannot_be_stored_waits_when_its_message_is_on_disk() -> None:
    b = broker(error_hold_ms=2_000)
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("t", qos=2)
    publisher = connect(b, "p")
    publisher.put("t", b"first", 1)
    publisher.put("t", b"second", 2)
    b.advance(2_000)
    first = client.expect("PUBLISH", payload=b"first")
    b.hold()
    client.ack("PUBACK", first.pid)  # now the id of the second is to be stored
    publisher.publish("t", b"refused", 1)
    assert session_of(b, "s").staged == 1
    fail_for(b, 5_000)
    assert publisher.wait_for("PUBACK").reason == 0x97
    b.release()
    b.advance(1_000)
    client.take(payload=b"second")
    assert core_of(b).ledger.drops(session_of(b, "s").sid) == {"disk": 1}


def test_qos_0_goes_on_while_the_store_fails() -> None:
    b, client, publisher = trouble(5)
    publisher.publish("t", b"1", 1)
    b.fail()
    client.expect("PUBLISH", payload=b"1")
    publisher.publish("t", b"live", 0)
    client.expect("PUBLISH", payload=b"live", qos=0)
