"""``forebay sparkplug republish``: what edge nodes said here, said elsewhere by one edge node of our own."""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from gateway.bridge.republish_state import StateFileError, load
from gateway.bridge.republishing import Place, Republishing
from gateway.cli.connecting import (
    HostOption,
    PortOption,
    RetryOption,
    TlsOption,
    UserOption,
    password_of,
    run_client,
    tls_with,
)
from gateway.cli.options import ConfigOption, UsageError, settings_from
from gateway.cli.uplink_trial import uplink_named
from gateway.cli.user import PasswordFileOption
from gateway.core.limits import NEVER
from gateway.settings.kinds import Duration
from sparkplug.model import PayloadError
from sparkplug.republish import Republisher
from sparkplug.topic import NAMESPACE, NodeId, TopicError, check_id

ToOption = Annotated[str | None, typer.Option("--to", help="The destination broker.", show_default=False)]
UplinkOption = Annotated[
    str | None,
    typer.Option("--uplink", metavar="NAME", help="The broker of this uplink in --config instead.", show_default=False),
]
ToPortOption = Annotated[int, typer.Option("--to-port", min=1, max=65535)]
ToUserOption = Annotated[str | None, typer.Option("--to-user", help="User name there.", show_default=False)]
ToPasswordFileOption = Annotated[
    Path | None, typer.Option("--to-password-file", help="Its password, first line.", show_default=False)
]
ToTlsOption = Annotated[
    Path | None, typer.Option("--to-tls-ca", help="TLS there, with this CA (PEM).", show_default=False)
]
StateOption = Annotated[Path, typer.Option("--state", help="File for bdSeq and births.", show_default=False)]
PrimaryOption = Annotated[
    str | None, typer.Option("--primary-host", help="Wait for this host to be online there.", show_default=False)
]
SourceOption = Annotated[
    list[str] | None, typer.Option("--source", metavar="GROUP[/NODE]", help="Only these; may be repeated.")
]
RateOption = Annotated[float, typer.Option("--rate", min=0, help="Messages of the backlog a second; 0 = no limit.")]
LiveOption = Annotated[float, typer.Option("--live", min=0, help="Seconds; what came before is backlog.")]
ExpiryOption = Annotated[str, typer.Option("--expiry", help="How long our session here waits: 2h, 7d, never.")]


