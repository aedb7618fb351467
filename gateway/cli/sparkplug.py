"""``forebay sparkplug``: Sparkplug B payloads and the nodes that send them."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import UsageError
from gateway.cli.sparkplug_check import check
from gateway.cli.sparkplug_nodes import nodes, rebirth
from gateway.cli.sparkplug_republish import republish
from gateway.cli.sparkplug_simulate import simulate
from gateway.cli.sparkplug_watch import watch
from gateway.cli.terminal import metric_value, shown, time_of
from sparkplug.model import Payload, PayloadError
from sparkplug.payload import decode
from sparkplug.plain import plain
from sparkplug.remarks import remarks

app = typer.Typer(help="Sparkplug B: payloads, and the nodes that send them.", no_args_is_help=True)

app.command()(nodes)
app.command()(watch)
app.command()(rebirth)
app.command()(simulate)
app.command()(republish)
app.command()(check)


@app.command("decode")
def decode_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The payload; - = stdin.", show_default=False)],
    hexadecimal: Annotated[bool, typer.Option("--hex", help="The file holds hex digits instead of bytes.")] = False,
    birth: Annotated[
        Path | None,
        typer.Option(
            "--birth", help="NBIRTH or DBIRTH that gives aliases their names and datatypes.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with values as strings, bytes as hex.")] = False,
) -> None:
    """Print what a payload says; what is unusual in it comes on stderr. Exit code 2 when it cannot be decoded."""
    names: dict[int, str] = {}
    types: dict[int | str, int] = {}
    if birth is not None and str(file) == str(birth) == "-":
        raise UsageError("--birth -: expected a file, as stdin is the payload already")
    if birth is not None:
        for metric in _decoded(birth, hexadecimal, types).metrics:
            if metric.name is not None:
                types[metric.name] = metric.datatype
                if metric.alias is not None:
                    types[metric.alias] = metric.datatype
                    names[metric.alias] = metric.name
    payload = _decoded(file, hexadecimal, types)
    for remark in remarks(payload):
        typer.echo(f"forebay: {file}: {shown(remark)}", err=True)
    for metric in payload.metrics:
        if metric.name is None and metric.alias is not None:
            metric.name = names.get(metric.alias)
    if as_json:
        typer.echo(json.dumps(plain(payload), ensure_ascii=False, indent=2))
    else:
        _print(payload)


def _decoded(file: Path, hexadecimal: bool, types: dict[int | str, int]) -> Payload:
    """The file's payload. Raises UsageError."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    if hexadecimal:
        try:
            data = bytes.fromhex(data.decode("ascii"))
        except ValueError:
            raise UsageError(f"{file}: expected hex digits only") from None
    try:
        return decode(data, types=types)
    except PayloadError as error:
        raise UsageError(f"{file}: {shown(str(error))}") from None


def _print(payload: Payload) -> None:
    head = [f"{len(payload.metrics)} metrics", time_of(payload.timestamp)]
    head.insert(0, "no seq" if payload.seq is None else f"seq {payload.seq}")
    if payload.uuid is not None:
        head.append(f"uuid {shown(payload.uuid)}")
    if payload.body is not None:
        head.append(f"body of {len(payload.body)} bytes")
    typer.echo(", ".join(head))
    if not payload.metrics:
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("metric", "alias", "datatype", "value", "time", ""):
        table.add_column(heading, overflow="fold")
    for metric in plain(payload)["metrics"]:
        flags = [name.removeprefix("is_") for name in ("is_historical", "is_transient") if name in metric]
        flags += [name for name in ("metadata", "properties") if name in metric]
        table.add_row(
            shown(metric.get("name", "-")),
            metric.get("alias", "-"),
            str(metric.get("datatype", "-")),
            metric_value(metric),
            time_of(metric.get("timestamp")),
            " ".join(flags),
        )
    Console(highlight=False, markup=False).print(table)
