"""``forebay user``: who may connect, and in which role."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.access import Access, Ban, read_ban
from gateway.auth import Passwords
from gateway.cli.control import NoBrokerError
from gateway.cli.options import ConfigOption, DataDirOption, UsageError, settings_from
from gateway.cli.remote import broker_at, is_remote
from gateway.cli.status import JsonOption, span
from gateway.cli.telling import tell_broker
from gateway.core.acl import ROLES
from gateway.settings.table import Settings

app = typer.Typer(
    help="Users, their roles, and who is banned. A running broker takes changes over at once.", no_args_is_help=True
)

PasswordFileOption = Annotated[
    Path | None, typer.Option("--password-file", help="Read the password from the first line of this file; - = stdin.")
]


def read_password(file: Path | None, prompt: str) -> bytes | None:
    """The password from the file, else FOREBAY_PASSWORD, else asked for at a terminal; None when there is no way."""
    if file is not None:
        try:
            data = sys.stdin.buffer.readline() if str(file) == "-" else file.read_bytes()
        except OSError as error:
            raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
        return data.split(b"\n", 1)[0].rstrip(b"\r")
    if "FOREBAY_PASSWORD" in os.environ:
        return os.environb[b"FOREBAY_PASSWORD"]
    if prompt and sys.stdin.isatty():
        return str(typer.prompt(prompt, hide_input=True, err=True)).encode()
    return None


ROLE_HELP = f"{', '.join(ROLES)}, or one that rules name; none = no role."
RoleOption = Annotated[str | None, typer.Option("--role", help=ROLE_HELP)]
ClientIdOption = Annotated[str, typer.Option("--client-id", help="A client id; * and ? stand for others.")]
AddressOption = Annotated[str, typer.Option("--address", help="An address or network, such as 10.0.0.0/24.")]


def _passwords(settings: Settings) -> Passwords:
    passwords = Passwords(settings.passwords)
    for line in passwords.damage:
        typer.echo(f"forebay: {line}", err=True)
    return passwords


def set_role(settings: Settings, name: str, role: str | None) -> None:
    """What ``--role`` says; None = as it is, "none" = none. Raises UsageError and AccessError."""
    if role is None:
        return
    access = Access(settings.access_file)
    known = {*ROLES, "none", *(rule.role for rule in settings.acl + access.rules if rule.role)}
    if role not in known:
        raise UsageError(f"--role {role}: expected one of {', '.join(sorted(known))}")
    with access.change():
        access.roles.pop(name, None)
        if role != "none":
            access.roles[name] = role


@app.command()
def add(
    name: str,
    password_file: PasswordFileOption = None,
    role: RoleOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Add a user or change the password, which comes from --password-file, FOREBAY_PASSWORD or the terminal."""
    settings = settings_from(config, data_dir)
    passwords = _passwords(settings)
    password = read_password(password_file, f"Password for {name}")
    if password is None:
        raise UsageError("no terminal to ask for a password: expected --password-file or FOREBAY_PASSWORD")
    set_role(settings, name, role)  # first: a user without the role could do more
    typer.echo(f"{name}: {'added' if passwords.add(name, password) else 'password changed'}")
    tell_broker(settings)


@app.command()
def remove(name: str, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Remove a user, with its role."""
    settings = settings_from(config, data_dir)
    _passwords(settings).remove(name)
    if name in Access(settings.access_file).roles:
        set_role(settings, name, "none")
    typer.echo(f"{name}: removed")
    tell_broker(settings)


@app.command("list")
def list_users(config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """List the users, and their roles; those with a role and no password come with a certificate."""
    settings = settings_from(config, data_dir)
    names, roles = _passwords(settings).names(), Access(settings.access_file).roles
    rows = [{"user": name, "role": roles.get(name), "password": True} for name in names]
    rows += [{"user": name, "role": role, "password": False} for name, role in roles.items() if name not in names]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        typer.echo(f"{row['user']} ({row['role']})" if row["role"] else row["user"])


@app.command("role")
def give_role(
    name: str,
    role: Annotated[str, typer.Argument(help=ROLE_HELP)],
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Give a user a role; users that come with a certificate have one too."""
    settings = settings_from(config, data_dir)
    set_role(settings, name, role)
    typer.echo(f"{name}: {role if role != 'none' else 'no role'}")
    tell_broker(settings)


@app.command()
def ban(
    name: Annotated[str, typer.Argument(help="A user; * and ? stand for others.", show_default=False)] = "",
    client_id: ClientIdOption = "",
    address: AddressOption = "",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Keep a user, a client id or an address out, until it is unbanned; who is connected is closed."""
    settings = settings_from(config, data_dir)
    banned = _ban(name, client_id, address)
    access = Access(settings.access_file)
    with access.change():
        if banned not in access.bans:
            access.bans.append(banned)
    typer.echo(f"{banned.value}: banned")
    tell_broker(settings)


@app.command()
def unban(
    name: Annotated[str, typer.Argument(help="A user, as it was banned.", show_default=False)] = "",
    client_id: ClientIdOption = "",
    address: AddressOption = "",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Take a ban back, one for coming and going too often as well."""
    settings = settings_from(config, data_dir)
    banned = _ban(name, client_id, address)
    lifted = client_id in [row["client_id"] for row in _running(config, data_dir)["flapping"]]
    if lifted:
        broker_at(config, data_dir).ask({"cmd": "unban", "client_id": client_id})
    access = Access(settings.access_file)
    if banned in access.bans or not lifted:
        with access.change():
            if banned not in access.bans:
                raise UsageError(f"{banned.value}: expected a {banned.kind} in forebay user bans")
            access.bans.remove(banned)
    typer.echo(f"{banned.value}: no longer banned")
    tell_broker(settings)


@app.command()
def bans(config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """List who is banned, also for a while for coming and going too often."""
    running = _running(config, data_dir)
    rows: list[dict[str, Any]] = running["bans"]
    if not is_remote():  # what the file says, whether a broker runs or not
        rows = [{banned.kind: banned.value} for banned in Access(settings_from(config, data_dir).access_file).bans]
    if as_json:
        typer.echo(json.dumps(rows + running["flapping"], indent=2, ensure_ascii=False))
        return
    for row in rows:
        for kind, value in row.items():
            typer.echo(f"{kind} {value}")
    for row in running["flapping"]:
        left = span(row["left_s"] * 1000)
        typer.echo(f"client_id {row['client_id']} came too often from {' and '.join(row['addresses'])}: {left} left")


def _running(config: Path | None, data_dir: str | None) -> dict[str, Any]:
    """What the running broker says of bans; nothing where none runs."""
    try:
        found: dict[str, Any] = broker_at(config, data_dir).ask({"cmd": "bans"})
    except NoBrokerError:
        if is_remote():
            raise
        return {"bans": [], "flapping": []}
    return found


def _ban(name: str, client_id: str, address: str) -> Ban:
    given = {"username": name, "client_id": client_id, "address": address}
    said = {kind: value for kind, value in given.items() if value}
    if len(said) != 1:
        raise UsageError("expected one of a user, --client-id and --address")
    try:
        return read_ban(said)
    except ValueError:
        raise UsageError(f"--address {address}: expected an address or network such as 10.0.0.0/24") from None
