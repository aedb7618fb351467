"""``forebay config``: check, show, write, change and import settings."""

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli import changing
from gateway.cli.importing import import_settings
from gateway.cli.options import ConfigOption, DataDirOption, ListenOption, SetOption, UsageError, settings_from
from gateway.cli.remote import broker_at, is_remote
from gateway.settings.table import TABLE, as_toml

app = typer.Typer(help="Check, show, write, change and import settings.", no_args_is_help=True)
app.command("import")(import_settings)
app.command()(changing.get)
app.command("set")(changing.set_)
app.command()(changing.unset)
app.command()(changing.diff)
app.command("history")(changing.show_history)
app.command()(changing.rollback)


@app.command()
def check(
    config: ConfigOption = None, listen: ListenOption = None, data_dir: DataDirOption = None, sets: SetOption = None
) -> None:
    """Say whether the settings are sound: exit code 0, or one line and 2."""
    settings_from(config, data_dir, listen, sets)
    typer.echo(f"{config or 'settings'}: sound")


@app.command()
def show(
    names: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", show_default=False)] = None,
    config: ConfigOption = None,
    listen: ListenOption = None,
    data_dir: DataDirOption = None,
    sets: SetOption = None,
) -> None:
    """Print the settings in force (all, or the ones named) as TOML."""
    for name in names or ():
        if name not in TABLE:
            raise UsageError(f"{name} is no setting; forebay config show lists them")
    if is_remote():
        if listen or sets:
            raise UsageError("--url: expected no --listen and no --set, which change the settings of this machine")
        running = broker_at(config, data_dir).ask({"cmd": "settings"})
        lines = iter([f"{name} = {value}" for name, value in running.items() if not names or name in names])
    else:
        lines = as_toml(settings_from(config, data_dir, listen, sets), names or ())
    for line in lines:
        typer.echo(line)


@app.command()
def init(
    file: Annotated[Path, typer.Argument()] = Path("forebay.toml"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a settings file that holds every setting, commented out, at its default."""
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(
                "# Settings of Forebay. Remove the # before one to change it; then: forebay config check -c FILE\n"
            )
            for entry in TABLE.values():
                default = entry.kind.show(entry.kind.parse(entry.default))
                out.write(f"\n# {entry.help}\n# Allowed: {entry.kind.allowed}\n# {entry.name} = {default}\n")
    except FileExistsError:
        typer.echo(f"forebay: {file}: is there already; --force writes over it", err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        typer.echo(f"forebay: {file}: cannot be written: {error.strerror}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{file}: written")
