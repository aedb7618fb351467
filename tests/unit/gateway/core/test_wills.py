"""Wills: kept from CONNECT on, published once, dropped once; also over a crash."""

import pytest

from tests.core_rig import backlog_of, broker, connect, core_of, fill
from tests.memory import MemoryBroker


def watcher() -> MemoryBroker:
    b = broker()
    connect(b, "w").subscribe("will", qos=1)
    connect(b, "w").drop()
    return b


def got(b: MemoryBroker) -> list[bytes]:
    found = [p.payload for p in connect(b, "w").take_all()]
    b.advance(2_000)  # that it was acknowledged goes to the disk with time
    return found


@pytest.mark.parametrize("delay", [0, 5])
def test_a_crash_is_a_lost_connection(delay: int) -> None:
    b = watcher()
    connect(b, "s", will=("will", b"gone", 1, False, {"will_delay_interval": delay}))
    b.crash()
    b.advance(4_000)
    assert backlog_of(b, "w").count == (0 if delay else 1)
    b.advance(2_000)
    b.crash()
    assert got(b) == [b"gone"]
    b.crash()
    assert got(b) == []


def test_the_will_of_a_crash_stands_behind_what_was_on_disk() -> None:
    """What is published while the queues are being loaded must not hide what they hold."""
    b = watcher()
    connect(b, "s", will=("will", b"gone", 1, False))
    fill(b, "will", 3)
    b.crash()
    assert got(b) == [b"0", b"1", b"2", b"gone"]


def test_publication_and_removal_are_one_commit() -> None:
    b = watcher()
    client = connect(b, "s", will=("will", b"gone", 1, False))
    assert b.store.wills
    b.hold()
    client.drop()
    batch = b.submitted
    assert batch is not None
    assert batch.segment_id
    assert batch.wills == {"s": None}


def test_after_a_disconnect_nothing_of_it_is_left() -> None:
    b = watcher()
    connect(b, "s", will=("will", b"gone", 1, False)).disconnect()
    assert not b.store.wills
    assert not core_of(b).stored_wills
    b.crash()
    assert got(b) == []


def test_a_new_connection_within_the_delay_takes_the_pending_will_back() -> None:
    b = watcher()
    connect(b, "s", will=("will", b"gone", 1, False, {"will_delay_interval": 5})).drop()
    b.advance(3_000)
    connect(b, "s")
    b.advance(5_000)
    assert got(b) == []
    assert not b.store.wills


def test_the_end_of_the_session_comes_before_the_delay() -> None:
    b = watcher()
    connect(b, "s", expiry=2, will=("will", b"gone", 1, False, {"will_delay_interval": 500})).drop()
    b.advance(3_000)
    assert got(b) == [b"gone"]


def test_without_room_a_retained_will_and_its_removal_wait_together() -> None:
    b = broker(error_hold_ms=60_000)
    client = connect(b, "s", will=("t", b"gone", 1, True))
    b.hold()
    client.drop()
    batch = b.submitted
    assert batch is not None
    assert (list(batch.retained), batch.wills) == (["t"], {"s": None})
    b.fail("disk full")
    for _ in range(4):
        if b.submitted is not None:
            assert not b.submitted.retained
            assert not b.submitted.wills
            b.release_one()
        b.now += 100
        b.router.on_tick(b.now)
        b.pump()
    b.crash()
    b.advance(2_000)
    assert "t" in b.store.retained
    assert not b.store.wills
