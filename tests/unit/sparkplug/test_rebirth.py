from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkplug.rebirth import Rebirths

T0 = 1_700_000_000_000


def test_a_node_is_asked_at_once_and_then_with_growing_pauses() -> None:
    rebirths: Rebirths[str] = Rebirths()
    rebirths.want("a")
    times = [now - T0 for now in range(T0, T0 + 400_000, 100) if list(rebirths.grant(now))]
    assert times == [0, 5_000, 15_000, 35_000, 75_000, 155_000, 315_000]


def test_the_pause_has_an_end() -> None:
    rebirths: Rebirths[str] = Rebirths()
    rebirths.want("a")
    times = [now for now in range(T0, T0 + 3_600_000, 1000) if list(rebirths.grant(now))]
    assert max(b - a for a, b in pairwise(times)) == 300_000


def test_a_birth_ends_the_asking_but_not_the_back_off() -> None:
    rebirths: Rebirths[str] = Rebirths()
    rebirths.want("a")
    assert list(rebirths.grant(T0)) == ["a"]
    rebirths.done("a")
    assert rebirths.waiting == 0
    assert list(rebirths.grant(T0 + 100_000)) == []
    rebirths.want("a")
    assert list(rebirths.grant(T0 + 100_001)) == ["a"]  # long after, it is a new trouble
    rebirths.done("a")
    rebirths.want("a")
    assert list(rebirths.grant(T0 + 105_000)) == []
    assert list(rebirths.grant(T0 + 105_001)) == ["a"]
    rebirths.clear()
    assert list(rebirths.grant(T0 + 10_000_000)) == []


def test_all_together_stay_within_the_budget_and_nobody_is_passed_over() -> None:
    rebirths: Rebirths[int] = Rebirths(burst=3, every_ms=1000)
    for node in range(20):
        rebirths.want(node)
    assert list(rebirths.grant(T0)) == [0, 1, 2]
    assert list(rebirths.grant(T0 + 999)) == []
    asked = [node for now in range(T0 + 1000, T0 + 18_000, 500) for node in rebirths.grant(now)]
    assert asked == list(range(3, 20))


@settings(max_examples=50)
@given(
    st.integers(1, 5),
    st.integers(1, 2000),
    st.lists(st.tuples(st.sampled_from(["want", "done", "grant"]), st.integers(0, 3), st.integers(0, 3000))),
)
def test_no_order_of_events_exceeds_budget_or_pause(burst: int, every: int, steps: list[tuple[str, int, int]]) -> None:
    rebirths: Rebirths[int] = Rebirths(burst, every)
    now = T0
    granted: list[tuple[int, int]] = []
    for what, node, passed in steps:
        now += passed
        if what == "want":
            rebirths.want(node)
        elif what == "done":
            rebirths.done(node)
        else:
            granted += [(now, key) for key in rebirths.grant(now)]
    for first, (start, _) in enumerate(granted):
        for last, (end, _) in enumerate(granted[first:], 1):
            assert last <= burst + (end - start) / every
    for node in range(4):
        mine = [at for at, key in granted if key == node]
        assert all(b - a >= 5000 for a, b in pairwise(mine))


def test_a_clock_set_back_stops_nothing() -> None:
    rebirths: Rebirths[str] = Rebirths()
    rebirths.want("a")
    assert list(rebirths.grant(T0)) == ["a"]
    assert list(rebirths.grant(T0 - 3_600_000)) == ["a"]
