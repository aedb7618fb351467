"""What lsblk knows of a block device, and whether an image may be written over it."""

import json
import os
import re
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.figures import size

_COLUMNS: Final = (
    "NAME,PATH,TYPE,SIZE,RM,RO,HOTPLUG,TRAN,VENDOR,MODEL,SERIAL,MOUNTPOINTS,PARTUUID,UUID,LABEL,PARTLABEL,PKNAME"
)
# who has one of these mounted is the running system, whatever else is on the disk
_SYSTEM: Final = frozenset(
    ("/", "/usr", "/boot", "/boot/efi", "/boot/firmware", "/efi", "/etc", "/home", "/var", "/data", "[SWAP]")
)
_WHOLE: Final = ("disk", "loop")


class DiskError(Exception):
    """A target that is refused; one line for people."""


@dataclass(frozen=True)
class Disk:
    """A block device and all that stands on it; sizes in bytes."""

    name: str
    path: Path
    type: str
    bytes: int
    removable: bool
    read_only: bool
    model: str
    serial: str
    parent: str
    mounts: list[str] = field(default_factory=list)  # with those of its partitions, and of what is inside of them
    uuids: set[str] = field(default_factory=set)
    parts: list["Disk"] = field(default_factory=list)

    def shown(self) -> str:
        """One line for people: what it is, how large, and which one of its kind."""
        return ", ".join(
            part for part in (self.model or "no model", size(self.bytes), self.serial or "no serial") if part
        )


def disks(text: str) -> list[Disk]:
    """The devices of ``lsblk --json --bytes``. Raises DiskError when it is something else."""
    try:
        return [_disk(row) for row in json.loads(text)["blockdevices"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DiskError(f"lsblk gave no list of devices: {error}") from None


def ask_lsblk(device: Path | None = None) -> list[Disk]:
    """What lsblk says of one device, or of all. Raises DiskError."""
    words = ["lsblk", "--json", "--bytes", "--output", _COLUMNS, *([str(device)] if device is not None else [])]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise DiskError(f"lsblk cannot be run: {error.strerror}") from None
    if done.returncode and not done.stdout.strip():
        raise DiskError(f"lsblk: {' '.join(done.stderr.split()) or 'failed'}")
    return disks(done.stdout)


def facts(device: Path) -> Disk:
    """Of one whole disk. Raises DiskError when it is none."""
    real = device.resolve()  # by-id names are links
    found = [disk for disk in ask_lsblk(real) if disk.path == real] or ask_lsblk(real)
    if not found:
        raise DiskError(f"{device}: lsblk does not know it")
    return found[0]


def is_device(target: Path) -> bool:
    """Whether an image is written to a device, rather than into a file. Raises DiskError where neither can be."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        if target.is_relative_to("/dev"):  # a file there would fill the RAM
            raise DiskError(f"{target}: no such device") from None
        return False
    except OSError as error:
        raise DiskError(f"{target}: {error.strerror}") from None
    if stat.S_ISBLK(mode):
        return True
    if not stat.S_ISREG(mode):
        raise DiskError(f"{target}: neither a disk nor a file")
    return False


def refuse(disk: Disk, image_bytes: int | None, forced: bool, command_line: str) -> None:
    """Raise DiskError when the disk must not, or cannot, take an image of that size (None: not known yet).

    ``forced``: its owner has named it as the one to overwrite though it is fixed or mounted. ``command_line`` is the
    kernel's: the disk that it names is in use also where a read-only root hides what it is mounted from.
    """
    where = disk.path
    if disk.type not in _WHOLE:
        whole = f"/dev/{disk.parent}" if disk.parent else "the disk that it is on"
        raise DiskError(
            f"{where}: a {'partition' if disk.type == 'part' else disk.type}, expected a whole disk: {whole}"
        )
    named = {word.lower() for word in re.split(r"[\s=]", command_line)}
    if any(mount in _SYSTEM for mount in disk.mounts) or disk.uuids & named:
        raise DiskError(f"{where}: this system runs from it ({disk.shown()})")
    if disk.read_only:
        raise DiskError(f"{where}: write-protected ({disk.shown()}); a card may have a switch at its side")
    if image_bytes is not None and disk.bytes < image_bytes:
        raise DiskError(f"{where}: too small, {size(disk.bytes)} for an image of {size(image_bytes)}")
    if forced:
        return
    if disk.mounts:
        raise DiskError(f"{where}: in use, mounted at {disk.mounts[0]}; umount it, or --force {disk.name}")
    if not disk.removable:
        raise DiskError(f"{where}: a fixed disk ({disk.shown()}); if it is the right one: --force {disk.name}")


def candidates(found: list[Disk], command_line: str) -> list[Disk]:
    """Those that an image can be written to without force."""
    good = []
    for disk in found:
        try:
            refuse(disk, None, False, command_line)
        except DiskError:
            continue
        if disk.bytes:  # a reader without a card
            good.append(disk)
    return good


def kernel_command_line() -> str:
    """Empty where it cannot be read."""
    try:
        return Path("/proc/cmdline").read_text()
    except OSError:
        return ""


def unmount(disk: Disk) -> None:
    """All that is mounted from it, the inner ones first. Raises DiskError."""
    for mount in sorted(disk.mounts, key=len, reverse=True):
        done = subprocess.run(["umount", mount], capture_output=True, text=True, check=False)
        if done.returncode:
            raise DiskError(f"{disk.path}: in use: {' '.join(done.stderr.split())}")


def _disk(row: dict[str, Any]) -> Disk:
    rows = _below(row)
    return Disk(
        name=str(row["name"]),
        path=Path(row["path"]),
        type=str(row["type"]),
        bytes=int(row["size"] or 0),
        removable=_yes(row["rm"])
        or _yes(row["hotplug"])
        or row.get("tran") in ("usb", "mmc")
        or str(row["name"]).startswith("mmcblk"),
        read_only=_yes(row["ro"]),
        model=" ".join(f"{row.get('vendor') or ''} {row.get('model') or ''}".split()),
        serial=(row.get("serial") or "").strip(),
        parent=row.get("pkname") or "",
        mounts=[mount for one in rows for mount in one.get("mountpoints") or [one.get("mountpoint")] if mount],
        uuids={str(one[key]).lower() for one in rows for key in ("partuuid", "uuid") if one.get(key)},
        parts=[_disk(child) for child in row.get("children") or []],
    )


def _below(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [row, *(inner for child in row.get("children") or [] for inner in _below(child))]


def _yes(value: object) -> bool:
    """lsblk says true or "1", by its version."""
    return value in (True, 1, "1")


def device_bytes(descriptor: int) -> int:
    """The size of an open disk, as the kernel sees it."""
    return os.lseek(descriptor, 0, os.SEEK_END)
