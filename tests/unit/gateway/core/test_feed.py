"""Retained messages wait for room where a new subscription finds more of them than a queue or a connection takes."""

import pytest

from gateway.core import feed
from gateway.core.limits import Limits
from gateway.core.message import Message
from gateway.core.model import Client, Session
from gateway.core.state import Core
from gateway.core.topics import Subscription


@pytest.fixture
def core() -> Core:
    limits = Limits()
    limits.max_mqueue_len = 10
    core = Core(limits, 0, 1)
    for i in range(100):
        core.retained.set(f"t/{i}", Message(f"t/{i}".encode(), b"x" * 100, 1, True, b"", 0))
    return core


def subscribed(core: Core, qos: int) -> tuple[Session, Client]:
    s, c = Session(1, "s"), Client(None, "peer", 1000, 0)
    c.connected, c.version, c.window = True, 4, 3
    s.client, c.session = c, s
    sub = Subscription(1, "t/#", qos)
    s.subscriptions["t/#"] = sub
    feed.add(s, sub, core.retained.match("t/#"))
    return s, c


def test_qos_1_fills_the_window_and_half_of_the_queue(core: Core) -> None:
    s, _ = subscribed(core, 1)
    feed.feed(core, s, 0)
    assert len(s.inflight) == 3 and len(s.queue) == 5
    assert s.matched == 8 and core.ledger.dropped(1) == 0
    s.queue.clear()
    feed.feed(core, s, 0)
    assert s.matched == 13


def test_qos_0_stops_when_the_connection_is_congested(core: Core) -> None:
    core.limits.out_high_bytes = 1000
    s, c = subscribed(core, 0)
    feed.feed(core, s, 0)
    first = s.settled
    assert 0 < first < 20 and c.congested and not s.queue0
    while s.feeds:
        c.take()
        c.congested = False
        feed.feed(core, s, 0)
    assert s.settled == 100


def test_nobody_is_fed_who_is_away(core: Core) -> None:
    s, _ = subscribed(core, 0)
    s.client = None
    feed.feed(core, s, 0)
    assert s.matched == 0 and s.feeds


def test_what_was_replaced_or_cleared_meanwhile_went_out_live(core: Core) -> None:
    s, _ = subscribed(core, 0)
    core.retained.set("t/0", Message(b"t/0", b"new", 0, True, b"", 0))
    core.retained.remove("t/1")
    feed.feed(core, s, 0)
    assert s.settled == 98 and not s.feeds


def test_the_end_of_the_subscription_ends_it(core: Core) -> None:
    s, _ = subscribed(core, 0)
    del s.subscriptions["t/#"]
    feed.feed(core, s, 0)
    assert s.matched == 0 and not s.feeds


def test_a_repeated_subscription_begins_anew(core: Core) -> None:
    core.limits.out_high_bytes = 1000
    s, c = subscribed(core, 0)
    feed.feed(core, s, 0)
    first = s.settled
    sub = Subscription(1, "t/#", 0)
    s.subscriptions["t/#"] = sub
    feed.add(s, sub, core.retained.match("t/#"))
    core.limits.out_high_bytes = 1_000_000
    c.take()
    c.congested = False
    feed.feed(core, s, 0)
    assert s.settled == first + 100


def test_an_expired_one_is_left_out(core: Core) -> None:
    core.retained.set("t/0", Message(b"t/0", b"x", 0, True, b"", 50))
    s, _ = subscribed(core, 0)
    feed.feed(core, s, 60)
    assert s.settled == 99
