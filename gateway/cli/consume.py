"""``forebay consume``: runs a consumer program until it is told to stop."""

import asyncio
import importlib
import json
import logging
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.options import UsageError

if TYPE_CHECKING:
    from gateway.consumer.app import Consumer

_FORMS = ("text", "json")


def consume(
    program: Annotated[str, typer.Argument(metavar="MODULE:APP", help="The module, and the Consumer in it.")],
    log: Annotated[str, typer.Option("--log", metavar="text|json", help="The form of log lines.")] = "text",
    metrics: Annotated[
        int | None,
        typer.Option(
            "--metrics",
            min=1,
            max=65535,
            help="Serve Prometheus metrics on this port of 127.0.0.1.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only look whether it could start.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final counts as JSON.")] = False,
) -> None:
    """Run the consumer APP of a Python MODULE; SIGINT and SIGTERM let its handlers finish, then end it.

    The working directory is searched for the module first.
    """
    from gateway.consumer.app import (  # what the other commands do not need
        DeclarationError,
        HandlerError,
        JournalError,
        RefusedError,
    )
    from gateway.consumer.declaration import subscriptions

    if log not in _FORMS:
        raise UsageError(f'--log "{log}": expected text or json')
    try:
        app = _load(program)
        wanted = subscriptions(app.registrations, app.version)
    except DeclarationError as error:
        raise UsageError(f"{program}: {error}") from None
    if check:
        for one in wanted:
            typer.echo(f"{one.wire_filter} (QoS {one.qos}): {', '.join(each.name for each in one.registrations)}")
        return
    _log_to_stderr(log)
    if metrics is not None:
        _serve(app, metrics, program)
    try:
        asyncio.run(app.run())
    except (DeclarationError, JournalError) as error:
        raise UsageError(f"{program}: {error}") from None
    except (HandlerError, RefusedError) as error:
        typer.echo(f"forebay: {program}: {error}", err=True)
        raise typer.Exit(1) from None
    finally:
        if as_json:
            typer.echo(json.dumps(asdict(app.stats)))


def _load(program: str) -> "Consumer":
    """The object that MODULE:APP names. Raises UsageError, DeclarationError."""
    from gateway.consumer.app import Consumer, DeclarationError

    module, colon, name = program.partition(":")
    if not module or not colon or not name:
        raise UsageError(f'"{program}": expected MODULE:APP, such as presses:app')
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(f'"{program}": {error}') from None
    except DeclarationError:
        raise
    except Exception as error:
        raise UsageError(f'"{program}": the module cannot be imported: {type(error).__name__}: {error}') from None
    found = getattr(imported, name, None)
    if found is None:
        raise UsageError(f'"{program}": the module has no {name}')
    if not isinstance(found, Consumer):
        raise UsageError(f'"{program}": expected a Consumer, found {type(found).__name__}')
    return found


def _log_to_stderr(form: str) -> None:
    from gateway.consumer.logs import JsonLines, TextLines

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logger = logging.getLogger("forebay")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _serve(app: "Consumer", port: int, program: str) -> None:
    try:
        from prometheus_client import start_http_server
    except ImportError:
        raise UsageError(f"--metrics {port}: expected prometheus_client to be installed") from None
    app.metrics()
    try:
        start_http_server(port, "127.0.0.1")
    except OSError as error:
        raise UsageError(f"--metrics {port}: {error.strerror or error}") from None
