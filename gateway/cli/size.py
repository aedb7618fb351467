"""``forebay size``: limits, disk, RAM, flash and drain time for an outage."""

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn
from rich.table import Table

from gateway.boards import CLASSES, NONE, Board
from gateway.boards import board as board_of
from gateway.boards import names as board_names
from gateway.cli.changing import stamp, tell
from gateway.cli.control import ask
from gateway.cli.doctor import OutageOption, seconds_of
from gateway.cli.options import ConfigOption, DataDirOption, UsageError, settings_from
from gateway.cli.status import JsonOption, span
from gateway.cli.status import size as shown_size
from gateway.doctor.size import Load, Sized, size
from gateway.settings.file import planned, write
from gateway.settings.kinds import Size

MEASURE_S: Final = 60
_SIZE: Final = Size(1)


def size_command(
    rate: Annotated[float, typer.Option("--rate", min=0, help="Messages a second, all publishers together.")] = 0.0,
    payload: Annotated[float, typer.Option("--payload", min=0, help="Bytes of a payload, on average.")] = 100.0,
    topic: Annotated[float, typer.Option("--topic-bytes", min=1, help="Bytes of a topic.")] = 30.0,
    burst: Annotated[
        float, typer.Option("--burst", min=1, help="Messages that come at a time, as in a PLC cycle.")
    ] = 1.0,
    sessions: Annotated[int, typer.Option("--sessions", min=1, help="Collectors that get all of them.")] = 1,
    connections: Annotated[int, typer.Option("--connections", min=1, help="Clients connected at a time.")] = 20,
    outage: OutageOption = "8h",
    away: Annotated[float, typer.Option("--away", min=0, max=365, help="Days a year without collectors.")] = 5.0,
    batching: Annotated[
        bool, typer.Option("--batching", help="The collectors acknowledge in batches, later than the commit window.")
    ] = False,
    drain: Annotated[float, typer.Option("--drain", min=1, help="Messages a second that a collector takes.")] = 5000.0,
    board: Annotated[
        str, typer.Option("--board", help=f"One of {', '.join(board_names())}; this one, or x86.", show_default=False)
    ] = "",
    endurance: Annotated[str, typer.Option("--endurance", help="Bytes that its storage bears, such as 40TiB.")] = "",
    measure: Annotated[
        str, typer.Option("--measure", metavar="TIME", help="Take the rates of the running broker, over this time.")
    ] = "",
    do_write: Annotated[bool, typer.Option("--write", help="Put the settings into the settings file.")] = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what an outage needs here: limits, disk, RAM, wear of the flash, time to drain.

    Exit code 0: it fits on the board. 1: it does not.
    """
    settings = settings_from(config, data_dir)
    where = _board(board or (settings.on_board if settings.on_board != NONE else "x86"), endurance)
    load = Load(
        rate=rate, payload=payload, topic=topic, burst=burst, collectors=sessions, connections=connections,
        outage_s=seconds_of("--outage", outage), away_days=away, prompt=not batching, drain=drain,
    )  # fmt: skip
    if measure:
        load = _measured(load, settings.control_socket, seconds_of("--measure", measure))
    if load.rate <= 0:
        raise UsageError("no rate: expected --rate MESSAGES or --measure TIME")
    sized = size(load, where)
    if as_json:
        told = {"load": dataclasses.asdict(load), "board": where.name, **dataclasses.asdict(sized)}
        typer.echo(json.dumps({**told, "longest_s": round(sized.longest_s)}, indent=2))
    else:
        _print(load, where, sized)
    if do_write:
        if config is None:
            raise UsageError("--write: expected --config FILE or FOREBAY_CONFIG")
        tell(config, write(config, planned(config, sized.settings), stamp()), err=as_json)
    if not sized.fits:
        raise typer.Exit(1)


def _board(name: str, endurance: str) -> Board:
    if name not in board_names():
        raise UsageError(f"--board {name}: expected one of {', '.join(board_names())}")
    if not endurance:
        return board_of(name)
    try:
        return dataclasses.replace(board_of(name), endurance_bytes=_SIZE.parse(_SIZE.from_text(endurance)))
    except ValueError:
        raise UsageError(f"--endurance {endurance}: expected {_SIZE.allowed}") from None


def _measured(load: Load, path: Path, seconds: int) -> Load:
    """The load as it is now on the running broker."""
    before, began = ask(path, {"cmd": "status"}), time.monotonic()
    with Progress(*Progress.get_default_columns()[:-1], TimeRemainingColumn(), transient=True) as progress:
        for _ in progress.track(range(seconds * 10), description="measuring"):
            time.sleep(max(0.0, min(0.1, began + seconds - time.monotonic())))
    after = ask(path, {"cmd": "status"})
    return measured(load, before, after, time.monotonic() - began)


def measured(load: Load, before: Mapping[str, Any], after: Mapping[str, Any], seconds: float) -> Load:
    """The load between two statuses. Raises UsageError when nothing came."""

    def grown(name: str) -> int:
        return int(after["counters"][name]) - int(before["counters"][name])

    count = sum(grown(f"received_qos{qos}") for qos in (0, 1, 2))
    if not count:
        raise UsageError(f"nothing was published in {seconds:.0f} s: expected --rate, or another time to measure")
    payload = sum(grown(f"received_bytes_qos{qos}") for qos in (0, 1, 2)) / count
    sessions = after["sessions"]
    return dataclasses.replace(
        load,
        rate=count / seconds,
        payload=payload,
        connections=max(1, after["connections"]),
        collectors=max(1, min(load.collectors, sessions["persistent"])),
    )


def _print(load: Load, board: Board, sized: Sized) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in _lines(load, board, sized):
        table.add_row(name, text)
    Console(highlight=False, markup=False).print(table)


def _lines(load: Load, board: Board, sized: Sized) -> list[tuple[str, str]]:
    drain = "never: the collector takes less than comes" if sized.drain_s is None else span(sized.drain_s * 1000)
    room = f"{shown_size(board.disk_bytes)} of {CLASSES[board.storage]}"
    return [
        ("load", f"{load.rate:.4g} messages/s of {load.payload:.0f} bytes for {load.collectors} collectors"),
        ("outage", f"{span(load.outage_s * 1000)}: {sized.messages} messages"),
        ("board", f"{board.title}, {shown_size(board.ram_bytes)} RAM, {room}"),
        ("on disk", f"{shown_size(round(sized.disk))}, {sized.disk_per_message:.0f} bytes a message"),
        ("longest outage", f"{span(sized.longest_s * 1000)} fit on this disk"),
        ("RAM", shown_size(round(sized.ram))),
        ("written, away", f"{shown_size(round(sized.written_s_away))}/s, {sized.written_per_message:.0f} a message"),
        ("written, online", f"{shown_size(round(sized.written_s_online))}/s"),
        ("a year", f"{shown_size(round(sized.written_year))} with {load.away_days:g} days away, "
                   f"{shown_size(round(sized.flash_year))} in the flash (x{board.amplification:g})"),
        ("flash lasts", f"{sized.years:.3g} years of {shown_size(board.endurance_bytes)}"),
        ("drained in", f"{drain}, at {load.drain:.4g} messages/s"),
        *((f"set {name}", json.dumps(value)) for name, value in sized.settings.items()),
        ("fits", "yes" if sized.fits else "no: a larger disk, a shorter outage or fewer messages"),
    ]  # fmt: skip
