"""The walk around unreadable parts: how far it leaps and what it takes for a row."""

import sqlite3
from pathlib import Path

from gateway.store.harvest import TABLES, Harvest, _checked, _compare, _leaps
from gateway.store.migrations import SCHEMA, migrate


def test_leaps_over_numbers_double() -> None:
    assert list(_leaps(10, "i"))[:5] == [11, 12, 14, 18, 26]
    assert list(_leaps(None, "i"))[:3] == [1, 2, 4]
    assert all(isinstance(leap, int) and 2**62 < leap < 2**63 for leap in _leaps(2**62, "i"))


def test_leaps_over_text_let_go_of_one_more_character_each_time() -> None:
    leaps = list(_leaps(b"ab\xff", "t"))
    assert leaps[:3] == [b"ac", b"b", b"b"]
    assert leaps[-1] == b"\xff"
    assert all(isinstance(leap, bytes) and leap > b"ab\xff" for leap in leaps)
    assert next(iter(_leaps(None, "t"))) == b"\x01"


def test_a_row_of_the_wrong_kinds_is_none() -> None:
    assert _checked((1, b"caf\xc3\xa9", b"\xff"), "itb") == (1, "caf\u00e9", b"\xff")
    assert _checked((b"k", 5), "tv") == ("k", 5)
    assert _checked((b"k", b"v"), "tv") == ("k", "v")
    for row, kinds in (
        ((None,), "i"),
        ((b"\xff",), "t"),
        ((b"plant\x00\x00",), "t"),
        ((1,), "b"),
        ((1.5,), "i"),
        ((1,), "t"),
        ((b"1",), "i"),
    ):
        assert _checked(row, kinds) is None


def test_keys_compare_by_their_common_head() -> None:
    assert _compare((1, b"a"), (1,)) == 0
    assert _compare((1, b"b"), (1, b"a")) == 1
    assert _compare((0, b"b"), (1, b"a")) == -1
    assert _compare((None,), (1,)) is None
    assert _compare((b"1",), (1,)) is None


def test_what_the_new_database_says_of_its_schema_stands() -> None:
    source, target = (sqlite3.connect(":memory:", isolation_level=None) for _ in range(2))
    for connection in (source, target):
        migrate(connection, Path("x"))
    source.execute("UPDATE meta SET value = 99 WHERE key = 'store.schema'")
    source.execute("INSERT INTO meta VALUES ('next', 7), (x'ff', 8)")
    source.execute("INSERT INTO counter VALUES (1, 'dropped', 2), (1, 3.5, 4)")
    source.text_factory = bytes
    harvest = Harvest(target)
    for table in TABLES:
        harvest.walk(source, table)
    assert dict(target.execute("SELECT key, value FROM meta"))["store.schema"] == SCHEMA
    assert dict(target.execute("SELECT key, value FROM meta"))["next"] == 7
    assert harvest.summary() == "1 meta, 2 counter"
    assert harvest.losses() == ["table meta: 1 row(s) made no sense and are lost"]
    for connection in (source, target):
        connection.close()
