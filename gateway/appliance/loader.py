"""Two systems under systemd-boot: entries whose names count the tries (systemd's Automatic Boot Assessment).

``b+3.conf`` is new and has three tries; the boot loader renames it at each, to ``b+2-1.conf`` and so on. ``b.conf`` is
good, ``b+0-3.conf`` is bad and comes last. Of the others the highest ``version`` line wins: here a plain number that
grows with each change, so that an older program can be installed over a newer one.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple, final

from gateway.appliance.bootfiles import put_file, put_folder, remove, rename
from gateway.appliance.slots import SLOTS

TRIES: Final = 3
FOLDER: Final = "loader/entries"
_NAME: Final = re.compile(r"([ab])(?:\+(\d+)(?:-(\d+))?)?\.conf")
_VERSION: Final = re.compile(r"^version\s+(\S+)\s*$", re.MULTILINE)


class LoaderError(Exception):
    """What is asked of the boot loader cannot be; one line for people."""


class Entry(NamedTuple):
    """``left`` tries, None when it is not counted (any more)."""

    slot: str
    left: int | None
    version: str
    path: Path

    def rank(self) -> tuple[bool, list[int], int]:
        """The highest boots; between equal ones the boot loader takes the one with more tries."""
        return self.left != 0, self.numbers(), TRIES + 1 if self.left is None else self.left

    def numbers(self) -> list[int]:
        """Of its version, the first counts most; an image begins with that of the program."""
        return [int(number) for number in re.findall(r"\d+", self.version)] or [0]


@final
class SystemdBoot:
    """Over the mounted boot partition; ``booted`` is the slot that runs. Methods raise OSError and LoaderError."""

    def __init__(self, boot: Path, booted: str) -> None:
        self._boot = boot
        self._booted = booted

    def entries(self) -> list[Entry]:
        """The one that boots next first."""
        found = []
        for path in (self._boot / FOLDER).glob("*.conf"):
            name = _NAME.fullmatch(path.name)
            if name is not None:
                version = _VERSION.search(path.read_text(errors="replace"))
                left = None if name[2] is None else int(name[2])
                found.append(Entry(name[1], left, version[1] if version is not None else "", path))
        return sorted(found, key=Entry.rank, reverse=True)

    def primary(self) -> str:
        """The slot that boots next."""
        found = self.entries()
        if not found:
            raise LoaderError(f"{self._boot / FOLDER}: no entry of a slot in it")
        return found[0].slot

    def is_there(self, slot: str) -> bool:
        """Whether anything was made bootable in it, good or bad."""
        return self._entry(slot) is not None

    def is_good(self, slot: str) -> bool:
        """Whether it can be booted: it is there, and its tries have not run out."""
        entry = self._entry(slot)
        return entry is not None and entry.left != 0

    def is_on_trial(self, slot: str) -> bool:
        """Whether its tries are counted still."""
        entry = self._entry(slot)
        return entry is not None and entry.left is not None

    def install(self, slot: str, files: Path) -> None:
        """What a bundle brings for the boot partition: kernel, initramfs, and entry.conf."""
        self.set_bad(slot)
        put_folder(files, self._boot / slot, slot)
        self._put(f"{slot}+{TRIES}.conf", (self._boot / slot / "entry.conf").read_text())

    def set_primary(self, slot: str) -> None:
        """It boots next, with the tries that it has."""
        entry = self._entry(slot)
        if entry is None:
            raise LoaderError(f"slot {slot} is empty")
        if self.primary() != slot or entry.left == 0:
            name = f"{slot}+{TRIES}.conf" if entry.left == 0 else entry.path.name
            self._put(name, entry.path.read_text())
            if name != entry.path.name:
                remove(entry.path)

    def set_good(self, slot: str) -> None:
        """No try is counted any more."""
        entry = self._entry(slot)
        if entry is None:
            raise LoaderError(f"slot {slot} is empty")
        if entry.left is not None:
            rename(entry.path, f"{slot}.conf")

    def set_bad(self, slot: str) -> None:
        """It boots no more: the one that runs as the last resort only, the other one never, since it is overwritten."""
        for entry in self.entries():
            if entry.slot != slot:
                continue
            if slot == self._booted:
                rename(entry.path, f"{slot}+0-{TRIES}.conf")
            else:
                remove(entry.path)

    def _entry(self, slot: str) -> Entry | None:
        return next((entry for entry in self.entries() if entry.slot == slot), None)

    def _put(self, name: str, text: str) -> None:
        """With a version above all others."""
        version = f"version {1 + max((entry.numbers()[0] for entry in self.entries()), default=0)}"
        text = _VERSION.sub(version, text) if _VERSION.search(text) else f"{text.rstrip()}\n{version}\n"
        put_file(self._boot / FOLDER / name, text)


def tidy(boot: Path) -> None:
    """Take away what a power cut left half written. Raises OSError."""
    for slot in SLOTS:
        for left in (boot / FOLDER).glob(f"{slot}*.conf.new"):
            left.unlink()
