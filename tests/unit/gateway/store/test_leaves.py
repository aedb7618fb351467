"""Leaves are told by the pointer map, and read in their root's place."""

import os
import sqlite3
from pathlib import Path

import pytest

from gateway.store.leaves import _parents, each_leaf

ROWS = 2_000_000 // 400  # more pages than one page of the pointer map describes


@pytest.fixture
def database(tmp_path: Path) -> tuple[Path, int]:
    """A table of many leaves and the page of its root."""
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("CREATE TABLE other (id INTEGER PRIMARY KEY, data BLOB)")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, data BLOB)")
    rows = [(number, os.urandom(700)) for number in range(ROWS)]
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    connection.executemany("INSERT INTO other VALUES (?, ?)", rows[:100])
    connection.execute("DELETE FROM t WHERE id BETWEEN 1000 AND 1999")
    connection.commit()
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 't'").fetchone()[0]
    connection.close()
    return path, root


def test_every_row_is_met_once_and_no_deleted_one(database: tuple[Path, int]) -> None:
    path, root = database
    with path.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(bytes(4096))
    found: list[int] = []
    for name, connection in each_leaf(path, {root: "t"}):
        assert name == "t"
        found += [number for (number,) in connection.execute("SELECT id FROM t")]
    assert sorted(found) == [*range(1000), *range(2000, ROWS)]


def test_a_bad_page_of_the_map_costs_what_it_describes(database: tuple[Path, int]) -> None:
    path, root = database
    with path.open("r+b") as file:
        assert len(_parents(file, path.stat().st_size // 4096)) > 819
        file.seek(4096)
        file.write(os.urandom(4096))
    found = sum(
        len(connection.execute("SELECT id FROM t").fetchall()) for _, connection in each_leaf(path, {root: "t"})
    )
    assert found < ROWS - 1000


def test_a_short_or_empty_file_has_no_leaves(tmp_path: Path) -> None:
    for size in (0, 100, 4096, 9000):
        path = tmp_path / f"{size}.db"
        path.write_bytes(bytes(size))
        assert list(each_leaf(path, {3: "t"})) == []
