import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkplug.sequence import Reorder, Verdict, due

T0 = 1_000_000


class Feed:
    """Messages numbered from 0, seq = number mod 256, sent one each ms after the birth, which is number 0."""

    def __init__(self) -> None:
        self.order: Reorder[int] = Reorder()
        self.order.begin(0, T0, -1)
        self.out: list[int] = []

    def push(self, number: int, now: int = T0, stamp: int | None = None) -> Verdict:
        at = T0 + number if stamp is None else stamp
        verdict = self.order.judge(number % 256, at, hash((number,)), number, now)
        if verdict is Verdict.NOW:
            self.out.append(number)
            self.drain()
        return verdict

    def drain(self) -> None:
        while (item := self.order.ready()) is not None:
            self.out.append(item)


def test_messages_in_order_pass_and_wrap() -> None:
    feed = Feed()
    assert {feed.push(number) for number in range(1, 600)} == {Verdict.NOW}
    assert feed.order.since is None
    assert feed.order.lost == 0


def test_a_hole_that_is_filled_in_time_stops_the_timer() -> None:
    feed = Feed()
    assert feed.push(2, T0 + 10) is Verdict.HELD
    assert feed.push(3, T0 + 20) is Verdict.HELD
    assert feed.order.since == T0 + 10
    assert not feed.order.expired(T0 + 2009)
    assert feed.push(1, T0 + 2009) is Verdict.NOW
    assert feed.out == [1, 2, 3]
    assert not feed.order.expired(T0 + 99999)


def test_the_timer_of_a_second_hole_starts_when_it_was_seen() -> None:
    feed = Feed()
    feed.push(2, T0 + 10)
    feed.push(4, T0 + 50)
    feed.push(1, T0 + 60)
    assert feed.out == [1, 2]
    assert feed.order.since == T0 + 50


def test_a_hole_that_stays_open_is_given_up_and_counted() -> None:
    feed = Feed()
    feed.push(4, T0)
    feed.push(7, T0 + 1)
    assert feed.order.expired(T0 + 2000)
    assert feed.order.give_up() == 3
    feed.drain()
    assert feed.out == [4]
    assert feed.order.expired(T0 + 2001)
    assert feed.order.give_up() == 2
    feed.drain()
    assert feed.out == [4, 7]
    assert feed.order.lost == 5
    assert feed.push(8) is Verdict.NOW


def test_what_was_given_up_is_late_when_it_comes_after_all() -> None:
    feed = Feed()
    feed.push(2, T0)
    feed.order.give_up()
    feed.drain()
    assert feed.push(1) is Verdict.LATE
    assert feed.push(3) is Verdict.NOW


def test_a_repetition_is_dropped_wherever_its_first_is() -> None:
    feed = Feed()
    feed.push(1)
    assert feed.push(1) is Verdict.DUPLICATE
    feed.push(3)
    assert feed.push(3) is Verdict.DUPLICATE
    feed.push(2)
    assert feed.push(1) is Verdict.DUPLICATE
    assert feed.push(3) is Verdict.DUPLICATE
    assert feed.out == [1, 2, 3]


def test_the_same_seq_with_other_bytes_is_no_repetition() -> None:
    feed = Feed()
    feed.push(3)
    assert feed.push(3 + 256) is Verdict.FULL
    assert feed.order.give_up() == 2
    feed.drain()
    assert feed.push(3 + 256) is Verdict.HELD


def test_replays_of_before_the_birth_are_late_and_open_no_hole() -> None:
    feed = Feed()
    assert feed.push(40, stamp=T0 - 1) is Verdict.LATE
    assert feed.push(200, stamp=T0 - 1) is Verdict.LATE
    assert feed.order.since is None
    assert feed.push(1) is Verdict.NOW


def test_a_replay_that_fits_by_chance_is_late_too() -> None:
    feed = Feed()
    assert feed.push(1, stamp=T0 - 1) is Verdict.LATE
    assert feed.push(1) is Verdict.NOW
    assert feed.order.since is None


def test_a_clock_set_back_makes_nothing_fit_and_the_timer_finds_out() -> None:
    feed = Feed()
    assert feed.push(1, T0 + 5, stamp=T0 - 3_600_000) is Verdict.LATE
    assert feed.push(2, T0 + 6, stamp=T0 - 3_599_999) is Verdict.LATE
    assert feed.order.expired(T0 + 2005)
    assert feed.order.give_up() == 0
    assert feed.order.since is None


def test_a_replay_of_256_messages_ago_is_known_by_its_time() -> None:
    feed = Feed()
    for number in range(1, 300):
        feed.push(number, stamp=T0 + number * 1000)
    assert feed.push(44, stamp=T0 + 44_000) is Verdict.DUPLICATE  # 300 is expected, and 44 has the same seq
    assert feed.order.judge(300 % 256, T0 + 44_000, 99, 44, T0) is Verdict.LATE  # the same with its bytes changed


def test_without_timestamps_the_nearer_half_of_the_circle_counts() -> None:
    order: Reorder[int] = Reorder()
    order.begin(0, None, -1)
    assert order.judge(100, None, 1, 1, T0) is Verdict.HELD
    assert order.judge(200, None, 2, 2, T0) is Verdict.LATE
    assert order.judge(1, None, 3, 3, T0) is Verdict.NOW


def test_a_long_gap_is_believed_when_time_says_so() -> None:
    feed = Feed()
    feed.push(1)
    assert feed.push(201) is Verdict.HELD


def test_a_birth_starts_anew_and_gives_back_what_waited() -> None:
    feed = Feed()
    for number in (5, 3, 4):
        feed.push(number)
    assert feed.order.begin(7, T0 + 100, -2) == [3, 4, 5]
    assert feed.order.since is None
    assert feed.order.expected == 8


def test_delays_and_clocks_that_are_set_back() -> None:
    assert not due(100, 10, 109)
    assert due(100, 10, 110)
    assert due(100, 10, 99)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 30))
def test_a_link_that_reorders_and_repeats_within_reach_loses_nothing(seed: int, reach: int) -> None:
    chance = random.Random(seed)
    count = 700
    sent = sorted(range(1, count), key=lambda number: number + chance.random() * reach)
    feed = Feed()
    for number in sent:
        for _ in range(1 + (chance.random() < 0.1)):
            assert feed.push(number, T0 + number) is not Verdict.FULL
    assert feed.out == list(range(1, count))
    assert feed.order.since is None
