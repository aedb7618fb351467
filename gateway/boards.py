"""Boards that a gateway runs on: TOML files, checked in the tests against ``firmware_profiles/boards/schema.json``.

Each says how much the board holds and bears, which defaults of settings that means, and what its image is made of.
"""

import functools
import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from gateway.schema import understood

BOARDS: Final = Path(__file__).resolve().parents[1] / "firmware_profiles" / "boards"
AUTO: Final = "auto"
NONE: Final = "none"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf"}  # uname's names -> Debian's
CLASSES: Final = {
    "sd": "SD card", "emmc": "eMMC", "cf": "CF card", "ssd": "SSD", "nvme": "NVMe", "hdd": "hard disk",
}  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image for this board is made of; boards of one ``name`` share it."""

    name: str
    kernel_package: str
    firmware_packages: tuple[str, ...]
    dtb: tuple[str, ...]
    boot_backend: str
    partition_table: str
    slot_bytes: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    name: str
    title: str
    arch: str
    compatible: tuple[str, ...]
    storage_classes: tuple[str, ...]
    ram_bytes: int
    rtc: str
    console: str
    storage: str  # a key of CLASSES
    disk_bytes: int  # of the usual size, for the gateway's data
    commit_ms: float  # one commit with its fsync
    endurance_bytes: int  # that may be written in the life of the storage
    amplification: float  # bytes that the flash writes for each that it is given in small pieces
    settings: dict[str, Any]  # tables as in the settings file
    zram_percent: int
    source: tuple[str, ...]
    watchdog: str = ""
    watchdog_max_s: int = 0
    image: Image | None = None
    notes: str = ""

    @property
    def commit_interval_ms(self) -> int:
        """Least time from commit to commit that it has by default."""
        interval = self.settings.get("store", {}).get("commit_interval_ms", 0)
        assert isinstance(interval, int)
        return interval


def names() -> list[str]:
    """Of all boards that are known."""
    return sorted(path.stem for path in BOARDS.glob("*.toml"))


@functools.cache
def schema() -> dict[str, Any]:
    """The schema that came with the package."""
    loaded: dict[str, Any] = json.loads((BOARDS / "schema.json").read_text(encoding="utf-8"))
    understood(loaded)
    return loaded


@functools.cache
def board(name: str) -> Board:
    """The board of that name, which is one of ``names()``."""
    return parse(tomllib.loads((BOARDS / f"{name}.toml").read_text(encoding="utf-8")))


def parse(values: dict[str, Any]) -> Board:
    """The board of values that the schema allows."""
    hardware, storage, evidence, image = (values.get(key, {}) for key in ("hardware", "storage", "evidence", "image"))
    return Board(
        name=values["name"],
        title=values["title"],
        arch=values["arch"],
        compatible=tuple(values["compatible"]),
        storage_classes=tuple(values["storage_classes"]),
        **hardware,
        storage=storage["class"],
        disk_bytes=storage["bytes"],
        commit_ms=storage["commit_ms"],
        endurance_bytes=storage["endurance_bytes"],
        amplification=storage["amplification_percent"] / 100,
        settings=values["settings"],
        zram_percent=values["system"]["zram_percent"],
        source=tuple(evidence["source"]),
        notes=evidence.get("notes", ""),
        image=_image(image) if image else None,
    )


def _image(values: dict[str, Any]) -> Image:
    packages, dtb = tuple(values.get("firmware_packages", ())), tuple(values["dtb"])
    return Image(**{**values, "firmware_packages": packages, "dtb": dtb})


def detect(compatible: Iterable[str], machine: str, storage: str) -> str:
    """The name of the board, "" = none that is known.

    ``compatible``: strings of the device tree's root, empty without one. ``machine``: uname's name of the
    architecture. ``storage``: class of the disk that holds the data, "" = not known.
    """
    said = set(compatible)
    for path in sorted(BOARDS.glob("*.toml")):
        head = _head(path)
        if said.intersection(head["compatible"]):
            return path.stem
        if not said and head["arch"] == ARCHITECTURES.get(machine) and storage in head["storage_classes"]:
            return path.stem
    return ""


def _head(path: Path) -> dict[str, Any]:
    """What stands above the first table: each start reads all files, and most of them no further."""
    return tomllib.loads(path.read_text(encoding="utf-8").partition("\n[")[0])
