"""``forebay uplink test``: dial, and say step by step what works."""

import asyncio
import json
import secrets
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from gateway.cli.control import NoBrokerError, ask
from gateway.cli.control import RefusedError as RefusedByBrokerError
from gateway.cli.options import ConfigOption, DataDirOption, SetOption, UsageError, settings_from
from gateway.cli.status import JsonOption
from gateway.cli.terminal import shown
from gateway.settings.table import Settings
from gateway.settings.uplink import UplinkRow


def try_out(
    name: Annotated[str, typer.Argument(help="Name of the uplink in the settings.", show_default=False)],
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    sets: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Dial every address of an uplink, running or not, and say what works: exit code 0 when all of it does.

    DNS, TCP, TLS, WebSocket, CONNECT, SUBSCRIBE, PUBLISH with its acknowledgement, and a heartbeat there and back.
    """
    settings = settings_from(config, data_dir, None, sets)
    row = uplink_named(settings.uplink, name)
    client_id = _client_id(settings, row)
    results = [_trial(row, number, client_id, as_json) for number in range(len(row.addresses))]
    if as_json:
        typer.echo(json.dumps(results, indent=2, ensure_ascii=False))
    if not all(result["works"] for result in results):
        raise typer.Exit(1)


def uplink_named(uplinks: Sequence[UplinkRow], name: str) -> UplinkRow:
    """Raises UsageError when there is none."""
    for row in uplinks:
        if row.name == name:
            return row
    raise UsageError(f"no uplink {name}: expected one of {', '.join(row.name for row in uplinks) or 'none'}")


def _client_id(settings: Settings, row: UplinkRow) -> str:
    """Like the uplink's, so that rules for it hold, and another, so that it stays connected."""
    try:
        rows = ask(settings.control_socket, {"cmd": "uplinks"})
    except (NoBrokerError, RefusedByBrokerError):
        rows = []
    ours = next((one["remote_client_id"] for one in rows if one["name"] == row.name), row.client_id)
    return f"{ours or f'forebay-{row.name}'}-test-{secrets.token_hex(3)}"


def _trial(row: UplinkRow, number: int, client_id: str, quiet: bool) -> dict[str, Any]:
    from gateway.uplink.dial import DialError
    from gateway.uplink.trial import trial

    remote = row.addresses[number]
    steps: list[dict[str, str]] = []

    def told(step: str, what: str) -> None:
        steps.append({"step": step, "result": what})
        if not quiet:
            typer.echo(f"  {step:<10} ok      {shown(what)}")

    if not quiet:
        typer.echo(str(remote))
    try:
        asyncio.run(trial(row, remote, client_id, told))
    except DialError as error:
        if not quiet:
            typer.echo(f"  {error.step:<10} FAILED  {shown(error.why)}")
        return {"address": str(remote), "works": False, "steps": steps, "failed": error.step, "error": error.why}
    return {"address": str(remote), "works": True, "steps": steps, "failed": None, "error": None}
