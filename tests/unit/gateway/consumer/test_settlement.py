"""Which actions follow an outcome, in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.consumer.outcome import Kind, Outcome, ack, drop, let_go, retry, retry_after
from gateway.consumer.settlement import (
    RETRY_COUNT,
    Acknowledge,
    Copy,
    Declared,
    GiveUp,
    Leave,
    Report,
    count_of,
    counted,
    settle,
    undecoded,
)

NOTHING = Declared(copy_to="t")
CAP = Declared(3, None, "t")
CAP_AND_DEAD = Declared(3, "dead", "t")
DEAD = Declared(None, "dead", "t")
FILTER = Declared(None, None, None)


def said(qos: int, count: int, outcome: Outcome, declared: Declared) -> list[str]:
    """Short names of the actions."""
    names = []
    for action in settle(qos, count, outcome, declared):
        if isinstance(action, Copy):
            shown = "" if action.tries is None else f" #{action.tries}"
            names.append(f"copy {action.topic}{shown}" + (f" after {action.delay_s:g}" if action.delay_s else ""))
        elif isinstance(action, Report):
            assert action.error.kind == "unsupported"
            names.append("unsupported")
        else:
            names.append({Acknowledge: "ack", Leave: "leave", GiveUp: "give up"}[type(action)])
    return names


@pytest.mark.parametrize(
    ("outcome", "declared", "count", "with_ack", "without"),
    [
        (ack(), NOTHING, 0, ["ack"], ["unsupported"]),
        (drop(), CAP_AND_DEAD, 0, ["ack"], ["unsupported"]),
        (let_go(), CAP_AND_DEAD, 0, ["leave"], []),
        (retry(), NOTHING, 0, ["unsupported", "leave"], ["unsupported"]),
        (retry(), CAP, 0, ["copy t #1", "ack"], ["copy t #1"]),
        (retry(), CAP, 1, ["copy t #2", "ack"], ["copy t #2"]),
        (retry(), CAP, 2, ["give up", "ack"], ["give up"]),
        (retry(), CAP_AND_DEAD, 2, ["copy dead", "ack"], ["copy dead"]),
        (retry(), CAP_AND_DEAD, 9, ["copy dead", "ack"], ["copy dead"]),
        (retry(), DEAD, 0, ["copy dead", "ack"], ["copy dead"]),
        (retry_after(5), NOTHING, 7, ["copy t #8 after 5", "ack"], ["copy t #8 after 5"]),
        (retry_after(5), CAP, 1, ["copy t #2 after 5", "ack"], ["copy t #2 after 5"]),
        (retry_after(5), CAP, 2, ["give up", "ack"], ["give up"]),
        (retry_after(5), CAP_AND_DEAD, 2, ["copy dead", "ack"], ["copy dead"]),
        (retry_after(5), DEAD, 0, ["copy dead", "ack"], ["copy dead"]),
        (retry_after(5), FILTER, 0, ["unsupported", "leave"], ["unsupported"]),
        (retry(), Declared(1, None, None), 0, ["give up", "ack"], ["give up"]),
    ],
)
def test_the_table(outcome: Outcome, declared: Declared, count: int, with_ack: list[str], without: list[str]) -> None:
    assert said(1, count, outcome, declared) == with_ack
    assert said(2, count, outcome, declared) == with_ack
    assert said(0, count, outcome, declared) == without


OUTCOMES = st.builds(Outcome, st.sampled_from(Kind), st.sampled_from([0.0, 0.5, 60.0]))
DECLARED = st.builds(Declared, st.none() | st.integers(1, 9), st.none() | st.just("dead"), st.none() | st.just("t"))


@given(st.integers(0, 2), st.integers(0, 10), OUTCOMES, DECLARED)
def test_what_holds_for_all(qos: int, count: int, outcome: Outcome, declared: Declared) -> None:
    actions = settle(qos, count, outcome, declared)
    kinds = [type(action) for action in actions]
    assert (Acknowledge in kinds) + (Leave in kinds) == (1 if qos else 0)
    if Copy in kinds:
        assert kinds == ([Copy, Acknowledge] if qos else [Copy])  # safe first, acknowledged then
        assert outcome.kind in (Kind.RETRY, Kind.RETRY_AFTER)
    if Leave in kinds:
        assert outcome.kind not in (Kind.ACK, Kind.DROP)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_does_not_decode_is_a_dead_letter_or_gone(qos: int) -> None:
    then = [] if qos == 0 else [Acknowledge()]
    assert list(undecoded(qos, CAP_AND_DEAD)) == [Copy("dead", None), *then]
    assert list(undecoded(qos, CAP)) == then


@pytest.mark.parametrize(
    ("value", "count"),
    [("0", 0), ("3", 3), ("007", 7), ("", 0), ("x", 0), ("-1", 0), ("+3", 0), ("3.0", 0), (" 3", 0), ("³", 0), ("٣", 0),
     ("18446744073709551615", 2**64 - 1), ("18446744073709551616", 0), ("9" * 5000, 0)],
)  # fmt: skip
def test_a_count_that_is_malformed_is_0(value: str, count: int) -> None:
    assert count_of([("a", "1"), (RETRY_COUNT, value)]) == count
    assert count_of([("tries", value)], "tries") == count


def test_an_absent_count_is_0() -> None:
    assert count_of([]) == 0
    assert count_of([("x-ruststream-retry-counts", "4")]) == 0


def test_the_count_replaces_every_other() -> None:
    before = [("a", "1"), (RETRY_COUNT, "x"), ("b", "2"), (RETRY_COUNT, "7"), ("a", "1")]
    assert counted(before, 2) == [("a", "1"), ("b", "2"), ("a", "1"), (RETRY_COUNT, "2")]
    assert count_of(counted(before, 2)) == 2
