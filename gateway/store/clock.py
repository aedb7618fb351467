"""The gateway clock: milliseconds that go on over restarts of the process and of the machine.

gateway ms = CLOCK_BOOTTIME + offset. Every deadline in the database is in gateway ms, so a start rewrites nothing:
it only finds the offset. The wall clock never counts unless it was NTP-synchronised at both ends of a gap.
"""

import ctypes
import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

PLAUSIBLE_GAP_MS: Final = 10 * 365 * 86_400_000  # a longer gap is a broken clock, synchronised or not

KEY_BOOT_ID: Final = "clock.boot_id"
KEY_OFFSET_MS: Final = "clock.offset_ms"
KEY_GATEWAY_MS: Final = "clock.gateway_ms"
KEY_WALL_MS: Final = "clock.wall_ms"
KEY_SYNCED: Final = "clock.synced"

PROC_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
BOOT_ID: Final = "FOREBAY_BOOT_ID"  # environment
SYNCHRONISED: Final = Path("/run/systemd/timesync/synchronized")  # made by systemd-timesyncd, once for each boot

_TIME_ERROR: Final = 5  # adjtimex: the clock is not synchronised
_STA_UNSYNC: Final = 0x0040


@final
class Reading:
    """What the clocks of the machine say at one moment."""

    def __init__(self, boot_id: str, boottime_ms: int, wall_ms: int, synced: bool) -> None:
        self.boot_id = boot_id
        self.boottime_ms = boottime_ms
        self.wall_ms = wall_ms
        self.synced = synced


def read_clocks() -> Reading:
    """The clocks of this machine, now."""
    return Reading(boot_id(), boottime_ms(), time.time_ns() // 1_000_000, ntp_synchronised())


def boottime_ms() -> int:
    """Milliseconds since the machine started, suspend included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def boot_id() -> str:
    """The kernel's name for this boot; empty (never equal to a stored one) when there is none.

    A unit that hides all of /proc but processes says it in the environment, without dashes.
    """
    try:
        return PROC_BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        told = os.environ.get(BOOT_ID, "")
        return "-".join((told[:8], told[8:12], told[12:16], told[16:20], told[20:])) if len(told) == 32 else ""


@final
class _Timex(ctypes.Structure):
    # struct timex ends in more fields and padding on every architecture; the kernel fills at most this much
    _fields_ = [("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long),
                ("maxerror", ctypes.c_long), ("esterror", ctypes.c_long), ("status", ctypes.c_int),
                ("rest", ctypes.c_byte * 512)]  # fmt: skip


def ntp_synchronised() -> bool:
    """Whether the kernel holds the wall clock for synchronised; False when that cannot be known.

    A sandbox that lets nobody near the clock does not let them read it so either: then systemd-timesyncd has the word.
    """
    try:
        timex = _Timex()
        state: int = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):
        return False
    if state < 0 and ctypes.get_errno() == errno.EPERM:
        return SYNCHRONISED.exists()
    return state >= 0 and state != _TIME_ERROR and not timex.status & _STA_UNSYNC


def offset_at_start(meta: Mapping[str, int | str], now: Reading) -> int:
    """The offset in ms to add to CLOCK_BOOTTIME, from the last stamp in ``meta`` (none: gateway time starts here).

    Within one boot the stored offset holds exactly. After another boot gateway time goes on at the last saved moment,
    plus the wall-clock gap only when both stamps were synchronised and the gap is neither negative nor absurd: a
    message kept too long is better than one dropped by a clock that jumped.
    """
    offset, gateway_ms = meta.get(KEY_OFFSET_MS), meta.get(KEY_GATEWAY_MS)
    if now.boot_id and meta.get(KEY_BOOT_ID) == now.boot_id and isinstance(offset, int):
        return offset
    if not isinstance(gateway_ms, int):
        return 0
    wall_ms, gap_ms = meta.get(KEY_WALL_MS), 0
    if now.synced and meta.get(KEY_SYNCED) == 1 and isinstance(wall_ms, int):
        gap_ms = now.wall_ms - wall_ms
        if not 0 <= gap_ms <= PLAUSIBLE_GAP_MS:
            gap_ms = 0
    return gateway_ms + gap_ms - now.boottime_ms


def stamp(now: Reading, offset_ms: int) -> dict[str, int | str]:
    """The meta rows to save, at least every 60 s and at the end."""
    return {
        KEY_BOOT_ID: now.boot_id,
        KEY_OFFSET_MS: offset_ms,
        KEY_GATEWAY_MS: now.boottime_ms + offset_ms,
        KEY_WALL_MS: now.wall_ms,
        KEY_SYNCED: 1 if now.synced else 0,
    }
