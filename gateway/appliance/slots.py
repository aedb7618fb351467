"""Which disk this appliance booted from, where its two systems lie on it, and which one of them runs."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from gateway.appliance.facts import Facts, about, read

SLOTS: Final = ("a", "b")
BOOT_ENV: Final = "run/forebay-boot.env"  # as the initramfs found things, relative to the disk that it came from
TRIAL: Final = "run/forebay-trial"  # the initramfs left it: unless it is gone in time, the machine starts again
ABOUT: Final = "usr/lib/forebay/image.json"


class NoApplianceError(Exception):
    """This is no appliance with two systems on it, or not in a state for an update; one line for people."""


def other(slot: str) -> str:
    """The slot that does not run."""
    return SLOTS[1 - SLOTS.index(slot)]


@final
@dataclass(frozen=True)
class Appliance:
    """Where things are; ``root`` is / but for tests.

    ``devices``: of each slot, partitions of ``disk`` and never found by a label, since a second flashed disk has the
    same ones.
    """

    root: Path
    facts: Facts
    devices: dict[str, Path]
    compatible: str  # forebay-BOARD
    version: str

    @property
    def disk(self) -> Path:
        return Path(self.facts.disk)

    @property
    def slot(self) -> str:
        return self.facts.slot

    @property
    def boot(self) -> Path:
        """The mounted partition of the boot loader."""
        return self.root / "boot"

    @property
    def state_dir(self) -> Path:
        """Of updates, on the data partition."""
        return self.root / "data/appliance/update"

    @property
    def boot_id(self) -> str:
        return (self.root / "proc/sys/kernel/random/boot_id").read_text().strip()


def appliance(root: Path) -> Appliance:
    """What runs here. Raises NoApplianceError."""
    env = root / BOOT_ENV
    try:
        facts = read(env)
    except (OSError, ValueError) as error:
        raise NoApplianceError(f"no appliance with two systems: {env}: {error}") from None
    if facts is None or facts.slot not in SLOTS or not (facts.root_a and facts.root_b):
        raise NoApplianceError(f"no appliance with two systems: {env} does not say which of two runs")
    image = about(root / ABOUT)
    compatible, version = image.get("compatible"), image.get("version")
    if not isinstance(compatible, str) or not isinstance(version, str):
        raise NoApplianceError(f"{root / ABOUT}: does not say what image this is")
    return Appliance(root, facts, {"a": Path(facts.root_a), "b": Path(facts.root_b)}, compatible, version)


def require_own_disk(where: Appliance) -> None:
    """Raise NoApplianceError unless both slots are partitions of the disk that was booted from."""
    for device in where.devices.values():
        found = where.root / "sys/class/block" / device.name
        if not (found / "partition").exists() or found.resolve().parent.name != where.disk.name:
            raise NoApplianceError(f"{device}: no partition of {where.disk}, which this system was booted from")


def require_data(where: Appliance) -> None:
    """Raise NoApplianceError unless the data partition can be written."""
    if not where.facts.is_writable:
        reason = f": {where.facts.data_reason}" if where.facts.data_reason else ""
        raise NoApplianceError(f"the data partition is {where.facts.data_state}{reason}; an update needs it")


@contextmanager
def writable(boot: Path) -> Iterator[None]:
    """The boot partition, else mounted read-only, to be written; on leaving it all is on disk. Raises OSError."""
    is_mount = os.path.ismount(boot)
    if is_mount:
        _remount(boot, "rw")
    try:
        yield
    finally:
        os.sync()
        if is_mount:
            _remount(boot, "ro")


def _remount(boot: Path, how: str) -> None:
    done = subprocess.run(["mount", "-o", f"remount,{how}", boot], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{boot}: cannot be made {how}: {' '.join(done.stderr.split())}")
