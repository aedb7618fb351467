"""The mark of what was handed on, among other properties."""

from gateway.core.origin import first_mark, handed_on, hops, is_from, origin_pair, pair, place

FORMAT = b"\x01\x01"
CONTENT = b"\x03\x00\x04json"
CORRELATION = b"\x09" + len(first_mark("g1")).to_bytes(2, "big") + first_mark("g1")


def test_the_first_gateway_marks_and_the_next_ones_count() -> None:
    props = FORMAT + CONTENT
    once = handed_on(props, first_mark("g1"))
    assert once == props + pair(b"uplink-origin", b"g1") + pair(b"uplink-hops", b"1")
    twice = handed_on(once + pair(b"k", b"v"), first_mark("g2"))
    assert twice == props + pair(b"uplink-origin", b"g1") + pair(b"uplink-hops", b"2") + pair(b"k", b"v")
    assert [hops(props), hops(once), hops(twice)] == [0, 1, 2]
    assert is_from(twice, origin_pair("g1"))
    assert not is_from(twice, origin_pair("g2"))
    assert not is_from(twice, origin_pair("g"))


def test_what_looks_like_a_mark_inside_another_property_is_none() -> None:
    assert place(CORRELATION, b"uplink-hops") == (0, 0)
    assert not is_from(CORRELATION, origin_pair("g1"))
    assert hops(CORRELATION) == 0
    assert handed_on(CORRELATION, first_mark("g1")) == CORRELATION + first_mark("g1")


def test_a_count_that_is_none_begins_again() -> None:
    for value in (b"", b"x", b"-1", b"99999"):
        props = pair(b"uplink-hops", value)
        assert hops(props) == 0
        assert handed_on(props, b"") == pair(b"uplink-hops", b"1")
    assert hops(handed_on(pair(b"uplink-hops", b"9"), b"")) == 10
    assert hops(handed_on(pair(b"uplink-hops", b"999"), b"")) == 999
