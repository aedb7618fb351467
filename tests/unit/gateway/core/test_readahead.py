"""A durable queue: the window in RAM, what lies behind it on disk, and the way there in slices."""

import pytest

from gateway.core import backlog, readahead
from gateway.core.limits import Limits
from gateway.core.message import Message, Segment
from gateway.core.model import Backlog, Delivery
from gateway.core.part import Part
from gateway.core.record import TargetSet, number, pack_message, pack_segment_records, pack_target
from gateway.core.state import Core, Reading
from tests.conformance.client import Client
from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of
from tests.memory import MemoryBroker
from tests.station import Station


def test_offline_nothing_stays_in_ram_and_all_comes_back_in_order() -> None:
    b = broker(window_messages=4)
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("t", qos=1)
    client.drop()
    fill(b, "t", 20)
    queue = backlog_of(b, "s")
    assert (queue.count, len(queue.ram), queue.live) == (20, 0, False)
    assert sum(queue.owed.values()) == 20
    client = connect(b, "s", receive_maximum=1)
    assert queue.ram
    assert [int(client.take().payload) for _ in range(20)] == list(range(20))
    b.advance(2000)
    assert (queue.count, queue.bytes, queue.owed) == (0, 0, {})
    assert not core_of(b).segments
    assert not b.store.segments


def test_a_slow_client_fills_the_window_and_no_more() -> None:
    b = broker(window_messages=4)
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("t", qos=1)
    fill(b, "t", 50)
    queue = backlog_of(b, "s")
    assert len(queue.ram) <= 4
    assert queue.count == 50
    assert [int(client.take().payload) for _ in range(50)] == list(range(50))


def test_the_end_that_is_not_on_disk_yet_is_found_in_ram() -> None:
    b = broker(window_messages=2)
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("t", qos=1)
    publisher = connect(b, "p", clean=True)
    b.hold()
    for n in range(9):
        publisher.publish("t", str(n).encode(), 1)
    assert [int(client.take().payload) for _ in range(9)] == list(range(9))
    b.release()
    client.expect_nothing()


def test_a_cursor_inside_a_segment_after_a_crash() -> None:
    """The half-settled segments are counted last and must still be read first."""
    b = broker(window_messages=2)
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("t", qos=1)
    publisher = connect(b, "p", clean=True)
    b.hold()
    for n in range(6):
        publisher.publish("t", str(n).encode(), 1)
    b.release()
    fill(b, "t", 6, start=6)
    assert client.take().payload == b"0"
    b.advance(2000)
    b.crash()
    queue = backlog_of(b, "s")
    assert queue.count == 11
    assert list(queue.owed) == sorted(queue.owed)
    client = connect(b, "s", receive_maximum=1)
    assert [int(client.take().payload) for _ in range(11)] == list(range(1, 12))


def test_a_damaged_segment_is_counted_and_passed() -> None:
    b = broker(window_messages=2)
    connect(b, "s").subscribe("t", qos=1)
    client = connect(b, "s")
    client.drop()
    fill(b, "t", 6)
    id = list(b.store.segments)[2]
    last, targets, records = b.store.segments[id]
    b.store.segments[id] = last, targets, records[:-2]
    client = connect(b, "s", receive_maximum=1)
    assert [int(client.take().payload) for _ in range(5)] == [0, 1, 3, 4, 5]
    assert core_of(b).ledger.drops(session_of(b, "s").sid) == {"damaged": 1}
    b.advance(2000)
    assert not core_of(b).segments


def test_giving_up_a_damaged_segment_skips_nothing_else() -> None:
    b = broker(window_messages=2)
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    client.drop()
    for n in range(6):
        fill(b, "t", 1, start=n)
        b.advance(11_000)  # so that each has a segment of its own
    core = core_of(b)
    fifth = list(core.segments.values())[4]
    reading = readahead.request(core, Reading(None, [fifth], 0, "evicted"))
    core.reads.clear()
    b.router.on_segments(reading, [(fifth.id, b"")], b.now)
    client = connect(b, "s", receive_maximum=1)
    assert [int(client.take().payload) for _ in range(5)] == [0, 1, 2, 3, 5]


def one_commit(b: MemoryBroker, count: int) -> None:
    """A persistent session that is away, with so many messages in a segment of one commit."""
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    client.drop()
    publisher = Station(b, "p", persistent=False)
    b.hold()
    publisher.publish("t", b"first")
    for n in range(count):
        publisher.publish("t", b"%d" % n)
    b.release()
    b.advance(2_000)


def test_a_large_commit_comes_in_slices() -> None:
    b = broker(receive_maximum=10_000)
    one_commit(b, 3_000)
    queue = backlog_of(b, "s")
    client = Station(b, "s", props=[])
    got = client.take()
    assert len(queue.ram) <= b.limits.window_messages // 2 + 1
    part = next(iter(queue.parts.values()))
    assert len(part._entries) < 1_000
    longest = 0
    while more := client.take():
        got += more
        longest = max(longest, len(queue.ram))
    assert got == [b"first", *(b"%d" % n for n in range(3_000))]
    assert longest <= b.limits.window_messages // 2 + 1
    assert not queue.parts


def test_a_client_that_leaves_in_the_middle_of_a_part_finds_the_rest() -> None:
    b = broker(receive_maximum=10_000)
    one_commit(b, 1_000)
    got: list[bytes] = []
    for turn in range(30):
        client: Client = connect(b, "s", receive_maximum=1 + turn * 5)
        got.extend(client.take().payload for _ in range(min(40, 1_001 - len(got))))
        client.drop()
        b.advance(2_000)
        if turn == 11:
            b.crash()
    assert got == [b"first", *(b"%d" % n for n in range(1_000))]


def test_a_window_of_one() -> None:
    b = broker(receive_maximum=10_000, window_messages=1)
    one_commit(b, 50)
    client = connect(b, "s", receive_maximum=1)
    assert [client.take().payload for _ in range(51)] == [b"first", *(b"%d" % n for n in range(50))]


def test_bytes_bound_a_slice_as_well() -> None:
    b = broker(receive_maximum=10_000, window_bytes=100)
    one_commit(b, 500)
    client = connect(b, "s", receive_maximum=1)
    assert backlog_of(b, "s").ram_bytes < 100
    assert len([client.take() for _ in range(501)]) == 501


@pytest.mark.parametrize("seq", [2, 3, 4])
def test_what_is_in_flight_is_passed_and_may_still_come_back(seq: int) -> None:
    """A shared group's delivery that returns after its part was passed stands where it stood."""
    core = Core(Limits(), 0, 1)
    b = Backlog(1, 0)
    segment = Segment(1)
    segment.committed = True
    core.segments[1] = segment
    b.owed[1] = 3
    b.live, b.loaded = False, 1
    set_ = TargetSet(0, pack_target(1, 1, False, None), [])
    rows = [piece for _ in range(3) for piece in (number(1), set_.index, pack_message(Message(b"t", b"x", 1, False)))]
    b.parts[1] = Part(segment, pack_segment_records([set_], 1, rows))
    m = Message(b"t", b"x", 1, False)
    m.seq, m.segment = seq, segment
    flying = Delivery(m, 1, False, None, None)
    backlog.hold(b, flying)
    assert readahead.take_in(core, b, 0)
    assert [d.message.seq for d in b.ram] == [n for n in (2, 3, 4) if n != seq]
    backlog.give_back(b, flying)
    assert [d.message.seq for d in b.ram] == [2, 3, 4]
