"""Sessions that the broker makes itself."""

from gateway.core.limits import NEVER
from gateway.core.resident import grave, resident, subscribed
from gateway.core.uplink import Uplink
from gateway.mqtt.packets import Filter
from tests.core_rig import broker, connect, core_of, fill, session_of
from tests.memory import MemoryBroker


def filters(b: MemoryBroker) -> list[tuple[str, int]]:
    return sorted((sub.filter, sub.qos) for sub in session_of(b, "$own").subscriptions.values())


def test_it_is_there_over_a_crash_and_never_expires() -> None:
    b = broker()
    s = resident(core_of(b), "$own")
    assert resident(core_of(b), "$own") is s
    subscribed(core_of(b), s, [Filter("t", 1)], b.now)
    b.pump()
    fill(b, "t", 1)
    b.crash()
    b.advance(1000 * 86_400 * 365)
    assert (session_of(b, "$own").owed(), session_of(b, "$own").expiry_s) == (1, NEVER)


def test_subscriptions_become_those_that_are_wanted() -> None:
    b = broker()
    s = resident(core_of(b), "$own")
    subscribed(core_of(b), s, [Filter("a", 1), Filter("b/#", 2)], b.now)
    subscribed(core_of(b), s, [Filter("b/#", 1), Filter("c", 0), Filter("#/x", 1), Filter("$share/g/t", 1)], b.now)
    b.pump()
    for _ in range(2):
        assert filters(b) == [("b/#", 1), ("c", 0)]
        b.crash()


def test_what_is_no_filter_is_named() -> None:
    b = broker()
    subscribed(core_of(b), resident(core_of(b), "$own"), [Filter("#/x", 1), Filter("$share/g/t", 1)], b.now)
    assert len([line for line in b.router.take_alarms() if "is no topic filter" in line]) == 2


def test_retained_messages_come_for_a_new_filter_once() -> None:
    b = broker()
    connect(b, "p").put("t", b"x", 1, retain=True)
    s = resident(core_of(b), "$own")
    for _ in range(2):
        subscribed(core_of(b), s, [Filter("t", 1, False, True, 1)], b.now)
        b.pump()
        assert s.owed() == 1


def test_a_grave_takes_what_is_published_below_the_dead_topic() -> None:
    b = broker()
    up = Uplink("up", [])
    up.dead_topic = "dead"
    grave(core_of(b), up)
    grave(core_of(b), up)
    b.pump()
    fill(b, "dead/a/b", 2)
    assert session_of(b, "$dead/up").owed() == 2
