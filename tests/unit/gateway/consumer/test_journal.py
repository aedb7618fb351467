"""Copies on disk."""

import sqlite3
from pathlib import Path

import pytest

from gateway.consumer.journal import Journal, JournalError
from gateway.consumer.message import Outgoing
from gateway.mqtt.packets import Properties
from tests.forced import needs_root, read_only_by_force


def opened(path: Path, boot: str = "b1", now_ms: int = 0) -> Journal:
    journal = Journal(path, boot)
    assert journal.open(now_ms) == ""
    return journal


def full() -> Outgoing:
    properties = Properties()
    properties.payload_format_indicator = 1
    properties.message_expiry_interval = 77
    properties.content_type, properties.response_topic, properties.correlation_data = "a/b", "answers", b"\0\xff"
    properties.user_properties = [("k", "1"), ("k", "2"), ("ü", "x" * 300)]
    return Outgoing("press/ü", b"\0payload", 2, properties)


def shown(message: Outgoing) -> tuple[object, ...]:
    said = message.properties
    return (message.topic, message.payload, message.qos, None if said is None else sorted(vars_of(said).items()))


def vars_of(properties: Properties) -> dict[str, str]:
    names = ("payload_format_indicator", "message_expiry_interval", "content_type", "response_topic",
             "correlation_data", "user_properties")  # fmt: skip
    return {name: repr(getattr(properties, name)) for name in names}


def test_a_message_comes_back_as_it_was(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    journal.add([(full(), 10), (Outgoing("t", b"", 1), 5)], 100)
    assert [shown(one.message) for one in journal.due(110, 9)] == [shown(Outgoing("t", b"", 1)), shown(full())]


def test_what_is_due_comes_in_its_order(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    assert journal.next_due_ms() is None
    journal.add([(Outgoing("c", b"", 1), 30), (Outgoing("a", b"", 1), 10), (Outgoing("b", b"", 1), 10)], 100)
    assert journal.next_due_ms() == 110
    assert journal.due(109, 9) == []
    assert [one.message.topic for one in journal.due(130, 2)] == ["a", "b"]
    journal.remove([one.id for one in journal.due(110, 9)])
    assert [one.message.topic for one in journal.due(500, 9)] == ["c"]
    journal.postpone(journal.due(500, 9)[0].id, 900)
    assert (journal.due(899, 9), journal.next_due_ms(), journal.count()) == ([], 900, 1)


def test_it_outlives_the_process(tmp_path: Path) -> None:
    first = opened(tmp_path / "j")
    first.add([(Outgoing("a", b"x", 1), 1000)], 100)
    second = opened(tmp_path / "j", now_ms=200)  # the first is not closed: as after kill -9, or while it still runs
    assert second.next_due_ms() == 1100
    first.add([(Outgoing("b", b"", 1), 0)], 300)
    assert [one.message.topic for one in second.due(300, 9)] == ["b"]


def test_after_a_reboot_it_waits_the_whole_delay_once_more(tmp_path: Path) -> None:
    opened(tmp_path / "j", "b1").add([(Outgoing("a", b"", 1), 5000)], 1_000_000)
    journal = opened(tmp_path / "j", "b2", now_ms=30)
    assert journal.next_due_ms() == 5030
    assert opened(tmp_path / "j", "b2", now_ms=4000).next_due_ms() == 5030


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b"no database at all" * 100)
    journal = Journal(tmp_path / "j", "b1")
    assert "set aside as j.damaged-1" in journal.open(0)
    assert (tmp_path / "j.damaged-1").read_bytes().startswith(b"no database")
    journal.add([(Outgoing("a", b"", 1), 0)], 0)
    assert journal.count() == 1


def test_a_file_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be used as a journal") as raised:
        Journal(tmp_path / "none" / "j", "b1").open(0)
    assert not raised.value.is_busy
    assert str(tmp_path / "none" / "j") in str(raised.value)


@pytest.mark.parametrize("frame", [b"", b"\x30", b"x" * 50, b"\x32\x05\x00\x01#\x00\x01", b"\xc0\x00", "text", None])
def test_a_row_that_makes_no_sense_is_set_aside(tmp_path: Path, frame: object) -> None:
    journal = opened(tmp_path / "j")
    journal.add([(Outgoing("a", b"", 1), 1)], 0)
    database = sqlite3.connect(tmp_path / "j", isolation_level=None)
    if frame is None:
        database.execute("UPDATE copies SET frame = frame || x'00'")
    else:
        database.execute("UPDATE copies SET frame = ?", (frame,))
    journal.add([(Outgoing("b", b"", 1), 1)], 0)
    assert [one.message.topic for one in journal.due(9, 9)] == ["b"]
    assert (journal.damaged, journal.count()) == (1, 1)
    assert database.execute("SELECT count(*) FROM damaged").fetchone() == (1,)


def test_a_file_that_is_locked_says_so(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    other = sqlite3.connect(tmp_path / "j", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalError, match="database is locked") as raised:
        journal.add([(Outgoing("a", b"", 1), 1)], 0)
    assert raised.value.is_busy
    other.execute("COMMIT")
    journal.add([(Outgoing("a", b"", 1), 1)], 0)
    assert journal.count() == 1


def test_all_of_a_commit_or_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    database = sqlite3.connect(tmp_path / "j")
    database.execute(
        "CREATE TRIGGER full BEFORE INSERT ON copies WHEN NEW.delay_ms = 13 BEGIN SELECT RAISE(ABORT, 'disk'); END"
    )
    database.commit()
    with pytest.raises(JournalError, match=r"j: disk"):
        journal.add([(Outgoing("a", b"", 1), 1), (Outgoing("b", b"", 1), 13)], 0)
    assert journal.count() == 0
    journal.add([(Outgoing("a", b"", 1), 1)], 0)
    assert journal.count() == 1
    journal.close()
    journal.close()


@needs_root
def test_a_disk_that_is_made_read_only_by_force_has_kept_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    with read_only_by_force(tmp_path), pytest.raises(JournalError, match="Read-only file system"):
        journal.add([(full(), 10)], 0)
    assert journal.count() == 0
    journal.add([(full(), 10)], 0)
    assert journal.count() == 1
    journal.close()
