"""The disk image: file systems made without mounting anything, put together by genimage."""

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.image.plan import MIB, Plan
from gateway.image.running import environment, run

_SPACE: Final = uuid.UUID("5b0c3e9e-6d0e-4b53-9a55-0d6a3f0b6d1c")


def ident(plan: Plan, version: str, name: str) -> uuid.UUID:
    """The id of the disk or a partition as shipped: the same in each build of one version."""
    return uuid.uuid5(_SPACE, f"{plan.board}/{version}/{name}")


def disk_id(plan: Plan, version: str) -> str:
    """As sfdisk shows it."""
    whole = ident(plan, version, "disk")
    return str(whole).upper() if plan.is_gpt else f"0x{whole.time_low:08x}"


def layout(plan: Plan, version: str, files: Mapping[str, str]) -> str:
    """The configuration of genimage; ``files``: the image of each partition that has one."""
    lines = ["image disk.img {", "  hdimage {", "    align = 1M"]
    if plan.is_gpt:
        lines += ['    partition-table-type = "gpt"', f'    disk-uuid = "{ident(plan, version, "disk")}"']
    else:
        lines += ['    partition-table-type = "mbr"', f'    disk-signature = "{disk_id(plan, version)}"']
    lines.append("  }")
    for part in plan.partitions():
        lines += [f"  partition {part.name} {{", f"    offset = {part.start}M", f"    size = {part.size}M"]
        if plan.is_gpt:
            lines += [f'    partition-type-uuid = "{part.kind}"']
            lines += [f'    partition-uuid = "{ident(plan, version, part.name)}"']
        else:
            lines.append(f"    partition-type = {part.kind}")
            if part.name == "boot":
                lines.append("    bootable = true")
        if part.name in files:
            lines.append(f'    image = "{files[part.name]}"')
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def make_fat(path: Path, mib: int, label: str, serial: uuid.UUID, content: Path, epoch: int) -> None:
    """A FAT file system that holds what is in the folder ``content``."""
    env = environment(epoch)
    path.unlink(missing_ok=True)
    kind = "32" if mib > 64 else "16"
    command = ["mkfs.vfat", "-F", kind, "-n", label, "--invariant", "-i", f"{serial.time_low:08x}", "-C"]
    run([*command, path, str(mib * 1024)], env)
    for name in sorted(content.rglob("*")):
        os.utime(name, (epoch, epoch))
    names = sorted(content.iterdir())
    if names:
        run(["mcopy", "-s", "-m", "-Q", "-i", path, *names, "::"], env)


def make_data(path: Path, mib: int, number: uuid.UUID, epoch: int) -> None:
    """An empty ext4 that can grow to the size of any disk."""
    path.unlink(missing_ok=True)
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-T", "default", "-b", "4096", "-m", "1", "-J", "size=16"]
    command += ["-L", "data", "-U", str(number), "-E", f"hash_seed={number},lazy_itable_init=0,lazy_journal_init=0"]
    run([*command, path, f"{mib}M"], environment(epoch))


def assemble(plan: Plan, version: str, folder: Path, epoch: int) -> Path:
    """``disk.img`` in the folder, from ``boot.fat``, ``root.squashfs``, ``settings.fat`` and ``data.ext4`` there."""
    files = {"boot": "boot.fat", "root-a": "root.squashfs", "settings": "settings.fat", "data": "data.ext4"}
    config = folder / "genimage.cfg"
    config.write_text(layout(plan, version, files))
    work = folder / "genimage.tmp"
    shutil.rmtree(work, ignore_errors=True)
    command: list[str | Path] = [
        "genimage",
        "--config",
        config,
        "--inputpath",
        folder,
        "--outputpath",
        folder,
        "--tmppath",
        work,
    ]
    nothing = folder / "empty"
    nothing.mkdir(exist_ok=True)
    run([*command, "--rootpath", nothing], environment(epoch))
    shutil.rmtree(work, ignore_errors=True)
    return folder / "disk.img"


def fits(size: int, mib: int) -> bool:
    """Whether so many bytes go into a partition."""
    return size <= mib * MIB
