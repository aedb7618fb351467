"""One row of the settings table, and the line that a wrong value gets."""

import dataclasses
import json
import re
from typing import Any, Final, final

from gateway.settings.kinds import Kind

PREFIX: Final = "FOREBAY_"
_SHOWN_MAX: Final = 120  # characters of a value in an error


@final
class RowError(ValueError):
    """One value inside a list of tables is not allowed; ``path`` leads to it from the setting's name."""

    def __init__(self, path: str, value: object, expected: str) -> None:
        super().__init__(f"{path} = {shown(value)}: expected {expected}")
        self._found = (path, value, expected)

    def inside(self, path: str) -> "RowError":
        """The same, seen from further out."""
        inner, value, expected = self._found
        return RowError(path + inner, value, expected)


def shown(value: object) -> str:
    """A value for an error or a log: on one line, not too long, without passwords."""
    text = discreet(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


def discreet(text: str) -> str:
    """Without what stands behind the key ``password`` or before the @ of an address."""
    return re.sub(r"(://)[^/@\s]*@", r"\1***@", re.sub(r"(password\b).*", r"\1 ***", text))


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table. ``limit`` names the field of ``Limits`` that the value fills.

    ``foreign_env`` is the variable by which TBMQ knows it; Forebay's own wins over it.
    """

    name: str
    kind: Kind
    help: str
    limit: str
    default: object
    foreign_env: str = ""

    @property
    def env(self) -> str:
        return PREFIX + self.field.upper()

    @property
    def field(self) -> str:
        return self.name.replace(".", "_").replace("-", "_")


def setting(name: str, kind: Kind, default: object, help: str, limit: str = "", foreign_env: str = "") -> Any:
    """A field of ``Settings``; ``default`` is written as in TOML."""
    entry = Entry(name, kind, help, limit, default, foreign_env)
    return dataclasses.field(default_factory=lambda: kind.parse(default), metadata={"entry": entry})
