"""``forebay sparkplug ladder`` and ``upgrade``: what holds for each node, what may be lost, and setting QoS 1."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway import profiles
from gateway.bridge.facts import NodeFacts
from gateway.bridge.ladder import Advice, Standing, outcome
from gateway.bridge.standing import standing
from gateway.cli.control import ask
from gateway.cli.options import ConfigOption, DataDirOption, settings_from
from gateway.cli.status import JsonOption
from gateway.cli.terminal import shown
from gateway.profiles import Profile
from gateway.settings.table import Settings

POLL_S = 1.0


def ladder(
    node: Annotated[str, typer.Argument(help="Only this one, in full: GROUP/EDGE_NODE.")] = "",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which step of the ladder holds for each node, why, what may still be lost and what to set on it."""
    settings, known = _sources(config, data_dir)
    rows = [_row(facts, known, settings.bridge_host_id) for facts in _facts(settings.control_socket, node)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False, show_header=not node)
    if node:
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for name, text in _full(rows[0]):
            table.add_row(name, shown(text))
    else:
        for heading in ("node", "step", "verdict", "from", "profile", "may still be lost"):
            table.add_column(heading, overflow="fold")
        for row in rows:
            cells = ("node", "step", "verdict", "source", "profile", "remains")
            table.add_row(*(shown(row[name]) for name in cells))
    Console(highlight=False, markup=False).print(table)


def upgrade(
    node: Annotated[str, typer.Argument(metavar="GROUP/EDGE_NODE", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Write to the device without asking.")] = False,
    messages: Annotated[int, typer.Option("--messages", min=1, help="Data that must come at QoS 1 or 2.")] = 10,
    wait: Annotated[float, typer.Option("--wait", metavar="SECONDS", min=1, help="How long that may take.")] = 120.0,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Set a node to QoS 1 by the command its profile names, and see on the wire whether it does; else say how.

    Exit code 0: data comes at QoS 1. 1: it does not, or it must be set by hand.
    """
    settings, known = _sources(config, data_dir)
    path = settings.control_socket
    (before,) = _facts(path, node)
    advice = _upgrade(standing(known.values(), before)[1])
    if advice is None or advice.ncmd is None:
        typer.echo(f"{node}: {'nothing to set is known' if advice is None else 'set it by hand: ' + advice.text}")
        raise typer.Exit(1)
    ncmd = advice.ncmd
    told = f"{node}: write {json.dumps(ncmd.value)} to its metric {shown(ncmd.metric)}"
    if not yes and not typer.confirm(f"{told}?"):
        raise typer.Abort
    ask(path, {"cmd": "sparkplug_write", "node": node, **dataclasses.asdict(ncmd)})
    typer.echo(told)
    end = time.monotonic() + wait
    while True:
        (now,) = _facts(path, node)
        done, why = outcome(before, now, messages)
        if done is None and time.monotonic() < end:
            time.sleep(POLL_S)
            continue
        break
    typer.echo(f"{node}: {why}")
    if not done:
        after = standing(known.values(), now)[1]
        typer.echo(f"{node}: stays at {after.step.value}: {'; '.join(after.why)}")
        raise typer.Exit(1)
    typer.echo(f"{node}: whether it sends again, only a probe tells: forebay sparkplug probe {node}")


def _sources(config: Path | None, data_dir: str | None) -> tuple[Settings, dict[str, Profile]]:
    settings = settings_from(config, data_dir)
    known, faults = profiles.load(settings.data_dir / "profiles")
    for fault in faults:
        typer.echo(f"forebay: {fault}: set aside", err=True)
    return settings, known


def _facts(path: Path, node: str) -> list[NodeFacts]:
    rows = ask(path, {"cmd": "sparkplug_nodes"})
    found = [NodeFacts.from_dict(row) for row in rows if not node or row["node"] == node]
    if node and not found:
        typer.echo(f"forebay: {node} was never heard of", err=True)
        raise typer.Exit(1)
    return found


def _upgrade(stands: Standing) -> Advice | None:
    """What to set for QoS 1, the probe apart."""
    return next((one for one in stands.advice if one.upgrade), None)


def _row(facts: NodeFacts, known: dict[str, Profile], host_id: str) -> dict[str, Any]:
    name, stands = standing(known.values(), facts, host_id)
    values = dataclasses.asdict(stands)
    values["step"] = stands.step.value
    for advice in values["advice"]:
        advice["to"] = advice["to"].value
    return {"node": facts.node, "profile": name or "none", **values}


def _full(row: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [(name, row[name]) for name in ("node", "step", "verdict")]
    lines += [("from", row["source"]), ("profile", row["profile"])]
    lines += [("why", reason) for reason in row["why"]]
    lines.append(("may still be lost", row["remains"]))
    lines += [(f"for {advice['to']}", advice["text"]) for advice in row["advice"]]
    return lines
