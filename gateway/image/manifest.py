"""What was built: names, sizes and SHA-256 of the files, in a file that is signed."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gateway.image.plan import BuildError, Plan
from gateway.image.signing import check

SUFFIX: Final = ".manifest.json"
SIGNATURE: Final = ".manifest.sig"
_BLOCK: Final = 1 << 20


def digest(path: Path) -> str:
    """SHA-256 of the file, hexadecimal."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def describe(plan: Plan, version: str, epoch: int, disk: Path, files: Sequence[Path]) -> str:
    """The manifest's text; ``disk`` is the image before it was compressed."""
    rows = [{"name": path.name, "bytes": path.stat().st_size, "sha256": digest(path)} for path in files]
    table = {
        "board": plan.board,
        "compatible": plan.compatible,
        "version": version,
        "epoch": epoch,
        "disk": {"bytes": disk.stat().st_size, "sha256": digest(disk)},
        "partitions": [{"name": part.name, "start_mib": part.start, "mib": part.size} for part in plan.partitions()],
        "files": rows,
    }
    return json.dumps(table, indent=2) + "\n"


def stem(image: Path) -> Path:
    """The name that the files of one build share: ``forebay-1.0.0-rpi`` of ``forebay-1.0.0-rpi.img.zst``."""
    for ending in (".img.zst", ".img"):
        if image.name.endswith(ending):
            return image.with_name(image.name.removesuffix(ending))
    raise BuildError(f"{image}: expected a file that ends in .img.zst or .img")


def verify(image: Path, authority: Path) -> dict[str, Any]:
    """The manifest of an image that is what was signed, with all that lies beside it. Raises BuildError."""
    base = stem(image)
    text = base.with_name(base.name + SUFFIX)
    check(text, base.with_name(base.name + SIGNATURE), authority)
    try:
        table: dict[str, Any] = json.loads(text.read_text())
        rows = {str(row["name"]): (int(row["bytes"]), str(row["sha256"])) for row in table["files"]}
        disk = int(table["disk"]["bytes"]), str(table["disk"]["sha256"])
    except (ValueError, KeyError, TypeError):
        raise BuildError(f"{text}: signed, but not the manifest of an image") from None
    if image.name.endswith(".img"):
        rows[image.name] = disk
    if image.name not in rows:
        raise BuildError(f"{text}: says nothing of {image.name}: expected the manifest of this image")
    for name, (size, expected) in rows.items():
        path = image.with_name(name)
        if not path.is_file():
            if path == image:
                raise BuildError(f"{path}: not there: expected an image")
            continue
        if path.stat().st_size != size:
            raise BuildError(f"{path}: {path.stat().st_size} bytes: expected {size}")
        if digest(path) != expected:
            raise BuildError(f"{path}: not what was signed: expected SHA-256 {expected}")
    return table
