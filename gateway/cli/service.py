"""``forebay service``: the gateway as a service of systemd."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.status import JsonOption
from gateway.service import CONFIG, SERVICE, SOCKET, Machine, ServiceError, Step, do, held, install, uninstall
from gateway.settings.table import Sources, load

app = typer.Typer(
    help="Run the gateway as a service of systemd, from the environment that this is.", no_args_is_help=True
)

ConfigFile = Annotated[
    Path, typer.Option("--config", "-c", envvar="FOREBAY_CONFIG", help="Settings file of the service, TOML.")
]
RootOption = Annotated[
    Path, typer.Option("--root", metavar="DIR", help="Another system's root folder, which does not run now.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]

SHOWN = {
    "ActiveState": "active",
    "SubState": "sub",
    "UnitFileState": "enabled",
    "MainPID": "pid",
    "NRestarts": "restarts",
    "ActiveEnterTimestamp": "since",
    "StatusText": "text",
    "Result": "result",
    "FragmentPath": "unit",
}


@app.command("install")
def install_service(config: ConfigFile = Path(CONFIG), root: RootOption = Path("/"), dry_run: DryRun = False) -> None:
    """Write units, user and folders where they are missing, enable the service and start it.

    Run it again after listeners have changed in the settings: systemd holds their sockets.
    """
    machine = Machine(root)
    machine.check()
    _carry_out(install(machine, Path(sys.prefix), Path(sys.base_prefix), config.absolute()), dry_run)


@app.command("uninstall")
def uninstall_service(root: RootOption = Path("/"), dry_run: DryRun = False) -> None:
    """Stop the service and remove its units; messages, settings and the user stay."""
    machine = Machine(root)
    machine.check()
    _carry_out(uninstall(machine), dry_run)


@app.command("status")
def service_status(config: ConfigFile = Path(CONFIG), as_json: JsonOption = False) -> None:
    """What systemd says of the service, and which listeners outlive a restart; exit code 3 when it is not active."""
    machine = Machine()
    if not Path("/run/systemd/system").is_dir():
        raise ServiceError("systemd does not run here")
    found = _shown(machine)
    found["listeners"] = _listeners(machine, config)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        state = (
            f"{found['active']} ({found['sub']})" if found["installed"] else "not installed: forebay service install"
        )
        typer.echo(f"forebay.service: {state}")
        for name in ("text", "since", "pid", "restarts", "enabled", "unit"):
            if found["installed"] and found[name]:
                typer.echo(f"  {name}: {found[name]}")
        for row in found["listeners"]:
            typer.echo(f"  {row['address']}: " + ("held by systemd" if row["held"] else "the broker's own"))
    if found["active"] != "active":
        raise typer.Exit(3)


def _shown(machine: Machine) -> dict[str, Any]:
    lines = machine.asks("show", SERVICE, "-p", ",".join([*SHOWN, "LoadState"])).splitlines()
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    found: dict[str, Any] = {name: told.get(key, "") for key, name in SHOWN.items()}
    for name in ("pid", "restarts"):
        found[name] = int(found[name]) if found[name].isdecimal() else 0
    found["installed"] = told.get("LoadState") == "loaded"
    return found


def _listeners(machine: Machine, config: Path) -> list[dict[str, Any]]:
    """Those of the socket unit, then those that only the settings know."""
    kept = held(machine.asks("show", SOCKET, "-p", "Listen"))
    rows = [{"address": address, "held": True} for address in kept]
    if config.exists():
        settings = load(Sources(config), {})
        from gateway.service import listening

        wanted = [line.partition("=")[2] for line in listening(settings).splitlines() if line[-1] != "="]
        rows += [{"address": address, "held": False} for address in wanted[1:] if address not in kept]
    return rows


def _carry_out(steps: Iterable[Step], dry_run: bool) -> None:
    done = 0
    for step in steps:
        typer.echo(step)
        if not dry_run:
            do(step)
        done += 1
    if not done:
        typer.echo("nothing to do")
