"""What a commit carries comes back after a restart, whole or not at all."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.core.batch import Batch
from gateway.store.errors import StoreError
from gateway.store.sqlite import Store
from tests.unit.gateway.store.opened import Opened

Open = Callable[..., Opened]


def full_batch(number: int = 1) -> Batch:
    batch = Batch(number)
    batch.segment_id, batch.segment_last = 10, 12
    batch.targets, batch.records = b"\x00targets\xff", os.urandom(20_000)
    batch.sessions = [(1, "press-4", 0, 0xFFFFFFFF, 0), (2, "$share/g/\u00e9\U0001f600\"'", 1, 60, 2**62)]
    batch.cursors = {1: b"\x00\x01state", 2: b""}
    batch.subscriptions = [(1, "plant/+/temp", 0x2D, 0), (1, "a/\\b", 1, 268_435_455), (2, "#", 0, 3)]
    batch.retained = {"plant/1": b"\x00" * 300, "plant/2": b"x"}
    batch.wills = {"press-4": os.urandom(5000)}
    batch.bridge = {"birth 4 spBv1.0/g/NBIRTH/e": os.urandom(900), "node g/e": b""}
    batch.delayed = {1: os.urandom(70), 2**40: b""}
    batch.counters = [(0, "dropped.disk", 3), (1, "matched", 2**40)]
    batch.meta = {"clock.boot_id": "abc", "clock.offset_ms": -5, "next": 2**62}
    return batch


def test_every_table_comes_back(opened: Open) -> None:
    first, batch = opened(), full_batch()
    assert first.snapshot.sessions == []
    assert first.commit(batch) is None
    first.close()
    snapshot = opened().snapshot
    assert snapshot.sessions == batch.sessions
    assert snapshot.cursors == batch.cursors
    assert sorted(snapshot.subscriptions) == sorted(batch.subscriptions)
    assert dict(snapshot.retained) == batch.retained
    assert dict(snapshot.wills) == batch.wills
    assert dict(snapshot.bridge) == batch.bridge
    assert dict(snapshot.delayed) == batch.delayed
    assert snapshot.counters == batch.counters
    assert batch.meta.items() <= snapshot.meta.items()
    assert snapshot.segments == [(10, 12, batch.targets)]
    assert snapshot.damage == []


def test_a_batch_deletes_before_it_inserts(opened: Open) -> None:
    one = opened()
    assert one.commit(full_batch()) is None
    batch = Batch(2)
    batch.dead_segments = [10]
    batch.gone = [1]
    batch.sessions = [(1, "press-5", 0, 5, 6), (9, "$share/g/\u00e9\U0001f600\"'", 1, 61, 0)]
    batch.cursors = {1: b"new"}
    batch.unsubscribed = [(2, "#"), (1, "plant/+/temp")]
    batch.subscriptions = [(1, "plant/+/temp", 1, 0)]
    batch.retained = {"plant/1": None, "plant/2": b"y"}
    batch.wills = {"press-4": None, "press-5": b"w"}
    batch.bridge = {"birth 4 spBv1.0/g/NBIRTH/e": None, "node g/e": b"n"}
    batch.delayed = {1: None, 2: b"z"}
    batch.counters = [(1, "matched", 1)]
    batch.meta = {"next": 7}
    assert one.commit(batch) is None
    one.close()
    snapshot = opened().snapshot
    assert snapshot.segments == []
    assert snapshot.sessions == batch.sessions  # session 2 gave its client id up to session 9
    assert snapshot.cursors == {1: b"new", 2: b""}
    assert snapshot.subscriptions == batch.subscriptions
    assert snapshot.retained == [("plant/2", b"y")]
    assert snapshot.wills == [("press-5", b"w")]
    assert list(snapshot.bridge) == [("node g/e", b"n")]
    assert snapshot.delayed == [(2, b"z"), (2**40, b"")]
    assert snapshot.counters == [(0, "dropped.disk", 3), (1, "matched", 1)]
    assert snapshot.meta["next"] == 7


def test_the_newest_row_wins_within_a_batch(opened: Open) -> None:
    one, batch = opened(), Batch(1)
    batch.sessions = [(1, "a", 0, 1, 0), (1, "a", 0, 2, 0)]
    batch.counters = [(0, "n", 1), (0, "n", 2)]
    assert one.commit(batch) is None
    one.close()
    snapshot = opened().snapshot
    assert (snapshot.sessions, snapshot.counters) == ([(1, "a", 0, 2, 0)], [(0, "n", 2)])


WRITER = """
import os, sys, threading
from pathlib import Path
from gateway.core.batch import Batch
from gateway.store.sqlite import Store

def submit(number):
    batch = Batch(number)
    batch.segment_id = batch.segment_last = number
    batch.targets, batch.records = number.to_bytes(8, "big"), number.to_bytes(8, "big") * 2000
    batch.cursors = {sid: number.to_bytes(8, "big") for sid in range(50)}
    batch.meta = {"number": number}
    store.submit(batch)

def on_done(number, reason):
    assert reason is None, reason
    os.write(1, b"%d\\n" % number)
    submit(number + 1)

store = Store(Path(sys.argv[1]), on_done=on_done, on_read=lambda token, segments: None)
store.open()
store.start()
submit(1)
threading.Event().wait()
"""


@pytest.mark.parametrize("after_s", [0.05, 0.13, 0.31])
def test_kill_9_loses_nothing_reported_and_halves_nothing(opened: Open, path: Path, after_s: float) -> None:
    root = Path(__file__).parents[4]
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first == b"1\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
    reported = [int(line) for line in (first + rest).splitlines()][-1]
    one = opened()
    number = one.snapshot.meta["number"]
    assert isinstance(number, int)
    assert number in (reported, reported + 1)
    assert one.snapshot.damage == []
    assert [segment for segment, _, _ in one.snapshot.segments] == list(range(1, number + 1))
    assert set(one.snapshot.cursors.values()) == {number.to_bytes(8, "big")}
    assert all(records == segment.to_bytes(8, "big") * 2000 for segment, records in one.read(*range(1, number + 1)))


def test_a_second_broker_is_refused_by_pid(opened: Open, path: Path) -> None:
    one = opened()
    with pytest.raises(StoreError, match=f"in use by another broker \\(pid {os.getpid()}\\)") as error:
        opened()
    assert "\n" not in str(error.value)
    one.close()
    opened()


def test_a_directory_that_cannot_be_made_or_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "forebay.db", Path("/proc/forebay.db")):
        store = Store(path, on_done=lambda *_: None, on_read=lambda *_: None)
        with pytest.raises(StoreError) as error:
            store.open()
        assert "\n" not in str(error.value)
        assert str(path.parent) in str(error.value)
