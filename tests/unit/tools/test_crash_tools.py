"""The crash tools themselves, tried on SQLite alone: a cut must keep what was synced and lose what was not."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.crash.powercut import MODES, Disk, lose, rebuild
from tests.crash.shimlog import Record, build_shim, early_acknowledgements, read_log, shim_env

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the shim needs a C compiler")

INSERTS = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma journal_mode=wal")
db.execute("pragma synchronous=" + sys.argv[2])
db.execute("create table t(n integer primary key, filler blob)")
for n in range(int(sys.argv[3])):
    try:
        db.execute("insert into t values(?, randomblob(700))", (n,))
        print(n, flush=True)
    except sqlite3.OperationalError as error:
        print("error:", error, flush=True)
    if n == 30:
        db.execute("pragma wal_checkpoint(truncate)")
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_shim(tmp_path_factory.mktemp("shim"))


def run(shim: Path, data: Path, synchronous: str, count: int, **options: object) -> list[str]:
    env = {**os.environ, **shim_env(data, **options), "LD_PRELOAD": str(shim)}
    line = [sys.executable, "-c", INSERTS, str(data / "x.db"), synchronous, str(count)]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() + done.stderr.splitlines()


def rows(path: Path) -> list[int]:
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        if not db.execute("select 1 from sqlite_master where name = 't'").fetchone():
            return []
        return [n for (n,) in db.execute("select n from t order by n")]


@pytest.mark.parametrize("mode", MODES)
def test_every_row_whose_commit_was_synced_survives_a_cut(shim: Path, tmp_path: Path, mode: str) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    assert run(shim, data, "full", 60, log=log) == [str(n) for n in range(60)]
    records = read_log(log)
    chance = random.Random(mode)
    wal_syncs = [index for index, record in enumerate(records) if record.kind == "F" and "-wal" in record.path]
    assert len(wal_syncs) >= 60
    for turn in range(12):
        upto = chance.randrange(len(records) + 1)
        target = tmp_path / f"cut{turn}"
        rebuild(records, upto, target, mode, chance)
        found = rows(target / "x.db")
        assert found == list(range(len(found))), (mode, upto)
        # the first syncs of the log are those of its header, the table, and of the checkpoint: at most 6
        assert len(found) >= sum(index < upto for index in wal_syncs) - 6, (mode, upto)


def test_a_cut_shows_a_database_that_does_not_sync(shim: Path, tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    run(shim, data, "off", 60, log=log)
    rebuild(read_log(log), 10**9, tmp_path / "cut", "drop", random.Random(1))
    assert rows(tmp_path / "cut" / "x.db") == []
    rebuild(read_log(log), 10**9, tmp_path / "kept", "keep", random.Random(1))
    assert rows(tmp_path / "kept" / "x.db") == list(range(60))


def test_the_directory_that_the_log_rebuilds_is_the_real_one(shim: Path, tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    run(shim, data, "full", 40, log=log)
    rebuild(read_log(log), 10**9, tmp_path / "again", "keep", random.Random(1))
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == {
        path.name: path.read_bytes() for path in data.iterdir()
    }


@pytest.mark.parametrize(("op", "errno", "text"), [("write", "ENOSPC", "full"), ("sync", "EIO", "I/O")])
def test_call_n_fails_and_the_next_does_not(shim: Path, tmp_path: Path, op: str, errno: str, text: str) -> None:
    said = run(shim, tmp_path / "data", "full", 20, fail_at=40 if op == "write" else 12, fail_op=op, errno=errno)
    errors = [line for line in said if line.startswith("error:")]
    assert len(errors) == 1 and text in errors[0], said
    assert len(said) == 20


def test_calls_fail_while_a_file_is_there(shim: Path, tmp_path: Path) -> None:
    (tmp_path / "flag").touch()
    said = run(shim, tmp_path / "data", "full", 3, fail_while=tmp_path / "flag", errno="ENOSPC", log=tmp_path / "log")
    assert "full" in said[-1]
    assert {record.kind for record in read_log(tmp_path / "log")} <= {"X", "U"}


def test_lost_changes() -> None:
    content, chance = bytearray(b"0" * 1024), random.Random(3)
    changes = [Record("W", "f", 512, b"1" * 512), Record("T", "f", 700), Record("W", "f", 1000, b"2" * 600)]
    assert lose(content, changes, "drop", chance) == b"0" * 1024
    assert lose(content, changes, "keep", chance) == b"0" * 512 + b"1" * 188 + bytes(300) + b"2" * 600
    torn = {lose(content, changes, "tear", chance) for _ in range(50)}
    assert len(torn) > 20 and all(len(one) in range(700, 1601) for one in torn)
    assert all(one.startswith(b"0" * 512) for one in torn)
    zeroed = {lose(content, changes, "zero", chance) for _ in range(50)}
    assert len(zeroed) > 20 and all(len(one) == 1600 for one in zeroed)
    assert len({lose(content, changes, "sectors", chance) for _ in range(50)}) > 5


def test_a_sync_covers_only_what_was_written_before_it_began() -> None:
    disk = Disk()
    for record in (
        Record("W", "f", 0, b"early"), Record("S", "f", 1), Record("W", "f", 5, b"late"), Record("F", "f", 1),
        Record("W", "d/g", 0, b"x"), Record("U", "d/g"),
    ):  # fmt: skip
        disk.play(record)
    assert disk.files("drop", random.Random(1))["f"] == b"early"
    assert disk.ghosts == {"d/g": b""}
    disk.play(Record("S", "d", 2))
    disk.play(Record("F", "d", 2))
    assert not disk.ghosts


def test_an_early_acknowledgement_is_seen() -> None:
    ask, answer = Record("I", "", mqtt.PUBLISH, b"", 7, 1), Record("A", "", mqtt.PUBACK, b"", 7, 1)
    write, begin, end = Record("W", "w", 0, b"-one-"), Record("S", "w", 1), Record("F", "w", 1)
    good = [ask, write, begin, end, answer]
    assert not early_acknowledgements(good, lambda port, pid: b"one")
    assert early_acknowledgements(good, lambda port, pid: b"two")
    assert not early_acknowledgements(good, ports={8})
    for bad in (
        [ask, write, begin, answer, end],
        [write, ask, begin, end, answer],
        [ask, begin, write, end, answer],
        [ask, write, answer],
        [write, begin, end, answer],
    ):
        (fault,) = early_acknowledgements(bad)
        assert "PUBACK 1 to port 7" in fault
