"""``forebay cert``: a certificate authority of the plant's own."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gateway.certificates import AUTHORITY_DAYS, DAYS, Authority, Issued
from gateway.cli.options import ConfigOption, DataDirOption, settings_from
from gateway.cli.status import JsonOption
from gateway.store.clock import read_clocks

app = typer.Typer(
    help="A private certificate authority: issue, renew and revoke certificates of devices and of the gateway.",
    no_args_is_help=True,
)

FolderOption = Annotated[
    Path | None, typer.Option("--dir", help="Folder of the authority; ca in the data folder when not given.")
]
DaysOption = Annotated[int, typer.Option("--days", min=1, max=36525, help="How long it is valid.")]


def _authority(folder: Path | None, config: Path | None, data_dir: str | None) -> Authority:
    return Authority(folder or settings_from(config, data_dir).data_dir / "ca", read_clocks().wall_ms)


@app.command()
def init(
    name: Annotated[str, typer.Option("--name", help="What the authority is called.")] = "Forebay plant authority",
    days: DaysOption = AUTHORITY_DAYS,
    folder: FolderOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Make the authority: its key, its certificate and an empty revocation list."""
    authority = _authority(folder, config, data_dir)
    authority.create(name, days)
    typer.echo(f'tls.client_ca = "{authority.certificate}"')
    typer.echo(f'tls.crl = "{authority.revocations}"')


@app.command()
def issue(
    name: str,
    server: Annotated[bool, typer.Option("--server", help="For the gateway itself, not for a client.")] = False,
    hosts: Annotated[
        list[str] | None, typer.Option("--host", help="Host name or address that it is for; may be repeated.")
    ] = None,
    days: DaysOption = DAYS,
    folder: FolderOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Issue a certificate; NAME is the user that a client comes in as."""
    files = _authority(folder, config, data_dir).issue(name, server=server, hosts=hosts or (), days=days)
    _told(files, server)


@app.command()
def renew(
    name: str,
    days: DaysOption = DAYS,
    folder: FolderOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Issue the certificate of NAME anew, with a new key; the one before stays valid until its end."""
    authority = _authority(folder, config, data_dir)
    files = authority.renew(name, days)
    _told(files, authority.issued()[-1].server)


@app.command()
def revoke(name: str, folder: FolderOption = None, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Revoke the valid certificates of NAME; who is connected with one stays (forebay user ban closes it)."""
    count = _authority(folder, config, data_dir).revoke(name)
    typer.echo(f"{name}: {count} certificate{'' if count == 1 else 's'} revoked")


@app.command("list")
def list_certificates(
    folder: FolderOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was issued, and until when it is valid."""
    rows = _authority(folder, config, data_dir).issued()
    if as_json:
        typer.echo(json.dumps([one._asdict() for one in rows], indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "for", "hosts", "until", "serial"):
        table.add_column(heading, overflow="fold")
    for one in rows:
        table.add_row(one.name, "server" if one.server else "client", ", ".join(one.hosts), _until(one), one.serial)
    Console(highlight=False, markup=False).print(table)


def _until(one: Issued) -> str:
    if one.revoked:
        return f"revoked {_day(one.revoked)}"
    return _day(one.expires)


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _told(files: tuple[Path, Path], server: bool) -> None:
    if server:
        typer.echo(f'tls.cert = "{files[0]}"')
        typer.echo(f'tls.key = "{files[1]}"')
    else:
        typer.echo(f"certificate {files[0]}, key {files[1]}")
