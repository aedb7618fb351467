"""Loop devices, for what must be a disk."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def loop_device(file: Path) -> Iterator[Path]:
    """A disk whose content is the file; skips the test where the system gives no loop devices."""
    if os.geteuid():
        pytest.skip("loop devices need root")
    made = subprocess.run(["losetup", "--find", "--show", file], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this system gives no loop device: {made.stderr.strip()}")
    device = Path(made.stdout.strip())
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextmanager
def mounted(device: Path, at: Path) -> Iterator[None]:
    """A new ext4 file system on the device, mounted; it may be gone again at the end."""
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    at.mkdir()
    subprocess.run(["mount", device, at], check=True)
    try:
        yield
    finally:
        if os.path.ismount(at):
            subprocess.run(["umount", at], check=True)
