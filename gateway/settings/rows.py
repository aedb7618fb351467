"""Rows of tables (``[[client_type]]``) put into a settings file and taken out; all else in it stays as it stands."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomlkit
import tomlkit.exceptions

from gateway.settings.table import SettingsError

Row = Mapping[str, Any]


def with_rows(path: Path, text: str, rows: Mapping[str, list[Row]]) -> str:
    """The text with these rows behind those that each table has. Raises SettingsError."""
    wanted = tomllib.loads(text)
    for name, added in rows.items():
        wanted[name] = [*wanted.get(name, []), *added]

    def add(document: Any) -> None:
        for name, added in rows.items():
            if name not in document:
                document.add(name, tomlkit.aot())
            for row in added:
                document[name].append(tomlkit.item(dict(row)))

    return _changed(path, text, wanted, add)


def without_rows(path: Path, text: str, tables: Mapping[str, Callable[[Row], bool]]) -> str:
    """The text without the rows of each table that its function picks. Raises SettingsError."""
    wanted = tomllib.loads(text)
    for name, picked in tables.items():
        left = [row for row in wanted.get(name, []) if not picked(row)]
        if left:
            wanted[name] = left
        else:
            wanted.pop(name, None)

    def take_out(document: Any) -> None:
        for name, picked in tables.items():
            there = document.get(name, [])
            for at in reversed(range(len(there))):
                if picked(there[at]):
                    del there[at]
            if name in document and not there:
                del document[name]

    return _changed(path, text, wanted, take_out)


def _changed(path: Path, text: str, wanted: dict[str, Any], change: Callable[[Any], None]) -> str:
    try:
        document = tomlkit.parse(text)
        change(document)
        changed = document.as_string()
        good = tomllib.loads(changed) == wanted
    except (tomlkit.exceptions.TOMLKitError, TypeError, AttributeError, tomllib.TOMLDecodeError):
        good = False
    if not good:
        raise SettingsError(f"{path}: its rows cannot be changed in place: expected an edit by hand")
    return changed
