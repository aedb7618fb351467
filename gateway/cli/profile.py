"""``forebay profile``: what is known of device families."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway import profiles
from gateway.cli.control import RefusedError, ask
from gateway.cli.options import ConfigOption, DataDirOption, UsageError, settings_from
from gateway.profiles import Profile, ProfileError

app = typer.Typer(help="Device profiles: how families of Sparkplug devices publish.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_profiles(config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """List the profiles: ours, and your own from the folder "profiles" of the data folder."""
    found = _load(config, data_dir)
    if as_json:
        _print_json([_brief(profile) for profile in found.values()])
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "verdict", "sure", "QoS 1", "stores", "of"):
        table.add_column(heading, overflow="fold")
    for profile in found.values():
        brief = _brief(profile)
        can, stores = brief["qos1_can_be_set"], brief["stores"]
        table.add_row(
            profile.name, brief["verdict"], brief["confidence"], "can" if can else "-", "yes" if stores else "-",
            "own" if brief["own"] else "ours",
        )  # fmt: skip
    Console(highlight=False, markup=False).print(table)


@app.command()
def show(name: str, config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Print a profile's file."""
    found = _load(config, data_dir)
    if name not in found:
        raise UsageError(f"{name} is no profile: expected one of {', '.join(found)}")
    profile = found[name]
    if as_json:
        _print_json(dataclasses.asdict(profile))
        return
    assert profile.path is not None
    typer.echo(f"# {profile.path}\n{profile.path.read_text(encoding='utf-8-sig')}", nl=False)


@app.command()
def check(files: Annotated[list[Path], typer.Argument(metavar="FILE...", show_default=False)]) -> None:
    """Say whether profile files are sound: exit code 0, or a line for each fault and 2."""
    faulty = False
    for path in files:
        try:
            profiles.read(path)
        except ProfileError as error:
            faulty = True
            for fault in error.faults:
                typer.echo(f"forebay: {fault}", err=True)
        else:
            typer.echo(f"{path}: sound")
    if faulty:
        raise typer.Exit(2)


@app.command()
def match(
    node: Annotated[str, typer.Argument(metavar="[GROUP/NODE]", help="A node that the running broker knows.")] = "",
    client_id: Annotated[str, typer.Option("--client-id", help="The MQTT client id.")] = "",
    make: Annotated[str, typer.Option("--make", help="Properties/Hardware Make of its birth.")] = "",
    model: Annotated[str, typer.Option("--model", help="Properties/Hardware Model of its birth.")] = "",
    topic: Annotated[str, typer.Option("--topic", help="A topic of it, or group/edge node.")] = "",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the profiles that fit a device, the best first; exit code 1 when none does."""
    facts = {"client_id": client_id, "make": make, "model": model, "topic": _node(topic)}
    if node:
        rows = ask(settings_from(config, data_dir).control_socket, {"cmd": "sparkplug_nodes"})
        row = next((row for row in rows if row["node"] == node), None)
        if row is None:
            raise RefusedError(f"{node} was never heard of")
        live = {"client_id": row["client_id"], "make": row["make"], "model": row["model"], "topic": node}
        facts = {name: value or live[name] for name, value in facts.items()}
    if not any(facts.values()):
        raise UsageError("nothing to match: expected GROUP/NODE, --client-id, --make, --model or --topic")
    found = profiles.match(_load(config, data_dir).values(), **facts)
    if as_json:
        _print_json([{**_brief(one.profile), "by": one.by} for one in found])
    for one in () if as_json else found:
        evidence = one.profile.evidence
        told = f"{one.profile.name}: {evidence.verdict}, confidence {evidence.confidence}, fits by {', '.join(one.by)}"
        typer.echo(told)
    if not found:
        typer.echo("forebay: no profile fits", err=True)
        raise typer.Exit(1)


def _load(config: Path | None, data_dir: str | None) -> dict[str, Profile]:
    found, faults = profiles.load(settings_from(config, data_dir).data_dir / "profiles")
    for fault in faults:
        typer.echo(f"forebay: {fault}: set aside", err=True)
    return found


def _node(topic: str) -> str:
    """ "group/edge node" of a Sparkplug topic; what is given in that form stays."""
    parts = topic.split("/")
    if len(parts) >= 4 and parts[0].startswith("sp"):
        return f"{parts[1]}/{parts[3]}"
    if topic and len(parts) != 2:
        raise UsageError(f"--topic {topic}: expected spBv1.0/GROUP/TYPE/NODE or GROUP/NODE")
    return topic


def _brief(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "title": profile.title,
        "verdict": profile.evidence.verdict,
        "confidence": profile.evidence.confidence,
        "qos1_can_be_set": profile.upgrade.possible,
        "stores": profile.native.available,
        "fallback": profile.evidence.fallback,
        "own": profile.own,
        "path": str(profile.path),
    }


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))
