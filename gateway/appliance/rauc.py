"""RAUC: its configuration for the disk that was booted from, and an installation with its progress."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.appliance.bundle import BundleError
from gateway.appliance.slots import SLOTS, Appliance
from gateway.replacing import locked, replace

MOUNTS: Final = "run/rauc"
BUNDLE: Final = f"{MOUNTS}/bundle"  # where a bundle is mounted while it is installed
CONF: Final = "etc/rauc/system.conf"
BACKEND: Final = "/usr/lib/forebay/rauc-backend"
KEYRING: Final = "etc/rauc/keyring.pem"
_PROGRESS: Final = re.compile(r"^\s*(\d+)%\s*(.*)$")


def system_conf(where: Appliance) -> str:
    """Slots by device, as partitions of the disk that was booted from: labels are the same on every flashed disk."""
    slots = "".join(
        f"\n[slot.root.{number}]\ndevice={where.devices[slot]}\ntype=raw\nbootname={slot}\n"
        for number, slot in enumerate(SLOTS)
    )
    # a machine without a clock may believe that it is before the day on which the certificate begins
    return f"""[system]
compatible={where.compatible}
bootloader=custom
bundle-formats=verity
mountprefix={where.root / MOUNTS}
statusfile={where.state_dir / "rauc.status"}

[keyring]
path={where.root / KEYRING}
use-bundle-signing-time=true

[handlers]
bootloader-custom-backend={BACKEND}
{slots}"""


def write_conf(where: Appliance) -> Path:
    """Before RAUC's service starts, which reads it once. Raises OSError."""
    path = where.root / CONF
    where.state_dir.mkdir(parents=True, exist_ok=True)
    with locked(path):
        replace(path, system_conf(where).encode(), 0o644)
    return path


def install(bundle: Path, conf: Path, progress: Callable[[int, str], None]) -> None:
    """Write it to the slot that does not run and make that boot next. Raises BundleError with RAUC's reason."""
    try:
        process = subprocess.Popen(
            ["rauc", f"--conf={conf}", "install", "--progress", bundle],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    except OSError as error:
        raise BundleError(f"rauc cannot be run: {error.strerror}") from None
    last = ""
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            found = _PROGRESS.match(line)
            if found is not None:
                progress(int(found[1]), found[2])
            last = re.sub(r"^.*LastError:\s*", "", line).strip() or last
    if process.wait():
        raise BundleError(f"{bundle}: {last or 'rauc failed'}")
