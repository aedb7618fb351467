"""What became of an outage: by counter, by time, in which order, with which seq."""

import dataclasses
from typing import Any

from gateway.bridge.outage import Outage, Window, account
from gateway.bridge.sightings import Message

CLOCK = 1_000_000  # the device's clock at gateway 0
BEFORE, CUT, BACK, END = 5, 1_000, 3_000, 4_000
EVERY = 100


def message(at: int, count: int | None, made: int | None = None, **fields: Any) -> Message:
    """Made at gateway time ``made``, by default when it comes."""
    integers: dict[str, tuple[int, ...]] = {} if count is None else {"n": (count,)}
    time = None if made is not None and made < 0 else CLOCK + (at if made is None else made)
    return Message(
        at, fields.get("connection", 1), fields.get("type", "NDATA"), "", fields.get("qos", 0), False,
        fields.get("digest", f"{at} {count}".encode()), fields.get("seq"), None, 0, fields.get("historical", False),
        time, integers,
    )  # fmt: skip


def live(first: int, start: int, end: int, **fields: Any) -> list[Message]:
    return [message(at, first + n, **fields) for n, at in enumerate(range(start, end, EVERY))]


def birth(at: int, seq: int | None = 0) -> Message:
    return message(at, None, type="NBIRTH", seq=seq)


def seen(after: list[Message], counter: str | None = "n", making_ms: int = BACK - CUT) -> Outage:
    before = live(1, CUT - BEFORE * EVERY, CUT)
    return account([*before, *after], Window(len(before), CUT, BACK, making_ms, END), counter, EVERY)


REPLAY = [message(BACK + n, BEFORE + 1 + n, CUT + n * EVERY) for n in range(20)]
LIVE = live(BEFORE + 21, BACK + 100, END)


def test_everything_arrived() -> None:
    outage = seen([birth(BACK), *REPLAY, *LIVE])
    assert (outage.made, outage.missing, outage.complete) == (29, 0, True)
    assert (outage.late, outage.order, outage.before_birth, outage.dropped) == (18, "history_first", 0, None)
    assert outage.original_timestamps is True


def test_nothing_of_it_arrived() -> None:
    outage = seen([birth(BACK), *LIVE])
    assert (outage.made, outage.missing, outage.late, outage.complete) == (29, 20, 0, False)


def test_what_was_dropped_is_told_by_where_it_is_missing() -> None:
    assert seen([birth(BACK), *REPLAY[10:], *LIVE]).dropped == "oldest"
    assert seen([birth(BACK), *REPLAY[:10], *LIVE]).dropped == "newest"
    assert seen([birth(BACK), *REPLAY[:5], *REPLAY[8:], *LIVE]).dropped is None


def test_a_message_twice_counts_once() -> None:
    assert seen([birth(BACK), *REPLAY, *REPLAY, *LIVE]).missing == 0


def test_a_counter_that_stood_still_says_nothing() -> None:
    outage = seen([birth(BACK), *live(BEFORE + 1, BACK + 100, END)])
    assert (outage.idle, outage.made, outage.missing, outage.complete) == (True, None, None, None)


def test_without_a_counter_the_times_decide() -> None:
    assert seen([birth(BACK), *REPLAY, *LIVE], counter=None).complete is True
    lost = seen([birth(BACK), *LIVE], counter=None)
    assert (lost.late, lost.complete) == (0, False)
    some = seen([birth(BACK), *REPLAY[::4], *LIVE], counter=None)
    assert (some.late > 0, some.complete) == (True, None)


def test_without_counter_and_times_only_the_flag_is_left() -> None:
    before = [message(500 + n, None, -1) for n in range(5)]
    after = [birth(BACK), *(message(BACK + n, None, -1, historical=True) for n in range(3))]
    outage = account([*before, *after], Window(5, CUT, BACK, BACK - CUT, END), None, EVERY)
    assert (outage.late, outage.historical, outage.made, outage.original_timestamps) == (3, 3, None, None)


def test_new_times_on_old_values_are_told() -> None:
    fresh = [message(BACK + n, BEFORE + 1 + n) for n in range(20)]
    outage = seen([birth(BACK), *fresh, *LIVE])
    assert (outage.late, outage.original_timestamps) == (18, False)


def test_a_counter_that_starts_anew_is_not_taken_for_what_was_stored() -> None:
    anew = live(1, BACK + 100, END)
    outage = seen([birth(BACK), *anew])
    assert outage.late == 0
    kept = seen([birth(BACK), *REPLAY, *anew])
    assert (kept.late, kept.missing) == (18, 0)


def test_the_order_of_history_and_live_data() -> None:
    assert seen([birth(BACK), *LIVE[:3], *REPLAY, *LIVE[3:]]).order == "live_first"
    assert seen([birth(BACK), *REPLAY[:5], *LIVE[:3], *REPLAY[5:], *LIVE[3:]]).order == "mixed"


def test_history_in_one_message_counts_in_full() -> None:
    counts = tuple(range(BEFORE + 1, BEFORE + 21))
    whole = dataclasses.replace(REPLAY[0], integers={"n": counts}, historical=True)
    outage = seen([birth(BACK), whole, *LIVE])
    assert (outage.made, outage.missing, outage.late, outage.historical) == (29, 0, 20, 1)
    part = dataclasses.replace(whole, integers={"n": counts[5:]})
    outage = seen([birth(BACK), part, *LIVE])
    assert (outage.missing, outage.late, outage.dropped) == (5, 15, "oldest")


def test_what_comes_before_the_birth_is_counted() -> None:
    assert seen([*REPLAY, birth(BACK + 50), *LIVE]).before_birth == 18


def numbered(messages: list[Message], first: int) -> list[Message]:
    return [
        message(
            one.at,
            (one.integers["n"][0] if one.integers else None),
            (one.made_at or 0) - CLOCK,
            type=one.type,
            seq=(first + n) % 256,
        )
        for n, one in enumerate(messages)
    ]


def test_seq_is_given_when_queued_or_when_sent() -> None:
    before = numbered(live(1, CUT - BEFORE * EVERY, CUT), 250)
    window = Window(BEFORE, CUT, BACK, BACK - CUT, END)
    sent = [birth(BACK), *numbered([*REPLAY, *LIVE], 1)]
    outage = account([*before, *sent], window, "n", EVERY)
    assert (outage.seq_given, outage.seq_gaps) == ("send", False)
    queued = [birth(BACK), *numbered(REPLAY, 255), *numbered(LIVE, 1)]
    outage = account([*before, *queued], window, "n", EVERY)
    assert (outage.seq_given, outage.seq_gaps) == ("enqueue", True)
    assert seen([birth(BACK), *REPLAY, *LIVE]).seq_given is None, "there is no seq"
