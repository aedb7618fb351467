"""Where settings come from, and the settings file as TOML."""

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any, final

from gateway.settings.entry import discreet


class SettingsError(Exception):
    """One line: where, which key, which value, what is allowed."""


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """Where settings came from, so that a reload can read them again."""

    config: Path | None = None
    sets: tuple[str, ...] = ()
    options: tuple[tuple[str, object], ...] = ()  # (dotted name, TOML value) of --listen, --data-dir


def read(path: Path) -> dict[str, Any]:
    """The tables of a settings file. Raises SettingsError."""
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None


def parse(data: bytes, where: str) -> dict[str, Any]:
    """The tables of what is TOML, with the name that it has for people. Raises SettingsError."""
    try:
        text = data.decode("utf-8-sig")  # editors of Windows begin with a mark
    except UnicodeDecodeError as error:
        raise SettingsError(f"{where}: not UTF-8 at byte {error.start}: expected a TOML file") from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SettingsError(f"{where}: not valid TOML: nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = re.search(r"\(at line (\d+),", message)
        lines = text.splitlines()
        number = int(at[1]) if at else len(lines)
        line = lines[number - 1].strip() if 0 < number <= len(lines) else "end of file"
        raise SettingsError(f"{where}: line {number}: {discreet(line)[:80]}: not valid TOML: {message}") from None
    except ValueError:  # int() has a limit of its own
        raise SettingsError(f"{where}: not valid TOML: a number with thousands of digits") from None
