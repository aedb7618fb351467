"""``forebay sparkplug watch``: the values of nodes as they come, with the names that their births gave them."""

import asyncio
import json
from typing import Annotated, Any, final

import typer

from gateway.bridge.naming import Names
from gateway.cli.connecting import (
    HostOption,
    PortOption,
    TlsOption,
    UserOption,
    password_of,
    run_client,
    tls_with,
)
from gateway.cli.options import UsageError
from gateway.cli.terminal import metric_value, shown, time_of
from gateway.cli.user import PasswordFileOption
from gateway.client import Client, Delivery, LostError, Subscription
from sparkplug.model import PayloadError
from sparkplug.plain import plain
from sparkplug.topic import CERTIFICATES, MessageType, TopicError, check_id


def watch(
    node: Annotated[str, typer.Argument(help="Only this one: GROUP/EDGE_NODE, or a GROUP.")] = "",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Leave after so many messages.")] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", "-w", min=0, help="Leave after so many seconds.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each message.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 1883,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    tls_ca: TlsOption = None,
) -> None:
    """Print what nodes and devices say, named by their births, until Ctrl-C."""
    filter = f"spBv1.0/{_below(node)}"
    password = password_of(user, password_file)

    async def work() -> None:
        screen = _Screen(count, as_json)
        link = Client(host, port, username=user, password=password, tls=tls_with(tls_ca), deliver=screen)
        await link.open()
        try:
            await link.subscribe([Subscription(CERTIFICATES + filter, 0)])  # the births that are in force come first
            await link.subscribe([Subscription(filter, 0)])
            losing, ending = asyncio.ensure_future(link.lost.wait()), asyncio.ensure_future(screen.ended.wait())
            await asyncio.wait({losing, ending}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            lost = losing.done() and not ending.done()
            losing.cancel()
            ending.cancel()
            if lost:
                raise LostError(link.lost_reason())
        finally:
            await link.close()

    run_client(work())


def _below(node: str) -> str:
    """The part of a filter for a node, a group or all. Raises UsageError."""
    if not node:
        return "#"
    group, slash, edge = node.partition("/")
    try:
        check_id("the group", group)
        if slash:
            check_id("the edge node", edge)
    except TopicError as error:
        raise UsageError(f"{node}: {error}") from None
    return f"{group}/+/{edge}/#" if slash else f"{group}/#"


@final
class _Screen:
    """Takes messages and prints them; ``ended`` when there were ``count``."""

    def __init__(self, count: int | None, as_json: bool) -> None:
        self.ended = asyncio.Event()
        self._left = count
        self._as_json = as_json
        self._names = Names()

    def __call__(self, one: Delivery) -> None:
        if self.ended.is_set():
            return
        try:
            found = self._names.read(one.topic, one.payload)
        except (TopicError, PayloadError) as error:
            typer.echo(f"forebay: {shown(one.topic)}: {shown(str(error))}", err=True)
            return
        if one.topic.startswith(CERTIFICATES) or found is None:
            return
        kind, node, device, content = found
        said = plain(content)
        if self._as_json:
            typer.echo(json.dumps({"node": node, "device": device, "type": kind.value, **said}, ensure_ascii=False))
        else:
            self._print(kind, node if device is None else f"{node}/{device}", said)
        if kind is MessageType.NDEATH:
            self._names.forget(node)
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.ended.set()

    def _print(self, kind: MessageType, who: str, said: dict[str, Any]) -> None:
        typer.echo(f"{time_of(said.get('timestamp'))} {kind.value} {shown(who)} seq {said['seq']}")
        for metric in said["metrics"]:
            name = metric.get("name") or f"alias {metric.get('alias', '?')}"
            history = " (historical)" if metric.get("is_historical") else ""
            typer.echo(f"    {shown(name)} = {metric_value(metric)}{history}")
