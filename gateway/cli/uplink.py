"""``forebay uplink``: the brokers that messages go to, and how it goes."""

import json
import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.cli import uplink_add, uplink_trial
from gateway.cli.control import RefusedError
from gateway.cli.options import ConfigOption, DataDirOption
from gateway.cli.remote import Broker, broker_at
from gateway.cli.status import JsonOption, size, span

app = typer.Typer(help="Brokers that messages go to, or come from.", no_args_is_help=True)
app.command("add")(uplink_add.add)
app.command("test")(uplink_trial.try_out)

_LOOK_S = 0.5  # between two lines of progress

NameArgument = Annotated[str, typer.Argument(help="Name of the uplink.", show_default=False)]
Row = dict[str, Any]


@app.command("list")
def list_uplinks(config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """List the uplinks of the running broker: state, address, what waits, and how fast it goes."""
    rows = broker_at(config, data_dir).ask({"cmd": "uplinks"})
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "state", "address", "queued", "bytes", "in flight", "rate", "empty in", "dropped", "error"):
        right = heading in ("queued", "bytes", "in flight", "rate", "empty in", "dropped")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row))
    Console(highlight=False, markup=False).print(table)


def _cells(row: Row) -> list[str]:
    return [
        row["name"],
        f"{row['state']} for {span(row['since_s'] * 1000)}",
        row["address"] or row["addresses"][0],
        str(row["queue_messages"]),
        size(row["queue_bytes"]),
        f"{row['inflight']}/{row['window']}",
        f"{row['rate_s']:.0f}/s",
        "" if row["eta_s"] is None else span(row["eta_s"] * 1000),
        str(sum(row["drops"].values())),
        row["error"] or row["last_error"] or "",
    ]


@app.command()
def pause(name: NameArgument, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """End the connection and dial no more, over restarts too; what is to go out waits."""
    broker_at(config, data_dir).ask({"cmd": "uplink_pause", "name": name})
    typer.echo(f"{name}: paused")


@app.command()
def resume(name: NameArgument, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Dial again."""
    broker_at(config, data_dir).ask({"cmd": "uplink_resume", "name": name})
    typer.echo(f"{name}: resumed")


@app.command()
def drain(
    name: NameArgument,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which it is no success; 0 = wait for ever.")] = 0,
) -> None:
    """Wait until nothing waits for the uplink any more; exit code 1 when that takes longer than the timeout."""
    broker = broker_at(config, data_dir)
    console = Console(stderr=True, highlight=False, markup=False)
    end = time.monotonic() + timeout
    with console.status("") as line:
        while left := _left(row := _row(broker, name)):
            line.update(_progress(row, left))
            if timeout and time.monotonic() >= end:
                raise RefusedError(f"{name}: {left} messages still wait after {timeout:g} s ({row['state']})")
            time.sleep(_LOOK_S)
    typer.echo(f"{name}: empty")


def _row(broker: Broker, name: str) -> Row:
    rows: list[Row] = broker.ask({"cmd": "uplinks"})
    for row in rows:
        if row["name"] == name:
            return row
    raise RefusedError(f"no uplink {name}: expected one of {', '.join(row['name'] for row in rows) or 'none'}")


def _left(row: Row) -> int:
    left: int = row["queue_messages"] + row["inflight"]
    return left


def _progress(row: Row, left: int) -> str:
    end = "" if row["eta_s"] is None else f", empty in {span(row['eta_s'] * 1000)}"
    return f"{row['name']}: {left} messages, {size(row['queue_bytes'])}, {row['rate_s']:.0f}/s{end} ({row['state']})"
