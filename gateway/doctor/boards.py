"""Boards that a gateway runs on: how much they hold, how long a commit takes there, how much their storage bears.

Orders of magnitude from data sheets and the field, for planning: ``--endurance`` takes the figure of the part in use.
"""

from dataclasses import dataclass
from typing import Final, final

GB: Final = 10**9
TB: Final = 10**12
MIB: Final = 1 << 20


@final
@dataclass(frozen=True, slots=True)
class Board:
    name: str
    title: str
    ram_bytes: int
    storage: str
    disk_bytes: int  # of the usual size, for the gateway's data
    commit_ms: float  # one commit with its fsync
    endurance_bytes: int  # that may be written in the life of the storage
    amplification: float  # bytes that the flash writes for each that it is given in small pieces


_SD: Final = ("SD card", 24 * GB, 20.0, 15 * TB, 4.0)
_EMMC: Final = ("eMMC", 12 * GB, 6.0, 30 * TB, 3.0)
_SSD: Final = ("SSD", 100 * GB, 2.0, 100 * TB, 2.0)
_NVME: Final = ("NVMe", 100 * GB, 1.0, 150 * TB, 2.0)

BOARDS: Final = {
    board.name: board
    for board in (
        Board("pi-zero-2w", "Raspberry Pi Zero 2 W", 512 * MIB, *_SD),
        Board("pi-3", "Raspberry Pi 3 B+", 1024 * MIB, *_SD),
        Board("pi-4", "Raspberry Pi 4", 2048 * MIB, *_SD),
        Board("cm4", "Compute Module 4 with eMMC", 2048 * MIB, *_EMMC),
        Board("pi-5", "Raspberry Pi 5 with NVMe", 4096 * MIB, *_NVME),
        Board("revpi-connect-4", "RevPi Connect 4", 2048 * MIB, *_EMMC),
        Board("iot2050", "Siemens IOT2050", 1024 * MIB, *_EMMC),
        Board("beaglebone", "BeagleBone Black", 512 * MIB, "eMMC", 2 * GB, 8.0, 8 * TB, 4.0),
        Board("x86", "industrial PC", 4096 * MIB, *_SSD),
    )
}
