"""The command ``forebay``. Exit codes: 0 done, 1 refused or failed, 2 bad usage or settings, 3 no broker is running,
4 the doctor says that messages are lost.
"""

import sys
from pathlib import Path
from typing import Annotated, Any, final

import typer
from typer.core import TyperGroup

from gateway import __version__
from gateway.access import AccessError
from gateway.auth import AuthError
from gateway.certificates import CertificateError
from gateway.cli import (
    acl,
    appliance,
    backup,
    board,
    cert,
    collect,
    collector,
    config,
    image,
    ladder,
    probe,
    profile,
    pubsub,
    queue,
    safe_mode,
    service,
    sessions,
    sparkplug,
    token,
    update,
    uplink,
    user,
)
from gateway.cli.consume import consume
from gateway.cli.control import NoBrokerError, RefusedError
from gateway.cli.doctor import doctor
from gateway.cli.image_bundle import bundle_command
from gateway.cli.image_flash import flash_command
from gateway.cli.options import UsageError
from gateway.cli.remote import Remote, check_command, choose
from gateway.cli.run import run
from gateway.cli.size import size_command
from gateway.cli.status import status
from gateway.cli.web import web
from gateway.service import ServiceError
from gateway.settings.table import SettingsError
from gateway.store.backup import BackupError
from gateway.store.errors import StoreError
from gateway.store.queues import QueueError
from gateway.tokens import TokenError


@final
class Commands(TyperGroup):
    """The root, which knows what goes over HTTPS."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if ctx.params.get("url") and args:
            inner = isinstance(self.commands.get(args[0]), TyperGroup)
            if not inner or (len(args) > 1 and not args[1].startswith("-")):
                check_command(args[: 2 if inner else 1])
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    help="An MQTT 3.1.1 and 5.0 gateway broker that keeps what it acknowledges.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(status)
app.command()(web)
app.command()(backup.backup)
app.command("restore")(backup.restore_backup)
app.command()(doctor)
app.command("board")(board.board_command)
app.command("size")(size_command)
app.command()(pubsub.pub)
app.command()(pubsub.sub)
app.command()(collect.collect)
app.command()(consume)
app.add_typer(sessions.app, name="sessions")
app.add_typer(service.app, name="service")
app.add_typer(queue.app, name="queue")
app.add_typer(uplink.app, name="uplink")
app.add_typer(safe_mode.app, name="safe-mode")
app.add_typer(user.app, name="user")
app.add_typer(collector.app, name="collector")
app.add_typer(token.app, name="token")
app.add_typer(acl.app, name="acl")
app.add_typer(cert.app, name="cert")
app.add_typer(config.app, name="config")
app.add_typer(profile.app, name="profile")
app.add_typer(sparkplug.app, name="sparkplug")
app.add_typer(appliance.app, name="appliance")
app.add_typer(image.app, name="image")
app.add_typer(update.app, name="update")
sparkplug.app.command()(ladder.ladder)
sparkplug.app.command()(ladder.upgrade)
sparkplug.app.command()(probe.probe)
image.app.command("bundle")(bundle_command)
image.app.command("flash")(flash_command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"forebay {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    url: Annotated[
        str, typer.Option(metavar="https://HOST:PORT", help="Ask the gateway there, not the one of this machine.")
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For --url: holds a token of that gateway.", show_default=False)
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="For --url: only a certificate that this one signed is taken; PEM.", show_default=False
        ),
    ] = None,
) -> None:
    if not url and (token_file is not None or ca is not None):
        raise UsageError("--token-file and --ca: expected --url https://HOST:PORT as well")
    choose(Remote(url, token_file, ca) if url else None)


def main() -> None:
    """Run the command and exit; an expected failure is one line on stderr."""
    try:
        sys.exit(app(prog_name="forebay", standalone_mode=False) or 0)
    except typer.TyperException as error:
        _leave(error.exit_code, error.format_message().replace("\n", " "))
    except (SettingsError, UsageError) as error:
        _leave(2, error)
    except typer.Abort:
        _leave(1, "stopped")
    except NoBrokerError as error:
        _leave(3, error)
    except (
        RefusedError,
        AuthError,
        AccessError,
        CertificateError,
        StoreError,
        BackupError,
        QueueError,
        TokenError,
        ServiceError,
    ) as error:
        _leave(1, error)
    except OSError as error:
        _leave(1, f"{error.filename}: {error.strerror}" if error.filename else error.strerror or error)


def _leave(code: int, error: Exception | str) -> None:
    typer.echo(f"forebay: {error}", err=True)
    sys.exit(code)
