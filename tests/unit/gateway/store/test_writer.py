"""Failures of the disk, its figures, and the room it takes."""

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.core.batch import Batch
from gateway.store.connection import connect
from gateway.store.spare import Spare
from gateway.store.writer import Writer
from tests.forced import force_read_only, give_back, needs_root
from tests.unit.gateway.store.opened import WAIT_S, Opened
from tests.unit.gateway.store.test_sqlite import full_batch

Open = Callable[..., Opened]


FULL = """
import resource, sys, queue
from pathlib import Path
from gateway.core.batch import Batch
from gateway.store.sqlite import Store

done = queue.Queue()
store = Store(Path(sys.argv[1]), on_done=lambda number, reason: done.put((number, reason)), on_read=lambda *_: None)
store.open()
store.start()

def commit(number, size):
    batch = Batch(number)
    batch.segment_id = batch.segment_last = number
    batch.records = b"r" * size
    batch.meta = {"number": number}
    store.submit(batch)
    return done.get(timeout=60)

assert commit(1, 1000) == (1, None)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, -1))
number, reason = commit(2, 1_000_000)
assert number == 2 and reason and "\\n" not in reason, reason
assert store.stats().failed_commits == 1 and store.stats().last_error
assert commit(3, 1000) == (3, None), "a small one still fits"
number, reason = commit(4, 1_000_000)
assert reason
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
assert commit(4, 1_000_000) == (4, None)
assert store.stats().last_error == ""
store.close()
"""


def test_a_write_that_fails_applies_nothing_and_the_next_works(opened: Open, path: Path) -> None:
    subprocess.run([sys.executable, "-c", FULL, str(path)], check=True, cwd=Path(__file__).parents[4], timeout=60)
    snapshot = opened().snapshot
    assert [segment for segment, _, _ in snapshot.segments] == [1, 3, 4]
    assert snapshot.meta["number"] == 4
    assert snapshot.damage == []


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_no_longer_there_takes_nothing(opened: Open, path: Path, how: str) -> None:
    store = opened()
    assert store.commit(full_batch(1)) is None
    if how == "deleted":
        path.unlink()
    else:
        (path.parent / "other").write_bytes(path.read_bytes())
        (path.parent / "other").rename(path)
    for number in (2, 3):
        assert store.commit(Batch(number)) == f"database gone: {path} was {how}"


@needs_root
def test_a_disk_that_is_made_read_only_by_force_has_kept_nothing(opened: Open, path: Path) -> None:
    """In the middle of a commit, and before the next: open files can be written on. Here a mount lies above."""
    opened().close()
    folder = path.parent
    forced: list[str] = []

    def force(statement: str) -> None:
        if not forced:
            forced.append(statement)
            force_read_only(folder)

    connection = connect(path, "fsync", 1 << 20)
    answers: queue.Queue[tuple[int, str | None]] = queue.Queue()
    writer = Writer(
        connection, lambda: connect(path, "fsync", 1 << 20), path, 0, Spare(path.with_name("spare")),
        lambda number, reason: answers.put((number, reason)),
    )  # fmt: skip
    connection.set_trace_callback(force)
    writer.start()
    try:
        for number, said in (
            (1, f"database gone: {folder} became read-only in the middle of a commit"),
            (2, f"{folder}: read-only file system"),
        ):
            writer.submit(Batch(number))
            assert answers.get(timeout=WAIT_S) == (number, said)
    finally:
        give_back(folder)
    writer.submit(Batch(3))
    assert answers.get(timeout=WAIT_S) == (3, None)
    writer.close()


def test_below_the_free_space_floor_only_messages_are_refused(opened: Open) -> None:
    one = opened(min_free_bytes=1 << 60)
    batch = Batch(1)
    batch.segment_id = batch.segment_last = 1
    batch.records = b"x"
    reason = one.commit(batch)
    assert reason is not None
    assert reason.startswith("disk full: ")
    batch = Batch(2)
    batch.dead_segments, batch.cursors = [1], {1: b"s"}
    assert one.commit(batch) is None
    one.close()
    snapshot = opened().snapshot
    assert (snapshot.segments, snapshot.cursors) == ([], {1: b"s"})


def test_a_batch_that_cannot_be_packed_is_answered(opened: Open) -> None:
    one, batch = opened(), Batch(1)
    batch.sessions = [(1, "a", 0, object(), 0)]  # type: ignore[list-item]
    assert one.commit(batch) is not None
    assert one.commit(full_batch(2)) is None


def test_a_drained_file_shrinks_and_the_log_stays_small(opened: Open, path: Path) -> None:
    one = opened()
    for number in range(1, 33):
        batch = Batch(number)
        batch.segment_id = batch.segment_last = number
        batch.records = os.urandom(1_000_000)
        assert one.commit(batch) is None
    stats = one.store.stats()
    assert path.with_name("forebay.db-wal").stat().st_size < 8_000_000
    assert stats.commits == 32
    assert 32_000_000 < stats.bytes_written < 100_000_000
    batch = Batch(33)
    batch.dead_segments = list(range(1, 33))
    assert one.commit(batch) is None
    deadline = time.monotonic() + WAIT_S
    while path.stat().st_size > 6_000_000 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert path.stat().st_size < 6_000_000
    assert one.store.stats().used_bytes < 3_000_000
    assert one.store.stats().file_bytes < 16_000_000


def test_the_figures_of_a_commit(opened: Open) -> None:
    one = opened()
    assert one.commit(full_batch()) is None
    stats = one.store.stats()
    assert stats.commits == 1
    assert 0 < stats.last_commit_ms <= stats.max_commit_ms
    assert 0 < stats.p50_commit_ms <= stats.p99_commit_ms <= stats.max_commit_ms
    assert stats.free_bytes > 0
    assert stats.used_bytes >= 4096


def test_the_thread_answers_when_it_comes_to_it(opened: Open) -> None:
    store = opened()
    answered = threading.Event()
    store.store.call(answered.set)
    assert answered.wait(WAIT_S)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        release.wait(WAIT_S)

    store.store.call(hold)
    assert held.wait(WAIT_S)
    answered.clear()
    store.store.call(answered.set)
    assert not answered.is_set()  # it stands still
    release.set()
    assert answered.wait(WAIT_S)
    assert store.commit(full_batch(1)) is None
