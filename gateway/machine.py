"""What the kernel says of the machine and of the disk that holds the data. Nothing here raises: "" or 0 = not known.

``root`` is the root folder of the file system; the tests have one of their own.
"""

import os
from pathlib import Path
from typing import Final, final

ROOT: Final = Path("/")
SECTOR_BYTES: Final = 512  # of the counters, whatever the disk's own sectors are
_WRITTEN: Final = 6  # field of ``stat``: sectors written
_CF: Final = ("compactflash", "compact flash", "cf card", "cfast")


def compatible(root: Path = ROOT) -> list[str]:
    """The strings by which the device tree names the board; empty on a machine without one."""
    return [text for text in _text(root / "sys/firmware/devicetree/base/compatible").split("\0") if text]


def model(root: Path = ROOT) -> str:
    """What the maker calls the machine."""
    tree = _text(root / "sys/firmware/devicetree/base/model").strip("\0\n ")
    return tree or " ".join(filter(None, (_text(root / "sys/class/dmi/id" / name) for name in _DMI)))


_DMI: Final = ("sys_vendor", "product_name")


@final
class Disk:
    """A whole block device. ``name`` as below /sys/block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = folder.name

    def storage(self) -> str:
        """Its class, a key of ``boards.CLASSES``."""
        kind = _text(self._folder / "device/type")
        if self.name.startswith("mmcblk"):
            return "emmc" if kind == "MMC" else "sd"
        if self.name.startswith("nvme"):
            return "nvme"
        if not self.name.startswith("sd"):
            return ""  # of a virtual machine, in RAM, on the network
        if any(word in _text(self._folder / "device/model").lower() for word in _CF):
            return "cf"
        if _text(self._folder / "removable") == "1":
            return "sd"  # a stick or a card reader: the same kind of flash
        return "hdd" if _text(self._folder / "queue/rotational") == "1" else "ssd"

    def identity(self) -> str:
        """Tells it from another one in the same place."""
        found = (_text(self._folder / "device" / name) for name in ("cid", "wwid", "serial"))
        return f"{self.name} {next(filter(None, found), '')}".strip()

    def written_bytes(self) -> int:
        """Since the machine started, by all programs and the file system itself."""
        fields = _text(self._folder / "stat").split()
        return int(fields[_WRITTEN]) * SECTOR_BYTES if len(fields) > _WRITTEN else 0

    def life_used_percent(self) -> int:
        """What an eMMC says is used of its life, in steps of ten, the upper end; -1 = not told."""
        steps = [_number(word) for word in _text(self._folder / "device/life_time").split()]
        used = max((step for step in steps if 1 <= step <= 11), default=-1)
        return min(10 * used, 100) if used > 0 else -1

    def spares_low(self) -> bool:
        """Whether an eMMC says that most of its spare blocks are used."""
        return _number(_text(self._folder / "device/pre_eol_info")) in (2, 3)


def disk_of(path: Path, root: Path = ROOT) -> Disk | None:
    """The disk that holds a file or folder, or will hold it; None on a file system that has none of its own."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        number = path.stat().st_dev
    except OSError:
        return None
    if os.major(number) == 0:  # btrfs and such: the file system has a number of its own
        number = _source(path, root)
    folder = root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
    for _ in range(8):  # a partition lies in its disk; mapped and mirrored disks have others below
        try:
            folder = folder.resolve()
            if (folder / "partition").exists():
                folder = folder.parent
            below = sorted(folder.glob("slaves/*"))
        except (OSError, RuntimeError):
            return None
        if not below:
            break
        folder = below[0]
    return Disk(folder) if (folder / "stat").exists() else None


def _source(path: Path, root: Path) -> int:
    """The number of the device whose file system is mounted there; 0 = none."""
    here, best, source = str(path.resolve()), "", ""
    for line in _text(root / "proc/self/mountinfo").splitlines():
        fields, _, more = line.partition(" - ")
        point, what = fields.split(" ")[4:5], more.split(" ")[1:2]
        if point and what and len(point[0]) >= len(best) and f"{here}/".startswith(point[0].rstrip("/") + "/"):
            best, source = point[0], what[0]
    try:
        return os.stat(source).st_rdev if source.startswith("/dev/") else 0
    except OSError:
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return 0
