"""``forebay sparkplug check``: what a live edge node does, by requirement, as far as a subscriber sees it."""

import asyncio
import json
import time
from dataclasses import asdict
from typing import Annotated, Final, final

import typer

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
from gateway.cli.terminal import shown
from gateway.cli.user import PasswordFileOption
from gateway.client import Client, Delivery, LostError, Subscription
from sparkplug.actions import Publish
from sparkplug.check.checker import Checker
from sparkplug.check.observed import Published
from sparkplug.check.verdicts import Finding, Outcome
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import encode
from sparkplug.source import REBIRTH
from sparkplug.topic import COMMANDS, NAMESPACE, MessageType, NodeId, TopicError, build, parse

_ROLES: Final = ("edge node", "device", "payload")
_NODE, _OTHERS = "node", "others"  # who published what a subscriber sees is told by the type alone


def _now() -> int:
    """UTC in ms."""
    return time.time_ns() // 1_000_000


@final
class _Watch:
    """The node's messages as the checker wants them."""

    def __init__(self) -> None:
        self.checker = Checker()
        self.messages = 0  # of the node

    def deliver(self, one: Delivery) -> None:
        commands = [type for type in COMMANDS if f"/{type}/" in one.topic]
        self.messages += not commands
        message = Publish(one.topic, one.payload, one.qos, one.retain)
        self.checker.see(Published(_OTHERS if commands else _NODE, _now(), message))
        one.ack()


def check(
    node: Annotated[str, typer.Argument(metavar="GROUP/NODE", help="The edge node.", show_default=False)],
    duration: Annotated[float, typer.Option("--duration", min=0.1, help="Seconds to watch.")] = 60,
    rebirth: Annotated[
        bool, typer.Option("--rebirth", help="Ask the node for a rebirth first: without its births little can be said.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Print what passed and what was not exercised too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 1883,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    tls_ca: TlsOption = None,
) -> None:
    """Watch an edge node and its devices, and check what they publish against Sparkplug's tck-ids.

    Exit code 1 when a MUST is not met, or nothing of the node was seen. What a subscriber does not see (CONNECT, wills,
    subscriptions) is not exercised.
    """
    group, _, name = node.partition("/")
    try:
        request = build(MessageType.NCMD, NodeId(group, name))
        parse(request)
    except TopicError as error:
        raise UsageError(f"{node}: {error}: expected GROUP/NODE") from None
    password = password_of(user, password_file)
    watch = _Watch()
    tls = tls_with(tls_ca)

    async def work() -> None:
        link = Client(host, port, username=user, password=password, tls=tls, deliver=watch.deliver)
        await _run(link, group, name, request if rebirth else None, duration)

    run_client(work())
    findings = [one for one in watch.checker.findings() if one.role in _ROLES]
    _print(node, watch.messages, findings, everything, as_json)
    unmet = any(one.outcome is Outcome.FAIL and one.level == "MUST" for one in findings)
    if unmet or not watch.messages:
        raise typer.Exit(1)


async def _run(link: Client, group: str, node: str, request: str | None, duration_s: float) -> None:
    """Watch for that long. Raises LostError, RefusedError."""
    await link.open()
    filters = [f"{NAMESPACE}/{group}/+/{node}", f"{NAMESPACE}/{group}/+/{node}/+"]
    await link.subscribe([Subscription(one, 2, retain_as_published=True) for one in filters])
    if request is not None:
        metric = Metric(REBIRTH, None, _now(), DataType.Boolean, True)
        await link.send(request, encode(Payload(_now(), [metric]), with_datatypes=False), 0, False)
    try:
        async with asyncio.timeout(duration_s):
            await link.lost.wait()
    except TimeoutError:
        await link.close()
    else:
        raise LostError(link.lost_reason())


def _print(node: str, messages: int, findings: list[Finding], everything: bool, as_json: bool) -> None:
    counts = {outcome: sum(one.outcome is outcome for one in findings) for outcome in Outcome}
    if as_json:
        found = {"node": node, "messages": messages, "counts": counts, "findings": [asdict(one) for one in findings]}
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    for one in findings:
        if one.outcome is Outcome.FAIL or everything:
            typer.echo(f"{one.outcome.upper():13} {one.level:6} {one.id}: {one.what}")
            for evidence in one.evidence:
                typer.echo(f"{'':20} {shown(evidence)}")
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    typer.echo(f"{node}: {messages} messages checked against tck-ids: {said}")
