"""Two systems on a Raspberry Pi: ``config.txt`` names the folder of one, and for one boot that of the other.

The firmware loads what ``config.txt`` names: the line ``os_prefix=a/`` is the folder of kernel, initramfs, device trees
and ``cmdline.txt``. For a trial it names the other slot, and what stood there is in ``before.txt``. The initramfs puts
that back before anything else, so that a trial which does not come up is left by any reset. The vendor's own way, by
``tryboot.txt``, wants a kernel that tells the firmware of it; Debian's does not.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Final, final

from gateway.appliance.bootfiles import put_file, put_folder, remove, sync_folder
from gateway.appliance.loader import LoaderError

CONFIG: Final = "config.txt"
BEFORE: Final = "before.txt"  # the initramfs knows these two names
TRIAL: Final = "trial.txt"  # what config.txt becomes when the trial ends well
_PREFIX: Final = re.compile(r"^os_prefix=([ab])/\s*$", re.MULTILINE)


@final
class PiBoot:
    """Over the mounted boot partition; ``booted`` is the slot that runs. Methods raise OSError and LoaderError."""

    def __init__(self, boot: Path, booted: str) -> None:
        self._boot = boot
        self._booted = booted

    def primary(self) -> str:
        """The slot that boots next."""
        return self._named(CONFIG)

    def is_there(self, slot: str) -> bool:
        """Whether anything was made bootable in it."""
        return slot in (self._settled(), self._trial())

    def is_good(self, slot: str) -> bool:
        """Whether it can be booted."""
        return (self._boot / slot).is_dir()

    def is_on_trial(self, slot: str) -> bool:
        """Whether it runs, or will, for one boot only."""
        return slot != self._settled() and (slot in (self._booted, self._trial()))

    def install(self, slot: str, files: Path) -> None:
        """What a bundle brings for the boot partition: a folder as it stands there, and the config.txt for it."""
        self.set_bad(slot)
        put_folder(files, self._boot / slot, slot)
        self._try(slot, (self._boot / slot / CONFIG).read_text())

    def set_primary(self, slot: str) -> None:
        """It boots next, once, unless it is the one that always does."""
        if not self.is_good(slot):
            raise LoaderError(f"slot {slot} is empty")
        if slot == self._settled():
            self._end_trial()
        else:
            own = self._boot / slot / CONFIG
            self._try(slot, (own if own.exists() else self._boot / CONFIG).read_text())

    def set_good(self, slot: str) -> None:
        """It boots from now on."""
        if slot == self._settled():
            return
        if self._trial() != slot:
            raise LoaderError(f"slot {slot} is not on trial")
        put_file(self._boot / CONFIG, (self._boot / TRIAL).read_text())
        for name in (BEFORE, TRIAL):
            remove(self._boot / name)

    def set_bad(self, slot: str) -> None:
        """It boots no more."""
        if slot == self._settled():
            raise LoaderError(f"slot {slot} is the one that {CONFIG} boots; make the other one primary")
        if self._trial() == slot:
            self._end_trial()
        if slot != self._booted:
            shutil.rmtree(self._boot / slot, ignore_errors=True)

    def _try(self, slot: str, config: str) -> None:
        if _PREFIX.search(config) is None:
            raise LoaderError(f"{CONFIG}: no line os_prefix=a/ or os_prefix=b/ in it")
        put_file(self._boot / TRIAL, _PREFIX.sub(f"os_prefix={slot}/", config))
        if not (self._boot / BEFORE).exists():
            put_file(self._boot / BEFORE, (self._boot / CONFIG).read_text())
        put_file(self._boot / CONFIG, (self._boot / TRIAL).read_text())

    def _end_trial(self) -> None:
        if (self._boot / BEFORE).exists():
            os.replace(self._boot / BEFORE, self._boot / CONFIG)
            sync_folder(self._boot)
        remove(self._boot / TRIAL)

    def _settled(self) -> str:
        """The slot that boots when no trial is on."""
        return self._named(BEFORE if (self._boot / BEFORE).exists() else CONFIG)

    def _trial(self) -> str:
        return self._named(TRIAL) if (self._boot / TRIAL).exists() else ""

    def _named(self, name: str) -> str:
        found = _PREFIX.search((self._boot / name).read_text())
        if found is None:
            raise LoaderError(f"{self._boot / name}: no line os_prefix=a/ or os_prefix=b/ in it")
        return found[1]
