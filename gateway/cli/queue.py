"""``forebay queue``: what waits for one session, message by message."""

import base64
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import ConfigOption, DataDirOption, settings_from
from gateway.cli.status import JsonOption, size
from gateway.cli.terminal import shown
from gateway.mqtt.packets import PUBLISH
from gateway.mqtt.properties import decode_properties
from gateway.store.queues import QueueError, Waiting, waiting

app = typer.Typer(help="The messages that wait for a session or a shared group.", no_args_is_help=True)

ClientArgument = Annotated[
    str, typer.Argument(metavar="CLIENT", help="Its client id, or $share/GROUP/FILTER.", show_default=False)
]


@app.command()
def peek(
    client_id: ClientArgument,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="So many, the oldest first.")] = 20,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the oldest messages that wait; nothing is taken away."""
    rows = [_row(found) for found in islice(_found(config, data_dir, client_id), count)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False)
    for heading, justify in (("position", "right"), ("topic", "left"), ("qos", "right"), ("bytes", "right")):
        table.add_column(heading, justify="right" if justify == "right" else "left", overflow="fold")
    table.add_column("payload", overflow="fold")
    for row in rows:
        payload = row["payload"] if "payload" in row else f"base64 {row['payload_base64']}"
        short = payload if len(payload) <= 120 else payload[:117] + "..."
        table.add_row(str(row["position"]), shown(row["topic"]), str(row["qos"]), size(row["bytes"]), shown(short))
    Console(highlight=False, markup=False).print(table)


@app.command()
def export(
    client_id: ClientArgument,
    file: Annotated[Path | None, typer.Argument(help="Absent: the output.", show_default=False)] = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Write all messages that wait as JSON, one on a line; nothing is taken away."""
    found = _found(config, data_dir, client_id)
    if file is None:
        _write(found, sys.stdout)
        return
    try:
        with file.open("x", encoding="utf-8") as out:
            count = _write(found, out)
    except FileExistsError:
        raise QueueError(f"{file}: is there already") from None
    except OSError as error:
        raise QueueError(f"{file}: cannot be written: {error.strerror}") from None
    typer.echo(f"{file}: {count} messages")


def _found(config: Path | None, data_dir: str | None, client_id: str) -> Iterator[Waiting]:
    return waiting(settings_from(config, data_dir).data_dir / "forebay.db", client_id)


def _write(found: Iterator[Waiting], out: Any) -> int:
    count = 0
    for one in found:
        out.write(json.dumps(_row(one), ensure_ascii=False) + "\n")
        count += 1
    return count


def _row(found: Waiting) -> dict[str, Any]:
    """What a line of JSON says of a message; payloads that are no text are in base64."""
    message = found.message
    row: dict[str, Any] = {
        "position": message.seq,
        "topic": message.topic.decode("utf-8", "replace"),
        "qos": found.qos,
        "retain": message.retain,
        "bytes": len(message.payload),
    }
    try:
        row["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        row["payload_base64"] = base64.b64encode(message.payload).decode()
    props = message.forwarded()
    if props:
        row["properties"] = _properties(props)
    return row


def _properties(props: bytes) -> dict[str, Any]:
    found = decode_properties(props, 0, len(props), PUBLISH)
    row: dict[str, Any] = {}
    if found.content_type is not None:
        row["content_type"] = found.content_type
    if found.response_topic is not None:
        row["response_topic"] = found.response_topic
    if found.correlation_data is not None:
        row["correlation_data_base64"] = base64.b64encode(found.correlation_data).decode()
    if found.user_properties:
        row["user_properties"] = [list(pair) for pair in found.user_properties]
    return row
