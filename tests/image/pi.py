"""What a Raspberry Pi reads from its boot partition before Linux runs, file by file, as its vendor documents it.

Models up to the 3 load ``bootcode.bin``, then ``start.elf``; from the 4 on the former is in the board, and the latter
is ``start4.elf``. That reads ``config.txt`` and loads what it names.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from gateway.boards import board, names
from tests.image import device_tree

STAGES: Final = {
    "bcm2837": ("bootcode.bin", "start.elf", "fixup.dat"),
    "bcm2711": ("start4.elf", "fixup4.dat"),
}
TEMPLATE: Final = b"bcm%d-rpi-%s.dtb\0"  # in the firmware: what device trees are called
SETTINGS: Final = "config.txt"


class Model(NamedTuple):
    """``tree``: the file that the firmware looks for on it; ``compatible``: one of these it must be for."""

    board: str
    tree: str
    compatible: tuple[str, ...]

    @property
    def chip(self) -> str:
        return self.tree.partition("-")[0]


def models() -> list[Model]:
    """All that the image for the Pi is said to be for."""
    found = []
    for name in names():
        known = board(name)
        if known.image is not None and known.image.name == "rpi":
            found += [Model(name, Path(tree).name, known.compatible) for tree in known.image.dtb]
    return found


def faults(boot: Path, model: Model) -> list[str]:
    """Why this model would not start from the boot partition in that folder; nothing where it does."""
    return list(_faults(boot, model))


def _faults(boot: Path, model: Model) -> Iterator[str]:
    for name in STAGES[model.chip]:
        yield from _file(boot, name)
    start = _bytes(boot / STAGES[model.chip][-2])
    suffix = model.tree.removeprefix(f"{model.chip}-rpi-").removesuffix(".dtb").encode()
    if start and not (TEMPLATE in start and b"\0" + suffix + b"\0" in start):
        yield f"{STAGES[model.chip][-2]}: knows no device tree {model.tree}"
    text = _bytes(boot / SETTINGS).decode()
    if not text:
        yield f"{SETTINGS}: not there"
        return
    told = dict(re.findall(r"^(\w+)=(.*?)\s*$", text, re.MULTILINE))
    if "[" in text or "include " in text:
        yield f"{SETTINGS}: parts that hold for some models only"
    for key, value in (("arm_64bit", "1"), ("upstream_kernel", "1"), ("enable_uart", "1")):
        if told.get(key) != value:
            yield f"{SETTINGS}: no {key}={value}"
    yield from _system(boot, told, text, model)


def _system(boot: Path, told: dict[str, str], text: str, model: Model) -> Iterator[str]:
    """Kernel, initrd, command line, device tree, overlays."""
    prefix, kernel = told.get("os_prefix", ""), told.get("kernel", "kernel8.img")
    if not re.fullmatch(r"[ab]/", prefix):
        yield f"os_prefix={prefix}: no slot"
    image = _bytes(boot / (prefix + kernel))
    if not image or not _bytes(boot / (prefix + model.tree)):
        yield f"os_prefix={prefix}: ignored, since {kernel} or {model.tree} is not there"
        return
    if image[56:60] != b"ARM\x64" and image[:2] != b"\x1f\x8b":
        yield f"{prefix}{kernel}: no 64-bit kernel"
    initrd = re.search(r"^initramfs (\S+) followkernel$", text, re.MULTILINE)
    yield from _file(boot, prefix + initrd[1]) if initrd else ["no initramfs"]
    try:
        tree = device_tree.read(_bytes(boot / (prefix + model.tree)))
        if not set(tree.compatible) & set(model.compatible):
            yield f"{prefix}{model.tree}: for {', '.join(tree.compatible)}"
    except ValueError as error:
        yield f"{prefix}{model.tree}: {error}"
    line = _bytes(boot / (prefix + told.get("cmdline", "cmdline.txt"))).decode()
    words = line.split()
    if line.count("\n") > 1 or f"forebay.slot={prefix[:1]}" not in words or "forebay.boot=pi" not in words:
        yield f"{prefix}cmdline.txt: not that of this slot: {line!r}"
    overlays = told.get("overlay_prefix", "overlays/")
    where = prefix + overlays if (boot / prefix / overlays / "README").exists() else overlays
    for overlay in re.findall(r"^dtoverlay=([\w-]+)", text, re.MULTILINE):
        yield from _file(boot, f"{where}{overlay}.dtbo")


def _file(boot: Path, name: str) -> Iterator[str]:
    if not _bytes(boot / name):
        yield f"{name}: not there"


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def mbr_faults(disk: bytes) -> list[str]:
    """Why no model would find the boot partition on a disk that begins like this."""
    found = []
    status, kind, start = disk[446], disk[450], struct.unpack_from("<I", disk, 454)[0]
    if disk[510:512] != b"\x55\xaa":
        found.append("no partition table")
    if (status, kind) != (0x80, 0x0C):
        found.append(f"first partition: status {status:#x}, type {kind:#x}: no bootable FAT32")
    fat = disk[start * 512 : start * 512 + 512]
    if fat[82:90] != b"FAT32   " or fat[510:512] != b"\x55\xaa":
        found.append("first partition: no FAT32 in it")
    return found
