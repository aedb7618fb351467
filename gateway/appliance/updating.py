"""The way of an update: install it in the other slot, let it boot, keep it when it is healthy, else go back.

Data are never taken back: both systems work on the same ones, and the older must be able to read what the newer left.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from gateway.appliance import rauc
from gateway.appliance.bootfiles import KERNEL, remove, require_kernel
from gateway.appliance.bundle import Bundle, BundleError, require_fit
from gateway.appliance.journal import CONFIRMED, FAILED, KEPT, ROLLED_BACK, Journal, Pending, Version, read_journal
from gateway.appliance.loader import FOLDER, LoaderError, SystemdBoot, tidy
from gateway.appliance.piboot import CONFIG, PiBoot
from gateway.appliance.slots import Appliance, NoApplianceError, other, require_data, require_own_disk, writable

DONE: Final = "done"
NOTHING: Final = "nothing to confirm"
UNHEALTHY: Final = "unhealthy"
LEAVE: Final = "leave"  # unhealthy, and the next boot is of the other slot
# why something ended, said by who could not tell its caller: RAUC's backend, or the unit that leaves a version
LAST_WORDS: Final = "last-words"
_WORDS_MAX: Final = 300

Loader = SystemdBoot | PiBoot


@dataclass(frozen=True)
class Verdict:
    """What ``confirm`` found, and why."""

    result: str
    reason: str = ""


def loader_of(where: Appliance) -> Loader:
    """What boots this machine. Raises NoApplianceError."""
    if (where.boot / FOLDER).is_dir():
        return SystemdBoot(where.boot, where.slot)
    if (where.boot / CONFIG).is_file():
        return PiBoot(where.boot, where.slot)
    raise NoApplianceError(f"{where.boot}: neither systemd-boot nor a Raspberry Pi's {CONFIG}")


@final
class Updates:
    """Of one appliance; ``own`` is the program that runs, ``now`` gives the time as text.

    Methods raise OSError, LoaderError, BundleError and NoApplianceError.
    """

    def __init__(self, where: Appliance, own: Version, now: Callable[[], str]) -> None:
        self.where = where
        self.own = own
        self.loader = loader_of(where)
        self.journal: Journal = read_journal(where.state_dir)
        self._now = now

    def require_ready(self) -> None:
        """Raise NoApplianceError unless an update may be installed now."""
        require_own_disk(self.where)
        require_data(self.where)
        if self.loader.is_on_trial(self.where.slot):
            raise NoApplianceError(
                "this version is on trial still: forebay update confirm, or wait until it is confirmed"
            )

    def require_fit(self, bundle: Bundle, data_min_reader: int, no_rollback: bool) -> None:
        """Raise BundleError when it must not be installed here."""
        require_fit(bundle, self.where.compatible, self.own, data_min_reader, no_rollback)

    def install(self, bundle: Bundle, no_rollback: bool, progress: Callable[[int, str], None]) -> None:
        """Put a bundle that was checked into the other slot; the next boot is its trial."""
        slot = other(self.where.slot)
        conf = rauc.write_conf(self.where)
        # what is overwritten boots no more; then its name, so that also what a power cut leaves has one
        self.mark(slot, False)
        self.journal.slots = {self.where.slot: self.own, slot: bundle.holds}
        self.journal.pending = Pending(slot, bundle.holds.version, self.where.boot_id, no_rollback)
        self.journal.write()
        self._last_words()
        try:
            rauc.install(bundle.path, conf, progress)
        except BundleError as error:
            why = self._last_words()
            told = BundleError(f"{bundle.path}: {why}") if why else error
            self._failed(bundle.holds.version, str(told))
            raise told from None

    def roll_back(self, data_min_reader: int) -> str:
        """The other slot boots next; its version."""
        slot = other(self.where.slot)
        before = self.journal.slots.get(slot)
        if not self.loader.is_good(slot):
            raise LoaderError("there is no version to go back to")
        if before is not None and before.schema < data_min_reader:
            raise LoaderError(
                f"version {before.version} cannot read the data any more"
                f" (it knows schema {before.schema}, they need {data_min_reader})"
            )
        version = before.version if before is not None else "of before"
        with writable(self.where.boot):
            self.loader.set_primary(slot)
        self.journal.pending = Pending(slot, version, self.where.boot_id, asked=True)
        self.journal.write()
        return version

    def confirm(self, problem: Callable[[], str]) -> Verdict:
        """Once after each start. ``problem`` says why the gateway is not healthy, or "" when it is."""
        pending, slot = self.journal.pending, self.where.slot
        if pending is not None and pending.slot != slot:
            if pending.boot_id == self.where.boot_id:
                return Verdict(NOTHING, f"version {pending.version} boots next")
            return self._came_back(pending)
        if pending is None and not self.loader.is_on_trial(slot):
            return Verdict(NOTHING)
        reason = problem()
        if not reason:
            return self._keep(CONFIRMED, "by request" if pending is not None and pending.asked else "healthy")
        if pending is not None and pending.no_rollback:
            self._keep(KEPT, reason)
            return Verdict(UNHEALTHY, reason)
        if not self.loader.is_good(other(slot)):
            return Verdict(UNHEALTHY, f"{reason}; there is no version to go back to")
        return self._leave(reason)

    def fail(self, reason: str) -> Verdict:
        """The system itself says that it cannot serve: as confirm, with that as the problem."""
        return self.confirm(lambda: reason)

    def status(self) -> dict[str, Any]:
        """For ``forebay update status``."""
        where, slots = self.where, self.journal.slots
        return {
            "board": where.compatible,
            "disk": str(where.disk),
            "slot": where.slot,
            "version": where.version,
            "on_trial": self.loader.is_on_trial(where.slot),
            "boots_next": self.loader.primary(),
            "other": {
                "slot": other(where.slot),
                "version": slots[other(where.slot)].version if other(where.slot) in slots else None,
                "can_boot": self.loader.is_good(other(where.slot)),
            },
        }

    def place(self, slot: str) -> None:
        """What RAUC asks for when a slot is written: kernel and initramfs from the mounted bundle, then the entry."""
        if self.loader.is_good(slot):
            with writable(self.where.boot):
                self.loader.set_primary(slot)
            return
        files = self.where.root / rauc.BUNDLE / "boot"
        try:
            require_kernel(files / KERNEL, os.uname().machine)
            with writable(self.where.boot):
                tidy(self.where.boot)
                self.loader.install(slot, files)
        except (OSError, LoaderError) as error:
            (self.where.state_dir / LAST_WORDS).write_text(str(error))
            raise

    def mark(self, slot: str, good: bool) -> None:
        with writable(self.where.boot):
            (self.loader.set_good if good else self.loader.set_bad)(slot)

    def _failed(self, version: str, reason: str) -> None:
        """Nothing of it boots."""
        self.journal.slots.pop(other(self.where.slot), None)
        self.journal.end(version, FAILED, reason, self._now())
        self.journal.write()

    def _last_words(self) -> str:
        """What was left to be told, once."""
        path = self.where.state_dir / LAST_WORDS
        try:
            words = path.read_text(errors="replace")
            path.unlink()
        except OSError:
            return ""
        return " ".join(words.split())[:_WORDS_MAX]

    def _keep(self, outcome: str, reason: str) -> Verdict:
        if self.loader.is_on_trial(self.where.slot):
            self.mark(self.where.slot, True)
        self.journal.slots[self.where.slot] = self.own
        self.journal.end(self.where.version, outcome, reason, self._now())
        self.journal.write()
        return Verdict(DONE, reason)

    def _leave(self, reason: str) -> Verdict:
        """The reason first: without it a way back would be silent."""
        self.journal.end(self.where.version, ROLLED_BACK, reason, self._now())
        self.journal.write()
        with writable(self.where.boot):
            self.loader.set_primary(other(self.where.slot))
            self.loader.set_bad(self.where.slot)
        return Verdict(LEAVE, reason)

    def _came_back(self, pending: Pending) -> Verdict:
        """What was to boot did not come so far as to say why."""
        if not self.loader.is_there(pending.slot):
            self._failed(pending.version, "the installation was cut short")
            return Verdict(DONE, f"version {pending.version}: the installation was cut short")
        words = self._last_words()
        tried = f"it could not be confirmed: {words}" if words else "it did not come up, in none of its tries"
        self.journal.end(pending.version, ROLLED_BACK, tried, self._now())
        self.journal.write()
        with writable(self.where.boot):
            self.loader.set_bad(pending.slot)
        return Verdict(DONE, f"version {pending.version} was left: {tried}")


def download_path(where: Appliance) -> Path:
    """Of a bundle from a web server."""
    return where.state_dir / "download.raucb"


def forget_download(where: Appliance) -> None:
    """Its room is the queue's. Raises OSError."""
    if download_path(where).exists():
        remove(download_path(where))
