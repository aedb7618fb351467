"""Segments come back in the order asked for, and a damaged one costs no other."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from gateway.core.batch import Batch
from gateway.store.sqlite import Store
from tests.unit.gateway.store.opened import Opened

Open = Callable[..., Opened]


def test_records_are_read_in_the_order_asked_for(opened: Open, path: Path) -> None:
    one, records = opened(), {}
    for number in range(1, 4):
        batch = Batch(number)
        batch.segment_id = batch.segment_last = number * 100
        batch.records = records[number * 100] = os.urandom(9000)
        assert one.commit(batch) is None
    assert one.read(300, 100, 999) == [(300, records[300]), (100, records[100]), (999, b"")]
    assert one.store.stats().damaged == 0
    one.close()
    again = Store(path, on_done=lambda *_: None, on_read=lambda *_: None)
    again.open()
    assert again.read_now([200]) == [(200, records[200])]
    again.close()


def test_a_damaged_segment_is_empty_counted_and_costs_no_other(opened: Open, path: Path) -> None:
    one = opened()
    for number in (1, 2):
        batch = Batch(number)
        batch.segment_id = batch.segment_last = number
        batch.records = bytes([number]) * 50_000
        assert one.commit(batch) is None
    one.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE segment SET records = zeroblob(50000) WHERE id = 1")
    connection.close()
    one = opened()
    assert one.read(1, 2) == [(1, b""), (2, b"\x02" * 50_000)]
    assert one.store.stats().damaged == 1


def test_a_broken_chain_of_pages_costs_one_segment_and_deleting_it_calls_for_a_salvage(
    opened: Open, path: Path
) -> None:
    one = opened()
    for number in (1, 2, 3):
        batch = Batch(number)
        batch.segment_id = batch.segment_last = number
        batch.records = bytes([number]) * 50_000
        assert one.commit(batch) is None
    one.close()
    page = path.read_bytes().index(b"\x02" * 4000) // 4096
    with path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(b"\xff" * 4096)
        file.seek(4096)
        file.write(bytes(4096))  # the pointer map, through which a delete would find its way all the same
    one = opened()
    assert one.snapshot.damage == []  # a start does not walk the records
    assert one.read(1, 2, 3) == [(1, b"\x01" * 50_000), (2, b""), (3, b"\x03" * 50_000)]
    assert one.store.stats().damaged == 1
    batch = Batch(4)
    batch.dead_segments, batch.meta = [2], {"kept": 1}
    reason = one.commit(batch)
    assert reason is not None
    assert reason.startswith("database damaged: ")
    one.close()
    one = opened()
    assert any("damaged-" in line for line in one.snapshot.damage)
    assert [segment for segment, _, _ in one.snapshot.segments] == [1, 2, 3]
    assert one.read(1, 2, 3) == [(1, b"\x01" * 50_000), (2, b""), (3, b"\x03" * 50_000)]
    assert one.commit(batch) is None
    one.close()
    assert opened().snapshot.damage == []
