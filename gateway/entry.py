"""One row of the settings table."""

import dataclasses
from typing import Any, Final, final

from gateway.kinds import Kind

PREFIX: Final = "FOREBAY_"


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
