"""The reserve is there when there is room, given up once, and made again later."""

import sqlite3
from pathlib import Path

from gateway.store.spare import SPARE_BYTES, Spare, is_full


def test_it_is_made_where_room_is_left_and_takes_it_for_real(tmp_path: Path) -> None:
    path = tmp_path / "spare"
    spare = Spare(path)
    spare.restore(3 * SPARE_BYTES - 1, SPARE_BYTES)
    assert not path.exists()
    spare.restore(3 * SPARE_BYTES, SPARE_BYTES)
    assert path.stat().st_blocks * 512 >= SPARE_BYTES


def test_it_is_given_up_once(tmp_path: Path) -> None:
    path = tmp_path / "spare"
    Spare(path).restore(1 << 40, 0)
    spare = Spare(path)  # of the run before
    assert spare.spend()
    assert not path.exists()
    assert not spare.spend()
    spare.restore(1 << 40, 0)
    assert spare.spend()


def test_where_it_cannot_be_made_there_is_none(tmp_path: Path) -> None:
    spare = Spare(tmp_path / "missing" / "spare")
    spare.restore(1 << 40, 0)
    assert not spare.spend()


def test_what_may_be_for_want_of_room() -> None:
    full, other = sqlite3.OperationalError("x"), sqlite3.OperationalError("x")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    other.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    assert is_full(full)
    assert not is_full(other)
    assert not is_full(ValueError())
