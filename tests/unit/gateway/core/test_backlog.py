"""A durable queue: the window in RAM, what lies behind it on disk, and the way back."""

from gateway.core import backlog
from gateway.core.limits import Limits
from gateway.core.message import Message, Segment
from gateway.core.model import AHEAD_MAX, Backlog, Delivery
from gateway.core.state import Core, Reading
from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of


def payloads(b: Backlog) -> list[bytes]:
    return [d.message.payload for d in b.ram]


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
    for number in range(6):
        fill(b, "t", 1, start=number)
        b.advance(11_000)  # so that each has a segment of its own
    core = core_of(b)
    fifth = list(core.segments.values())[4]
    reading = backlog.request(core, Reading(None, [fifth], 0, "evicted"))
    core.reads.clear()
    b.router.on_segments(reading, [(fifth.id, b"")], b.now)
    client = connect(b, "s", receive_maximum=1)
    assert [int(client.take().payload) for _ in range(5)] == [0, 1, 2, 3, 5]


def entry(seq: int, segment: Segment | None = None) -> Delivery:
    m = Message(b"t", b"", 1, False)
    m.seq = seq
    m.segment = segment
    return Delivery(m, 1, False, None, None)


def test_what_comes_back_stands_where_it_stood() -> None:
    b = Backlog(1, 0)
    first, third = entry(1), entry(3)
    backlog.push(b, entry(2))
    backlog.push(b, entry(4))
    backlog.hold(b, third)
    backlog.hold(b, first)
    b.loaded = 4
    backlog.give_back(b, third)
    backlog.give_back(b, first)
    assert [d.message.seq for d in b.ram] == [1, 2, 3, 4]
    assert not b.held


def test_acknowledged_before_an_older_one_that_came_back() -> None:
    """It must be remembered: the cursor stays at the older one."""
    core = Core(Limits(), 0, 1)
    b = Backlog(1, 0)
    written = Segment(1)
    first, second = entry(1, written), entry(2, written)
    b.loaded = 2
    for d in (first, second):
        backlog.hold(b, d)
        b.count += 1
    backlog.give_back(b, first)
    backlog.hold(b, backlog.pop(b))
    assert [d.message.seq for d in b.held] == [2, 1]
    backlog.settle(core, b, second, 0)
    assert b.ahead == {2}
    assert b.lowest(3) == 1


def test_what_comes_back_to_a_queue_that_was_unloaded_is_read_again() -> None:
    b = Backlog(1, 0)
    d = entry(5)
    backlog.hold(b, d)
    b.live, b.loaded = False, 2
    backlog.give_back(b, d)
    assert not b.ram
    assert not b.held


def test_one_message_that_is_never_acknowledged_lets_nothing_grow() -> None:
    core = Core(Limits(), 0, 1)
    b = Backlog(1, 0)
    written = Segment(1)
    backlog.hold(b, entry(1, written))
    for seq in range(2, 3 * AHEAD_MAX):
        d = entry(seq, written)
        core.next_seq = seq + 1
        b.loaded = seq
        backlog.hold(b, d)
        b.count += 1
        backlog.settle(core, b, d, 0)
        assert len(b.ahead) <= AHEAD_MAX + 1
    assert len(b.ahead) > 1
    assert b.lowest(core.next_seq) == 1
