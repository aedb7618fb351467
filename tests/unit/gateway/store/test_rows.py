"""Packed rows are a sequence like any other."""

import pytest

from gateway.store.rows import SegmentRows

ROWS = [(1, 3, b"ab"), (2**40, 2**41, b""), (2**40 + 1, 2**41 + 5, b"cde")]


def test_what_goes_in_comes_out() -> None:
    rows = SegmentRows()
    assert rows == []
    for row in ROWS:
        rows.add(*row)
    assert rows == ROWS
    assert list(rows) == ROWS
    assert len(rows) == 3
    assert (rows[0], rows[-1], rows[1:]) == (ROWS[0], ROWS[2], ROWS[1:])
    assert ROWS[1] in rows
    with pytest.raises(IndexError):
        rows[3]
