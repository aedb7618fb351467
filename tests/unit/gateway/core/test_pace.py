"""Credit for a drain rate."""

from gateway.core.limits import Limits
from gateway.core.model import Session
from gateway.core.pace import BURST_MS, MESSAGE, held_back, next_credit
from gateway.core.state import Core


def rig(rate: int) -> tuple[Core, Session]:
    s = Session(1, "s")
    s.drain_rate = rate
    return Core(Limits(), 0, 1), s


def drained(core: Core, s: Session, now: int) -> int:
    n = 0
    while not held_back(core, s, now):
        s.credit -= MESSAGE
        n += 1
    return n


def test_the_rate_holds_over_time() -> None:
    for rate in (1, 7, 100, 5000):
        core, s = rig(rate)
        s.credit_at = 1000
        got = sum(drained(core, s, now) for now in range(1000, 11_001, 10))
        assert abs(got - 10 * rate) <= 1, rate


def test_a_pause_is_made_good_for_a_moment_only() -> None:
    core, s = rig(1000)
    assert drained(core, s, 1_000_000) == 1 + BURST_MS


def test_who_is_held_back_is_looked_at_again_in_time() -> None:
    core, s = rig(3)
    s.credit_at = 1000
    assert held_back(core, s, 1001)
    at = next_credit(s)
    assert core.apps.paced == {s: True}
    assert core.wake_at == at
    assert held_back(core, s, at - 1)
    assert not held_back(core, s, at)


def test_a_rate_that_was_taken_back_asks_for_no_time() -> None:
    core, s = rig(1)
    assert held_back(core, s, 0)
    s.drain_rate = 0
    assert next_credit(s) == 0
