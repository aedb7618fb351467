"""``forebay uplink add``: one more ``[[uplink]]`` in the settings file, checked before anything is written."""

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.changing import stamp
from gateway.cli.control import NoBrokerError, RefusedError, ask
from gateway.cli.options import ConfigOption, DataDirOption, UsageError
from gateway.settings.entry import RowError
from gateway.settings.file import read, write
from gateway.settings.rows import with_rows
from gateway.settings.table import Sources, load
from gateway.settings.uplink import FIELDS, parsed

Filters = list[str] | None


def add(
    name: Annotated[str, typer.Argument(help="What to call it.", show_default=False)],
    addresses: Annotated[
        list[str],
        typer.Argument(
            metavar="ADDRESS...", help="mqtt://, mqtts://, ws:// or wss://; the first that works.", show_default=False
        ),
    ],
    out: Annotated[Filters, typer.Option("--out", metavar="FILTER", help="Send these topics; may be repeated.")] = None,
    inward: Annotated[Filters, typer.Option("--in", metavar="FILTER", help="Take these topics from there.")] = None,
    both: Annotated[Filters, typer.Option("--both", metavar="FILTER", help="Both ways.")] = None,
    local_prefix: Annotated[str, typer.Option(help="Begins the topics here, of all these rules.")] = "",
    remote_prefix: Annotated[str, typer.Option(help="Begins the topics there.")] = "",
    qos: Annotated[int, typer.Option(min=0, max=2, help="At most this QoS.")] = 1,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another key of the uplink; may be repeated.")
    ] = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Add an uplink to the settings file; a broker that runs with this file takes it over at once."""
    if config is None:
        raise UsageError("no settings file to write to: expected --config FILE or FOREBAY_CONFIG")
    rules: list[dict[str, object]] = []
    for direction, filters in (("out", out), ("in", inward), ("both", both)):
        for filter in filters or ():
            rule: dict[str, object] = {"direction": direction, "filter": filter, "qos": qos}
            given = {"local_prefix": local_prefix, "remote_prefix": remote_prefix}
            rules.append(rule | {key: value for key, value in given.items() if value})
    row: dict[str, object] = {"name": name, "addresses": addresses, **_others(sets or []), "rules": rules}
    if not rules:
        raise UsageError("no rule: expected --out, --in or --both with a topic filter")
    try:
        parsed(row, "")
    except RowError as error:
        raise UsageError(f"uplink{error}") from None
    write(config, with_rows(config, read(config), {"uplink": [row]}), stamp())
    typer.echo(f"{name}: added to {config}{_taken_over(config, data_dir, name)}")


def _others(sets: list[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for item in sets:
        key, equals, text = item.partition("=")
        if not equals or key not in FIELDS or key in ("name", "addresses", "rules"):
            keys = ", ".join(key for key in FIELDS if key not in ("name", "addresses", "rules"))
            raise UsageError(f"--set: {key}: expected KEY=VALUE with one of the keys {keys}")
        found[key] = FIELDS[key].kind.from_text(text)
    return found


def _taken_over(config: Path, data_dir: str | None, name: str) -> str:
    """What a running broker makes of it."""
    options: tuple[tuple[str, object], ...] = () if data_dir is None else (("data_dir", data_dir),)
    path = load(Sources(config, (), options)).control_socket
    try:
        ask(path, {"cmd": "reload"})
        rows = ask(path, {"cmd": "uplinks"})
    except NoBrokerError:
        return ", used from the next start"
    except RefusedError as error:
        return f", but the running broker does not take it over: {error}"
    if any(row["name"] == name for row in rows):
        return ", in use"
    return ", but the running broker reads other settings"
