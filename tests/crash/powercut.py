"""The data directory as it would be after a power cut, rebuilt from the shim's log.

What a completed sync covers is there. The rest is lost in one of these ways (each file on its own):

- ``drop``: all of it
- ``tear``: applied in order up to a random byte
- ``zero``: as tear, and what follows is there in length but reads as zeros
- ``sectors``: a random choice of 512-byte sectors of it is there, in no order
- ``keep``: nothing is lost (what kill -9 leaves)

An unlinked file may come back until its directory was synced. A file's creation and a rename are taken as safe at once.
"""

import os
import random
from collections import defaultdict
from pathlib import Path

from tests.crash.shimlog import Record

SECTOR = 512
MODES = ("drop", "tear", "zero", "sectors", "keep")


class Disk:
    """Files while they are being written: what is safe of each, and the changes that no completed sync covers."""

    def __init__(self, base: Path | None = None) -> None:
        self.safe: dict[str, bytearray] = {}
        self.pending: dict[str, list[Record]] = defaultdict(list)
        self.ghosts: dict[str, bytes] = {}  # unlinked, the directory not synced since
        self.begun: dict[int, int] = {}
        for path in sorted(base.rglob("*")) if base else ():
            if base and path.is_file() and not path.name.endswith("-shm"):
                self.safe[str(path.relative_to(base))] = bytearray(path.read_bytes())

    def play(self, record: Record) -> None:
        name = record.path
        if record.kind in ("W", "T"):
            self.safe.setdefault(name, bytearray())
            self.pending[name].append(record)
        elif record.kind == "S":
            self.begun[record.number] = len(self.pending[name])
        elif record.kind == "F":
            count = self.begun.pop(record.number)
            for change in self.pending[name][:count]:
                apply(self.safe[name], change)
            del self.pending[name][:count]
            for gone in [ghost for ghost in self.ghosts if (os.path.dirname(ghost) or ".") == name]:
                del self.ghosts[gone]
        elif record.kind == "U" and name in self.safe:
            self.ghosts[name] = bytes(self.safe.pop(name))
            self.pending.pop(name, None)
        elif record.kind == "R":
            old, _, fresh = name.partition("\t")
            if old in self.safe:
                self.safe[fresh] = self.safe.pop(old)
                self.pending[fresh] = self.pending.pop(old, [])

    def files(self, mode: str, chance: random.Random) -> dict[str, bytes]:
        """Every file after a cut at this moment."""
        found = {name: lose(content, self.pending[name], mode, chance) for name, content in self.safe.items()}
        for name, content in self.ghosts.items():
            if mode != "keep" and name not in found and chance.random() < 0.5:
                found[name] = content
        return found


def apply(content: bytearray, change: Record) -> None:
    if change.kind == "T":
        del content[change.number :]
        content.extend(bytes(change.number - len(content)))
        return
    content.extend(bytes(max(0, change.number + len(change.data) - len(content))))
    content[change.number : change.number + len(change.data)] = change.data


def lose(content: bytearray, changes: list[Record], mode: str, chance: random.Random) -> bytes:
    """The safe content and what is left of the changes that nobody synced."""
    out = bytearray(content)
    if mode == "keep":
        for change in changes:
            apply(out, change)
    elif mode in ("tear", "zero"):
        left = chance.randint(0, sum(len(change.data) for change in changes))
        for change in changes:
            if change.kind == "T":
                if left > 0:
                    apply(out, change)
                continue
            kept = change.data[:left]
            left -= len(kept)
            if mode == "zero":
                kept += bytes(len(change.data) - len(kept))
            if kept:
                apply(out, change._replace(data=kept))
    elif mode == "sectors":
        for change in changes:
            if change.kind == "T":
                if chance.random() < 0.5:
                    apply(out, change)
                continue
            at = 0
            while at < len(change.data):
                size = SECTOR - (change.number + at) % SECTOR
                if chance.random() < 0.5:
                    apply(out, change._replace(number=change.number + at, data=change.data[at : at + size]))
                at += size
    else:
        assert mode == "drop", mode
    return bytes(out)


def rebuild(
    records: list[Record], upto: int, target: Path, mode: str, chance: random.Random, base: Path | None = None
) -> None:
    """Write to ``target`` what a cut behind the first ``upto`` records leaves; ``base``: the directory before them."""
    disk = Disk(base)
    for record in records[:upto]:
        disk.play(record)
    target.mkdir(parents=True, exist_ok=True)
    for name, content in disk.files(mode, chance).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)
