"""The software bill of materials of an image, CycloneDX 1.5: Debian's packages, and the Python packages beside them."""

import json
import uuid
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from gateway.image.plan import Plan

_SPACE: Final = uuid.UUID("5f7f26b0-7f2e-4bd5-9a4b-4a2f3f1a7c11")


class Part(NamedTuple):
    """One package."""

    name: str
    version: str
    purl: str
    licence: str = ""


def debian(status: str) -> Iterator[Part]:
    """The installed packages of dpkg's ``status`` file."""
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[:1] != " ")
        if fields.get("Status", "").endswith(" installed"):
            name, version, arch = fields["Package"], fields["Version"], fields.get("Architecture", "")
            where = f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?arch={arch}&distro=debian-12"
            yield Part(name, version, where)


def python(folders: Iterable[Path]) -> Iterator[Part]:
    """What the ``METADATA`` files below these folders say."""
    for folder in folders:
        for path in sorted(folder.glob("*.dist-info/METADATA")):
            fields = HeaderParser().parsestr(path.read_text(errors="replace"))
            name, version = str(fields["Name"]), str(fields["Version"])
            licence = str(fields.get("License-Expression") or "")
            yield Part(name, version, f"pkg:pypi/{quote(name.lower().replace('_', '-'))}@{quote(version)}", licence)


def document(plan: Plan, version: str, parts: Iterable[Part]) -> str:
    """CycloneDX as JSON, the same for the same packages."""
    rows = sorted(set(parts), key=lambda part: part.purl)
    components: list[dict[str, Any]] = []
    for part in rows:
        row: dict[str, Any] = {"type": "library", "bom-ref": part.purl, "name": part.name, "version": part.version}
        if part.licence:
            row["licenses"] = [{"expression": part.licence}]
        components.append(row | {"purl": part.purl})
    number = uuid.uuid5(_SPACE, json.dumps([plan.board, version, components]))
    about = {"type": "firmware", "bom-ref": f"forebay-{plan.board}", "name": f"forebay-{plan.board}"}
    table = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {"component": about | {"version": version, "description": plan.description}},
        "components": components,
    }
    return json.dumps(table, indent=2, ensure_ascii=False) + "\n"
