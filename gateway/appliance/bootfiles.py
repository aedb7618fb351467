"""Writing on the boot partition, a FAT: whatever the moment the power goes, what boots is whole."""

import filecmp
import os
import shutil
import struct
from pathlib import Path
from typing import Final

KERNEL: Final = "vmlinuz"
TEMPLATES: Final = ("entry.conf", "cmdline.txt", "config.txt")
_PE_MACHINES: Final = {"x86_64": 0x8664, "aarch64": 0xAA64}
_PE_AT: Final = 0x3C  # where the place of the PE header stands


def require_kernel(path: Path, machine: str) -> None:
    """Raise OSError unless it is a kernel of that machine as UEFI starts it (PE, which a Raspberry Pi's is as well).

    Of what is none the firmware makes nothing: it stops, and there is no reset by which the loader would take the
    other system.
    """
    with path.open("rb") as source:
        head = source.read(4096)
    wanted = _PE_MACHINES.get(machine)
    at = struct.unpack_from("<I", head, _PE_AT)[0] if head[:2] == b"MZ" and len(head) >= _PE_AT + 4 else len(head)
    if wanted is None or head[at : at + 6] != b"PE\0\0" + struct.pack("<H", wanted):
        raise OSError(f"{path.name}: no kernel for {machine}")


def put_file(path: Path, text: str) -> None:
    """A file as a whole or not at all. Raises OSError."""
    new = path.with_name(path.name + ".new")
    with new.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(new, path)
    sync_folder(path.parent)


def put_folder(source: Path, target: Path, slot: str) -> None:
    """The files of a folder, in the place of those of the target, which nothing may point to now. Raises OSError.

    ``slot`` takes the place of each ``@`` in those that name it.
    """
    new = target.with_name(target.name + ".new")
    for old in (new, target):  # this first: a FAT has no room for three
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(source, new, copy_function=_copy)
    for name in TEMPLATES:
        if (new / name).exists():
            put_file(new / name, (new / name).read_text().replace("@", slot))
    os.replace(new, target)
    sync_folder(target.parent)


def remove(path: Path) -> None:
    """Raises OSError."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def rename(path: Path, name: str) -> None:
    """Within its folder. Raises OSError."""
    os.replace(path, path.with_name(name))
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(source: str, target: str) -> str:
    """With what came out compared: a kernel that is not whole ends in the firmware, where nobody counts."""
    shutil.copyfile(source, target)
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    if not filecmp.cmp(source, target, shallow=False):
        raise OSError(f"{target}: not read back as it was written")
    return target
