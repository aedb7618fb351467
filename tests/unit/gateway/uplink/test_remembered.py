"""The gateway's id and the paused uplinks over a restart."""

from pathlib import Path

import pytest

from gateway.uplink.remembered import FILE, Remembered


def test_the_id_stays_and_so_does_a_pause(tmp_path: Path) -> None:
    first = Remembered(tmp_path)
    assert first.gateway_id.isalnum()
    first.pause("plant", True)
    first.pause("other", True)
    first.pause("other", False)
    again = Remembered(tmp_path)
    assert (again.gateway_id, again.paused, again.note) == (first.gateway_id, {"plant"}, "")


def test_two_gateways_differ(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    assert Remembered(tmp_path / "a").gateway_id != Remembered(tmp_path / "b").gateway_id


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"id": "", "paused": []}', b'{"id": "a", "paused": 1}', b"\xff"])
def test_a_damaged_file_is_set_aside_and_told(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE).write_bytes(text)
    found = Remembered(tmp_path)
    assert "set aside" in found.note
    assert (tmp_path / "uplinks.bad").read_bytes() == text
    assert Remembered(tmp_path).gateway_id == found.gateway_id


def test_what_could_not_be_remembered_is_tried_again(tmp_path: Path) -> None:
    found = Remembered(tmp_path)
    (tmp_path / "uplinks.new").mkdir()
    for _ in range(2):
        with pytest.raises(OSError, match=r"uplinks\.new"):
            found.pause("plant", True)
    (tmp_path / "uplinks.new").rmdir()
    found.pause("plant", True)
    assert Remembered(tmp_path).paused == {"plant"}


def test_what_was_subscribed_to_where(tmp_path: Path) -> None:
    found = Remembered(tmp_path)
    assert found.asked("up", "a:1883") == set()
    found.ask("up", "a:1883", {"x/#", "y"})
    found.ask("up", "b:1883", {"z"})
    found.pause("up", True)
    again = Remembered(tmp_path)
    assert again.asked("up", "a:1883") == {"x/#", "y"}
    assert again.asked("up", "b:1883") == {"z"}
    assert again.paused == {"up"}
    again.ask("up", "a:1883", set())
    assert Remembered(tmp_path).asked("up", "a:1883") == set()
    (tmp_path / "uplinks.new").mkdir()
    for _ in range(2):
        with pytest.raises(OSError, match=r"uplinks\.new"):
            again.ask("up", "a:1883", {"x"})


@pytest.mark.parametrize("asked", ["1", "[]", '{"up a": 1}', '{"up a": [1, "x"]}'])
def test_what_is_no_list_of_filters_is_none(tmp_path: Path, asked: str) -> None:
    (tmp_path / FILE).write_text(f'{{"id": "a", "paused": ["p"], "asked": {asked}}}')
    found = Remembered(tmp_path)
    assert (found.gateway_id, found.paused) == ("a", {"p"})
    assert found.asked("up", "a") <= {"x"}
