"""What was read and is not committed. The cursor itself is tried against a real Kafka in tests/system/test_kafka.py."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.store.kafka_cursor import Given


def test_the_offset_moves_only_over_what_is_settled_in_a_row() -> None:
    given_ = Given(1)
    positions = [given_.add(offset) for offset in (10, 11, 15, 16)]
    assert positions == [1, 2, 3, 4]
    given_.settle(2)
    assert given_.end == -1
    given_.settle(1)
    assert given_.end == 12
    given_.settle(4)
    assert (given_.end, len(given_)) == (12, 2)
    given_.settle(3)
    assert (given_.end, len(given_)) == (17, 0)


def test_positions_of_another_cursor_settle_nothing() -> None:
    given_ = Given(100)
    assert given_.add(5) == 100
    for position in (0, 1, 99, 101):
        given_.settle(position)
    assert (given_.end, len(given_)) == (-1, 1)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.randoms())
def test_whatever_the_order_of_settling(steps: list[int], chance: object) -> None:
    given_ = Given(7)
    offsets: list[int] = []
    at = 0
    for step in steps:
        at += step
        offsets.append(at)
    positions = [given_.add(offset) for offset in offsets]
    order = list(range(len(positions)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    done: set[int] = set()
    for index in order:
        given_.settle(positions[index])
        given_.settle(positions[index])
        done.add(index)
        row = next((i for i in range(len(offsets)) if i not in done), len(offsets))
        assert given_.end == (offsets[row - 1] + 1 if row else -1)
        assert len(given_) == len(offsets) - row
