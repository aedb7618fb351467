"""A stored segment: unpacked piece by piece, and never half a message."""

import pytest

from gateway.core.message import Message, Segment
from gateway.core.part import Part
from gateway.core.record import TargetSet, number, pack_message, pack_segment_records, pack_target


def records() -> bytes:
    sets = [TargetSet(0, pack_target(1, 1, False, None), []), TargetSet(1, pack_target(2, 2, False, None), [])]
    rows = [number(0), sets[1].index, pack_message(Message(b"t", b"x", 1, False))]
    rows += [number(300), sets[0].index, pack_message(Message(b"u", b"", 2, False))]
    return pack_segment_records(sets, 1 << 35, rows)


def test_messages_with_their_positions_and_targets() -> None:
    segment = Segment(7)
    found = Part(segment, records()).all()
    assert found is not None
    assert [(e.message.seq, e.message.topic, [t.sid for t in e.targets]) for e in found] == [
        (1 << 35, b"t", [2]),
        ((1 << 35) + 300, b"u", [1]),
    ]
    assert all(e.message.segment is segment for e in found)


def test_one_at_a_time_and_again() -> None:
    part = Part(Segment(7), records())
    second = part.entry(1)
    first = part.entry(0)
    assert first is not None and second is not None
    assert (first.message.topic, second.message.topic) == (b"t", b"u")
    assert part.entry(2) is None
    assert part.entry(1) is second
    assert not part.damaged
    assert part.all() == [first, second]


def test_a_record_of_an_unknown_target_set_is_damage_that_costs_none_before_it() -> None:
    rows = [number(0), TargetSet(0, b"", []).index, pack_message(Message(b"t", b"x", 1, False))]
    rows += [number(1), number(5), pack_message(Message(b"t", b"y", 1, False))]
    part = Part(Segment(7), pack_segment_records([TargetSet(0, b"", [])], 1, rows))
    first = part.entry(0)
    assert first is not None and first.message.payload == b"x"
    assert part.entry(1) is None
    assert part.damaged
    assert part.all() is None


def test_what_the_store_could_not_read_is_damaged() -> None:
    part = Part(Segment(7), b"")
    assert part.damaged
    assert part.entry(0) is None


@pytest.mark.parametrize("end", range(len(records())))
def test_cut_short_it_is_damaged_or_ends_at_a_message(end: int) -> None:
    part = Part(Segment(7), records()[:end])
    got = 0
    while part.entry(got) is not None:
        got += 1
    assert got < 2  # the second is never half there
    assert part.damaged or part.all() is not None
