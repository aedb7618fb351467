import stat
from pathlib import Path

import pytest

from gateway.bridge.republish_state import Remembered, StateFileError, load, save
from sparkplug.origin import Kept

STATE = Remembered(255, [Kept("spBv1.0/g/NBIRTH/ä", b"\x00\xff", True, False), Kept("t", b"", False, True)])


def test_what_is_saved_is_loaded_and_only_the_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert load(path) == Remembered(-1, [])
    save(path, Remembered(3))
    save(path, STATE)
    assert load(path) == STATE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 2, "bd_seq": 1, "births": []}', '{"version": 1, "bd_seq": 256, "births": []}',
     '{"version": 1, "bd_seq": 1, "births": [{"topic": "t", "birth": "?", "current": true, "alive": true}]}'],
)  # fmt: skip
def test_another_file_is_named_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(StateFileError, match=r"state\.json: expected a state file"):
        load(path)


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateFileError, match="cannot be read: Is a directory"):
        load(tmp_path)
    with pytest.raises(StateFileError, match="none/state: cannot be written: No such file"):
        save(tmp_path / "none" / "state", STATE)
