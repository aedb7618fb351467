"""All uplinks of this gateway, as the broker has them: settings and commands in, rows out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, final

from gateway.log import Log
from gateway.net.connection import Turn
from gateway.net.control import CommandError
from gateway.settings.uplink import UplinkRow
from gateway.uplink.login import uplink_of
from gateway.uplink.remembered import Remembered
from gateway.uplink.supervisor import Site, Supervisor

HOPS_MAX: Final = 8  # gateways that a message may come through


@final
class Uplinks:
    """Runs on the event loop."""

    def __init__(self, turn: Turn, log: Log, folder: Path, held: bool = False) -> None:
        self._turn = turn
        self._held = held  # none is dialled
        self._log = log
        self._remembered = Remembered(folder)
        if self._remembered.note:
            log.warning(self._remembered.note)
        self._site = Site(turn, log, self._remembered)
        self._uplinks: dict[str, Supervisor] = {}

    def configure(self, rows: Sequence[UplinkRow], now: int) -> None:
        """These are the uplinks from now on; those whose settings did not change go on undisturbed."""
        wanted = {row.name: row for row in rows}
        for name, supervisor in list(self._uplinks.items()):
            if wanted.get(name) != supervisor.row:
                supervisor.stop()
                del self._uplinks[name]
        self._turn.router.uplinks.configure(
            [uplink_of(row) for row in rows], self._remembered.gateway_id, HOPS_MAX, now
        )
        for name, row in wanted.items():
            if name not in self._uplinks:
                if row.insecure:
                    self._log.warning(f"uplink {name}: insecure = true: any broker is taken for the right one")
                self._uplinks[name] = Supervisor(row, self._site, self._held or name in self._remembered.paused)
                self._uplinks[name].start()

    def release(self) -> None:
        """Those that nobody has paused are dialled from now on."""
        self._held = False
        for name, supervisor in self._uplinks.items():
            if name not in self._remembered.paused:
                supervisor.resume()

    def run(self) -> None:
        """Hand out what the core has to tell."""
        for event in self._turn.router.uplinks.take_events():
            supervisor = self._uplinks.get(event.uplink)
            if supervisor is not None:
                supervisor.on_event(event)

    def stop(self) -> None:
        """Every link ends."""
        for supervisor in self._uplinks.values():
            supervisor.stop()

    def rows(self, now: int) -> list[dict[str, Any]]:
        """What ``forebay uplink list`` shows."""
        return [supervisor.view(now) for supervisor in self._uplinks.values()]

    def command(self, name: str, uplink: object) -> dict[str, Any]:
        """``uplink_pause`` and ``uplink_resume``, over restarts too. Raises CommandError."""
        supervisor = self._uplinks.get(uplink) if isinstance(uplink, str) else None
        if supervisor is None:
            known = ", ".join(self._uplinks) or "none"
            raise CommandError(f"no uplink {uplink}: expected one of {known}")
        try:
            self._remembered.pause(supervisor.row.name, name == "uplink_pause")
        except OSError as e:
            raise CommandError(f"cannot be remembered: {e.filename}: {e.strerror}") from e
        if name == "uplink_pause":
            supervisor.pause()
        else:
            supervisor.resume()
        return supervisor.view(self._turn.now())
