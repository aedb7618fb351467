"""Settings by board: found or set, below the file, the environment and the command line."""

from pathlib import Path

import pytest

from gateway.boards import board, names
from gateway.settings.board import defaults_of, flat, found
from gateway.settings.table import TABLE, SettingsError, Sources, load


def test_every_default_of_a_board_is_a_setting_that_takes_it() -> None:
    for name in names():
        for _, key, value in defaults_of(name):
            assert TABLE[key].kind.parse(value) is not None, (name, key)


def test_the_board_is_the_weakest_source(tmp_path: Path) -> None:
    file = tmp_path / "forebay.toml"
    file.write_text('board = "pi-zero-2w"\n')
    settings = load(Sources(file), {})
    assert settings.on_board == "pi-zero-2w"
    assert settings.store_max_bytes == 64 << 20
    assert settings.limits().store_bytes_max == 64 << 20
    file.write_text('board = "pi-zero-2w"\nstore.max_bytes = "65MiB"\n')
    assert load(Sources(file), {}).store_max_bytes == 65 << 20
    assert load(Sources(file), {"FOREBAY_STORE_MAX_BYTES": "66MiB"}).store_max_bytes == 66 << 20
    sets = ("store.max_bytes=67MiB", "board=pi-3")
    settings = load(Sources(file, sets), {"FOREBAY_STORE_MAX_BYTES": "66MiB", "FOREBAY_BOARD": "pi-4"})
    assert (settings.store_max_bytes, settings.on_board) == (67 << 20, "pi-3")
    assert settings.store_cache_bytes == 8 << 20


def test_none_leaves_the_usual_defaults() -> None:
    settings = load(Sources(sets=("board=none",)), {})
    assert settings.on_board == "none"
    assert settings.store_max_bytes == 1 << 30
    assert settings.store_commit_interval_ms == 0


def test_auto_is_what_this_machine_is(tmp_path: Path) -> None:
    settings = load(Sources(options=(("data_dir", str(tmp_path)),)), {})
    assert settings.on_board == found(tmp_path)
    assert settings.on_board == "none" or board(settings.on_board)


def test_a_wrong_name_is_one_line() -> None:
    with pytest.raises(SettingsError, match=r'^FOREBAY_BOARD: board = "cray": expected one of "auto", "none", "bea'):
        load(Sources(), {"FOREBAY_BOARD": "cray"})


def test_tables_are_flattened() -> None:
    assert dict(flat({"a": 1, "b": {"c": 2, "d": {"e": 3}}})) == {"a": 1, "b.c": 2, "b.d.e": 3}
