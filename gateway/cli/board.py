"""``forebay board``: what this machine is, and what that means."""

import dataclasses
import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.boards import CLASSES, NONE, Board, board, names
from gateway.cli.control import RefusedError
from gateway.cli.options import ConfigOption, DataDirOption, SetOption, UsageError, settings_from
from gateway.cli.status import JsonOption, size
from gateway.machine import disk_of, model
from gateway.settings.board import defaults_of, found
from gateway.settings.table import TABLE, Settings
from gateway.wear import SMART_DISKS, ask_smart

_RTC = {
    "none": "none: the clock stands still without power",
    "carrier": "on some carriers",
    "cell": "on the board, its cell extra",
    "battery": "with a battery",
}


def board_command(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Another board.", show_default=False)] = "",
    as_list: Annotated[bool, typer.Option("--list", help="The boards that are known.")] = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    sets: SetOption = None,
    smart: Annotated[
        bool, typer.Option("--smart", help="Have smartctl ask the data's SSD how worn it is; root.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what this machine is taken for, its storage, and the settings that follow from it."""
    if as_list:
        rows = [{"name": one, "title": board(one).title} for one in names()]
        typer.echo(json.dumps(rows, indent=2) if as_json else "\n".join(f"{r['name']:16} {r['title']}" for r in rows))
        return
    settings = settings_from(config, data_dir, sets=sets)
    if name and name not in names():
        raise UsageError(f"board {name}: expected one of {', '.join(names())}")
    if smart:
        _ask_smart(settings)
        return
    told = _other(name) if name else _here(settings)
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for row in _lines(told):
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def _ask_smart(settings: Settings) -> None:
    disk = disk_of(settings.data_dir)
    if disk is None or disk.storage() not in SMART_DISKS:
        typer.echo("the data are on no SSD: nobody was asked")
        return
    try:
        used = ask_smart(disk.name)
    except OSError as error:
        raise RefusedError(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
    typer.echo(f"{disk.name}: {'it does not say how worn it is' if used < 0 else f'{used} % of its life is used'}")


def _here(settings: Settings) -> dict[str, Any]:
    """The board in force, what was found, and of each default whether it counts."""
    disk = disk_of(settings.data_dir)
    seen = found(settings.data_dir)
    profile = None if settings.on_board == NONE else board(settings.on_board)
    defaults = {}
    for _, key, value in defaults_of(settings.on_board):
        entry = TABLE[key]
        in_force = getattr(settings, entry.field)
        counts = in_force == entry.kind.parse(value)
        defaults[key] = {"default": value, "in_force": value if counts else json.loads(entry.kind.show(in_force))}
    return {
        "board": settings.on_board,
        "found": seen,
        "model": model(),
        "disk": None if disk is None else {"name": disk.name, "storage": disk.storage() or None},
        "settings": defaults,
        "profile": None if profile is None else dataclasses.asdict(profile),
    }


def _other(name: str) -> dict[str, Any]:
    defaults = {key: {"default": value} for _, key, value in defaults_of(name)}
    return {"board": name, "settings": defaults, "profile": dataclasses.asdict(board(name))}


def _lines(told: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("board", "none that is known: settings have their usual defaults")]
    if told["profile"] is not None:
        rows = [("board", f"{told['profile']['title']} ({told['board']})")]
        if "found" in told and told["found"] != told["board"]:
            rows.append(("set by", f"the setting board; found: {told['found']}"))
    elif told["found"] != NONE:
        rows = [("board", f"none, by the setting board; found: {told['found']}")]
    if "model" in told:
        rows.append(("says it is", told["model"] or "nothing"))
        disk = told["disk"]
        storage = "none of its own" if disk is None else f"{disk['name']}, {CLASSES.get(disk['storage'], 'unknown')}"
        rows.append(("disk of the data", storage))
    if told["profile"] is not None:
        rows += _profile_lines(board(told["board"]))
    for key, value in told["settings"].items():
        overridden = "in_force" in value and value["in_force"] != value["default"]
        rows.append((key, f"{value['default']}" + (f", but {value['in_force']} is set" if overridden else "")))
    return rows


def _profile_lines(one: Board) -> list[tuple[str, str]]:
    image = one.image
    watchdog = one.watchdog + (f", {one.watchdog_max_s} s at most" if one.watchdog_max_s else "")
    rows = [
        ("planned with", f"{size(one.ram_bytes)} RAM, {size(one.disk_bytes)} of {CLASSES[one.storage]} for the data"),
        ("bears", f"{size(one.endurance_bytes)} written, x{one.amplification:g} in small pieces"),
        ("watchdog", watchdog or "none"),
        ("clock", _RTC[one.rtc]),
        ("console", one.console),
        ("zram", f"{one.zram_percent} % of the RAM" if one.zram_percent else "none"),
        ("image", "none: the package runs there" if image is None else f"{image.name}, by {image.boot_backend}"),
    ]
    return [*rows, ("note", one.notes)] if one.notes else rows
