"""``forebay token``: who may ask this gateway from another machine, over HTTPS."""

import json
from typing import Annotated

import typer

from gateway.cli.options import ConfigOption, DataDirOption, settings_from
from gateway.cli.status import JsonOption
from gateway.settings.table import Settings
from gateway.tokens import FILE, READ_ONLY, ROLES, Tokens

app = typer.Typer(
    help="Tokens for commands of other machines: forebay --url https://HOST:PORT --token-file FILE ...",
    no_args_is_help=True,
)

NameArgument = Annotated[str, typer.Argument(help="Whose it is, for people.", show_default=False)]


def _tokens(settings: Settings) -> Tokens:
    tokens = Tokens(settings.data_dir / FILE)
    for line in tokens.damage:
        typer.echo(f"forebay: {line}", err=True)
    return tokens


@app.command()
def add(
    name: NameArgument,
    role: Annotated[str, typer.Option("--role", help=f"{' or '.join(ROLES)}.")] = READ_ONLY,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Make a token and print it, this once: only a hash of it is kept. A running gateway knows it at once."""
    settings = settings_from(config, data_dir)
    typer.echo(_tokens(settings).make(name, role))
    if not settings.http_listen_tls:
        typer.echo("forebay: no HTTPS listener takes it yet: expected http.listen_tls in the settings", err=True)


@app.command("list")
def list_tokens(config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """List whose tokens there are, and what they may do."""
    holders = _tokens(settings_from(config, data_dir)).holders()
    if as_json:
        typer.echo(json.dumps([holder._asdict() for holder in holders], indent=2, ensure_ascii=False))
        return
    for holder in holders:
        typer.echo(f"{holder.name} ({holder.role})")


@app.command()
def revoke(name: NameArgument, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Take a token back: a running gateway refuses it from now on."""
    _tokens(settings_from(config, data_dir)).revoke(name)
    typer.echo(f"{name}: revoked")
