"""``forebay safe-mode``: whether the gateway is in it, and out of it."""

import json
from typing import Any

import typer

from gateway.cli.control import ask
from gateway.cli.options import ConfigOption, DataDirOption, settings_from
from gateway.cli.status import JsonOption, span

app = typer.Typer(
    help="After too many crashes: last good settings, no uplinks (docs/recovery.md).", no_args_is_help=True
)


@app.command()
def show(config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Say whether the gateway is in safe mode. Exit code 0: it is not. 1: it is."""
    found: dict[str, Any] | None = ask(settings_from(config, data_dir).control_socket, {"cmd": "status"})["safe_mode"]
    if as_json:
        typer.echo(json.dumps(found))
    elif found is None:
        typer.echo("not in safe mode")
    else:
        which = "the last good settings" if found["last_good"] else "the settings as they are"
        ends = span(found["ends_in_s"] * 1000)
        typer.echo(f"after {found['crashes']} crashes, with {which}, uplinks held; ends in {ends}")
    if found is not None:
        raise typer.Exit(1)


@app.command()
def leave(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Take over the settings as they are, and dial uplinks again."""
    ask(settings_from(config, data_dir).control_socket, {"cmd": "safe_mode_leave"})
    typer.echo("left safe mode")
