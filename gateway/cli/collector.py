"""``forebay collector``: let a collector in, with all that its flows need, and say what to type in over there."""

import contextlib
import enum
import json
import secrets
import socket
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.access import Access
from gateway.auth import AuthError, Passwords
from gateway.cli.changing import stamp
from gateway.cli.control import NoBrokerError, ask
from gateway.cli.doctor import OutageOption, seconds_of
from gateway.cli.options import ConfigOption, DataDirOption, UsageError, settings_from
from gateway.cli.status import JsonOption
from gateway.cli.telling import tell_broker
from gateway.core.acl import READ, Rule
from gateway.core.rules import rule_of
from gateway.core.topics import check_filter, split_share
from gateway.doctor.presets import Wanted, is_ours, limits, rows, typed_in
from gateway.settings.collector import PRODUCTS
from gateway.settings.file import check, planned, read, write
from gateway.settings.rows import with_rows, without_rows
from gateway.settings.table import Settings

app = typer.Typer(help="Collectors: their user, rights and session, and their own settings.", no_args_is_help=True)

Product = enum.StrEnum("Product", {name: name for name in PRODUCTS})  # type: ignore[misc]


@app.command()
def add(
    product: Annotated[Product, typer.Argument(help="What kind of program it is.")],
    name: Annotated[str, typer.Argument(help="Its name: the user, and the client id unless --client-id says another.")],
    topics: Annotated[list[str], typer.Option("--topic", "-t", help="A filter that it is to get; may be repeated.")],
    client_id: Annotated[
        str, typer.Option("--client-id", help="Its client id; a pattern with * and ? where it makes up its own.")
    ] = "",
    host: Annotated[str, typer.Option("--host", help="How the collector reaches this gateway.")] = "",
    outage: OutageOption = "8h",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a user with a password (shown once), write the rows of the settings file, print what to set over there."""
    path = _file(config)
    settings = settings_from(config, data_dir)
    if any(rule.name == name for rule in settings.collector):
        raise UsageError(f"{name}: there is such a collector already; forebay collector remove {name} takes it out")
    if product == "factry" and not client_id:
        raise UsageError("a Factry collector derives its client id from its UUID: expected --client-id '*UUID*'")
    for topic in topics:
        if not _is_filter(topic):
            raise UsageError(f"--topic {topic}: expected a topic filter such as line/#")
    address, port = _address(settings)
    wanted = Wanted(
        str(product), name, client_id or name, tuple(topics), host or address, port, seconds_of("--outage", outage)
    )
    low = {key: value for key, value in limits(str(product)).items() if settings.limits().max_inflight < value}
    text = with_rows(path, planned(path, low) if low else read(path), rows(wanted))
    check(path, text)
    passwords = Passwords(settings.passwords)
    if name in passwords.names():
        raise AuthError(f'{settings.passwords}: there is a user "{name}" already')
    password = secrets.token_urlsafe(18)
    _allow(settings, wanted)  # first: a user without rules could do more
    passwords.add(name, password.encode())
    try:
        write(path, text, stamp())
    except BaseException:
        passwords.remove(name)
        _forbid(settings, name)
        raise
    _check(config, data_dir, wanted)
    _tell(settings)
    if as_json:
        told = {"name": name, "client_id": wanted.client_id, "password": password, "set": typed_in(wanted, password)}
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    typer.echo(f"{path}: rows for {name} added{''.join(f', {key} = {value}' for key, value in low.items())}")
    typer.echo("The password is shown this once.\n")
    for line in typed_in(wanted, password):
        typer.echo(line)


@app.command()
def remove(name: str, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Take a collector's user and rows out again; its session stays until forebay sessions remove."""
    path = _file(config)
    settings = settings_from(config, data_dir)
    rule = next((rule for rule in settings.collector if rule.name == name), None)
    if rule is None:
        raise UsageError(f"{name}: no such collector; forebay collector list shows them")
    write(path, without_rows(path, read(path), is_ours(name, rule.client_id)), stamp())
    passwords = Passwords(settings.passwords)
    if name in passwords.names():
        passwords.remove(name)
    _forbid(settings, name)
    _tell(settings)
    typer.echo(f"{name}: removed")


@app.command("list")
def list_collectors(config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """List the collectors that the settings declare."""
    settings = settings_from(config, data_dir)
    found = [_row(settings, rule.name, rule.client_id, rule.product, list(rule.topics)) for rule in settings.collector]
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "kind", "client id", "topics", "user"):
        table.add_column(heading, overflow="fold")
    for row in found:
        user = "yes" if row["user"] else "no"
        table.add_row(row["name"], row["product"], row["client_id"], ", ".join(row["topics"]), user)
    Console(highlight=False, markup=False).print(table)


def _row(settings: Settings, name: str, client_id: str, product: str, topics: list[str]) -> dict[str, Any]:
    user = name in Passwords(settings.passwords).names()
    return {"name": name, "product": product, "client_id": client_id, "topics": topics, "user": user}


def _file(config: Path | None) -> Path:
    if config is None:
        raise UsageError("no settings file to write to: expected --config FILE or FOREBAY_CONFIG")
    return config


def _allow(settings: Settings, wanted: Wanted) -> None:
    """To read its topics, and nothing else: who has a rule of its own may do no more than rules say."""
    access = Access(settings.access_file)
    with access.change():
        for topic in wanted.topics:
            rule = Rule(True, READ, split_share(topic)[1], wanted.name)
            if rule not in access.rules:
                access.rules.append(rule)


def _forbid(settings: Settings, name: str) -> None:
    access = Access(settings.access_file)
    with access.change():
        access.rules = [rule for rule in access.rules if rule.username != name]


def _tell(settings: Settings) -> None:
    """A running broker takes all of it over. Raises RefusedError when it cannot."""
    with contextlib.suppress(NoBrokerError):
        ask(settings.control_socket, {"cmd": "reload"})
    tell_broker(settings)


def _address(settings: Settings) -> tuple[str, int]:
    """How others reach the first listener, as far as this machine can know."""
    host, port = (settings.listen or settings.listeners_tls)[0]
    return (socket.gethostname() if host in ("0.0.0.0", "::") else host), port


def _is_filter(topic: str) -> bool:
    try:
        return check_filter(split_share(topic)[1], 0)
    except ValueError:
        return False


def _check(config: Path | None, data_dir: str | None, wanted: Wanted) -> None:
    """Rows count by the first match: one before ours may win."""
    found = settings_from(config, data_dir, tell=False)
    rule = rule_of(found.limits(), wanted.client_id, wanted.name)
    if rule is not None and not rule.application:
        typer.echo(f"forebay: a [[client_type]] row before makes {wanted.name} a device: move it down", err=True)
