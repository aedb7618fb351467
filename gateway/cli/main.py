"""The command ``forebay``. Exit codes: 0 done, 1 refused or failed, 2 bad usage or settings, 3 no broker is running,
4 the doctor says that messages are lost.
"""

import sys
from typing import Annotated

import typer

from gateway import __version__
from gateway.access import AccessError
from gateway.auth import AuthError
from gateway.certificates import CertificateError
from gateway.cli import (
    acl,
    backup,
    cert,
    collect,
    collector,
    config,
    ladder,
    probe,
    profile,
    pubsub,
    queue,
    sessions,
    sparkplug,
    uplink,
    user,
)
from gateway.cli.consume import consume
from gateway.cli.control import NoBrokerError, RefusedError
from gateway.cli.doctor import doctor
from gateway.cli.options import UsageError
from gateway.cli.run import run
from gateway.cli.size import size_command
from gateway.cli.status import status
from gateway.cli.web import web
from gateway.settings import SettingsError
from gateway.store.backup import BackupError
from gateway.store.errors import StoreError
from gateway.store.queues import QueueError

app = typer.Typer(
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
app.command("size")(size_command)
app.command()(pubsub.pub)
app.command()(pubsub.sub)
app.command()(collect.collect)
app.command()(consume)
app.add_typer(sessions.app, name="sessions")
app.add_typer(queue.app, name="queue")
app.add_typer(uplink.app, name="uplink")
app.add_typer(user.app, name="user")
app.add_typer(collector.app, name="collector")
app.add_typer(acl.app, name="acl")
app.add_typer(cert.app, name="cert")
app.add_typer(config.app, name="config")
app.add_typer(profile.app, name="profile")
app.add_typer(sparkplug.app, name="sparkplug")
sparkplug.app.command()(ladder.ladder)
sparkplug.app.command()(ladder.upgrade)
sparkplug.app.command()(probe.probe)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"forebay {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


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
    except (RefusedError, AuthError, AccessError, CertificateError, StoreError, BackupError, QueueError) as error:
        _leave(1, error)


def _leave(code: int, error: Exception | str) -> None:
    typer.echo(f"forebay: {error}", err=True)
    sys.exit(code)
