"""The image that ``make image`` has built; the tests here boot it, so they run by ``make image TASK=test`` alone."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.image.machine import KINDS, Machine, machine


class Built(NamedTuple):
    """``image``: the compressed one."""

    folder: Path
    image: Path
    manifest: dict[str, Any]


@pytest.fixture(scope="session")
def built() -> Built:
    folder = Path(os.environ.get("FOREBAY_IMAGE", "/var/tmp/forebay-image/x86-64"))
    (image,) = folder.glob("forebay-*.img.zst")
    manifest = json.loads(next(folder.glob("forebay-*.manifest.json")).read_text())
    return Built(folder, image, manifest)


@pytest.fixture(scope="module")
def gateway(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One machine for all tests of a module, which go through its life in order."""
    kind = KINDS[built.manifest["board"]]
    with machine(tmp_path_factory.mktemp("machine"), built.image, kind, built.manifest) as found:
        yield found
