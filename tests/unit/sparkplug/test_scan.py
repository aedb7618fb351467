"""The short look at a payload: what it finds, where it may stand, and that nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkplug.scan import Scan
from tests.spb_bytes import chunk, metric, nbirth, number, payload


def scanned(data: bytes, names: bool = False) -> Scan:
    scan = Scan()
    assert scan.read(data, names)
    return scan


def test_seq_timestamp_and_the_number_of_metrics() -> None:
    found = scanned(payload(*[metric(f"m{n}", n) for n in range(30)], time=1_700_000_000_123, seq=7))
    assert (found.timestamp, found.seq, found.metrics, found.historical) == (1_700_000_000_123, 7, 30, False)


def test_what_is_absent_is_minus_one() -> None:
    found = scanned(b"")
    assert (found.timestamp, found.seq, found.bd_seq) == (-1, -1, -1)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (3, 1, 2), (2, 1, 3), (1, 3, 2)])
def test_the_fields_may_stand_anywhere(order: tuple[int, ...]) -> None:
    parts = {1: number(1, 55), 2: chunk(2, metric("x")), 3: number(3, 9)}
    found = scanned(b"".join(parts[field] for field in order))
    assert (found.timestamp, found.seq, found.metrics) == (55, 9, 1)


def test_of_a_field_that_comes_twice_the_last_counts() -> None:
    found = scanned(number(3, 1) + number(1, 5) + number(3, 2) + number(1, 6))
    assert (found.seq, found.timestamp) == (2, 6)


def test_unknown_fields_are_leapt_over_whatever_their_kind() -> None:
    unknown = number(900, 3) + chunk(77, b"abc") + b"\x51" + bytes(8) + b"\x55" + bytes(4)
    group = b"\x83\x01" + number(3, 200) + b"\x84\x01"  # its inside is not the payload's
    found = scanned(unknown + number(3, 4) + group)
    assert found.seq == 4


def test_a_metric_longer_than_one_length_byte() -> None:
    found = scanned(payload(metric("n" * 1000), time=5, seq=3))
    assert (found.seq, found.metrics) == (3, 1)


@pytest.mark.parametrize(("given_seq", "seq"), [(0, 0), (255, 255), (256, -1), (2**63, -1), (2**64 - 1, -1)])
def test_a_seq_out_of_range_is_none(given_seq: int, seq: int) -> None:
    assert scanned(number(3, given_seq)).seq == seq


def test_historical_is_that_of_the_first_metric() -> None:
    assert scanned(payload(metric("a", historical=True), metric("b"))).historical
    assert not scanned(payload(metric("a"), metric("b", historical=True))).historical


def test_bd_seq_and_rebirth_only_when_names_are_asked_for() -> None:
    data = nbirth(17, 0, 5, metric("Node Control/Rebirth", 0, datatype=11))
    found = scanned(data, names=True)
    assert (found.bd_seq, found.rebirth) == (17, True)
    found = scanned(data)
    assert (found.bd_seq, found.rebirth) == (-1, False)


@pytest.mark.parametrize("name", ["bdSeq2", "xbdSeq", "bdseq", "a/bdSeq"])
def test_another_name_is_not_bd_seq(name: str) -> None:
    assert scanned(payload(metric(name, 9)), names=True).bd_seq == -1


def test_bd_seq_in_the_other_field_and_before_its_name() -> None:
    assert scanned(payload(number(10, 8) + chunk(1, b"bdSeq")), names=True).bd_seq == 8
    assert scanned(payload(metric("bdSeq", 300)), names=True).bd_seq == -1


@pytest.mark.parametrize(
    "bad",
    [
        b"\x12\x05ab",  # a metric that is cut off
        b"\x12",
        b"\x18",  # a number that is missing
        b"\x18\xff",
        b"\x08" + b"\xff" * 11,  # longer than any number
        b"\x08" + b"\xff" * 9 + b"\x02",  # the 65th bit
        b"\x00\x00",  # field 0
        b"\x1c",  # a group ends that never began
        b"\x1b",  # one that never ends
        b"\x12\x02\x0a\x09",  # a name longer than its metric
        b"\x1e",  # no wire type
        b"\x80",
        b"not a payload",
    ],
)
def test_bad_bytes_are_said_to_be_bad(bad: bytes) -> None:
    assert not Scan().read(bad, True)


def test_one_object_remembers_nothing_of_the_payload_before() -> None:
    scan = Scan()
    assert scan.read(nbirth(3, 4, 5, metric("Node Control/Rebirth")), True)
    assert scan.read(payload(time=None), True)
    assert (scan.seq, scan.timestamp, scan.bd_seq, scan.rebirth, scan.metrics) == (-1, -1, -1, False, 0)


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_raise(data: bytes, names: bool) -> None:
    Scan().read(data, names)


@given(
    st.integers(0, 2**63 - 1),
    st.integers(0, 255),
    st.lists(st.tuples(st.text(max_size=300), st.integers(0, 2**64 - 1)), max_size=40),
    st.integers(0, 400),
)
def test_whole_and_cut_off(time: int, seq: int, metrics: list[tuple[str, int]], cut: int) -> None:
    data = payload(*[metric(name, value) for name, value in metrics], time=time, seq=seq)
    found = scanned(data, names=True)
    assert (found.timestamp, found.seq, found.metrics) == (time, seq, len(metrics))
    Scan().read(data[:-cut], True)
