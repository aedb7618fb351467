"""``forebay image bundle``: the update that belongs to an image."""

from pathlib import Path
from typing import Annotated

import typer

from gateway import __version__
from gateway.appliance.journal import Version
from gateway.cli.control import RefusedError
from gateway.cli.options import UsageError
from gateway.store.migrations import MIGRATIONS, SCHEMA


def bundle_command(
    board: Annotated[str, typer.Option("--board", help="What it is for: a folder of images.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Where forebay image build left its result.")] = Path(
        "/var/tmp/forebay-image"
    ),
    signing: Annotated[
        Path | None, typer.Option("--signing", help="Folder with the keys that the image was built with.")
    ] = None,
    tree: Annotated[Path, typer.Option("--tree", help="The sources, with their folder images.")] = Path("."),
) -> None:
    """Pack what an image was built from into a signed update, with the index for a web server beside it."""
    from gateway.image.bundling import make_bundle
    from gateway.image.plan import BuildError, boards, read_plan
    from gateway.image.signing import open_signing

    known = boards(tree / "images")
    if board not in known:
        raise UsageError(f"--board {board}: expected one of {', '.join(known) or 'those in images, none in --tree'}")
    try:
        plan, keys = read_plan(tree / "images", board), open_signing(signing or out / "signing")
        version = Version(__version__, SCHEMA, MIGRATIONS[-1][1])
        typer.echo(make_bundle(plan, (out / board).resolve(), version, keys, (out / board).resolve()))
    except BuildError as error:
        raise RefusedError(str(error)) from None
