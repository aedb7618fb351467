"""``forebay backup`` and ``restore``: the whole gateway in one file."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gateway import __version__
from gateway.cli.options import ConfigOption, DataDirOption, settings_from
from gateway.cli.status import JsonOption, size
from gateway.cli.terminal import time_of
from gateway.settings.table import Settings
from gateway.store.backup import check, restore, take
from gateway.store.clock import read_clocks
from gateway.tokens import FILE as TOKENS
from gateway.uplink.remembered import FILE as UPLINKS

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", show_default=False)]


def backup(
    file: FileArgument,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    verify: Annotated[bool, typer.Option("--verify", help="Only check a backup that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy database, settings, users and certificates into one file, while the gateway serves.

    All that was acknowledged before is in it. It holds private keys: only its owner can read it.
    """
    if verify:
        manifest = check(file)
    else:
        settings = settings_from(config, data_dir)
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as bar:
            task = bar.add_task("database")
            manifest = take(
                settings.data_dir,
                _files(settings, config),
                file,
                __version__,
                time_of(read_clocks().wall_ms),
                lambda done, total: bar.update(task, completed=done, total=total),
            )
    if as_json:
        rows = {name: {"bytes": member.bytes, "path": member.path} for name, member in manifest.members.items()}
        typer.echo(json.dumps({"file": str(file), "taken": manifest.taken, "schema": manifest.schema, "members": rows}))
        return
    total = sum(member.bytes for member in manifest.members.values())
    typer.echo(f"{file}: sound, {len(manifest.members)} files, {size(total)}, taken {manifest.taken}")


def restore_backup(
    file: FileArgument,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="Put aside what is there already.")] = False,
    data_only: Annotated[bool, typer.Option("--data-only", help="The database alone, no settings or users.")] = False,
) -> None:
    """Put a backup in place, all of it or nothing; the gateway must not run."""
    settings = settings_from(config if config is None or config.exists() else None, data_dir)
    stamp = time_of(read_clocks().wall_ms).translate({ord(":"): None, ord("-"): None})
    for line in restore(file, settings.data_dir, stamp, replace, not data_only):
        typer.echo(line)


def _files(settings: Settings, config: Path | None) -> dict[str, Path]:
    """What belongs to the gateway besides its database, by its name in the backup."""
    paths = [config, settings.passwords, settings.access_file, settings.data_dir / TOKENS, settings.data_dir / UPLINKS]
    paths += [settings.tls_cert, settings.tls_key, settings.tls_client_ca, settings.tls_crl]
    paths += [*(settings.data_dir / "ca").rglob("*")]
    found = {path.absolute() for path in paths if path is not None and path.is_file()}
    return {f"files/{number}-{path.name}": path for number, path in enumerate(sorted(found))}
