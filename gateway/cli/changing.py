"""``forebay config set``, ``unset``, ``get``, ``diff``, ``history`` and ``rollback``."""

import difflib
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.control import NoBrokerError, RefusedError, ask
from gateway.cli.options import ConfigOption, DataDirOption, SetOption, UsageError, settings_from
from gateway.cli.remote import broker_at, is_remote
from gateway.cli.status import JsonOption
from gateway.cli.terminal import time_of
from gateway.settings.file import changed_lines, check, history, planned, read, write
from gateway.settings.table import TABLE, Settings, as_toml
from gateway.store.clock import read_clocks

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")]


def get(
    name: Annotated[str, typer.Argument(metavar="KEY", show_default=False)],
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    sets: SetOption = None,
) -> None:
    """Print the value of one setting as TOML."""
    _known(name)
    if is_remote():
        if sets:
            raise UsageError("--url: expected no --set, which changes the settings of this machine")
        typer.echo(broker_at(config, data_dir).ask({"cmd": "settings"}).get(name, ""))
        return
    (line,) = as_toml(settings_from(config, data_dir, None, sets), [name])
    typer.echo(line.partition(" = ")[2])


def set_(
    assignments: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", show_default=False)],
    config: ConfigOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Change settings in the file and, where they can be, in the gateway that runs.

    Nothing is written unless all settings are sound together; comments stay.
    """
    changes = dict[str, object]()
    for text in assignments:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals:
            raise UsageError(f'"{text}": expected KEY=VALUE')
        changes[name] = _known(name).kind.from_text(value.strip())
    _change(config, changes, dry_run)


def unset(
    names: Annotated[list[str], typer.Argument(metavar="KEY...", show_default=False)],
    config: ConfigOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Take settings out of the file, so that their defaults count."""
    for name in names:
        _known(name)
    _change(config, dict.fromkeys(names), dry_run)


def diff(config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show where the running gateway differs from its settings file; exit code 1 when it does."""
    settings = settings_from(config, data_dir)
    running = ask(settings.control_socket, {"cmd": "settings"})
    file = dict(line.split(" = ", 1) for line in as_toml(settings))
    found = {name: (running.get(name), value) for name, value in file.items() if running.get(name) != value}
    if as_json:
        typer.echo(json.dumps({name: {"running": old, "file": new} for name, (old, new) in found.items()}, indent=2))
    else:
        for name, (old, new) in found.items():
            typer.echo(f"- {name} = {old}\n+ {name} = {new}")
    raise typer.Exit(1 if found else 0)


def show_history(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List what stood in the settings file before, the newest last."""
    names = [path.stem for path in history(_file(config))]
    typer.echo(json.dumps(names) if as_json else "\n".join(names) or "nothing was changed yet")


def rollback(
    to: Annotated[str, typer.Argument(metavar="[NAME]", help="Of the history; else the newest.")] = "",
    config: ConfigOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Give the settings file the text that it had before; what it has now joins the history."""
    path = _file(config)
    kept = {found.stem: found for found in history(path)}
    if not kept:
        raise UsageError(f"{path}: nothing was changed yet, so there is nothing to go back to")
    name = to or list(kept)[-1]
    if name not in kept:
        raise UsageError(f"{name}: not in the history of {path}; forebay config history lists it")
    _write(path, read(kept[name]), dry_run)


def _change(config: Path | None, changes: dict[str, object], dry_run: bool) -> None:
    """In the settings file of this machine, or of the one that --url names."""
    if not is_remote():
        path = _file(config)
        _write(path, planned(path, changes), dry_run)
        return
    told = broker_at(config, None).ask({"cmd": "config", "set": changes, "dry_run": dry_run})
    for line in told["diff"]:
        typer.echo(line)
    if not dry_run:
        _in_force(told["file"], told["fault"], told["later"])


def _write(path: Path, text: str, dry_run: bool) -> None:
    before = read(path)
    settings = check(path, text) if dry_run else write(path, text, stamp())
    for line in changed_lines(before, text, path):
        typer.echo(line)
    if not dry_run:
        tell(path, settings)


def tell(path: Path, settings: Settings, err: bool = False) -> None:
    """From when on it counts."""
    try:
        later = ask(settings.control_socket, {"cmd": "reload"})
    except NoBrokerError:
        typer.echo(f"{path}: written; no gateway runs", err=err)
    except RefusedError as error:
        _in_force(path, str(error), [], err)
    else:
        _in_force(path, "", later, err)


def _in_force(path: Path | str, fault: str, later: list[str], err: bool = False) -> None:
    if fault:
        typer.echo(f"{path}: written, but the running gateway refused it: {fault}", err=err)
        raise typer.Exit(1)
    restart = "".join(f"; {name}: restart needed" for name in later)
    typer.echo(f"{path}: written and in force{restart}", err=err)


def _file(config: Path | None) -> Path:
    if config is None:
        raise UsageError("no settings file: expected --config FILE or FOREBAY_CONFIG")
    return config


def _known(name: str) -> Any:
    if name not in TABLE:
        near = difflib.get_close_matches(name, TABLE, 1, 0.5)
        raise UsageError(f"{name} is no setting" + (f"; did you mean {near[0]}?" if near else ""))
    return TABLE[name]


def stamp() -> str:
    return time_of(read_clocks().wall_ms).translate({ord(":"): None, ord("-"): None})
