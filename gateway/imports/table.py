"""What the importer knows of another broker's settings, and what a file says of them."""

import dataclasses
from collections.abc import Sequence
from typing import Final, Protocol, final

from gateway.settings.kinds import quoted

Text = str | dict[str, str]
"""A value as the file has it: text, or name and text of each entry where the setting is a table of its own."""


class ImportFileError(Exception):
    """One line without the file's name: which line, which key, which value, what is allowed."""


class Reading(Protocol):
    """How a value of the other broker becomes the TOML value of our setting."""

    @property
    def allowed(self) -> str:
        """What the other broker allows, for messages."""

    def toml(self, text: Text) -> object:
        """The TOML value. Raises ValueError without text when the other broker would not take ``text`` either."""


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Mapped:
    """A setting with a counterpart; ``differs`` says where the meaning is not quite the same."""

    key: str
    target: str  # our key; it need not be in this version's table
    reading: Reading
    differs: str = ""
    env: str = ""
    largest: bool = False  # several settings share the target: the largest of their values is taken
    switch: tuple[str, str] | None = None  # key and variable of a flag without which it is not in force


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Unmapped:
    """A setting without a counterpart, or a whole group of them: ``key`` and ``env`` may end in *."""

    key: str
    why: str
    env: str = ""


Row = Mapped | Unmapped


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """One setting of a file, under the name that the file gives it; text None = the value is elsewhere."""

    name: str
    text: Text | None
    line: int


def plain(name: str) -> str:
    """A key for a message: as it stands, or quoted where it would break the line."""
    return name if name.isprintable() else "".join(c if c.isprintable() else "?" for c in quoted(name))


@final
class Origin:
    """Another broker: its name and its settings."""

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        self.name: Final = name
        self.rows: Final = tuple(rows)
        self._exact: dict[str, list[Row]] = {}
        self._groups: list[tuple[str, Unmapped]] = []
        for row in rows:
            for known in filter(None, (row.key, row.env)):
                if not known.endswith("*"):
                    self._exact.setdefault(known, []).append(row)
                elif isinstance(row, Unmapped):
                    self._groups.append((known[:-1], row))
        self._groups.sort(key=lambda group: -len(group[0]))

    def find(self, name: str) -> Sequence[Row]:
        """The rows for a dotted key or an environment variable: several when it has several counterparts."""
        if name in self._exact:
            return self._exact[name]
        return [row for start, row in self._groups if name.startswith(start)][:1]
