"""Safe mode: after too many crashes the gateway serves with the last good settings and without uplinks.

Settings are good once a run with them has lasted ``safe_mode.within``; the file that they came from is kept then.
"""

import dataclasses
from pathlib import Path
from typing import Any, Final, final

from gateway.crashes import Crashes
from gateway.log import Log
from gateway.replacing import replace
from gateway.settings.table import Settings, SettingsError, load
from gateway.store.clock import boot_id, boottime_ms

GOOD: Final = "settings.good.toml"  # in the data folder


@final
class Recovery:
    """``settings`` are those to serve with; ``safe`` says whether this is safe mode. Times are ms of CLOCK_BOOTTIME."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._log = log
        self._within_ms = settings.safe_mode_within * 1000
        self._crashes = Crashes(settings.data_dir, boot_id(), boottime_ms(), self._within_ms)
        self._good = settings.data_dir / GOOD
        self._text = _text(settings.sources.config)
        self._since = 0
        self._settled = False
        self.crashed = self._crashes.count
        self.safe = bool(settings.safe_mode_crashes) and self.crashed >= settings.safe_mode_crashes
        self.old = False  # the settings are those of before
        self.settings = self._last_good(settings) if self.safe else settings

    def begun(self) -> None:
        """The gateway starts, and may crash from here on."""
        self._since = boottime_ms()
        self._crashes.begun()
        if self.safe:
            which = "the last good settings" if self.old else "the settings as they are"
            self._log.error(
                f"safe mode: {self.crashed} crashes within {self._within_ms // 1000} s; serving with {which}, uplinks "
                "are held; it ends by itself, or by forebay safe-mode leave"
            )

    def withdrawn(self) -> None:
        """It could not start, and says why."""
        self._crashes.withdrawn()

    def ended(self) -> None:
        """It was told to end."""
        self._crashes.settled()

    def reloaded(self, settings: Settings) -> None:
        """Other settings count: whether they are good is to be seen."""
        self._text = _text(settings.sources.config)
        self._since = boottime_ms()
        self._settled = False
        self.old = False

    def lasted(self) -> bool:
        """True once it has gone well for long enough; what follows from that, but for the end of safe mode, is done."""
        if self._settled or boottime_ms() - self._since < self._within_ms:
            return False
        self._settled = True
        self._crashes.settled()
        if not self.safe:
            self._keep()
        return True

    def left(self) -> None:
        """Safe mode is over."""
        self.safe = False
        self._crashes.settled()
        self._since = boottime_ms()
        self._settled = False
        self._log.info("safe mode is over")

    def stays(self, why: str) -> None:
        """It could not be left; the next try is as long off as the first was."""
        self._since = boottime_ms()
        self._settled = False
        self._log.error(f"safe mode goes on: {why}")

    def report(self) -> dict[str, Any] | None:
        """For the status; None outside safe mode."""
        if not self.safe:
            return None
        left_ms = self._within_ms - (boottime_ms() - self._since)
        return {"crashes": self.crashed, "last_good": self.old, "ends_in_s": max(left_ms, 0) // 1000}

    def _last_good(self, settings: Settings) -> Settings:
        """With the file as it was when a run lasted, where it has changed since; all other sources are as they are."""
        text = _text(self._good)
        if settings.sources.config is None or not text or text == self._text:
            return settings
        try:
            good = load(dataclasses.replace(settings.sources, config=self._good))
        except SettingsError as e:
            self._log.warning(f"safe mode: the last good settings cannot be used: {e}")
            return settings
        self.old = True
        good.sources = settings.sources  # a reload takes the file as it is
        good.data_dir = settings.data_dir
        return good

    def _keep(self) -> None:
        if not self._text or _text(self._good) == self._text:
            return
        try:
            replace(self._good, self._text)
        except OSError as e:
            self._log.warning(f"{self._good}: cannot be written: {e.strerror or e}")


def _text(path: Path | None) -> bytes:
    try:
        return b"" if path is None else path.read_bytes()
    except OSError:
        return b""
