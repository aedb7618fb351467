"""Packed rows are a sequence like any other, large ones are read again."""

import sqlite3

import pytest

from gateway.store.rows import BridgeRows, SegmentRows

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


def test_large_rows_are_read_each_time_they_are_asked_for() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE bridge (key TEXT PRIMARY KEY, data BLOB)")
    connection.executemany("INSERT INTO bridge VALUES (?, ?)", [("b", b"2"), ("a", b"1"), ("c", b"3")])
    rows = BridgeRows(connection, {"b"})
    assert list(rows) == [("a", b"1"), ("c", b"3")]
    one = iter(rows)
    assert next(one) == ("a", b"1")
    assert list(rows) == [("a", b"1"), ("c", b"3")]
    connection.close()
