from pathlib import Path

from gateway.appliance.journal import CONFIRMED, HISTORY_MAX, Journal, Pending, Version, read_journal


def test_what_is_written_is_read(tmp_path: Path) -> None:
    journal = read_journal(tmp_path / "update")
    assert journal == Journal(tmp_path / "update")
    journal.slots = {"b": Version("1.3.0", 4, 3)}
    journal.pending = Pending("b", "1.3.0", "boot", True)
    journal.write()
    assert read_journal(tmp_path / "update") == journal
    journal.end("1.3.0", CONFIRMED, "healthy", "2026-11-30")
    journal.write()
    found = read_journal(tmp_path / "update")
    assert found == journal
    assert (found.pending, found.ended[0].outcome) == (None, CONFIRMED)


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(HISTORY_MAX + 5):
        journal.end(str(number), CONFIRMED, "", "")
    assert [row.version for row in journal.ended] == [str(number) for number in range(5, HISTORY_MAX + 5)]


def test_a_damaged_one_is_an_empty_one(tmp_path: Path) -> None:
    for text in ("", "nonsense", "[]", '{"slots": {}}', '{"slots": {"a": 1}, "pending": null, "ended": []}'):
        (tmp_path / "state.json").write_text(text)
        assert read_journal(tmp_path) == Journal(tmp_path)
