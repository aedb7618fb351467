"""``forebay user``: who may connect with a password."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from gateway.auth import Passwords
from gateway.cli.options import ConfigOption, DataDirOption, UsageError, settings_from

app = typer.Typer(help="Users with passwords. A running broker takes changes over at SIGHUP.", no_args_is_help=True)

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


def _passwords(config: Path | None, data_dir: str | None) -> Passwords:
    passwords = Passwords(settings_from(config, data_dir).passwords)
    for line in passwords.damage:
        typer.echo(f"forebay: {line}", err=True)
    return passwords


@app.command()
def add(
    name: str, password_file: PasswordFileOption = None, config: ConfigOption = None, data_dir: DataDirOption = None
) -> None:
    """Add a user or change the password, which comes from --password-file, FOREBAY_PASSWORD or the terminal."""
    passwords = _passwords(config, data_dir)
    password = read_password(password_file, f"Password for {name}")
    if password is None:
        raise UsageError("no terminal to ask for a password: expected --password-file or FOREBAY_PASSWORD")
    typer.echo(f"{name}: {'added' if passwords.add(name, password) else 'password changed'}")


@app.command()
def remove(name: str, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Remove a user."""
    _passwords(config, data_dir).remove(name)
    typer.echo(f"{name}: removed")


@app.command("list")
def list_users(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """List the users."""
    for name in _passwords(config, data_dir).names():
        typer.echo(name)
