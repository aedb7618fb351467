"""The gateway starts from whatever a power cut left, with every row that can still be read."""

import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.core.batch import Batch, Snapshot
from gateway.store.salvage import beside
from tests.unit.gateway.store.opened import Opened

Open = Callable[..., Opened]

PAGE = 4096
SESSIONS = 700
SEGMENTS = 200


def filled(opened: Open) -> Snapshot:
    """A database with enough rows that every table has several pages; what it holds."""
    one = opened(durability="os")
    for number in range(1, SEGMENTS + 1):
        batch = Batch(number)
        batch.segment_id, batch.segment_last = number * 10, number * 10 + 9
        batch.targets, batch.records = number.to_bytes(4, "big") * 20, number.to_bytes(4, "big") * 3000
        if number == 1:
            batch.sessions = [(sid, f"client-{sid:04}", 0, 60, 0) for sid in range(1, SESSIONS + 1)]
            batch.cursors = {sid: sid.to_bytes(4, "big") * 50 for sid in range(1, SESSIONS + 1)}
            batch.subscriptions = [(sid, f"plant/{n}/#", 1, 0) for sid in range(1, SESSIONS + 1) for n in range(4)]
            batch.retained = {f"plant/line-{n:04}/state": n.to_bytes(4, "big") * 60 for n in range(400)}
            batch.wills = {f"client-{sid:04}": b"gone" * 40 for sid in range(1, SESSIONS + 1)}
            batch.bridge = {f"birth {n} plant": b"born" * 40 for n in range(SESSIONS)}
            batch.delayed = dict.fromkeys(range(1, SESSIONS + 1), b"late" * 40)
            batch.counters = [(sid, "matched", sid) for sid in range(SESSIONS)]
        assert one.commit(batch) is None
    one.close()
    one = opened()
    snapshot = one.snapshot
    one.close()
    assert snapshot.damage == []
    return snapshot


def asides(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.glob("forebay.db.damaged-*"))


def total(snapshot: Snapshot) -> int:
    return sum(
        len(list(rows))
        for rows in (
            snapshot.sessions, snapshot.cursors, snapshot.subscriptions, snapshot.retained, snapshot.wills,
            snapshot.bridge, snapshot.delayed, snapshot.counters, snapshot.segments,
        )
    )  # fmt: skip


def assert_nothing_invented(before: Snapshot, after: Snapshot) -> None:
    assert set(after.sessions) <= set(before.sessions)
    assert after.cursors.items() <= before.cursors.items()
    assert set(after.subscriptions) <= set(before.subscriptions)
    assert set(after.retained) <= set(before.retained)
    assert set(after.wills) <= set(before.wills)
    assert set(after.bridge) <= set(before.bridge)
    assert set(after.delayed) <= set(before.delayed)
    assert set(after.counters) <= set(before.counters)
    assert set(after.segments) <= set(before.segments)


