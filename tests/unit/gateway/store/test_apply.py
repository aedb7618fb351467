"""A commit is one statement, whatever it carries."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.core.batch import Batch
from gateway.store import apply
from gateway.store.connection import connect
from gateway.store.migrations import migrate


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    one = connect(tmp_path / "a.db", "fsync", 1 << 20)
    migrate(one, tmp_path / "a.db")
    apply.prepare(one)
    yield one
    one.close()


def batch_of(rows: int) -> Batch:
    batch = Batch(1)
    batch.segment_id, batch.segment_last, batch.records = 1, rows, b"r" * 200 * rows
    batch.dead_segments = list(range(1000, 1000 + rows))
    batch.gone = list(range(5000, 5000 + rows))
    batch.sessions = [(n, f"client-{n}", 0, 0, 0) for n in range(1, rows + 1)]
    batch.cursors = {n: b"c" * n for n in range(1, rows + 1)}
    batch.subscriptions = [(n, "a/b", 0, 0) for n in range(1, rows + 1)]
    batch.unsubscribed = [(n, "c/d") for n in range(1, rows + 1)]
    batch.retained = {f"t/{n}": None if n % 2 else b"x" * n for n in range(1, rows + 1)}
    batch.wills = {f"client-{n}": b"" if n % 2 else None for n in range(1, rows + 1)}
    batch.bridge = {f"birth {n} t": None if n % 3 else b"b" * n for n in range(1, rows + 1)}
    batch.delayed = {n: None if n % 2 else b"d" * n for n in range(1, rows + 1)}
    batch.counters = [(n, "matched", n) for n in range(1, rows + 1)]
    batch.meta = {f"key-{n}": n for n in range(1, rows + 1)}
    return batch


def test_the_statements_of_a_commit_do_not_grow_with_its_rows(connection: sqlite3.Connection) -> None:
    counts = []
    for rows in (1, 10, 500):
        traced: list[str] = []
        connection.set_trace_callback(traced.append)
        connection.execute(apply.APPLY, apply.parameters(batch_of(rows)))
        connection.set_trace_callback(None)
        # the statements of the trigger repeat the outer one's text
        assert {text.split("(")[0].lstrip("- ") for text in traced} == {"INSERT INTO apply "}
        counts.append(len(traced))
        assert not connection.in_transaction
    assert counts[0] == counts[1] == counts[2]
    assert connection.execute("SELECT count(*), sum(length(state)) FROM cursor").fetchone() == (500, 500 * 501 // 2)


def test_every_change_of_a_table_is_looked_up_by_its_key(connection: sqlite3.Connection) -> None:
    for table, key in (("segment", "id"), ("session", "sid"), ("subscription", "sid"), ("counter", "sid")):
        plan = connection.execute(
            f"EXPLAIN QUERY PLAN DELETE FROM {table} WHERE {key} IN (SELECT value FROM json_each(?))", ("[1]",)
        ).fetchall()
        assert not any(f"SCAN {table}" in row[3] for row in plan), plan
    plan = connection.execute(
        "EXPLAIN QUERY PLAN DELETE FROM subscription WHERE (sid, filter) IN (SELECT 1, value FROM json_each(?))",
        ("[]",),
    ).fetchall()
    assert not any("SCAN subscription" in row[3] for row in plan), plan


def test_a_statement_that_fails_half_way_leaves_nothing(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TRIGGER stop BEFORE INSERT ON meta BEGIN SELECT raise(ABORT, 'stop'); END")
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(apply.APPLY, apply.parameters(batch_of(5)))
    assert not connection.in_transaction
    for table in ("segment", "session", "cursor", "subscription", "retained", "will", "bridge", "delayed", "counter"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_an_empty_batch_is_a_commit_too(connection: sqlite3.Connection) -> None:
    connection.execute(apply.APPLY, apply.parameters(Batch(1)))
    assert connection.execute("SELECT count(*) FROM segment").fetchone() == (0,)


def test_blobs_are_cut_out_of_the_packed_one_exactly(connection: sqlite3.Connection) -> None:
    batch = Batch(1)
    batch.cursors = {1: b"", 2: b"\x00", 3: b"\xff" * 3, 4: b""}
    batch.retained = {"a": b"12", "b": None, "c": b"345"}
    batch.wills = {"w": b"6"}
    batch.bridge = {"birth 3 t": b"78", "birth 1 t": None}
    batch.delayed = {2: b"9", 3: None}
    connection.execute(apply.APPLY, apply.parameters(batch))
    assert connection.execute("SELECT state FROM cursor ORDER BY sid").fetchall() == [
        (b"",), (b"\x00",), (b"\xff" * 3,), (b"",),
    ]  # fmt: skip
    assert connection.execute("SELECT data FROM retained ORDER BY topic").fetchall() == [(b"12",), (b"345",)]
    assert connection.execute("SELECT data FROM will").fetchall() == [(b"6",)]
    assert connection.execute("SELECT key, data FROM bridge").fetchall() == [("birth 3 t", b"78")]
    assert connection.execute("SELECT id, data FROM delayed").fetchall() == [(2, b"9")]
