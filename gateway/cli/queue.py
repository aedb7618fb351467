"""``forebay queue``: what waits for one session, message by message."""

import asyncio
import base64
import json
import sys
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gateway.cli.connecting import (
    HostOption,
    PortOption,
    RetryOption,
    TlsOption,
    UserOption,
    password_of,
    run_client,
    tls_with,
    while_open,
)
from gateway.cli.options import ConfigOption, DataDirOption, settings_from
from gateway.cli.remote import broker_at
from gateway.cli.status import JsonOption, size
from gateway.cli.terminal import shown
from gateway.cli.user import PasswordFileOption
from gateway.client import Client, RefusedError
from gateway.core.envelope import PREFIX
from gateway.mqtt.packets import PUBLISH, Properties
from gateway.mqtt.properties import decode_properties
from gateway.store.queues import QueueError, Waiting, waiting

_OURS: Final = PREFIX.decode()


class Exported(NamedTuple):
    """A message of a line that ``export`` wrote."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties


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


@app.command()
def drop(
    client_id: ClientArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Drop all that waits for a session that is away; it stays, and so do its subscriptions."""
    broker = broker_at(config, data_dir)
    row = broker.ask({"cmd": "session", "client_id": client_id})
    if not yes:
        typer.confirm(f"Drop {row['queue_messages']} messages of {client_id} for good?", abort=True, err=True)
    dropped = broker.ask({"cmd": "discard", "client_id": client_id})
    typer.echo(f"{client_id}: {dropped} messages dropped")


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="What export wrote.", show_default=False)],
    prefix: Annotated[str, typer.Option("--prefix", help="Goes before each topic, such as replay/.")] = "",
    host: HostOption = "127.0.0.1",
    port: PortOption = 1883,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    tls_ca: TlsOption = None,
    retry: RetryOption = 60,
) -> None:
    """Publish exported messages again, in their order, and end when the broker has all of them."""
    messages = list(_messages(file, prefix))
    password = password_of(user, password_file)

    async def work() -> None:
        link = Client(host, port, username=user, password=password, tls=tls_with(tls_ca))
        await link.open()
        try:
            await while_open(link, _publish_all(link, messages), retry)
        finally:
            await link.close(end_session=True)

    run_client(work())
    typer.echo(f"{file}: {len(messages)} messages published")


async def _publish_all(link: Client, messages: list[Exported]) -> None:
    with Progress(console=Console(stderr=True), transient=True) as bar:
        sent: deque[asyncio.Future[int]] = deque()
        for one in bar.track(messages, description="published"):
            sent.append(await link.send(one.topic, one.payload, max(one.qos, 1), one.retain, one.properties))
            while sent and sent[0].done():
                _judge(link, sent.popleft().result())
        for future in sent:
            _judge(link, await future)


def _judge(link: Client, code: int) -> None:
    if code >= 0x80:
        raise RefusedError(f"{link.where}: a message was refused (reason code 0x{code:02x})")


def _messages(file: Path, prefix: str) -> Iterator[Exported]:
    number = 0
    try:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                number += 1
                yield _read(json.loads(line), prefix)
    except OSError as error:
        raise QueueError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise QueueError(f"{file}: line {number}: expected a message as forebay queue export writes it") from None


def _read(row: dict[str, Any], prefix: str) -> Exported:
    payload = base64.b64decode(row["payload_base64"]) if "payload_base64" in row else str(row["payload"]).encode()
    found, properties = row.get("properties", {}), Properties()
    properties.content_type = found.get("content_type")
    properties.response_topic = found.get("response_topic")
    if "correlation_data_base64" in found:
        properties.correlation_data = base64.b64decode(found["correlation_data_base64"])
    # what the gateway added is not the publisher's
    properties.user_properties = [
        (str(key), str(value)) for key, value in found.get("user_properties", []) if not key.startswith(_OURS)
    ]
    topic, qos = prefix + row["topic"], int(row["qos"])
    if not topic or "+" in topic or "#" in topic or qos not in (0, 1, 2):
        raise ValueError
    return Exported(topic, payload, qos, bool(row["retain"]), properties)


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
