import random

import pytest

from gateway.core.meter import Bucket, Meter


def passes(meter: Meter, now: int) -> bool:
    if meter.wait(now):
        return False
    meter.spend()
    return True


def test_all_of_a_span_may_come_at_once_and_then_at_its_pace() -> None:
    meter = Meter([(10, 1)], None, 0)
    assert [passes(meter, 0) for _ in range(11)] == [True] * 10 + [False]
    assert meter.wait(0) == 100
    assert meter.wait(99) == 1
    assert passes(meter, 100)
    assert not passes(meter, 100)
    assert meter.wait(3_600_000) == 0
    assert sum(passes(meter, 3_600_000) for _ in range(20)) == 10


def test_all_limits_hold_and_so_do_those_that_are_shared() -> None:
    shared = Meter([(6, 1)], None, 0)
    one, other = Meter([(10, 1), (5, 60)], shared, 0), Meter([(10, 1)], shared, 0)
    assert sum(passes(one, 0) for _ in range(9)) == 5
    assert one.wait(0) == 12_000
    assert sum(passes(other, 0) for _ in range(9)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_no_window_ever_gets_more_than_twice_its_count(seed: int) -> None:
    """A full bucket and what flows in meanwhile."""
    chance = random.Random(seed)
    count, seconds = chance.randint(1, 50), chance.randint(1, 20)
    meter, now, through = Meter([(count, seconds)], None, 0), 0, []
    for _ in range(5000):
        now += chance.choice([0, 0, 1, 7, 50, 900])
        if passes(meter, now):
            through.append(now)
    span = seconds * 1000
    for start in through:
        assert len([at for at in through if start <= at < start + span]) <= 2 * count
    assert len(through) >= min(count * (now // span), 5000 // 4)


def test_large_limits_do_not_overflow_and_a_clock_that_stands_still_gives_nothing() -> None:
    bucket = Bucket(999_999_999, 999_999, 0)
    assert bucket.wait(10**15) == 0
    slow = Bucket(1, 999_999, 0)
    slow.spend()
    assert slow.wait(0) == 999_999_000
    assert slow.wait(-5) == 999_999_000
