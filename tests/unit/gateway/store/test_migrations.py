"""Which databases open, and what the first migration makes."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlite_utils import Database

from gateway.core.batch import Batch
from gateway.store import migrations
from gateway.store.errors import StoreError
from gateway.store.lock import DirectoryLock
from gateway.store.migrations import KEY_MIN_READER, KEY_SCHEMA, SCHEMA, create, migrate, versions
from tests.unit.gateway.store.opened import Opened

Open = Callable[..., Opened]


def set_versions(path: Path, schema: int, min_reader: int) -> None:
    connection = sqlite3.connect(path)
    for key, value in ((KEY_SCHEMA, schema), (KEY_MIN_READER, min_reader)):
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
    connection.commit()
    connection.close()


def test_a_new_database_has_every_table_and_its_version(opened: Open, path: Path) -> None:
    assert opened().snapshot.meta == {KEY_SCHEMA: SCHEMA, KEY_MIN_READER: 3}
    db = Database(sqlite3.connect(path))
    assert set(db.table_names()) == {
        "meta", "segment", "session", "cursor", "subscription", "retained", "will", "counter", "bridge",
        "delayed",
    }  # fmt: skip
    columns = [column.name for column in db.table("segment").columns]
    assert columns.index("targets") < columns.index("records")
    assert [(index.columns, index.unique) for index in db.table("session").indexes] == [(["client_id", "kind"], 1)]
    db.close()


def test_a_second_start_migrates_nothing(opened: Open, path: Path) -> None:
    opened().close()
    before = path.read_bytes()
    opened().close()
    assert path.read_bytes() == before


def test_a_newer_schema_that_shuts_us_out_is_one_line_and_stays_as_it_is(opened: Open, path: Path) -> None:
    opened().close()
    set_versions(path, SCHEMA + 5, SCHEMA + 2)
    before = path.read_bytes()
    with pytest.raises(StoreError) as error:
        opened()
    line = str(error.value)
    assert "\n" not in line
    for part in (str(path), f"schema {SCHEMA + 5}", f"from schema {SCHEMA + 2}", f"knows {SCHEMA}"):
        assert part in line
    assert path.read_bytes() == before
    set_versions(path, SCHEMA + 5, SCHEMA)
    opened()  # the lock was given back


def test_a_newer_schema_that_lets_us_in_opens_and_keeps_its_version(opened: Open, path: Path) -> None:
    opened().close()
    set_versions(path, SCHEMA + 5, SCHEMA)
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE session ADD COLUMN colour TEXT")
    connection.execute("CREATE TABLE later (id INTEGER PRIMARY KEY)")
    connection.close()
    one, batch = opened(), Batch(1)
    batch.sessions = [(1, "a", 0, 1, 0)]
    assert one.commit(batch) is None
    one.close()
    snapshot = opened().snapshot
    assert snapshot.sessions == batch.sessions
    assert snapshot.meta[KEY_SCHEMA] == SCHEMA + 5
    assert snapshot.damage == []


def test_a_migration_that_fails_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(db: Database) -> None:
        db.create_table("half", {"id": int})
        raise sqlite3.OperationalError("no")

    monkeypatch.setattr(migrations, "MIGRATIONS", [*migrations.MIGRATIONS, (broken, 1)])
    monkeypatch.setattr(migrations, "SCHEMA", SCHEMA + 1)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, path)
    assert versions(connection) == (SCHEMA, 3)
    assert "half" not in Database(connection).table_names()
    connection.close()


def test_a_new_one_made_ahead_opens_without_a_migration(
    opened: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(path)
    monkeypatch.setattr(migrations, "MIGRATIONS", [])
    assert opened().snapshot.meta == {KEY_SCHEMA: SCHEMA, KEY_MIN_READER: 3}


def test_one_that_is_there_is_not_touched_when_made_ahead(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"damaged")
    create(path)
    assert path.read_bytes() == b"damaged"
    assert sorted(found.name for found in path.parent.iterdir()) == [path.name]


def test_making_ahead_leaves_trouble_to_the_start(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = DirectoryLock(path.parent / "forebay.lock")
    create(path)
    assert not path.exists()
    lock.release()
    create(path.parent / "forebay.lock" / "x" / path.name)