def republish(
    node: Annotated[str, typer.Argument(metavar="GROUP/NODE", help="Our edge node.", show_default=False)],
    state: StateOption,
    to: ToOption = None,
    uplink: UplinkOption = None,
    config: ConfigOption = None,
    to_port: ToPortOption = 1883,
    to_user: ToUserOption = None,
    to_password_file: ToPasswordFileOption = None,
    to_tls_ca: ToTlsOption = None,
    primary_host: PrimaryOption = None,
    source: SourceOption = None,
    rate: RateOption = 200,
    live: LiveOption = 10,
    commands: Annotated[bool, typer.Option("--commands", help="Pass commands on to the sources.")] = False,
    expiry: ExpiryOption = "7d",
    keep_alive: Annotated[int, typer.Option("--keep-alive", min=1, max=65535, help="Seconds.")] = 30,
    duration: Annotated[float | None, typer.Option("--duration", min=0, help="Leave after so many seconds.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 1883,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    tls_ca: TlsOption = None,
    retry: RetryOption = 60,
) -> None:
    """Publish what the edge nodes of this gateway say as the devices of one edge node at another broker.

    Births first, then live values, then what has waited, as historical with its own timestamps. Until Ctrl-C.
    """
    id = _node_id("GROUP/NODE", node)
    if primary_host is not None:
        _check("--primary-host", primary_host)
    expiry_s = _seconds(expiry)
    filters = [_filter(one) for one in source or ()] or [f"{NAMESPACE}/#"]
    if to_user is None and to_password_file is not None:
        raise UsageError("--to-password-file: expected --to-user too")
    if (to is None) == (uplink is None):
        raise UsageError("expected either --to HOST or --uplink NAME")
    name, password = f"{id.group}-{id.node}", password_of(user, password_file)
    here = Place(host, port, f"forebay-republish-{name}", user, password, tls_with(tls_ca), keep_alive)
    if to is not None:
        password = password_of(to_user, to_password_file)
        there = [Place(to, to_port, f"forebay-edge-{name}", to_user, password, tls_with(to_tls_ca), keep_alive)]
    else:
        there = _of_uplink(str(uplink), config, f"forebay-edge-{name}")
    try:
        known = load(state)
        machine = Republisher(
            id, bd_seq=known.bd_seq, primary_host=primary_host, rate=rate, live_ms=int(live * 1000), commands=commands
        )
        machine.restore(known.births, time.time_ns() // 1_000_000)
        run_client(_run(machine, here, there, filters, state, expiry_s, retry, duration, as_json))
    except StateFileError as error:
        raise UsageError(str(error)) from None
    except (TopicError, PayloadError) as error:
        raise UsageError(f"{state}: a birth in it cannot be read: {error}") from None


def _of_uplink(name: str, config: Path | None, client_id: str) -> list[Place]:
    """Its addresses, with its user and certificates. Raises UsageError and SettingsError."""
    from gateway.uplink.dial import DialError, tls_context
    from gateway.uplink.login import password_of as password_there

    row = uplink_named(settings_from(config, None).uplink, name)
    for remote in row.addresses:
        if remote.websocket:
            raise UsageError(f"uplink {name}: {remote}: expected mqtt:// or mqtts:// for an edge node")
    try:
        tls = tls_context(row) if any(remote.tls for remote in row.addresses) else None
        user, password = row.user or None, password_there(row)
    except DialError as error:
        raise UsageError(f"uplink {name}: {error}") from None
    return [
        Place(one.host, one.port, client_id, user, password, tls if one.tls else None, row.keep_alive_s)
        for one in row.addresses
    ]


async def _run(
    machine: Republisher, here: Place, there: list[Place], filters: list[str], state: Path, expiry_s: int,
    retry_s: float, duration_s: float | None, as_json: bool,
) -> None:  # fmt: skip
    """To the end, then the summary. Raises LostError, RefusedError, StateFileError."""
    running = Republishing(
        machine, here, there[0], filters=filters, state=state, expiry_s=expiry_s, retry_s=retry_s, others=there[1:]
    )  # fmt: skip
    start, loop = time.monotonic(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, running.stop)
    stopping = None if duration_s is None else loop.call_later(duration_s, running.stop)
    try:
        await running.run()
    finally:
        if stopping is not None:
            stopping.cancel()
        totals = running.totals
        summary = {
            "taken": totals.taken,
            **{kind: totals.sent[kind] for kind in ("NBIRTH", "DBIRTH", "DDATA", "DDEATH", "NDEATH")},
            "sessions": totals.sessions,
            "lost": totals.lost,
            "commands": totals.commands,
            "refused": machine.refused,
            "waiting": machine.waiting,
            "seconds": round(time.monotonic() - start, 1),
        }
        typer.echo(json.dumps(summary) if as_json else ", ".join(f"{name} {value}" for name, value in summary.items()))


def _seconds(expiry: str) -> int:
    span = Duration(1, words={"never": NEVER})
    try:
        return span.parse(expiry)
    except ValueError:
        raise UsageError(f'--expiry "{expiry}": expected {span.allowed}') from None


def _check(what: str, id: str) -> str:
    try:
        return check_id(what, id)
    except TopicError as error:
        raise UsageError(f"{error}: expected text without + / #") from None


def _node_id(what: str, text: str) -> NodeId:
    group, slash, node = text.partition("/")
    if not slash:
        raise UsageError(f'{what} "{text}": expected two ids with a / between them')
    return NodeId(_check(what, group), _check(what, node))


def _filter(text: str) -> str:
    """The topics of a group, or of one of its nodes."""
    if "/" not in text:
        return f"{NAMESPACE}/{_check('--source', text)}/#"
    id = _node_id("--source", text)
    return f"{NAMESPACE}/{id.group}/+/{id.node}/#"
