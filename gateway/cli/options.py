"""Options that several commands share, and the settings that they lead to."""

from pathlib import Path
from typing import Annotated

import typer

from gateway.settings.table import Settings, Sources, load

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="FOREBAY_CONFIG", help="Settings file, TOML.", show_default=False),
]
DataDirOption = Annotated[
    str | None, typer.Option("--data-dir", help="Folder of the database and the control socket.", show_default=False)
]
ListenOption = Annotated[
    list[str] | None, typer.Option("--listen", metavar="HOST:PORT", help="Listen here instead; may be repeated.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; may be repeated.")
]


class UsageError(Exception):
    """One line: which argument, which value, what is allowed."""


def settings_from(
    config: Path | None,
    data_dir: str | None,
    listen: list[str] | None = None,
    sets: list[str] | None = None,
    tell: bool = True,
) -> Settings:
    """The settings that the options ask for. Raises SettingsError."""
    options: list[tuple[str, object]] = []
    if listen:
        options.append(("listen", listen))
    if data_dir is not None:
        options.append(("data_dir", data_dir))
    settings = load(Sources(config, tuple(sets or ()), tuple(options)))
    for note in settings.notes if tell else ():
        typer.echo(f"forebay: {note}", err=True)
    return settings
