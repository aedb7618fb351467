"""``forebay board``: this machine, another one, what is set against what was found."""

import json
from pathlib import Path

import pytest

from gateway.boards import names
from tests.command import Forebay


def test_this_machine(forebay: Forebay) -> None:
    told = json.loads(forebay("board", "--json").out)
    assert told["found"] in {*names(), "none"}
    assert told["board"] == told["found"]
    code, out, err = forebay("board")
    assert (code, err) == (0, "")
    assert "disk of the data" in out


def test_a_board_that_is_set_gives_its_defaults_and_the_file_wins(forebay: Forebay, tmp_path: Path) -> None:
    file = tmp_path / "forebay.toml"
    file.write_text('board = "pi-3"\nstore.cache_bytes = "1MiB"\n')
    told = json.loads(forebay("board", "-c", str(file), "--json").out)
    assert told["board"] == "pi-3"
    assert told["settings"]["store.max_bytes"] == {"default": "128MiB", "in_force": "128MiB"}
    assert told["settings"]["store.cache_bytes"] == {"default": "8MiB", "in_force": "1MiB"}
    out = forebay("board", "-c", str(file)).out
    assert "Raspberry Pi 3 B+ (pi-3)" in out
    assert "8MiB, but 1MiB is set" in out
    assert "bcm2835_wdt, 15 s at most" in out


def test_none_is_a_choice(forebay: Forebay) -> None:
    told = json.loads(forebay("board", "--set", "board=none", "--json").out)
    assert (told["board"], told["profile"], told["settings"]) == ("none", None, {})
    assert "none" in forebay("board", "--set", "board=none").out


@pytest.mark.parametrize("name", names())
def test_each_known_board_is_shown(forebay: Forebay, name: str) -> None:
    assert forebay("board", name).code == 0
    assert json.loads(forebay("board", name, "--json").out)["profile"]["name"] == name


def test_the_list_and_a_wrong_name(forebay: Forebay) -> None:
    assert [row["name"] for row in json.loads(forebay("board", "--list", "--json").out)] == names()
    assert all(name in forebay("board", "--list").out for name in names())
    code, _, err = forebay("board", "cray")
    assert (code, err.count("\n")) == (2, 1)
    assert "board cray: expected one of beaglebone" in err
    code, _, err = forebay("board", "--set", "board=cray")
    assert code == 2
    assert "board" in err and "pi-4" in err


def test_a_disk_that_is_no_ssd_is_not_asked_how_worn_it_is(forebay: Forebay) -> None:
    """/proc is on no disk at all."""
    code, out, err = forebay("board", "--smart", "--data-dir", "/proc/nowhere")
    assert (code, out, err) == (0, "the data are on no SSD: nobody was asked\n", "")
