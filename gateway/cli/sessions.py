"""``forebay sessions``: who has what waiting."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.cli import watching
from gateway.cli.options import ConfigOption, DataDirOption
from gateway.cli.remote import broker_at
from gateway.cli.status import JsonOption, size, span
from gateway.cli.watching import WatchOption

app = typer.Typer(help="Sessions and shared groups, and what waits for them.", no_args_is_help=True)


@app.command("list")
def list_sessions(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False, watch: WatchOption = 0
) -> None:
    """List the sessions, the longest queue first."""
    broker = broker_at(config, data_dir)
    watching.show(lambda: broker.ask({"cmd": "sessions"}), _table, as_json, watch)


@app.command("watch")
def watch_sessions(
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS")] = 1,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """The list of sessions, again and again until Ctrl-C."""
    list_sessions(config, data_dir, as_json, every)


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("client id", overflow="fold")
    for heading in ("state", "queued", "bytes", "oldest", "in flight", "empty in", "dropped", "ends"):
        table.add_column(heading, justify="left" if heading in ("state", "ends") else "right")
    for row in sorted(rows, key=lambda row: (-int(row["queue_messages"]), str(row["client_id"]))):
        table.add_row(
            row["client_id"],
            _state(row),
            str(row["queue_messages"]),
            size(row["queue_bytes"]),
            span(row["oldest_ms"]) if row["queue_messages"] else "",
            f"{row['inflight']}/{row['window']}",
            "" if row.get("eta_s") is None else span(row["eta_s"] * 1000),
            str(sum(row["drops"].values())),
            _end(row),
        )
    return table


@app.command()
def show(
    client_id: str, config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False
) -> None:
    """Show one session with its subscriptions."""
    row = broker_at(config, data_dir).ask({"cmd": "session", "client_id": client_id})
    if as_json:
        typer.echo(json.dumps(row, indent=2, ensure_ascii=False))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("client id", row["client_id"])
    table.add_row("state", _state(row))
    if row.get("path"):
        table.add_row("path", row["path"])
    table.add_row("ends", _end(row))
    table.add_row(
        "queued", f"{row['queue_messages']} messages, {size(row['queue_bytes'])}, oldest {span(row['oldest_ms'])}"
    )
    if row.get("drained_s") is not None:
        end = "no end in sight" if row["eta_s"] is None else f"empty in {span(row['eta_s'] * 1000)}"
        pace = f" (at most {row['drain_rate']})" if row["drain_rate"] else ""
        table.add_row("drains", f"{row['drained_s']} messages/s{pace}, {end}")
    table.add_row("in flight", f"{row['inflight']} of {row['window']}, {row['awaiting_rel']} incoming QoS 2 open")
    table.add_row("dropped", ", ".join(f"{reason} {count}" for reason, count in sorted(row["drops"].items())) or "none")
    ranks = row.get("priorities", [])
    for rank in ranks if len(ranks) > 1 else []:
        table.add_row(
            f"priority {rank['priority']}" if rank["priority"] else "other topics",
            f"{rank['queue_messages']} messages, {size(rank['queue_bytes'])}, {rank['dropped']} dropped",
        )
    for subscription in row["subscriptions"]:
        table.add_row("subscription", f"{subscription['filter']} (QoS {subscription['qos']})")
    Console(highlight=False, markup=False).print(table)


@app.command()
def remove(client_id: str, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """End a session: disconnect its client, drop its subscriptions and what waits for it."""
    broker_at(config, data_dir).ask({"cmd": "remove", "client_id": client_id})
    typer.echo(f"{client_id}: removed")


def _state(row: dict[str, Any]) -> str:
    if row["kind"] == "group":
        return "shared group"
    return f"connected from {row['peer']} ({row['version']})" if row["connected"] else "away"


def _end(row: dict[str, Any]) -> str:
    if not row["persistent"]:
        return "with the connection"
    if row["expires_in_ms"] is None or row["expiry_s"] == 0xFFFFFFFF:
        return "never"
    return (
        f"in {span(row['expires_in_ms'])}"
        if not row["connected"]
        else f"{span(row['expiry_s'] * 1000)} after it leaves"
    )
