"""``forebay appliance``: what runs on a gateway that was flashed from an image, at its start and on its console."""

import getpass
import subprocess
import sys
import time

import typer

from gateway import __version__
from gateway.access import Access, AccessError
from gateway.appliance.facts import Facts, about, read
from gateway.auth import Passwords
from gateway.cli.changing import stamp
from gateway.cli.control import RefusedError
from gateway.cli.telling import tell_broker
from gateway.provisioning import emergency as emergencies
from gateway.provisioning import setup_code
from gateway.provisioning.applying import ERRORS
from gateway.provisioning.console import Actions, View, addresses, answer, screen
from gateway.provisioning.effects import add_user, hostname
from gateway.provisioning.machine import FAT, PLACES, ask_for_reset, give_all, reboot, start
from gateway.settings.table import SettingsError, Sources, load
from gateway.store.clock import read_clocks

app = typer.Typer(
    help="The gateway as an appliance: first start, console, factory reset.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _facts() -> Facts:
    try:
        found = read()
    except ValueError as error:
        found, why = None, str(error)
    else:
        why = "this machine was not started from an image"
    if found is None:
        typer.echo(f"forebay: {why}", err=True)
        raise typer.Exit(1)
    return found


@app.command()
def provision() -> None:
    """Make the disk this machine's own and put in force what forebay.toml on the card says; run at each start."""
    outcome = start(_facts(), read_clocks().wall_ms, stamp(), lambda line: typer.echo(f"forebay: {line}", err=True))
    if outcome.applied:
        typer.echo(f"forebay: forebay.toml applied, {len(outcome.errors)} errors", err=True)


@app.command()
def console() -> None:
    """Show how to reach this gateway, and do what can be done without a network; runs on screens and serial ports."""
    actions = Actions(_shown, _add_user, reboot, _reset)
    typer.echo(_shown())
    while True:
        try:
            line = _line("> ")
        except EOFError:  # nobody is there
            time.sleep(10)
            continue
        except KeyboardInterrupt:
            continue
        try:
            typer.echo(answer(line, _ask, actions))
        except (OSError, EOFError, AccessError, RefusedError, SettingsError) as error:
            typer.echo(f"forebay: {error}")


@app.command()
def reset(
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
) -> None:
    """Delete all messages, sessions, users and settings of this gateway, and start it again."""
    _facts()
    if not yes:
        typer.confirm("All messages, sessions, users and settings are deleted. Go on?", abort=True)
    _reset()


@app.command()
def emergency() -> None:
    """Say on the consoles why this gateway does not start, and start it again; in place of a shell for root."""
    _facts()
    emergencies.stay(emergencies.show, _leave, reboot)


def _leave(why: str) -> None:
    # in a process of its own, since whatever it meets the machine is to start again
    subprocess.run([sys.executable, "-P", "-m", "gateway", "update", "confirm", "--failed", why], check=False)


def _reset() -> None:
    ask_for_reset()
    reboot()


def _ask(question: str, secret: bool) -> str:
    return getpass.getpass(f"{question}: ") if secret else _line(f"{question}: ")


def _line(prompt: str) -> str:
    """What is typed. Raises EOFError. ``input`` would write its prompt to stderr, which is the journal here."""
    typer.echo(prompt, nl=False)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")


def _add_user(name: str, password: str) -> None:
    add_user(PLACES, name, password, setup_code.ROLE)
    setup_code.withdraw(PLACES.code, Passwords(PLACES.users), Access(PLACES.access))
    give_all()
    tell_broker(load(Sources(PLACES.settings)))


def _shown() -> str:
    facts, notes = _facts(), []
    if not facts.is_writable:
        notes.append(f"data partition {facts.data_state}: {facts.data_reason}")
    if (FAT / ERRORS).exists():
        notes.append(f"forebay.toml has errors: {ERRORS} beside it on the card says which")
    code = setup_code.read(PLACES.code)
    board = str(about().get("board", ""))
    return screen(View(hostname(PLACES), __version__, board, addresses(), code, notes))


if __name__ == "__main__":  # without the other commands it starts faster
    sys.exit(app(prog_name="forebay appliance"))
