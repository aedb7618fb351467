"""What the commands that are clients of a broker share: where it is, who they are, and how they end."""

import asyncio
import ssl
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.options import UsageError
from gateway.cli.user import read_password
from gateway.client import Client, LostError, RefusedError
from gateway.hosts import is_host


def _host(text: str) -> str:
    if not is_host(text):
        raise UsageError(f"--host {text}: expected a name or an address")
    return text


HostOption = Annotated[str, typer.Option("--host", "-h", help="The broker.", callback=_host)]
PortOption = Annotated[int, typer.Option("--port", "-p", min=1, max=65535)]
UserOption = Annotated[str | None, typer.Option("--user", "-u", help="User name.", show_default=False)]
TlsOption = Annotated[
    Path | None, typer.Option("--tls-ca", help="Use TLS, and trust the CA in this PEM file.", show_default=False)
]
RetryOption = Annotated[float, typer.Option("--retry", min=0, help="Seconds to try again after a lost connection.")]


def password_of(user: str | None, file: Path | None) -> bytes | None:
    """From where the user's password comes; None without a user. Raises UsageError."""
    if user is None:
        if file is not None:
            raise UsageError("--password-file: expected --user too")
        return None
    return read_password(file, f"Password for {user}")


def tls_with(ca: Path | None) -> ssl.SSLContext | None:
    """TLS with that CA, None without one. Raises UsageError."""
    if ca is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(ca))
    except OSError as error:
        raise UsageError(f"{ca}: cannot be used as a CA: {error.strerror or error}") from None


def run_client(work: Coroutine[object, object, None]) -> None:
    """The whole of a command that is a client; Ctrl-C is an end like another (0), a lost broker 3, a refusal 1."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except LostError as error:
        typer.echo(f"forebay: {error}", err=True)
        raise typer.Exit(3) from None
    except RefusedError as error:
        typer.echo(f"forebay: {error}", err=True)
        raise typer.Exit(1) from None


async def while_open(link: Client, work: Coroutine[object, object, None], retry_s: float) -> None:
    """Do the work, connecting again whenever the connection is lost. Raises what ends it early."""

    async def hold() -> None:
        while True:
            await link.lost.wait()
            typer.echo(f"forebay: {link.lost_reason()}; trying again", err=True)
            await link.reopen(retry_s)

    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(hold())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
