"""Which messages of the time before belong to a session."""

from gateway.core.history import History
from gateway.core.message import Message
from gateway.core.topics import Subscription


def message(topic: str, seq: int) -> Message:
    m = Message(topic.encode(), b"", 1, False)
    m.seq = seq
    return m


def test_its_filters_decide_with_all_that_they_ask_for() -> None:
    h = History(10, [Subscription(7, "a/#", 1, identifier=3), Subscription(7, "a/b", 2, retain_as_published=True)])
    found = h.target(message("a/b", 9), 7)
    assert found is not None
    assert (found.sid, found.qos, found.retain_as_published, found.identifiers) == (7, 2, True, [3])
    found = h.target(message("a/c", 1), 7)
    assert found is not None
    assert (found.qos, found.retain_as_published, found.identifiers) == (1, False, [3])
    assert h.target(message("b", 1), 7) is None


def test_what_came_after_the_subscription_is_not_of_the_time_before() -> None:
    h = History(10, [Subscription(7, "#", 1)])
    assert h.target(message("a", 10), 7) is None
    assert h.target(message("$SYS/a", 1), 7) is None


def test_a_subscription_of_qos_0_keeps_nothing() -> None:
    assert History(10, [Subscription(7, "#", 0)]).target(message("a", 1), 7) is None


def test_copies_for_one_session_and_qos_0_are_nobody_elses() -> None:
    h = History(10, [Subscription(7, "#", 1)])
    copy = message("a", 1)
    copy.single = True
    assert h.target(copy, 7) is None
    low = message("a", 1)
    low.qos = 0
    assert h.target(low, 7) is None
