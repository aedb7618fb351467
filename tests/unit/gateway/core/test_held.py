"""Against a plain list: what is in flight, in which order, and which of it is the first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.held import SPARE, Held
from gateway.core.message import Message
from gateway.core.model import Delivery

STEPS = st.lists(st.tuples(st.sampled_from(["add", "add", "settle", "settle", "first", "back"]), st.integers(0, 200)))


def delivery(seq: int) -> Delivery:
    m = Message(b"t", b"", 1, False)
    m.seq = seq
    return Delivery(m, 1, False, None, None)


@given(STEPS)
def test_it_does_what_a_list_does(steps: list[tuple[str, int]]) -> None:
    held = Held()
    model: list[Delivery] = []
    away: list[Delivery] = []
    for verb, n in steps:
        if verb == "add":
            d = away.pop() if away and n % 2 else delivery(n)
            held.add(d)
            model.append(d)
        elif model and verb == "back":
            d = model.pop(n % len(model))
            held.give_back(d)
            away.append(d)
        elif model:
            d = model[0 if verb == "first" else n % len(model)]
            assert held.settle(d) == (d is model[0])
            model.remove(d)
        assert list(held) == model
        assert (len(held), bool(held)) == (len(model), bool(model))
        assert held.seqs() == {d.message.seq for d in model}
        assert held.lowest(1000) == min([1000, *(d.message.seq for d in model)])
        assert [held.has(seq) for seq in (0, 1, 200)] == [seq in held.seqs() for seq in (0, 1, 200)]
        assert all(d.held for d in model)
    held.clear()
    assert not held
    assert not [d for d in model if d.held]


def test_one_that_is_never_settled_keeps_no_others() -> None:
    held = Held()
    held.add(delivery(1))
    for seq in range(2, 10 * SPARE):
        d = delivery(seq)
        held.add(d)
        assert not held.settle(d)
        assert len(held._items) <= SPARE + 3


def test_given_back_twice() -> None:
    held = Held()
    d = delivery(1)
    held.add(d)
    held.give_back(d)
    held.give_back(d)
    assert not held
    with pytest.raises(IndexError):
        held.settle(d)


@pytest.mark.parametrize("leave", ["settle", "give_back"])
def test_what_was_settled_behind_the_first_goes_with_it(leave: str) -> None:
    held = Held()
    first, second, third = delivery(1), delivery(2), delivery(3)
    for d in (first, second, third):
        held.add(d)
    assert not held.settle(second)
    if leave == "settle":
        assert held.settle(first)
    else:
        held.give_back(first)
    assert held.settle(third)
