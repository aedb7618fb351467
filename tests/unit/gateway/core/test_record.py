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
    pack_delayed,
    pack_message,
    pack_segment_targets,
    pack_state,
    pack_target,
    pack_will,
    read_message,
    u64,
    unpack_delayed,
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


def will() -> bytes:
    return pack_will(Will(b"w", b"gone", 1, True, b"", 60, 5), 1 << 41)


def delayed() -> bytes:
    return pack_delayed(1 << 41, "p", Message(b"w", b"late", 1, True, b"", 1 << 40))


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


@pytest.mark.parametrize("expiry", [-1, 0, 60])
def test_a_will(expiry: int) -> None:
    w, at = unpack_will(pack_will(Will(b"w", b"gone", 1, True, b"", expiry, 5), 99))
    assert (w.topic, w.payload, w.qos, w.retain, w.expiry, w.delay, at) == (b"w", b"gone", 1, True, expiry, 5, 99)


def test_a_delayed_message() -> None:
    at, client_id, m = unpack_delayed(delayed())
    assert (at, client_id, m.topic, m.payload, m.qos, m.retain, m.deadline) == (
        1 << 41, "p", b"w", b"late", 1, True, 1 << 40,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "unpack"),
    [
        (message(), lambda data: read_message(Reader(data))),
        (state(), unpack_state),
        (targets(), unpack_segment_targets),
        (will(), unpack_will),
        (delayed(), unpack_delayed),
    ],
    ids=["message", "state", "targets", "will", "delayed"],
)
def test_whatever_is_cut_short_is_corrupt(data: bytes, unpack: Callable[[bytes], object]) -> None:
    unpack(data)
    for end in range(len(data)):
        with pytest.raises(Corrupt):
            unpack(data[:end])


def test_a_run_of_targets() -> None:
    key = pack_target(126, 1, True, None, 3) + pack_target(7, 0, False, None)
    found = [(t.sid, t.qos, t.retain_as_published, t.identifiers) for t in unpack_targets(key)]
    assert found == [(sid, 1, True, None) for sid in (126, 127, 128, 129)] + [(7, 0, False, None)]


@pytest.mark.parametrize(
    "key", [pack_target(1 << 30, 2, False, [1, 268_435_455]), pack_target(1 << 30, 2, True, None, 300)]
)
def test_a_target_set_cut_short_is_corrupt(key: bytes) -> None:
    for end in range(1, len(key)):
        with pytest.raises(Corrupt):
            unpack_targets(key[:end])
