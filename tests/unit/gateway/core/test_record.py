"""Packed values come back as they were, and every one that is cut short is Corrupt."""

from collections.abc import Callable

import pytest

from gateway.core.message import Message
from gateway.core.record import (
    Corrupt,
    Reader,
    SessionState,
    TargetSet,
    number,
    pack_message,
    pack_segment_records,
    pack_segment_targets,
    pack_state,
    pack_target,
    pack_will,
    read_message,
    u64,
    unpack_segment_records,
    unpack_segment_targets,
    unpack_state,
    unpack_targets,
    unpack_will,
)
from gateway.mqtt.packets import Will


def message() -> bytes:
    return pack_message(Message(b"a/b", b"payload", 2, True, b"\x26\x00\x01k\x00\x01v", 1 << 40))


def state() -> bytes:
    s = SessionState()
    s.cursor, s.ahead, s.id_end = 1 << 33, [(1 << 33) + 9, (1 << 33) + 2, (1 << 33) + 70_000], 2048
    s.sent, s.released, s.awaiting = [(7, 300, 1 << 34)], [9, 65_535], [1]
    return pack_state(s)


def targets() -> bytes:
    wide = TargetSet(0, pack_target(1, 1, True, None) + pack_target(1 << 30, 2, False, [1, 268_435_455]), [])
    wide.messages, wide.bytes = 3, 1 << 40
    return pack_segment_targets([wide], 10, 20, 30)


def records() -> bytes:
    sets = [TargetSet(0, pack_target(1, 1, False, None), []), TargetSet(1, pack_target(2, 2, False, None), [])]
    rows = [number(0), sets[1].index, pack_message(Message(b"t", b"x", 1, False))]
    rows += [number(300), sets[0].index, pack_message(Message(b"u", b"", 2, False))]
    return pack_segment_records(sets, 1 << 35, rows)


def will() -> bytes:
    return pack_will(Will(b"w", b"gone", 1, True, b"", 60, 5), 1 << 41)


@pytest.mark.parametrize("n", [0, 127, 128, 16_383, 16_384, 1 << 35, (1 << 56) - 1])
def test_numbers_of_any_size(n: int) -> None:
    assert Reader(number(n)).number() == n


def test_a_number_that_never_ends_is_corrupt() -> None:
    with pytest.raises(Corrupt):
        Reader(b"\xff" * 12).number()


def test_fixed_width_numbers() -> None:
    r = Reader(u64(1 << 50) + b"\x01\x02")
    assert r.u64() == 1 << 50
    assert r.u16() == 258
    assert not r.more()


def test_a_message() -> None:
    m = read_message(Reader(message()))
    assert (m.topic, m.payload, m.qos, m.retain, m.props, m.deadline) == (
        b"a/b",
        b"payload",
        2,
        True,
        b"\x26\x00\x01k\x00\x01v",
        1 << 40,
    )


def test_a_message_that_never_expires_has_no_deadline() -> None:
    assert read_message(Reader(pack_message(Message(b"t", b"", 0, False)))).deadline == 0


def test_the_state_of_a_session() -> None:
    s = unpack_state(state())
    assert (s.cursor, s.id_end) == (1 << 33, 2048)
    assert s.ahead == [(1 << 33) + 2, (1 << 33) + 9, (1 << 33) + 70_000]
    assert (s.sent, s.released, s.awaiting) == ([(7, 300, 1 << 34)], [9, 65_535], [1])


def test_the_targets_of_a_segment() -> None:
    first, time, expires, sets = unpack_segment_targets(targets())
    assert (first, time, expires) == (10, 20, 30)
    assert [(s.messages, s.bytes) for s in sets] == [(3, 1 << 40)]
    found = [(t.sid, t.qos, t.retain_as_published, t.identifiers) for t in sets[0].targets]
    assert found == [(1, 1, True, None), (1 << 30, 2, False, [1, 268_435_455])]


def test_the_records_of_a_segment() -> None:
    found = unpack_segment_records(records())
    assert [(e.message.seq, e.message.topic, [t.sid for t in e.targets]) for e in found] == [
        (1 << 35, b"t", [2]),
        ((1 << 35) + 300, b"u", [1]),
    ]


def test_a_record_of_an_unknown_target_set_is_corrupt() -> None:
    rows = [number(0), number(5), pack_message(Message(b"t", b"x", 1, False))]
    with pytest.raises(Corrupt):
        unpack_segment_records(pack_segment_records([TargetSet(0, b"", [])], 1, rows))


@pytest.mark.parametrize("expiry", [-1, 0, 60])
def test_a_will(expiry: int) -> None:
    w, at = unpack_will(pack_will(Will(b"w", b"gone", 1, True, b"", expiry, 5), 99))
    assert (w.topic, w.payload, w.qos, w.retain, w.expiry, w.delay, at) == (b"w", b"gone", 1, True, expiry, 5, 99)


@pytest.mark.parametrize(
    ("data", "unpack"),
    [
        (message(), lambda data: read_message(Reader(data))),
        (state(), unpack_state),
        (targets(), unpack_segment_targets),
        (will(), unpack_will),
    ],
    ids=["message", "state", "targets", "will"],
)
def test_whatever_is_cut_short_is_corrupt(data: bytes, unpack: Callable[[bytes], object]) -> None:
    unpack(data)
    for end in range(len(data)):
        with pytest.raises(Corrupt):
            unpack(data[:end])


def test_records_cut_short_are_corrupt_or_end_at_a_message() -> None:
    data = records()
    whole = 0
    for end in range(len(data)):
        try:
            whole = max(whole, len(unpack_segment_records(data[:end])))
        except Corrupt:
            continue
    assert whole == 1  # the second is never half there


def test_a_target_set_cut_short_is_corrupt() -> None:
    key = pack_target(1 << 30, 2, False, [1, 268_435_455])
    for end in range(1, len(key)):
        with pytest.raises(Corrupt):
            unpack_targets(key[:end])
