"""The queue against a deque."""

import weakref
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.fifo import SPARE, Fifo

STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "appendleft", "popleft", "insert", "remove", "clear"]), st.integers(0, 5))
)


@given(STEPS)
def test_it_does_what_a_deque_does(steps: list[tuple[str, int]]) -> None:
    ours: Fifo[int] = Fifo()
    model: deque[int] = deque()
    for verb, value in steps:
        if verb == "popleft":
            if model:
                assert ours.popleft() == model.popleft()
        elif verb == "insert":
            ours.insert(min(value, len(model)), value)
            model.insert(min(value, len(model)), value)
        elif verb == "remove":
            if value in model:
                ours.remove(value)
                model.remove(value)
        elif verb == "clear":
            ours.clear()
            model.clear()
        else:
            getattr(ours, verb)(value)
            getattr(model, verb)(value)
        assert list(ours) == list(model)
        assert len(ours) == len(model)
        assert bool(ours) == bool(model)
        if model:
            assert ours.head() == model[0]


def test_taken_places_are_given_back() -> None:
    ours: Fifo[int] = Fifo()
    for n in range(10 * SPARE):
        ours.append(n)
        ours.append(n)
        ours.popleft()
    while len(ours) > 1:
        ours.popleft()
    assert len(ours._items) <= 2 * SPARE


def test_an_empty_one_says_so() -> None:
    with pytest.raises(IndexError):
        Fifo[int]().popleft()
    with pytest.raises(IndexError):
        Fifo[int]().head()


def test_what_was_taken_is_let_go_of_at_once() -> None:
    """Not with the places at the front: a queue of a few large messages would keep a hundred."""
    ours: Fifo[set[int]] = Fifo([set() for _ in range(10)])
    taken = weakref.ref(ours.popleft())
    assert taken() is None
