"""Backups: one moment of a database that others write to, checked, and put in place whole or not at all."""

import sqlite3
import tarfile
from pathlib import Path

import pytest

from gateway.store.backup import DATABASE, BackupError, Manifest, check, restore, take
from gateway.store.errors import StoreError
from gateway.store.lock import DirectoryLock
from gateway.store.migrations import KEY_MIN_READER, SCHEMA
from tests.unit.gateway.store.opened import Opened


def quiet(done: int, total: int) -> None:
    assert 0 <= done <= total


@pytest.fixture
def data(tmp_path: Path) -> Path:
    opened = Opened(tmp_path / "data" / DATABASE)
    opened.close()
    (tmp_path / "data" / "passwd").write_text("someone:hash\n")
    return tmp_path / "data"


def taken(data: Path, target: Path) -> Manifest:
    return take(data, {"files/0-passwd": data / "passwd"}, target, "1.2.3", "2026-01-01T00:00:00Z", quiet)


def with_meta(database: Path, key: str, value: object) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
    connection.close()


def test_a_backup_is_private_and_holds_database_and_files(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    manifest = taken(data, target)
    assert check(target) == manifest
    assert (manifest.forebay, manifest.schema) == ("1.2.3", SCHEMA)
    assert manifest.members["files/0-passwd"].path == str(data / "passwd")
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "data"], "nothing else is left"


def test_it_is_one_moment_of_a_database_that_is_written_to(data: Path, tmp_path: Path) -> None:
    filler = sqlite3.connect(data / DATABASE, isolation_level=None)
    filler.execute("PRAGMA journal_mode = WAL")
    filler.execute("CREATE TABLE filler (n INTEGER, data BLOB)")
    for n in range(40):
        filler.execute("INSERT INTO filler VALUES (?, randomblob(100000))", (n,))
    seen = []

    def meanwhile(done: int, total: int) -> None:
        seen.append(done)
        filler.execute("INSERT INTO filler VALUES (1000, NULL)")
        filler.execute("DELETE FROM filler WHERE n = ?", (len(seen),))

    target = tmp_path / "backup"
    take(data, {}, target, "", "", meanwhile)
    filler.close()
    assert len(seen) > 3
    restore(target, tmp_path / "new", "x", False)
    with sqlite3.connect(tmp_path / "new" / DATABASE) as found:
        assert [n for (n,) in found.execute("SELECT n FROM filler ORDER BY n")] == list(range(40))
    found.close()


def test_restored_to_where_it_came_from(data: Path, tmp_path: Path) -> None:
    taken(data, tmp_path / "backup")
    with_meta(data / DATABASE, "later", 1)
    (data / "passwd").write_text("later\n")
    with pytest.raises(BackupError, match=r"forebay\.db: is there already"):
        restore(tmp_path / "backup", data, "old", False)
    assert (data / "passwd").read_text() == "later\n"
    done = restore(tmp_path / "backup", data, "old", True)
    assert f"{data / DATABASE}: restored" in done
    assert (data / "passwd").read_text() == "someone:hash\n"
    assert (data / "passwd.old").read_text() == "later\n"
    opened = Opened(data / DATABASE)
    assert "later" not in opened.snapshot.meta
    assert opened.snapshot.damage == []
    opened.close()


def test_the_database_alone(data: Path, tmp_path: Path) -> None:
    taken(data, tmp_path / "backup")
    (data / "passwd").unlink()
    restore(tmp_path / "backup", tmp_path / "new", "old", False, files=False)
    assert not (data / "passwd").exists()
    assert (tmp_path / "new" / DATABASE).exists()


def test_a_log_of_before_does_not_get_into_what_was_restored(data: Path, tmp_path: Path) -> None:
    taken(data, tmp_path / "backup")
    (data / f"{DATABASE}-wal").write_bytes(b"of another database")
    restore(tmp_path / "backup", data, "old", True)
    assert not (data / f"{DATABASE}-wal").exists()
    assert (data / f"{DATABASE}-wal.old").exists()


def test_not_while_a_gateway_serves_it(data: Path, tmp_path: Path) -> None:
    taken(data, tmp_path / "backup")
    lock = DirectoryLock(data / "forebay.lock")
    with pytest.raises(StoreError, match="in use"):
        restore(tmp_path / "backup", data, "old", True)
    lock.release()


@pytest.mark.parametrize("left", [0, 10, 511, 700, 2000, 20_000])
def test_a_cut_file_is_refused_and_changes_nothing(data: Path, tmp_path: Path, left: int) -> None:
    target = tmp_path / "backup"
    taken(data, target)
    whole = target.read_bytes()
    assert len(whole) > 20_000
    target.write_bytes(whole[:left])
    before = {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()}
    with pytest.raises(BackupError, match=r"backup: (no backup|cut short|damaged)"):
        restore(target, data, "old", True)
    assert {path.name: path.read_bytes() for path in data.iterdir() if path.name != "forebay.lock"} == {
        name: content for name, content in before.items() if name != "forebay.lock"
    }


def test_a_flipped_byte_is_found(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    taken(data, target)
    content = bytearray(target.read_bytes())
    content[-20_000] ^= 1
    target.write_bytes(content)
    with pytest.raises(BackupError, match=r"damaged: forebay\.db is not what was backed up"):
        check(target)


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + bytes(4080)])
def test_another_file_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(BackupError, match="other: no backup"):
        check(tmp_path / "other")


def test_another_tar_is_none(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "other", "w") as tar:
        tar.add(__file__, "x.py")
    with pytest.raises(BackupError, match="no backup: it does not begin with a manifest"):
        check(tmp_path / "other")


def test_of_a_newer_version(data: Path, tmp_path: Path) -> None:
    taken(data, tmp_path / "good")
    with_meta(data / DATABASE, KEY_MIN_READER, SCHEMA + 1)
    with pytest.raises(BackupError, match=f"newer version .*knows {SCHEMA}"):
        taken(data, tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "good"]


def test_without_a_database_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="no database to back up"):
        take(tmp_path, {}, tmp_path / "backup", "", "", quiet)


def test_no_room_is_one_line(data: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="nowhere"):
        taken(data, tmp_path / "nowhere" / "backup")
