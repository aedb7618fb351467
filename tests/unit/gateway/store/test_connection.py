"""How a database is opened, and which errors mean damage."""

import sqlite3
from pathlib import Path

import pytest

from gateway.store.connection import connect, is_corrupt, is_damage, one_line


@pytest.mark.parametrize(("durability", "level"), [("fsync", 2), ("os", 1)])
def test_a_connection_syncs_as_promised(tmp_path: Path, durability: str, level: int) -> None:
    connection = connect(tmp_path / "a.db", durability, 1 << 20)
    for pragma, value in (
        ("synchronous", level), ("journal_mode", "wal"), ("auto_vacuum", 2), ("page_size", 4096),
        ("secure_delete", 0), ("cache_size", -1024),
    ):  # fmt: skip
        assert connection.execute(f"PRAGMA {pragma}").fetchone() == (value,)
    connection.close()


def failure(code: int, text: str = "no\nway") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_X"
    return error


def test_damage_is_told_from_trouble() -> None:
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT_INDEX, sqlite3.SQLITE_IOERR_READ)
    trouble = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY,
               sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_WRITE)  # fmt: skip
    assert all(is_damage(failure(code)) for code in damage)
    assert not any(is_damage(failure(code)) for code in trouble)
    assert is_damage(sqlite3.DatabaseError("check failed"))
    assert is_corrupt(failure(sqlite3.SQLITE_CORRUPT_INDEX))
    assert not is_corrupt(failure(sqlite3.SQLITE_IOERR_READ))


def test_a_reason_is_one_line_and_names_the_kind() -> None:
    assert one_line(failure(sqlite3.SQLITE_FULL)) == "disk full: no way"
    assert one_line(failure(sqlite3.SQLITE_CORRUPT)) == "database damaged: no way"
    assert one_line(failure(sqlite3.SQLITE_IOERR_FSYNC)) == "no way (SQLITE_X)"
    assert one_line(ValueError()) == "ValueError"
