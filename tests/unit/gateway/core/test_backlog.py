"""A durable queue: what is in flight, what comes back, and what is settled out of order."""

from gateway.core import backlog
from gateway.core.limits import Limits
from gateway.core.message import Message, Segment
from gateway.core.model import AHEAD_MAX, Backlog, Delivery
from gateway.core.state import Core


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
