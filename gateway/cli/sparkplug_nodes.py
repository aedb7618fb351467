"""``forebay sparkplug nodes`` and ``rebirth``: what the bridge knows of the nodes, and asking one for its births."""

import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import ConfigOption, DataDirOption
from gateway.cli.remote import broker_at
from gateway.cli.status import JsonOption
from gateway.cli.terminal import shown, time_of


def nodes(
    node: str = typer.Argument("", help="Only this one, in full: GROUP/EDGE_NODE."),
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the Sparkplug nodes: how they connect and publish, and what of theirs may be lost."""
    rows = broker_at(config, data_dir).ask({"cmd": "sparkplug_nodes"})
    if node:
        rows = [row for row in rows if row["node"] == node]
        if not rows:
            typer.echo(f"forebay: {node} was never heard of", err=True)
            raise typer.Exit(1)
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif node:
        _show(rows[0])
    else:
        _list(rows)


def rebirth(node: str, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Ask a node (GROUP/EDGE_NODE) to publish its births again."""
    broker_at(config, data_dir).ask({"cmd": "sparkplug_rebirth", "node": node})
    typer.echo(f"{node}: asked")


def _list(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("node", "state", "client id"):
        table.add_column(heading, overflow="fold")
    for heading in ("data QoS", "keep alive", "devices", "gaps", "rebirths", "loss windows"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            shown(row["node"]),
            _state(row),
            shown(row["client_id"]),
            _data_qos(row["qos"]),
            "-" if row["keep_alive_s"] is None else f"{row['keep_alive_s']} s",
            str(len(row["devices"])),
            str(row["seq_gaps"]),
            f"{row['rebirths_answered']}/{row['rebirths_asked']}",
            str(len(row["loss_windows"])),
        )
    Console(highlight=False, markup=False).print(table)


def _show(row: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in _facts(row):
        table.add_row(name, text)
    for device, types in {"": row["qos"], **row["devices"]}.items():
        counts = ", ".join(f"{kind} {'/'.join(map(str, n))}" for kind, n in sorted(types.items()))
        table.add_row(f"device {shown(device)}" if device else "at QoS 0/1/2", counts or "nothing yet")
    for window in row["loss_windows"]:
        count = "" if window["messages"] is None else f", {window['messages']} messages"
        span = f"{time_of(window['from_ms'])} to {time_of(window['to_ms'])}"
        table.add_row("may be lost", f"{span}: {window['why']}{count}")
    Console(highlight=False, markup=False).print(table)


def _facts(row: dict[str, Any]) -> list[tuple[str, str]]:
    will = "none seen" if row["will_qos"] is None else f"QoS {row['will_qos']}"
    clean = {None: "not seen", True: "clean", False: "kept"}[row["clean"]]
    keep_alive = "not seen" if row["keep_alive_s"] is None else f"{row['keep_alive_s']} s"
    open_loss = row["loss_open"]
    facts = [
        ("node", shown(row["node"])),
        ("state", _state(row)),
        ("device", shown(" ".join(filter(None, (row["make"], row["model"], row["firmware"])))) or "does not say"),
        ("client id", f"{shown(row['client_id'])} ({row['client_ids']} different in {row['connects']} connections)"),
        ("session", f"{clean}, keep alive {keep_alive}, will {will}"),
        ("bdSeq", f"{row['bd_seq']}, as in the will {row['bdseq_match']} times, another {row['bdseq_differ']} times"),
        ("sequence", f"next {row['next_seq']}, {row['seq_gaps']} gaps"),
        ("rebirths", f"{row['rebirths_answered']} of {row['rebirths_asked']} answered" + _can(row)),
        ("messages", f"{row['late']} late, {row['repeated']} repeated, {row['historical']} historical, "
                     f"{row['unreadable']} unreadable, {row['resends']} sent again after a reconnect"),
    ]  # fmt: skip
    if open_loss is not None:
        facts.append(("may be lost", f"since {time_of(open_loss['from_ms'])}: {open_loss['why']}"))
    return facts


def _can(row: dict[str, Any]) -> str:
    return "" if row["rebirth"] else ", its birth has no Node Control/Rebirth"


def _state(row: dict[str, Any]) -> str:
    if row["connected"]:
        return "online" if row["born"] else "connected"
    return "away"


def _data_qos(qos: dict[str, list[int]]) -> str:
    """The QoS at which data came, several if it did at several."""
    counts = [qos[kind] for kind in ("NDATA", "DDATA") if kind in qos]
    return ", ".join(str(level) for level in (0, 1, 2) if any(count[level] for count in counts)) or "-"
