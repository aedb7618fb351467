"""What is written to the disk that holds the data, per day and in all, and how long it lasts at that rate.

The counters of the kernel begin at 0 with each start of the machine (those of a process with each of its own), so sums
are kept in the database, in rows that go along with the clock's.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, final

from gateway.boards import Board
from gateway.machine import Disk
from gateway.replacing import replace

DAY_MS: Final = 86_400_000
DAYS: Final = 7  # that the rate is taken from
KNOWN_MS: Final = 3_600_000  # after it a rate is told
SMART: Final = Path("/run/forebay/smart.json")  # what smartctl said last, if anything asks it
SMART_DISKS: Final = ("ssd", "nvme")
_SMART_BYTES_MAX: Final = 1 << 20
_ATA: Final = ("Wear_Leveling_Count", "Media_Wearout_Indicator", "SSD_Life_Left", "Percent_Lifetime_Remain")

KEY_DISK: Final = "wear.disk"
KEY_BOOT: Final = "wear.boot_id"
KEY_RAW: Final = "wear.raw_bytes"
KEY_TOTAL: Final = "wear.total_bytes"
KEY_DAYS: Final = "wear.days"
KEY_DAY_MS: Final = "wear.day_ms"

Meta = Mapping[str, int | str]


@final
class Wear:
    """``now`` is gateway time in ms. Without a disk of its own only this process is counted."""

    def __init__(self, disk: Disk | None, board: Board | None, smart: Path = SMART, io: Path | None = None) -> None:
        self._disk = disk
        self._storage = disk.storage() if disk is not None else ""
        self._name = disk.identity() if disk is not None else ""
        rated = board is not None and board.storage == self._storage
        self._board = board if rated else None
        self._smart = smart
        self._io = io or Path("/proc/self/io")
        self._boot_id = ""
        self._raw = 0
        self._total = 0
        self._days = [0]
        self._day_ms = 0  # when the last of them began

    def restore(self, meta: Meta, boot_id: str, now: int) -> None:
        """Go on where the last run was; another disk begins anew."""
        self._boot_id, self._day_ms = boot_id, now
        raw, total, day_ms, days = (meta.get(key) for key in (KEY_RAW, KEY_TOTAL, KEY_DAY_MS, KEY_DAYS))
        known = _days(days)
        if meta.get(KEY_DISK) != self._name or not isinstance(total, int) or not isinstance(day_ms, int) or not known:
            self._raw = self._read()
            return
        self._total, self._days, self._day_ms = total, known, min(day_ms, now)
        if self._disk is not None and meta.get(KEY_BOOT) == boot_id and isinstance(raw, int):
            self._raw = raw  # what others wrote while the gateway was away counts
        self._count(now)

    def rows(self, now: int) -> dict[str, int | str]:
        """To store, at least once a minute."""
        self._count(now)
        return {
            KEY_DISK: self._name,
            KEY_BOOT: self._boot_id,
            KEY_RAW: self._raw,
            KEY_TOTAL: self._total,
            KEY_DAYS: ",".join(map(str, self._days)),
            KEY_DAY_MS: self._day_ms,
        }

    def report(self, now: int) -> dict[str, Any]:
        """Bytes, and what is left: of 1, and in years; None = not known."""
        self._count(now)
        counted_ms = now - self._day_ms + (len(self._days) - 1) * DAY_MS
        day = sum(self._days) * DAY_MS / counted_ms if counted_ms >= KNOWN_MS else None
        left, source = self._life()
        board = self._board
        years = None
        if board is not None and left is not None and day:
            years = left * board.endurance_bytes / (day * board.amplification) / 365
        return {
            "disk": self._disk.name if self._disk is not None else None,
            "storage": self._storage or None,
            "total_bytes": self._total,
            "day_bytes": None if day is None else round(day),
            "counted_s": counted_ms // 1000,
            "life_left": left,
            "life_from": source,
            "spares_low": self._disk.spares_low() if self._disk is not None else False,
            "years_left": None if years is None else round(years, 2),
        }

    def _read(self) -> int:
        if self._disk is not None:
            return self._disk.written_bytes()
        try:
            lines = self._io.read_text(encoding="ascii").splitlines()
        except (OSError, UnicodeDecodeError):
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("write_bytes:")), 0)

    def _count(self, now: int) -> None:
        raw = self._read()
        while now - self._day_ms >= DAY_MS:
            self._day_ms += DAY_MS
            self._days = [*self._days, 0][-DAYS:]
        grown = raw - self._raw if raw >= self._raw else raw
        self._raw = raw
        self._total += grown
        self._days[-1] += grown

    def _life(self) -> tuple[float | None, str | None]:
        """What is left of 1, and who says so: the storage itself, else what has been written of what it bears."""
        if self._disk is None:
            return None, None
        used = self._disk.life_used_percent()
        if used >= 0:
            return (100 - used) / 100, "eMMC"
        used = smart_used_percent(self._smart)
        if used >= 0 and self._storage in (*SMART_DISKS, ""):
            return max(100 - used, 0) / 100, "SMART"
        board = self._board
        if board is None:
            return None, None
        return round(max(0.0, 1 - self._total * board.amplification / board.endurance_bytes), 3), "endurance"


def ask_smart(disk: str, to: Path = SMART) -> int:
    """Have smartctl ask the disk of this name, and write what it says to the file; percent used, as below.

    Raises OSError, also where smartctl is not there or says nothing of use.
    """
    # its exit status counts what it found amiss with the disk
    line = ["smartctl", "--json", "--attributes", f"/dev/{disk}"]
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    try:
        done = subprocess.run(line, capture_output=True, check=False, env={**os.environ, "PATH": path})
    except FileNotFoundError:
        raise OSError("smartctl: not found: expected the package smartmontools") from None
    if not done.stdout.startswith(b"{"):
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise OSError(f"{' '.join(line)}: {said[-1] if said else f'exit status {done.returncode}'}")
    replace(to, done.stdout, 0o644, lasting=False)
    return smart_used_percent(to)


def smart_used_percent(path: Path) -> int:
    """What a file in smartctl's JSON says is used of a disk's life; -1 = nothing."""
    try:
        with path.open("rb") as file:
            told = json.loads(file.read(_SMART_BYTES_MAX))
        nvme = told.get("nvme_smart_health_information_log", {}).get("percentage_used")
        if isinstance(nvme, int):
            return nvme
        for row in told.get("ata_smart_attributes", {}).get("table", []):
            if row.get("name") in _ATA and isinstance(row.get("value"), int):
                return 100 - min(int(row["value"]), 100)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        pass
    return -1


def _days(text: object) -> list[int]:
    try:
        return [int(day) for day in str(text).split(",")][-DAYS:]
    except ValueError:
        return []
