"""The settings that have to do with the machine, and what its board means for the others (docs/boards.md)."""

import dataclasses
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gateway.boards import AUTO, NONE, board, detect, names
from gateway.machine import compatible, disk_of
from gateway.settings.entry import setting
from gateway.settings.kinds import Choice, Duration, Integer, Size


@dataclasses.dataclass(kw_only=True, slots=True)
class BoardSettings:
    """Part of ``Settings``."""

    board: str = setting(
        "board",
        Choice(AUTO, NONE, *names()),
        AUTO,
        'What this runs on, which has defaults of other settings (forebay board shows them): "auto" = as it is found.',
    )
    store_cache_bytes: int = setting(
        "store.cache_bytes", Size(65_536, 1 << 32), "4MiB", "RAM in which the database keeps pages that it has read."
    )
    store_commit_interval_ms: int = setting(
        "store.commit_interval_ms",
        Integer(0, 1000),
        0,
        "Least time from commit to commit, in ms: more messages in each spare the flash, and are acknowledged so much "
        "later; 0 = as fast as the disk is.",
    )
    safe_mode_crashes: int = setting(
        "safe_mode.crashes",
        Integer(0, 1000, {"never": 0}),
        5,
        "So many crashes in safe_mode.within, and the gateway starts with the last good settings and without uplinks.",
    )
    safe_mode_within: int = setting(
        "safe_mode.within",
        Duration(1, 86_400),
        "10m",
        "The time for that; a run that lasts so long was no crash, and safe mode ends after it.",
    )


def board_of(given: Iterable[tuple[str, str, object]]) -> str:
    """The name of the board for settings given as (where, name, value), the last counts; "none" when it has none."""
    said: dict[str, object] = {name: value for _, name, value in given if name in ("board", "data_dir")}
    wanted, folder = said.get("board", AUTO), said.get("data_dir", "var")
    if wanted == AUTO:
        return found(Path(folder)) if isinstance(folder, str) else NONE
    return wanted if isinstance(wanted, str) and wanted in names() else NONE


def found(data_dir: Path) -> str:
    """What this machine is, with its data there: a board's name or "none"."""
    disk = disk_of(data_dir)
    return detect(compatible(), os.uname().machine, disk.storage() if disk is not None else "") or NONE


def defaults_of(name: str) -> Iterator[tuple[str, str, object]]:
    """(where, name, value) of the settings that a board has defaults for."""
    if name != NONE:
        for key, value in flat(board(name).settings):
            yield f"board {name}", key, value


def flat(table: dict[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    """The dotted names and values of nested tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{key}.")
        else:
            yield above + key, value
