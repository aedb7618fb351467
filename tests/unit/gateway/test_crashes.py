"""Starts that came to nothing, over restarts."""

import json
from pathlib import Path

import pytest

from gateway.crashes import FILE, Crashes

WITHIN = 600_000


def start(folder: Path, now: int, boot: str = "boot") -> Crashes:
    crashes = Crashes(folder, boot, now, WITHIN)
    crashes.begun()
    return crashes


def test_a_start_that_nothing_came_of_was_a_crash(tmp_path: Path) -> None:
    for number in range(5):
        assert start(tmp_path, 1000 * number).count == number
    assert Crashes(tmp_path, "boot", 5000, WITHIN).count == 5


def test_what_is_long_ago_does_not_count(tmp_path: Path) -> None:
    start(tmp_path, 0)
    start(tmp_path, 1000)
    assert Crashes(tmp_path, "boot", WITHIN + 500, WITHIN).count == 1


def test_a_loss_of_power_is_no_crash(tmp_path: Path) -> None:
    for _ in range(4):
        start(tmp_path, 1000)
    assert Crashes(tmp_path, "another boot", 2000, WITHIN).count == 0
    assert Crashes(tmp_path, "", 2000, WITHIN).count == 0


def test_a_good_end_is_the_end_of_what_was(tmp_path: Path) -> None:
    start(tmp_path, 0)
    start(tmp_path, 1).settled()
    assert Crashes(tmp_path, "boot", 2, WITHIN).count == 0


def test_who_could_not_start_has_not_crashed(tmp_path: Path) -> None:
    start(tmp_path, 0)
    start(tmp_path, 1).withdrawn()
    assert Crashes(tmp_path, "boot", 2, WITHIN).count == 1


def test_it_is_written_at_a_start_and_once_that_was_good(tmp_path: Path) -> None:
    crashes = Crashes(tmp_path, "boot", 0, WITHIN)
    crashes.settled()
    assert not (tmp_path / FILE).exists()
    crashes.begun()
    assert json.loads((tmp_path / FILE).read_text()) == {"boot_id": "boot", "starts": [0]}


@pytest.mark.parametrize("text", ["", "torn {", "[]", '{"boot_id": "boot"}', '{"boot_id": "boot", "starts": 5}'])
def test_a_file_that_cannot_be_read_holds_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert start(tmp_path, 0).count == 0
    assert Crashes(tmp_path, "boot", 1, WITHIN).count == 1


def test_a_folder_that_cannot_be_written_counts_none(tmp_path: Path) -> None:
    assert start(tmp_path / "missing", 0).count == 0
