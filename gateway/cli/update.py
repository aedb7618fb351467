"""``forebay update``: another version of the appliance, which is kept when it is healthy and left when it is not."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gateway.appliance import rauc, sources
from gateway.appliance.bundle import Bundle, BundleError, read_bundle
from gateway.appliance.health import wait_for_health
from gateway.appliance.journal import Version, plain
from gateway.appliance.loader import LoaderError
from gateway.appliance.slots import TRIAL, NoApplianceError, appliance
from gateway.appliance.sources import SourceError
from gateway.appliance.updating import LEAVE, UNHEALTHY, Updates, Verdict, download_path, forget_download
from gateway.cli.control import RefusedError
from gateway.cli.options import ConfigOption, DataDirOption, settings_from
from gateway.cli.status import JsonOption
from gateway.cli.terminal import shown, time_of
from gateway.store.clock import read_clocks
from gateway.store.migrations import MIGRATIONS, SCHEMA, min_reader_of

app = typer.Typer(help="Updates of the appliance, and the way back.", no_args_is_help=True)

SourceArgument = Annotated[
    str, typer.Argument(metavar="[SOURCE]", help="A bundle, a folder, or an address; else a USB stick.")
]
RootOption = Annotated[Path, typer.Option("--root", metavar="DIR", help="Of the appliance, where it is not this one.")]
NoRollbackOption = Annotated[
    bool, typer.Option("--no-rollback", help="Also a version that changes the data so that there is no way back.")
]
RebootOption = Annotated[bool, typer.Option("--reboot", help="Start it at once.")]
ROOT = Path("/")


@app.command()
def check(
    source: SourceArgument = "",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    root: RootOption = ROOT,
) -> None:
    """Say what a source has, and whether it can be installed here; writes nothing (exit code 1: it cannot)."""
    with _refusals():
        updates = _updates(root)
        reason = ""
        if sources.is_web(source) and not source.endswith(sources.SUFFIX):
            told = sources.newest(source, updates.where.compatible)
            version, name = told["version"], told["bundle"]
        else:
            with _bundle(updates, source) as bundle:
                version, name = bundle.holds.version, source or bundle.path.name
                try:
                    updates.require_fit(bundle, _data_min_reader(root, config, data_dir), False)
                except BundleError as error:
                    reason = str(error)
    running = updates.where.version
    if as_json:
        told = {"source": name, "version": version, "running": running, "same": version == running, "refused": reason}
        typer.echo(json.dumps(told))
    else:
        note = "the version that runs" if version == running else f"this system runs {running}"
        typer.echo(reason or f"{shown(name)}: version {shown(version)}; {note}")
    if reason:
        raise typer.Exit(1)


@app.command()
def install(
    source: SourceArgument = "",
    no_rollback: NoRollbackOption = False,
    reboot: RebootOption = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    root: RootOption = ROOT,
) -> None:
    """Write a bundle to the slot that does not run; the next boot tries it.

    What is wrong with signature, payload or board is found before anything is written. It is kept when the gateway
    proves healthy after the boot (``forebay update confirm``), else this version comes back by itself.
    """
    with _refusals():
        updates = _updates(root)
        updates.require_ready()
        try:
            with _bundle(updates, source) as bundle:
                updates.require_fit(bundle, _data_min_reader(root, config, data_dir), no_rollback)
                with _bar("installing") as show:
                    updates.install(bundle, no_rollback, show)
        finally:
            forget_download(updates.where)
        typer.echo(f"version {bundle.holds.version} boots next, and stays if it is healthy")
        if reboot:
            _reboot()


@app.command()
def status(as_json: JsonOption = False, root: RootOption = ROOT) -> None:
    """Which version runs, which one is beside it, and how the updates ended, with the reason."""
    with _refusals():
        updates = _updates(root)
        found = {**updates.status(), **plain(updates.journal)}
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    beside = found["other"]
    typer.echo(f"board     {found['board']}, {found['disk']}")
    typer.echo(f"runs      {found['version']} (slot {found['slot']}{', on trial' if found['on_trial'] else ''})")
    name = beside["version"] or "unknown" if beside["can_boot"] else "nothing that boots"
    typer.echo(f"beside    {name} (slot {beside['slot']})")
    typer.echo(f"next      slot {found['boots_next']}")
    if found["pending"] is not None:
        typer.echo(f"pending   {found['pending']['version']} is tried at the next boot")
    for row in reversed(found["ended"]):
        typer.echo(f"{row['at']}  {row['version']}: {row['outcome']}: {shown(row['reason'])}")


@app.command()
def rollback(
    reboot: RebootOption = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    root: RootOption = ROOT,
) -> None:
    """Let the version in the other slot boot next; data stay as they are."""
    with _refusals():
        updates = _updates(root)
        version = updates.roll_back(_data_min_reader(root, config, data_dir))
        typer.echo(f"version {version} boots next")
        if reboot:
            _reboot()


@app.command()
def confirm(
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds that the gateway may take to be healthy.")
    ] = 300,
    failed: Annotated[
        str, typer.Option("--failed", metavar="REASON", help="The system cannot serve: do not ask it.")
    ] = "",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    root: RootOption = ROOT,
) -> None:
    """Keep a version on trial when the gateway is healthy: a QoS 1 round trip through broker and disk.

    Else go back to the other one by a reboot, with the reason in ``forebay update status`` (exit code 1).
    """
    with _refusals():
        updates = _updates(root)

        def problem() -> str:
            return failed or wait_for_health(_settings(root, config, data_dir).control_socket, wait)

        verdict: Verdict = updates.confirm(problem)
        typer.echo(f"{verdict.result}{': ' if verdict.reason else ''}{verdict.reason}", err=True)
        if verdict.result == LEAVE:
            _reboot()
        else:
            (root / TRIAL).unlink(missing_ok=True)
    if verdict.result in (LEAVE, UNHEALTHY):
        raise typer.Exit(1)


@app.command()
def backend(
    what: Annotated[str, typer.Argument()],
    slot: Annotated[str, typer.Argument()] = "",
    state: Annotated[str, typer.Argument()] = "",
    root: RootOption = ROOT,
) -> None:
    """What RAUC asks of a boot loader that it does not know (``bootloader=custom``)."""
    with _refusals():
        updates = _updates(root)
        if what == "get-primary":
            typer.echo(updates.loader.primary())
        elif what == "get-state":
            typer.echo("good" if updates.loader.is_good(slot) else "bad")
        elif what == "set-primary":
            updates.place(slot)
        elif what == "set-state" and state in ("good", "bad"):
            updates.mark(slot, state == "good")
        else:
            raise RefusedError(f"{what} {slot} {state}: nothing that RAUC asks")


@contextmanager
def _refusals() -> Iterator[None]:
    """One line for all that an update may meet."""
    try:
        yield
    except (BundleError, LoaderError, NoApplianceError, SourceError) as error:
        raise RefusedError(str(error)) from None
    except OSError as error:
        raise RefusedError(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None


def _updates(root: Path) -> Updates:
    where = appliance(root)
    own = Version(where.version, SCHEMA, MIGRATIONS[-1][1])
    return Updates(where, own, lambda: time_of(read_clocks().wall_ms))


def _settings(root: Path, config: Path | None, data_dir: str | None) -> Any:
    usual = root / "etc/forebay/forebay.toml"
    return settings_from(config or (usual if usual.exists() else None), data_dir, tell=False)


def _data_min_reader(root: Path, config: Path | None, data_dir: str | None) -> int:
    return min_reader_of(_settings(root, config, data_dir).data_dir / "forebay.db")


@contextmanager
def _bundle(updates: Updates, source: str) -> Iterator[Bundle]:
    """A bundle whose signature and payload were found right, from wherever it comes."""
    where = updates.where
    conf = rauc.write_conf(where)
    if sources.is_web(source):
        address = sources.newest(source, where.compatible)["bundle"]
        with _bar("fetching") as show:
            sources.download(
                address, download_path(where), lambda done, total: show(100 * done // (total or done or 1), "")
            )
        yield read_bundle(download_path(where), (f"--conf={conf}",))
        return
    if source:
        path: Path | None = Path(source)
        if os.path.isdir(source):
            path = sources.on_stick(Path(source), where.compatible)
            if path is None:
                raise SourceError(f"{source}: no bundle for {where.compatible} in it")
        assert path is not None
        yield read_bundle(path, (f"--conf={conf}",))
        return
    with sources.stick(where.compatible) as path:
        yield read_bundle(path, (f"--conf={conf}",))


@contextmanager
def _bar(title: str) -> Iterator[Any]:
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"), console=console, transient=True, disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task(title, total=100, note="")
        yield lambda percent, note: bar.update(task, completed=percent, note=note)


def _reboot() -> None:
    words = ["systemctl", "reboot"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RefusedError(f"{' '.join(words)}: {' '.join(done.stderr.split())}")
