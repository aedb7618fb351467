"""A record of the log as Kafka has it, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store.engine import Record
from gateway.store.kafka_record import HEADER, pack, unpack

TOPICS = st.text(st.characters(exclude_characters="+#\0", exclude_categories=["Cs"]), min_size=1)


@given(
    st.builds(
        Record, TOPICS, st.binary(), st.integers(0, 2), st.booleans(), st.binary(), st.just(0) | st.integers(1, 2**63)
    )
)
def test_everything_comes_back(record: Record) -> None:
    key, value, headers = pack(record)
    assert unpack(key, value, headers) == record


def test_other_consumers_find_topic_and_payload_as_they_are() -> None:
    key, value, headers = pack(Record("line/ü", b"\x00payload", 1, False, b"", 0))
    assert (key, value) == ("line/ü".encode(), b"\x00payload")
    assert headers == [(HEADER, b"\x01")]


def test_a_payload_that_was_compacted_away_is_an_empty_one() -> None:
    found = unpack(b"a", None, [(HEADER, b"\x01")])
    assert found is not None
    assert found.payload == b""


def test_headers_of_others_do_not_matter() -> None:
    assert unpack(b"a", b"", [("x", b"y"), (HEADER, b"\x01"), ("z", b"")]) is not None


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        (b"a", []),
        (b"a", [("other", b"\x01")]),
        (b"a", [(HEADER, b"")]),
        (b"a", [(HEADER, b"\x03")]),
        (b"a", [(HEADER, b"\x11")]),
        (b"a", [(HEADER, b"\x09\0\0\0")]),
        (None, [(HEADER, b"\x01")]),
        (b"", [(HEADER, b"\x01")]),
        (b"\xff", [(HEADER, b"\x01")]),
        (b"a/+", [(HEADER, b"\x01")]),
        (b"#", [(HEADER, b"\x01")]),
        (b"a\0", [(HEADER, b"\x01")]),
    ],
)
def test_what_no_gateway_wrote_is_recognised(key: bytes | None, headers: list[tuple[str, bytes]]) -> None:
    assert unpack(key, b"", headers) is None


@given(
    st.none() | st.binary(), st.none() | st.binary(), st.lists(st.tuples(st.sampled_from([HEADER, "x"]), st.binary()))
)
def test_nothing_raises(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
    found = unpack(key, value, headers)
    assert found is None or 0 <= found.qos <= 2
