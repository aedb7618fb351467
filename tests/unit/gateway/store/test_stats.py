"""The histogram of commit times and the meter of written bytes."""

import threading
from pathlib import Path

from gateway.store.stats import CommitTimes, WriteMeter


def test_percentiles_are_the_bounds_of_their_buckets() -> None:
    times = CommitTimes()
    assert times.percentile(50) == 0.0
    for _ in range(90):
        times.add(0.7)
    for _ in range(9):
        times.add(7.0)
    times.add(9000.0)
    assert times.percentile(50) == 1.0
    assert times.percentile(99) == 8.0
    assert times.percentile(100) == 9000.0
    assert (times.last_ms, times.max_ms) == (9000.0, 9000.0)
    assert round(times.sum_ms) == 90 * 0.7 + 9 * 7 + 9000
    assert sum(times.counts) == 100


def test_a_percentile_is_never_above_the_longest() -> None:
    times = CommitTimes()
    times.add(2.5)
    assert times.percentile(99) == 2.5


def test_the_meter_counts_the_bytes_of_its_thread_alone(tmp_path: Path) -> None:
    meter = WriteMeter()
    assert meter.read() == 0
    meter.attach()
    (tmp_path / "mine").write_bytes(b"x" * 50_000)
    other = threading.Thread(target=(tmp_path / "other").write_bytes, args=(b"x" * 70_000,))
    other.start()
    other.join()
    assert 50_000 <= meter.read() < 60_000
    meter.detach()
    assert 50_000 <= meter.read() < 60_000
