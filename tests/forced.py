"""A folder that is made read-only under files that are open in it, as SysRq+u does with all file systems."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts are root's")


def force_read_only(folder: Path) -> None:
    """A mount of it lies above; open files do not notice."""
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)


def give_back(folder: Path) -> None:
    subprocess.run(["umount", folder], check=True)


@contextmanager
def read_only_by_force(folder: Path) -> Iterator[None]:
    force_read_only(folder)
    try:
        yield
    finally:
        give_back(folder)