def overwrite(path: Path, page: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(content)


def pages_of(path: Path, table: str, pagetype: str) -> list[int]:
    """Page numbers, found through SQLite's own statistics where they are built in, else by their first byte."""
    connection = sqlite3.connect(path)
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    connection.close()
    data = path.read_bytes()

    def walk(page: int) -> list[tuple[int, str]]:
        content = data[(page - 1) * PAGE : page * PAGE]
        if content[0] in (0x0D, 0x0A):
            return [(page, "leaf")]
        cells = int.from_bytes(content[3:5], "big")
        found = [(page, "interior")]
        for cell in range(cells):
            at = int.from_bytes(content[12 + 2 * cell : 14 + 2 * cell], "big")
            found += walk(int.from_bytes(content[at : at + 4], "big"))
        return found + walk(int.from_bytes(content[8:12], "big"))

    return [page for page, kind in walk(root) if kind == pagetype]


@pytest.mark.parametrize("content", [bytes(400_000), b"This is a text file.\n" * 900, b"x", os.urandom(70_000)])
def test_what_is_no_database_is_set_aside_untouched(opened: Open, path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    one = opened()
    assert total(one.snapshot) == 0
    assert len(one.snapshot.damage) == 1
    assert "kept nothing" in one.snapshot.damage[0]
    (aside,) = asides(path)
    assert aside in one.snapshot.damage[0]
    assert (path.parent / aside).read_bytes() == content
    one.close()
    assert opened().snapshot.damage == []


def test_an_empty_file_is_a_new_database(opened: Open, path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    assert opened().snapshot.damage == []


def test_a_database_of_something_else_is_set_aside(opened: Open, path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photo (id INTEGER PRIMARY KEY)")
    connection.close()
    assert len(opened().snapshot.damage) == 1
    assert len(asides(path)) == 1


def test_a_first_page_of_nul_costs_nothing_else(opened: Open, path: Path) -> None:
    before = filled(opened)
    overwrite(path, 1, bytes(PAGE))
    one = opened()
    assert_nothing_invented(before, one.snapshot)
    assert total(one.snapshot) == total(before)
    assert all(
        records == (segment // 10).to_bytes(4, "big") * 3000 for segment, records in one.read(*range(10, 2001, 10))
    )


def test_a_truncated_file_gives_what_lies_before_the_cut(opened: Open, path: Path) -> None:
    before = filled(opened)
    os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE + 100)
    after = opened().snapshot
    assert_nothing_invented(before, after)
    assert after.sessions == before.sessions
    assert after.cursors == before.cursors
    assert after.subscriptions == before.subscriptions
    assert SEGMENTS * 0.3 < len(after.segments) < SEGMENTS
    assert any("segment" in line for line in after.damage)


@pytest.mark.parametrize("table", ["session", "cursor", "subscription", "retained", "will", "counter", "segment"])
def test_a_bad_leaf_in_the_middle_costs_only_its_rows(opened: Open, path: Path, table: str) -> None:
    before = filled(opened)
    leaves = pages_of(path, table, "leaf")
    assert len(leaves) >= 3
    overwrite(path, leaves[len(leaves) // 2], b"\xff" * PAGE)
    after = opened().snapshot
    assert_nothing_invented(before, after)
    lost = total(before) - total(after)
    assert 0 < lost <= total(before) / len(leaves) * 2
    assert any(f"table {table}: 1 unreadable" in line for line in after.damage)
    name = "segments" if table == "segment" else {"session": "sessions", "cursor": "cursors"}.get(table, "")
    if name:  # rows from both sides of the gap
        assert len(getattr(after, name)) >= len(getattr(before, name)) * 0.6
        keys = [row if isinstance(row, int) else row[0] for row in getattr(before, name)]
        kept = {row if isinstance(row, int) else row[0] for row in getattr(after, name)}
        assert {keys[0], keys[-1]} <= kept


def test_three_bad_leaves_apart(opened: Open, path: Path) -> None:
    before = filled(opened)
    leaves = pages_of(path, "subscription", "leaf")
    for leaf in (leaves[1], leaves[len(leaves) // 2], leaves[-2]):
        overwrite(path, leaf, bytes(PAGE))
    after = opened().snapshot
    assert_nothing_invented(before, after)
    share = len(before.subscriptions) / len(leaves)
    assert len(before.subscriptions) - len(after.subscriptions) < 3 * share * 1.5
    assert any("table subscription: 3 unreadable" in line for line in after.damage)


@pytest.mark.parametrize("table", ["session", "cursor", "segment"])
def test_a_bad_root_costs_nothing_while_the_leaves_are_there(opened: Open, path: Path, table: str) -> None:
    before = filled(opened)
    overwrite(path, pages_of(path, table, "interior")[0], os.urandom(PAGE))
    one = opened()
    assert_nothing_invented(before, one.snapshot)
    assert total(one.snapshot) == total(before)
    assert any(f"table {table}: 1 unreadable" in line for line in one.snapshot.damage)
    assert all(records for _, records in one.read(*[segment for segment, _, _ in before.segments]))


@pytest.mark.parametrize("table", ["subscription", "retained", "will", "counter"])
def test_a_bad_root_without_a_rowid_costs_the_rows_in_it(opened: Open, path: Path, table: str) -> None:
    before = filled(opened)
    leaves = len(pages_of(path, table, "leaf"))
    overwrite(path, pages_of(path, table, "interior")[0], bytes(PAGE))
    after = opened().snapshot
    assert_nothing_invented(before, after)
    assert total(before) - total(after) == leaves - 1  # one row stands between any two leaves


def test_first_page_and_roots_at_once(opened: Open, path: Path) -> None:
    before = filled(opened)
    for page in [pages_of(path, table, "interior")[0] for table in ("session", "cursor", "segment")] + [1]:
        overwrite(path, page, bytes(PAGE))
    after = opened().snapshot
    assert_nothing_invented(before, after)
    assert total(after) == total(before)
    assert not beside(path, ".patched").exists()


def test_a_deleted_row_stays_deleted(opened: Open, path: Path) -> None:
    filled(opened)
    one, batch = opened(), Batch(1)
    batch.gone = list(range(100, 600))
    batch.dead_segments = list(range(500, 1500, 10))
    assert one.commit(batch) is None
    one.close()
    for table in ("session", "cursor", "segment"):
        overwrite(path, pages_of(path, table, "interior")[0], bytes(PAGE))
    after = opened().snapshot
    assert [sid for sid, *_ in after.sessions] == [*range(1, 100), *range(600, SESSIONS + 1)]
    assert list(after.cursors) == [*range(1, 100), *range(600, SESSIONS + 1)]
    assert [segment for segment, _, _ in after.segments] == [*range(10, 500, 10), *range(1500, 2001, 10)]


@pytest.mark.parametrize("seed", range(6))
def test_random_pages_overwritten_never_stop_the_start(opened: Open, path: Path, seed: int) -> None:
    before = filled(opened)
    chance = random.Random(seed)
    pages = path.stat().st_size // PAGE
    for _ in range(8):
        overwrite(path, chance.randrange(2, pages + 1), chance.randbytes(PAGE))
    path.with_name("forebay.db.suspect").touch()
    one = opened()
    assert_nothing_invented(before, one.snapshot)
    assert one.snapshot.damage
    assert total(one.snapshot) > total(before) * 0.5
    for segment, records in one.read(*[segment for segment, _, _ in one.snapshot.segments]):
        assert records in (b"", (segment // 10).to_bytes(4, "big") * 3000)
    assert len(asides(path)) == 1


def test_records_that_are_lost_keep_their_targets(opened: Open, path: Path) -> None:
    before = filled(opened)
    data = path.read_bytes()
    page = data.index((77).to_bytes(4, "big") * 900) // PAGE + 1  # an overflow page of segment 770
    overwrite(path, page, bytes(PAGE))
    os.truncate(path, len(data) - PAGE)  # and a reason to salvage
    one = opened()
    assert (770, 779, (77).to_bytes(4, "big") * 20) in one.snapshot.segments
    assert_nothing_invented(before, one.snapshot)
    assert one.read(770, 780) == [(770, b""), (780, (78).to_bytes(4, "big") * 3000)]
    assert one.store.stats().damaged == 1


def test_a_garbage_log_is_set_aside_and_the_rest_opens(opened: Open, path: Path) -> None:
    before = filled(opened)
    beside(path, "-wal").write_bytes(os.urandom(50_000))
    one = opened()
    assert total(one.snapshot) == total(before)
    (line,) = one.snapshot.damage
    assert "write-ahead log" in line
    assert [name[-4:] for name in asides(path)] == ["-wal"]


def test_a_log_whose_database_was_emptied_is_set_aside(opened: Open, path: Path) -> None:
    one = opened()
    batch = Batch(1)
    batch.meta = {"a": 1}
    assert one.commit(batch) is None
    wal = beside(path, "-wal").read_bytes()
    one.close()
    path.write_bytes(b"")
    beside(path, "-wal").write_bytes(wal)
    (line,) = opened().snapshot.damage
    assert "without its database" in line
    assert (path.parent / asides(path)[0]).read_bytes() == wal


def test_a_torn_log_keeps_the_commits_before_the_tear(opened: Open, path: Path) -> None:
    one = opened()
    sizes = []
    for number in range(1, 11):
        batch = Batch(number)
        batch.segment_id = batch.segment_last = number
        batch.records = os.urandom(3000)
        assert one.commit(batch) is None
        sizes.append(beside(path, "-wal").stat().st_size)
    copy = path.parent.parent / "copy" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    wal = bytearray(beside(path, "-wal").read_bytes())
    wal[sizes[6] + 500 :] = os.urandom(len(wal) - sizes[6] - 500)
    beside(copy, "-wal").write_bytes(wal)
    torn = Opened(copy)
    assert [segment for segment, _, _ in torn.snapshot.segments] == list(range(1, 8))
    assert torn.snapshot.damage == []
    torn.close()


def test_a_salvage_cut_off_between_its_renames_is_completed(opened: Open, path: Path) -> None:
    before = filled(opened)
    path.rename(beside(path, ".new"))
    after = opened().snapshot
    assert total(after) == total(before)
    assert after.damage == ["an interrupted salvage was completed"]


def test_a_salvage_cut_off_before_its_renames_starts_anew(opened: Open, path: Path) -> None:
    before = filled(opened)
    beside(path, ".new").write_bytes(b"half")
    after = opened().snapshot
    assert (total(after), after.damage) == (total(before), [])
    assert not beside(path, ".new").exists()


def test_two_damages_within_a_second_get_names_of_their_own(opened: Open, path: Path) -> None:
    path.parent.mkdir()
    for _ in range(3):
        path.write_bytes(b"garbage" * 1000)
        opened().close()
    assert len(asides(path)) == 3
