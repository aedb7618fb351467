"""``forebay image flash``: an image onto a card, a stick, a disk, or into a file."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from gateway.appliance.blocks import Bmap, BmapError, beside, read_bmap
from gateway.appliance.disks import (
    Disk,
    DiskError,
    ask_lsblk,
    candidates,
    facts,
    is_device,
    kernel_command_line,
    refuse,
    unmount,
)
from gateway.appliance.flash import Flashed, FlashError, flash, require_room
from gateway.appliance.unpack import ImageError, Unpacked
from gateway.cli.options import UsageError
from gateway.cli.status import JsonOption, span
from gateway.cli.status import size as shown_size


def flash_command(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="Plain, .zst, .xz or .gz.", show_default=False)],
    target: Annotated[
        Path | None, typer.Argument(metavar="DEVICE", help="A whole disk, or a file.", show_default=False)
    ] = None,
    force: Annotated[
        str, typer.Option("--force", metavar="NAME", help="Its name: overwrite it though it is fixed or mounted.")
    ] = "",
    bmap: Annotated[
        Path | None, typer.Option("--bmap", help="Its block map, else the one beside it.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write an image to a disk, read it back and compare.

    Asks for the disk's name first, and never takes the disk that this system runs from.
    """
    if target is None:
        raise UsageError(f"DEVICE: expected {_choice()}")
    try:
        disk, done = _flash(image, target, force, bmap)
    except BmapError as error:
        raise UsageError(str(error)) from None
    except (DiskError, FlashError, ImageError) as error:
        typer.echo(f"forebay: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo(f"forebay: stopped; what is on {target} now cannot be used, flash it again", err=True)
        raise typer.Exit(1) from None
    if as_json:
        of_disk = {"model": disk.model, "serial": disk.serial, "bytes": disk.bytes} if disk is not None else None
        told = {"target": str(target), "disk": of_disk, **dataclasses.asdict(done), "verified": True}
        typer.echo(json.dumps(told))
    else:
        left_out = done.image_bytes - done.written_bytes
        note = f", {shown_size(left_out)} need not be written" if left_out else ""
        written = f"{shown_size(done.written_bytes)} written in {span(done.write_s * 1000)}"
        typer.echo(f"{target}: {written} and read back as written{note}")


def _flash(image: Path, target: Path, force: str, bmap: Path | None) -> tuple[Disk | None, Flashed]:
    """Raises BmapError, DiskError, FlashError or ImageError, all but the last two before anything is written."""
    found = bmap or beside(image)
    blocks = read_bmap(found) if found is not None else None
    with Unpacked(image) as source:
        image_bytes = blocks.image_bytes if blocks is not None else source.image_bytes
        disk = None
        if is_device(target):
            disk = _allowed(image, target, image_bytes, force)
        elif target.exists() and target.samefile(image):
            raise DiskError(f"{target}: the image itself, expected another file or a disk")
        else:
            if target.exists() and force != target.name:
                _ask(target, target.name, f"{target} is there already, {shown_size(target.stat().st_size)}")
            require_room(target, blocks.mapped_bytes if blocks is not None else image_bytes or 0)
        return disk, _with_a_bar(source, blocks, disk.path if disk is not None else target, disk is not None)


def _allowed(image: Path, target: Path, image_bytes: int | None, force: str) -> Disk:
    """The disk, once its owner has said that it is the one. Raises DiskError."""
    disk = facts(target)
    if force and force != disk.name:
        raise UsageError(f"--force {force}: expected {disk.name}, the name of {target}")
    if image.resolve() in (disk.path, *(part.path for part in disk.parts)):
        raise DiskError(f"{target}: the image itself is on it")
    refuse(disk, image_bytes, force == disk.name, kernel_command_line())
    if not force:
        _ask(target, disk.name, f"{disk.path}: {disk.shown()}")
    unmount(disk)
    return disk


def _ask(target: Path, name: str, what: str) -> None:
    typer.echo(f"{what}\nAll that is on it will be lost.", err=True)
    typed = typer.prompt(f"Type its name ({name}) to overwrite it", default="", show_default=False, err=True).strip()
    if typed != name:
        raise DiskError(f'{target}: nothing was written, since "{typed}" was typed and not {name}')


def _with_a_bar(source: Unpacked, blocks: Bmap | None, target: Path, is_disk: bool) -> Flashed:
    with Progress(
        TextColumn("{task.description:8}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(),
        TimeRemainingColumn(), console=Console(stderr=True),
    ) as bar:  # fmt: skip
        tasks = {"write": bar.add_task("writing"), "verify": bar.add_task("checking", start=False, visible=False)}

        def show(phase: str, done: int, total: int) -> None:
            task = tasks[phase]
            if not done:
                bar.start_task(task)
            bar.update(task, completed=done, total=total or None, visible=True)

        return flash(source, blocks, target, is_disk, show)


def _choice() -> str:
    """The disks that can be had without force."""
    try:
        found = candidates(ask_lsblk(), kernel_command_line())
    except DiskError as error:
        return f"a whole disk or a file ({error})"
    if not found:
        return "a whole disk or a file; there is no removable disk here now"
    return "a whole disk or a file: " + "; ".join(f"{disk.path} ({disk.shown()})" for disk in found)
