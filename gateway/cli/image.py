"""``forebay image build`` and ``verify``: what the appliance boots from."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.control import RefusedError
from gateway.cli.options import UsageError
from gateway.cli.status import JsonOption

app = typer.Typer(
    help="Images of the appliance: built, verified, and flashed onto a card or disk.", no_args_is_help=True
)

OUT = Path("/var/tmp/forebay-image")


@app.command()
def build(
    board: Annotated[str, typer.Option("--board", help="What it is for: a folder of images.", show_default=False)],
    packages: Annotated[
        list[Path], typer.Option("--deb", help="Forebay's own package; may be repeated.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", help="Where the result goes, in a folder for the board.")] = OUT,
    signing: Annotated[
        Path | None, typer.Option("--signing", help="Folder with the keys, made when missing; signing in --out.")
    ] = None,
    tree: Annotated[Path, typer.Option("--tree", help="The sources, with their folder images.")] = Path("."),
    apt: Annotated[Path, typer.Option("--apt", help="Whose sources the Debian packages come from.")] = Path("/etc/apt"),
) -> None:
    """Build an image, with its block map, bill of materials and signature beside it. Needs root."""
    from gateway.image.build import Order, source_epoch
    from gateway.image.build import build as build_image
    from gateway.image.plan import BuildError, boards, read_plan
    from gateway.image.signing import open_signing

    known = boards(tree / "images")
    if board not in known:
        raise UsageError(
            f"--board {board}: expected one of {', '.join(known) or 'those in images, which --tree has not'}"
        )
    for package in packages:
        if not package.is_file():
            raise UsageError(f"--deb {package}: expected a .deb file")
    try:
        order = Order(
            plan=read_plan(tree / "images", board),
            tree=tree,
            packages=[package.resolve() for package in packages],
            apt=apt,
            signing=open_signing(signing or out / "signing"),
            out=(out / board).resolve(),
            epoch=source_epoch(tree),
        )
        typer.echo(build_image(order, lambda step: typer.echo(f"forebay: {step} ...", file=sys.stderr)))
    except BuildError as error:
        raise RefusedError(str(error)) from None


@app.command()
def verify(
    image: Annotated[Path, typer.Argument(help="The .img or .img.zst, with the files that were built beside it.")],
    authority: Annotated[Path, typer.Option("--ca", help="The certificate of who may sign images.")],
    as_json: JsonOption = False,
) -> None:
    """Say whether an image is what was signed, to the byte."""
    from gateway.image.manifest import verify as verify_image
    from gateway.image.plan import BuildError

    try:
        found = verify_image(image, authority)
    except BuildError as error:
        raise RefusedError(str(error)) from None
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"{image}: as it was signed: Forebay {found['version']} for {found['board']}")
