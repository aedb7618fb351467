"""The uplinks of a broker, of which most is imported once there is one: RAM is short on small boards."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from gateway.log import Log
from gateway.net.connection import Turn
from gateway.net.control import CommandError
from gateway.settings.uplink import UplinkRow

if TYPE_CHECKING:
    from gateway.uplink.uplinks import Uplinks


@final
class LateUplinks:
    """Stands for ``Uplinks``, there or not. ``folder`` is the data folder.

    ``held``: none is dialled before ``release()``, but what is for them is queued.
    """

    def __init__(self, turn: Turn, log: Log, folder: Path, held: bool = False) -> None:
        self._turn, self._log, self._folder, self._held = turn, log, folder, held
        self._uplinks: Uplinks | None = None

    def configure(self, rows: Sequence[UplinkRow], now: int) -> None:
        """These are the uplinks from now on."""
        if rows and self._uplinks is None:
            from gateway.uplink.uplinks import Uplinks

            self._uplinks = Uplinks(self._turn, self._log, self._folder, self._held)
        if self._uplinks is not None:
            self._uplinks.configure(rows, now)
        else:
            self._turn.router.uplinks.configure([], "", 0, now)  # what was one before the start goes on no more

    def release(self) -> None:
        """They may be dialled."""
        self._held = False
        if self._uplinks is not None:
            self._uplinks.release()

    def run(self) -> None:
        """Behind each turn."""
        if self._uplinks is not None:
            self._uplinks.run()

    def stop(self) -> None:
        """Every link ends."""
        if self._uplinks is not None:
            self._uplinks.stop()

    def rows(self, now: int) -> list[dict[str, Any]]:
        """What ``forebay uplink list`` shows."""
        return [] if self._uplinks is None else self._uplinks.rows(now)

    def command(self, name: str, uplink: object) -> dict[str, Any]:
        """``uplink_pause`` and ``uplink_resume``. Raises CommandError."""
        if self._uplinks is None:
            raise CommandError("no uplink is configured")
        return self._uplinks.command(name, uplink)
