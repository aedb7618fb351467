"""A collector's files: what is there after a crash, what is stored twice."""

import json
import sqlite3
from pathlib import Path

import pytest

from gateway.collect.files import Database, FileError, Lines, Row, file_at
from tests.forced import needs_root, read_only_by_force

ROWS = [
    Row("a/b", b"text", 1, False, 1_000, {}),
    Row("ä", b"\xff\x00", 0, True, 1_001, {"user": [["k", "1"], ["k", "2"]]}, "7/999"),
]


def rows_of(path: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as database:
        found = database.execute(
            "SELECT topic, payload, qos, retain, received, properties, ingest FROM messages ORDER BY number"
        ).fetchall()
    database.close()
    return found


def test_rows_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    file = file_at(path)
    file.open()
    assert file.write(ROWS) == 2
    assert file.write([]) == 0
    file.close()
    assert rows_of(path) == [
        ("a/b", b"text", 1, 0, 1_000, "{}", None),
        ("ä", b"\xff\x00", 0, 1, 1_001, '{"user": [["k", "1"], ["k", "2"]]}', "7/999"),
    ]


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    file = file_at(path)
    file.open()
    assert file.write(ROWS) == 2
    file.close()
    first, second = map(json.loads, path.read_text().splitlines())
    assert first == {
        "topic": "a/b", "payload": "text", "qos": 1, "retain": False, "received": 1_000, "properties": {}
    }  # fmt: skip
    assert second["payload_base64"] == "/wA=" and second["ingest"] == "7/999" and second["topic"] == "ä"


@pytest.mark.parametrize("name", ["m.db", "m.jsonl"])
def test_what_a_gateway_named_is_stored_once_over_restarts(tmp_path: Path, name: str) -> None:
    for expected in (3, 1, 0):
        file = file_at(tmp_path / name)
        file.open()
        one, other = ROWS[1], ROWS[1]._replace(ingest="8/999")
        assert file.write([ROWS[0], one, one, other] if expected == 3 else [one, ROWS[0]][: 1 + expected]) == expected
        file.close()


def test_many_rows_of_one_batch(tmp_path: Path) -> None:
    file = Database(tmp_path / "m.db")
    file.open()
    assert file.write([ROWS[0]._replace(received=number) for number in range(5_000)]) == 5_000
    file.close()
    assert [row[4] for row in rows_of(tmp_path / "m.db")] == list(range(5_000))


def test_a_line_that_a_crash_tore_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    for torn in (b'{"topic": "t', b'{"topic": "t"}'):
        file = Lines(path)
        file.open()
        file.write(ROWS)
        file.close()
        whole = path.read_bytes()
        with path.open("ab") as stream:
            stream.write(torn)
        file = Lines(path)
        file.open()
        assert path.read_bytes() == whole
        file.write(ROWS[:1])
        file.close()
    assert len(path.read_text().splitlines()) == 5


def test_a_long_file_is_read_at_its_end_only(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    filler = Row("t", b"x" * 100_000, 1, False, 1, {})
    file = Lines(path)
    file.open()
    file.write([ROWS[1], *[filler] * 100, ROWS[1]._replace(ingest="9/1")])
    file.close()
    assert path.stat().st_size > 9_000_000
    file = Lines(path)
    file.open()
    assert file.write([ROWS[1]._replace(ingest="9/1")]) == 0
    file.close()


def test_files_that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "m.db").write_text("no database" * 500)
    (tmp_path / "m.jsonl").write_text("no json\n")
    (tmp_path / "list.jsonl").write_text("[1]\n")
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("CREATE TABLE messages (id INTEGER, body TEXT)")
    database.close()
    for name, text in (
        ("m.db", "m.db: cannot be used as a database"),
        ("m.jsonl", "m.jsonl: expected JSON objects, found b'no json'"),
        ("list.jsonl", "list.jsonl: expected JSON objects"),
        ("other.db", r"other.db: its table messages has no column ingest, number, payload"),
        ("no/m.jsonl", "no/m.jsonl: cannot be written: No such file"),
        ("no/m.db", "no/m.db: cannot be used as a database"),
    ):
        with pytest.raises(FileError, match=text):
            file_at(tmp_path / name).open()
    with pytest.raises(FileError, match=r"m\.txt: expected a name that ends in \.db"):
        file_at(tmp_path / "m.txt")


def test_what_cannot_be_cut_is_no_file_of_lines() -> None:
    with pytest.raises(FileError, match="/dev/full: cannot be written"):
        Lines(Path("/dev/full")).open()


@pytest.mark.parametrize("text", [b'{"mine": 1}', b"notes", b'{"topic": "a", "payload": "1"}\n{"mine"'])
def test_what_no_collector_wrote_is_kept(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(text)
    with pytest.raises(FileError, match="expected lines of a collector"):
        Lines(path).open()
    assert path.read_bytes() == text


def test_blocks_that_a_power_cut_left_empty_go(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"topic": "a", "payload": "1"}\n' + bytes(4096))
    file = Lines(path)
    file.open()
    file.close()
    assert path.read_bytes() == b'{"topic": "a", "payload": "1"}\n'


@needs_root
@pytest.mark.parametrize("name", ["m.db", "m.jsonl"])
def test_a_disk_that_is_made_read_only_by_force_has_kept_nothing(tmp_path: Path, name: str) -> None:
    file = file_at(tmp_path / name)
    file.open()
    with read_only_by_force(tmp_path), pytest.raises(FileError, match="Read-only file system"):
        file.write(ROWS)
    assert file.write(ROWS) == 2
    file.close()
