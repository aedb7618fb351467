"""``forebay config import``: settings of another broker as settings of Forebay."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.options import UsageError
from gateway.imports import emqx, environment, hocon, mosquitto, tbmq
from gateway.imports.convert import Imported, convert
from gateway.imports.table import ImportFileError


class Broker(enum.StrEnum):
    """Whose settings can be imported."""

    TBMQ = "tbmq"
    EMQX = "emqx"
    MOSQUITTO = "mosquitto"


def import_settings(
    broker: Annotated[Broker, typer.Argument(help="Whose settings the file holds.")],
    file: Annotated[Path, typer.Argument(help="TBMQ: variables, yml or compose. EMQX: HOCON. mosquitto: its conf.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write there instead of to the screen.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Turn settings of another broker into ours; what does not carry over is said on stderr, a line for each key."""
    imported = _read(broker, file)
    for remark in imported.remarks:
        typer.echo(f"forebay: {file}: {remark}", err=True)
    lines = [f"# Imported from {broker.value}, only what differs from the defaults.", *imported.toml()]
    text = "".join(line + "\n" for line in lines)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        with out.open("w" if force else "x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        typer.echo(f"forebay: {out}: is there already; --force writes over it", err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        typer.echo(f"forebay: {out}: cannot be written: {error.strerror}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{out}: written")


def _read(broker: Broker, file: Path) -> Imported:
    """The file's settings as ours. Raises UsageError."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file}: not UTF-8 at byte {error.start}: expected a settings file of {broker.value}"
        ) from None
    try:
        if broker is Broker.TBMQ:
            return convert(tbmq.TBMQ, environment.read(text))
        if broker is Broker.MOSQUITTO:
            return mosquitto.convert(text, file.parent)
        return convert(emqx.EMQX, hocon.read(text, emqx.MAPS))
    except ImportFileError as error:
        raise UsageError(f"{file}: {error}") from None
