"""How often the gateway has crashed lately: a small file in the data folder, written at a start and once that was good.

A start stands in the file until the run has lasted long enough, or has ended as it should; what stands there when the
next one begins was a crash. Those of before the machine started do not count: a loss of power is no crash.
"""

import contextlib
import json
from pathlib import Path
from typing import Final, final

from gateway.replacing import replace

FILE: Final = "starts.json"


@final
class Crashes:
    """Times are ms of CLOCK_BOOTTIME. A file that cannot be read holds none, one that cannot be written counts none."""

    def __init__(self, folder: Path, boot_id: str, now: int, within_ms: int) -> None:
        self._path = folder / FILE
        self._boot_id = boot_id
        self._now = now
        self._starts = [at for at in self._read() if 0 <= now - at < within_ms]

    @property
    def count(self) -> int:
        """Starts that came to nothing, of the time that counts."""
        return len(self._starts)

    def begun(self) -> None:
        """This one has begun, and nothing is known of it yet."""
        self._write([*self._starts, self._now])

    def withdrawn(self) -> None:
        """It ended by itself with a reason that it could say, before it served: no crash."""
        self._write(self._starts)

    def settled(self) -> None:
        """It has lasted, or was ended: what was before is over."""
        self._starts = []
        if self._path.exists():
            self._write([])

    def _read(self) -> list[int]:
        try:
            found = json.loads(self._path.read_bytes())
            if not self._boot_id or found["boot_id"] != self._boot_id:
                return []
            return [at for at in found["starts"] if type(at) is int]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return []

    def _write(self, starts: list[int]) -> None:
        found = json.dumps({"boot_id": self._boot_id, "starts": starts}).encode()
        with contextlib.suppress(OSError):
            replace(self._path, found, lasting=False)  # after a loss of power it counts for nothing
