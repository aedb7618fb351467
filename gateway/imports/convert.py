"""From what a file of another broker says to lines of ours, and to remarks on what does not carry over."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import final

from gateway.imports.table import Given, ImportFileError, Mapped, Origin, Text, Unmapped, plain
from gateway.settings.kinds import EntryError, quoted
from gateway.settings.table import TABLE

_LONGEST = 120


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """The parsed value of one of our settings and where it came from."""

    value: object
    source: str


@final
@dataclasses.dataclass(slots=True)
class Imported:
    """Our settings by name, and one remark for each key that has no counterpart or means something else here."""

    taken: dict[str, Taken] = dataclasses.field(default_factory=dict)
    remarks: list[str] = dataclasses.field(default_factory=list)

    def toml(self) -> Iterator[str]:
        """The settings that differ from their defaults, each under a comment that names its origin."""
        for entry in TABLE.values():
            taken = self.taken.get(entry.name)
            if taken is not None and taken.value != entry.kind.parse(entry.default):
                yield f"# {taken.source}"
                yield f"{entry.name} = {entry.kind.show(taken.value)}"


def shown(text: Text) -> str:
    """A value on one line, cut where it is long."""
    whole = quoted(text) if isinstance(text, str) else ", ".join(f"{quoted(k)} = {v}" for k, v in text.items())
    printable = "".join(c if c.isprintable() else "?" for c in whole)
    return printable if len(printable) <= _LONGEST else printable[: _LONGEST - 3] + "..."


def convert(origin: Origin, given: Sequence[Given]) -> Imported:
    """Carry the settings over; of a key given twice the last one counts.

    Raises ImportFileError for a value that the other broker would not take either.
    """
    result = Imported()
    last: Mapping[str, Given] = {item.name: item for item in given}
    for item in last.values():
        where = f"line {item.line}: {plain(item.name)}"
        rows = origin.find(item.name)
        if not rows:
            result.remarks.append(f"{where}: no counterpart: not among the settings of {origin.name} known here")
        for row in rows:
            if isinstance(row, Unmapped):
                result.remarks.append(f"{where}: no counterpart: {row.why}")
            elif row.switch and not _on(last, row.switch):
                result.remarks.append(f"{where}: not imported: it is in force only with {row.switch[1]} = true")
            elif item.text is None:
                result.remarks.append(f"{where}: not imported: its value is not in this file")
            else:
                _take(result, row, item.text, where)
    return result


def _on(given: Mapping[str, Given], names: tuple[str, str]) -> bool:
    return any((item := given.get(name)) is not None and str(item.text).lower() == "true" for name in names)


def _take(result: Imported, row: Mapped, text: Text, where: str) -> None:
    """One setting with a counterpart. Raises ImportFileError."""
    try:
        plain = row.reading.toml(text)
    except ValueError:
        raise ImportFileError(f"{where} = {shown(text)}: expected {row.reading.allowed}") from None
    if plain is None:
        return
    entry = TABLE.get(row.target)
    if entry is None:
        result.remarks.append(f"{where}: no counterpart in this version")
        return
    try:
        value = entry.kind.parse(plain)
    except ValueError as error:
        said = shown({error.key: str(error.value)} if isinstance(error, EntryError) else text)
        result.remarks.append(
            f"{where}: no counterpart for {said}: {row.target} is {entry.kind.allowed} and keeps its default"
        )
        return
    if row.differs:
        result.remarks.append(f"{where}: {row.target} differs: {row.differs}")
    before = result.taken.get(row.target)
    if row.largest and before is not None and _number(before.value) >= _number(value):
        return
    line, _, name = where.partition(": ")
    result.taken[row.target] = Taken(value, f"{name} = {shown(text)} ({line})")


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
