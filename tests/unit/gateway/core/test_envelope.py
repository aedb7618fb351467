"""The envelope as user properties."""

import itertools

import pytest

from gateway.core.envelope import TAILS, envelope, tail_of
from gateway.core.message import Message
from gateway.core.record import INGESTED, Corrupt, Reader, pack_message, read_message
from gateway.mqtt.packets import PUBLISH
from gateway.mqtt.properties import decode_properties


@pytest.mark.parametrize(("qos", "late", "exact"), list(itertools.product((0, 1, 2), (0, 1), (False, True))))
def test_each_of_them(qos: int, late: int, exact: bool) -> None:
    tail = tail_of(qos, late, exact)
    assert 0 <= tail < TAILS
    made = envelope(2**40 + 7, 1_700_000_000_123, tail)
    assert decode_properties(made, 0, len(made), PUBLISH).user_properties == [
        ("forebay-id", str(2**40 + 7)),
        ("forebay-received", "1700000000123"),
        ("forebay-clock", "synchronised" if exact else "unsynchronised"),
        ("forebay-late", str(late)),
        ("forebay-qos", str(qos)),
    ]


def test_the_tails_are_all_there_are() -> None:
    assert len({tail_of(*one) for one in itertools.product((0, 1, 2), (0, 1), (False, True))}) == TAILS


def test_a_record_keeps_what_the_envelope_is_made_of() -> None:
    m = Message(b"t", b"p", 1, True, b"\x01\x00", 99)
    m.received, m.tail = 1_700_000_000_123, 5
    back = read_message(Reader(pack_message(m)))
    assert (back.received, back.tail, back.deadline, back.props, back.payload) == (
        1_700_000_000_123, 5, 99, b"\x01\x00", b"p",
    )  # fmt: skip
    m.received = 0
    assert read_message(Reader(pack_message(m))).received == 0


def test_a_record_with_an_envelope_that_is_none_is_corrupt() -> None:
    m = Message(b"t", b"p", 1, False)
    m.received, m.tail = 5, TAILS
    packed = pack_message(m)
    assert packed[0] & INGESTED
    with pytest.raises(Corrupt):
        read_message(Reader(packed))
