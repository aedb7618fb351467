"""What became of updates, kept on the data partition, which both systems share."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from gateway.replacing import locked, replace

FILE: Final = "state.json"
HISTORY_MAX: Final = 20

# how an update ended
CONFIRMED: Final = "confirmed"
ROLLED_BACK: Final = "rolled back"
FAILED: Final = "not installed"
KEPT: Final = "kept, though unhealthy"


@final
@dataclass(frozen=True)
class Version:
    """A program in a slot: what its data look like, and from which version of them on others can read them."""

    version: str
    schema: int
    min_reader: int


@final
@dataclass(frozen=True)
class Pending:
    """What was made to boot next, and is not confirmed yet; ``boot_id`` is of the system that did it."""

    slot: str
    version: str
    boot_id: str
    no_rollback: bool = False
    asked: bool = False  # a way back that somebody asked for


@final
@dataclass(frozen=True)
class Ended:
    """An update that is over: in which way, why, and when (UTC)."""

    version: str
    outcome: str
    reason: str
    at: str


@final
@dataclass
class Journal:
    """``slots``: what was put into each, as far as it is known. ``ended``: the newest last."""

    folder: Path
    slots: dict[str, Version] = field(default_factory=dict)
    pending: Pending | None = None
    ended: list[Ended] = field(default_factory=list)

    def end(self, version: str, outcome: str, reason: str, at: str) -> None:
        """One more; nothing is pending now."""
        self.pending = None
        self.ended = [*self.ended, Ended(version, outcome, reason, at)][-HISTORY_MAX:]

    def write(self) -> None:
        """On disk, as a whole. Raises OSError."""
        text = json.dumps(plain(self), indent=1)
        with locked(self.folder / FILE):
            replace(self.folder / FILE, text.encode())


def read_journal(folder: Path) -> Journal:
    """Empty where there is none, or none that can be read: an update must not fail for its history."""
    try:
        told = json.loads((folder / FILE).read_text())
        return Journal(
            folder,
            {slot: Version(**version) for slot, version in told["slots"].items()},
            Pending(**told["pending"]) if told["pending"] is not None else None,
            [Ended(**row) for row in told["ended"]],
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return Journal(folder)


def plain(journal: Journal) -> dict[str, Any]:
    """For JSON."""
    return {name: value for name, value in dataclasses.asdict(journal).items() if name != "folder"}
