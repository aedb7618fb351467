"""Small neighbours of the log are one segment in RAM; what several queues read is read and unpacked once."""

import pytest

from gateway.core import segments
from gateway.core.message import Segment
from tests import wire_format as mqtt
from tests.core_rig import backlog_of, broker, connect, core_of, fill
from tests.memory import MemoryBroker
from tests.property.audit import audit, audit_idle
from tests.station import Station


def away(b: MemoryBroker, *names: str) -> None:
    for name in names:
        client = connect(b, name)
        client.subscribe("t", qos=1)
        client.drop()


def taken(b: MemoryBroker, name: str) -> list[int]:
    client = Station(b, name)
    got: list[int] = []
    while more := client.take():
        got += [int(payload) for payload in more]
    client.drop()
    return got


def test_small_commits_become_one_segment_and_leave_the_disk_together() -> None:
    b = broker(sys_interval_ms=0)
    away(b, "s")
    fill(b, "t", 200)
    core = core_of(b)
    assert len(b.store.segments) == 200
    assert len(core.segments) == 1
    assert len(backlog_of(b, "s").owed) == 1
    audit(core, b.store)
    assert taken(b, "s") == list(range(200))
    b.advance(2000)
    audit_idle(core, b.store)


def test_they_are_one_after_a_start_too() -> None:
    b = broker(sys_interval_ms=0)
    away(b, "s")
    fill(b, "t", 100)
    client = Station(b, "s")
    got = [int(payload) for payload in client.take()[:20]]
    b.advance(2000)
    b.crash()
    core = core_of(b)
    assert len(core.segments) == 1
    audit(core, b.store)
    got = taken(b, "s")
    assert got[-1] == 99
    assert got == list(range(got[0], 100))
    b.advance(2000)
    audit_idle(core, b.store)


def test_a_segment_grows_behind_a_reader_and_nothing_is_left_out() -> None:
    b = broker(window_messages=4, sys_interval_ms=0)
    away(b, "s")
    fill(b, "t", 10)
    client = Station(b, "s", props=[(mqtt.RECEIVE_MAXIMUM, 2)])
    got: list[int] = []
    for turn in range(30):
        got += [int(payload) for payload in client.take()]
        fill(b, "t", 1, start=10 + turn)
        audit(core_of(b), b.store)
    while more := client.take():
        got += [int(payload) for payload in more]
    assert got == list(range(40))


def test_messages_of_different_queues_share_a_segment() -> None:
    b = broker(sys_interval_ms=0)
    for name in ("x", "y"):
        client = connect(b, name)
        client.subscribe(name, qos=1)
        client.drop()
    for number in range(10):
        fill(b, "xy"[number % 2], 1, start=number)
    core = core_of(b)
    assert len(core.segments) == 1
    assert taken(b, "x") == [0, 2, 4, 6, 8]
    audit(core, b.store)
    assert len(core.segments) == 1
    assert taken(b, "y") == [1, 3, 5, 7, 9]
    b.advance(2000)
    audit_idle(core, b.store)


@pytest.mark.parametrize(
    ("change", "joins"),
    [
        ({}, True),
        ({"id": 8}, False),
        ({"bytes": segments.JOIN_BYTES}, False),
        ({"time": 1000 + segments.JOIN_MS + 1}, False),
        ({"expires": 5000}, False),
        ({"damaged": True}, False),
    ],
)
def test_what_joins(change: dict[str, int], joins: bool) -> None:
    before, segment = Segment(5), Segment(7)
    before.upto = 6
    before.since = before.time = segment.time = 1000
    before.bytes = segment.bytes = 100
    for name, value in change.items():
        setattr(segment, name, value)
    assert segments.fits(core_of(broker()), before, segment) == joins


def test_a_segment_stays_far_below_the_budget() -> None:
    b = broker(store_bytes_max=20_000, sys_interval_ms=0)
    away(b, "s")
    fill(b, "t", 50)
    assert len(core_of(b).segments) > 5
    assert taken(b, "s") == list(range(50))


def test_damage_to_one_part_costs_only_that_part() -> None:
    b = broker(sys_interval_ms=0, window_messages=4)
    away(b, "s", "other")
    fill(b, "t", 30)
    third = list(b.store.segments)[2]
    last, targets, _ = b.store.segments[third]
    b.store.segments[third] = last, targets, b""
    want = [number for number in range(30) if number != 2]
    assert taken(b, "s") == want
    fill(b, "t", 5, start=30)
    assert taken(b, "other") == [*want, 30, 31, 32, 33, 34]
    assert core_of(b).ledger.drops(0) == {"damaged": 2}
    audit(core_of(b), b.store)


def test_many_readers_read_and_unpack_a_part_once() -> None:
    b = broker(sys_interval_ms=0, window_messages=50)
    names = [f"s{number}" for number in range(5)]
    away(b, *names)
    fill(b, "t", 300)
    read: list[int] = []
    real = b.store.read_now

    def counting(ids: list[int]) -> list[tuple[int, bytes]]:
        read.extend(ids)
        return real(ids)

    b.store.read_now = counting  # type: ignore[method-assign, assignment]
    clients = [Station(b, name) for name in names]
    got: dict[str, list[int]] = {name: [] for name in names}
    while any(core_of(b).segments.values()) and any(backlog_of(b, name).count for name in names):
        for name, client in zip(names, clients, strict=True):
            got[name] += [int(payload) for payload in client.take()]
    assert all(numbers == list(range(300)) for numbers in got.values())
    assert len(read) == len(set(read)) == 300
    assert core_of(b).unpacked.bytes <= segments.UNPACKED_BYTES


def test_one_reader_leaves_nothing_unpacked_behind() -> None:
    b = broker(sys_interval_ms=0)
    away(b, "s")
    fill(b, "t", 100)
    assert taken(b, "s") == list(range(100))
    assert not core_of(b).unpacked.found


def test_what_is_held_unpacked_is_bounded() -> None:
    b = broker(sys_interval_ms=0)
    away(b, "one", "two")
    giver = connect(b, "giver", clean=True, expiry=0)
    for number in range(40):
        giver.put("t", str(number).encode().ljust(60_000), 1)
    assert taken(b, "one") == list(range(40))
    core = core_of(b)
    assert 0 < core.unpacked.bytes <= segments.UNPACKED_BYTES
    assert sum(part.size for part in core.unpacked.found.values()) == core.unpacked.bytes
    assert taken(b, "two") == list(range(40))


def test_a_reader_passes_unpacked_parts_that_are_not_its_own() -> None:
    b = broker(sys_interval_ms=0)
    for name in ("x1", "x2", "y"):
        client = connect(b, name)
        client.subscribe(name[0], qos=1)
        client.drop()
    fill(b, "x", 10)
    fill(b, "y", 5, start=10)
    assert taken(b, "x1") == list(range(10))
    assert core_of(b).unpacked.found
    assert taken(b, "y") == [10, 11, 12, 13, 14]
    assert taken(b, "x2") == list(range(10))
