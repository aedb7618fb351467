"""A store that cannot write: what it knows, and that nothing is said to be kept."""

import errno
from pathlib import Path

import pytest

from gateway.core.batch import Batch
from gateway.store.frozen import UNREADABLE, FrozenStore, why_frozen
from gateway.store.sqlite import Store


class Told:
    def __init__(self) -> None:
        self.done: list[tuple[int, str | None]] = []
        self.read: list[tuple[int, list[tuple[int, bytes]]]] = []

    def on_done(self, number: int, error: str | None) -> None:
        self.done.append((number, error))

    def on_read(self, token: int, rows: list[tuple[int, bytes]]) -> None:
        self.read.append((token, rows))

    def frozen(self, path: Path) -> FrozenStore:
        return FrozenStore(path, "/data: Read-only file system", self.on_done, self.on_read)


def filled(path: Path) -> None:
    told = Told()
    store = Store(path, on_done=told.on_done, on_read=told.on_read)
    store.open()
    store.start()
    batch = Batch(1)
    batch.sessions = [(4, "historian", 0, 3600, 0)]
    batch.bridge = {"g/n": b"birth"}
    store.submit(batch)
    store.close()
    assert told.done == [(1, None)]


def test_what_can_be_read_is_known(tmp_path: Path) -> None:
    filled(tmp_path / "forebay.db")
    before = {path.name for path in tmp_path.iterdir()}
    store = Told().frozen(tmp_path / "forebay.db")
    snapshot = store.open()
    assert [row[1] for row in snapshot.sessions] == ["historian"]
    assert list(snapshot.bridge) == [("g/n", b"birth")]
    assert "nothing can be kept" in snapshot.damage[0]
    store.close()
    assert {path.name for path in tmp_path.iterdir()} >= before


@pytest.mark.parametrize("data", [None, b"", b"\0" * 8192, b"garbage" * 2000])
def test_for_what_cannot_be_read_one_session_wants_everything(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "forebay.db"
    if data is not None:
        path.write_bytes(data)
    store = Told().frozen(path)
    snapshot = store.open()
    assert [row[1] for row in snapshot.sessions] == [UNREADABLE]
    assert [row[1] for row in snapshot.subscriptions] == ["#"]
    assert "no message is taken at QoS 1 or 2" in snapshot.damage[1]
    assert store.read_now([7]) == [(7, b"")]
    store.close()


def test_no_commit_is_said_to_be_kept(tmp_path: Path) -> None:
    told = Told()
    store = told.frozen(tmp_path / "forebay.db")
    store.open()
    store.start()
    store.submit(Batch(3))
    store.read(5, [1, 2])
    assert told.done == [(3, "read-only: /data: Read-only file system")]
    assert told.read == [(5, [(1, b""), (2, b"")])]
    stats = store.stats()
    assert (stats.failed_commits, stats.commits) == (1, 0)
    assert stats.last_error.startswith("read-only")
    assert stats.free_bytes > 0
    store.close()


def test_records_are_read_where_they_can_be(tmp_path: Path) -> None:
    filled(tmp_path / "forebay.db")
    store = Told().frozen(tmp_path / "forebay.db")
    store.open()
    assert store.read_now([99]) == [(99, b"")]
    store.start()
    store.close()


def test_a_folder_that_can_be_written_is_not_frozen(tmp_path: Path) -> None:
    assert why_frozen(tmp_path / "data") == ""
    assert (tmp_path / "data").is_dir()


def test_a_lack_of_rights_is_another_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError) as caught:  # noqa: PT011
        why_frozen(tmp_path / "file")
    assert caught.value.errno in (errno.EEXIST, errno.ENOTDIR)
