"""A file system on a block device of its own, so that the bytes that reach the device can be counted."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import final

import pytest

from gateway.machine import Disk

MIB = 1_048_576
OPTIONS = "noatime,errors=remount-ro"


@final
class CountedDisk:
    """``folder`` is where it is mounted."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder = folder
        self.name = Path(device).name
        self._device = device
        self._disk = Disk(Path("/sys/block") / self.name)

    def fail(self) -> None:
        """The file system has found an error in itself, and turns read-only."""
        Path(f"/sys/fs/ext4/{self.name}/trigger_fs_error").write_text("1")

    def repair(self) -> None:
        """Check it and mount it again; nobody may have it open."""
        subprocess.run(["umount", str(self.folder)], check=True)
        subprocess.run(["e2fsck", "-fy", self._device], check=False, capture_output=True)
        subprocess.run(["mount", "-o", OPTIONS, self._device, str(self.folder)], check=True)

    def written(self) -> int:
        """Bytes that reached the device, once all that waits has."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            os.sync()
            os.fsync(fd)
        finally:
            os.close(fd)
        return self._disk.written_bytes()


@contextlib.contextmanager
def counted_disk(folder: Path, size_bytes: int) -> Iterator[CountedDisk]:
    """An ext4 on a loop device; the test is skipped where nobody may make one."""
    image = folder.with_name(folder.name + ".img")
    with image.open("wb") as file:
        file.truncate(size_bytes)
    folder.mkdir()
    device = ""
    try:
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image)], check=True)
        made = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
        device = made.stdout.strip()
        if made.returncode:
            pytest.skip(f"bytes that reach a disk need the right to make a loop device: {made.stderr.strip()}")
        mounted = subprocess.run(
            ["mount", "-o", OPTIONS, device, str(folder)], capture_output=True, text=True, check=False
        )
        if mounted.returncode:
            pytest.skip(f"the loop device cannot be mounted here: {mounted.stderr.strip()}")
        try:
            yield CountedDisk(folder, device)
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
    finally:
        if device:
            subprocess.run(["losetup", "--detach", device], check=False)
        image.unlink()
