"""The outgoing store on disk."""

from pathlib import Path

import pytest

from gateway.link.keeping import Change
from gateway.link.outbox import OutboxError, SqliteOutbox
from tests.forced import needs_root, read_only_by_force

A, B = b"\x32\x07\x00\x01t\x00\x01\x00a", b"\x34\x07\x00\x01t\x00\x02\x00b"


def test_what_is_kept_is_there_again_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    outbox = SqliteOutbox(path, "me")
    assert outbox.load() == []
    outbox.apply([Change(2, B), Change(1, A)])
    outbox.apply([Change(2, None, True)])
    outbox.close()
    outbox = SqliteOutbox(path, "me")
    assert outbox.load() == [(2, B, True), (1, A, False)]
    outbox.apply([Change(2, None), Change(2, A)])
    outbox.close()
    outbox.close()
    assert SqliteOutbox(path, "me").load() == [(1, A, False), (2, A, False)]


def test_nothing_of_a_batch_that_fails(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "out.db", "me")
    outbox.load()
    with pytest.raises(Exception, match="not supported"):
        outbox.apply([Change(1, A), Change(2, object())])  # type: ignore[arg-type]
    outbox.close()
    assert SqliteOutbox(tmp_path / "out.db", "me").load() == []


@pytest.mark.parametrize(("client_id", "version"), [("you", 5), ("me", 4)])
def test_another_session_cannot_have_it(tmp_path: Path, client_id: str, version: int) -> None:
    SqliteOutbox(tmp_path / "out.db", "me").load()
    with pytest.raises(OutboxError, match=r"out\.db: belongs to client id 'me' and MQTT version 5, expected"):
        SqliteOutbox(tmp_path / "out.db", client_id, version).load()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "out.db").write_text("no" * 1000)
    with pytest.raises(OutboxError, match=r"out\.db: cannot be used"):
        SqliteOutbox(tmp_path / "out.db", "me").load()


@needs_root
def test_a_disk_that_is_made_read_only_by_force_has_kept_nothing(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "out.db", "me")
    outbox.load()
    with read_only_by_force(tmp_path), pytest.raises(OSError, match="Read-only file system"):
        outbox.apply([Change(1, A)])
    outbox.apply([Change(1, A)])
    outbox.close()
    assert SqliteOutbox(tmp_path / "out.db", "me").load() == [(1, A, False)]
