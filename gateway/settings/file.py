"""The settings file as its owner wrote it: a key is changed, the rest stays, and what stood before can be had back."""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import tomlkit
import tomlkit.exceptions
from tomlkit.container import Container
from tomlkit.items import Table

from gateway.replacing import hand_over
from gateway.settings.entry import discreet
from gateway.settings.table import Settings, SettingsError, Sources, load

HISTORY_MAX: Final = 20


def edited(text: str, changes: Mapping[str, object]) -> str:
    """The file's text with dotted keys set to TOML values; None takes a key out. Comments and order stay.

    Raises ValueError when the text is no TOML, or so written that a key cannot be changed in it.
    """
    wanted = tomllib.loads(text)
    try:
        document = tomlkit.parse(text)
        for name, value in changes.items():
            _put(document, name.split("."), value)
            _put(wanted, name.split("."), value)
        changed = document.as_string()
    except (tomlkit.exceptions.TOMLKitError, TypeError, AttributeError) as error:
        raise ValueError(f"cannot be changed in place: {error}") from error
    if _pruned(tomllib.loads(changed)) != _pruned(wanted):
        raise ValueError("cannot be changed in place")
    return changed


def planned(path: Path, changes: Mapping[str, object]) -> str:
    """The text of the file, which need not exist, with these changes. Raises SettingsError."""
    try:
        return edited(read(path), changes)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}: expected an edit by hand") from None


def changed_lines(before: str, after: str, path: Path) -> list[str]:
    """A unified difference for people: what passwords are is not said."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), str(path), str(path), "before", "now", n=0, lineterm=""
    )
    return [discreet(line) for line in lines]


def read(path: Path) -> str:
    """The text of the file, empty when there is none. Raises SettingsError."""
    try:
        return path.read_text(encoding="utf-8-sig") if path.exists() else ""
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 at byte {error.start}: expected a TOML file") from None


def check(path: Path, text: str) -> Settings:
    """The settings if the file had this text. Raises SettingsError."""
    with _trial(path, text) as (_, settings):
        return settings


def write(path: Path, text: str, stamp: str) -> Settings:
    """Give the file this text when all settings are sound with it; what stood in it before is kept under ``stamp``.

    Raises SettingsError; the file stays as it is then.
    """
    with _trial(path, text) as (part, settings):
        try:
            _keep(path, stamp)
            os.replace(part, path)
        except OSError as error:
            raise SettingsError(f"{path}: cannot be written: {error.strerror}") from None
    return settings


@contextmanager
def _trial(path: Path, text: str) -> Iterator[tuple[Path, Settings]]:
    part = path.with_name(path.name + ".new")
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600  # it may hold passwords
        with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, mode), "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        hand_over(part, path if path.exists() else path.parent)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        settings = load(Sources(part))
    except SettingsError as error:
        part.unlink()
        raise SettingsError(str(error).replace(str(part), str(path))) from None
    try:
        yield part, settings
    finally:
        part.unlink(missing_ok=True)


def history(path: Path) -> list[Path]:
    """What stood in the file before, the newest last."""
    return sorted(_folder(path).glob("*.toml"))


def _keep(path: Path, stamp: str) -> None:
    if not path.exists():
        return
    folder = _folder(path)
    folder.mkdir(mode=0o700, exist_ok=True)
    hand_over(folder, path)
    number = 1
    while (kept := folder / f"{stamp}-{number:02}.toml").exists():  # two changes of one second
        number += 1
    kept.write_bytes(path.read_bytes())
    kept.chmod(path.stat().st_mode & 0o777)
    hand_over(kept, path)
    for old in history(path)[:-HISTORY_MAX]:
        old.unlink()


def _folder(path: Path) -> Path:
    return path.with_name(path.name + ".history")


def _put(table: Any, names: list[str], value: object) -> None:
    """Set, or with None remove, the value under nested keys."""
    for depth, name in enumerate(names[:-1]):
        if name not in table:
            if value is None:
                return
            if isinstance(table, (Container, Table)):
                table.add(name, _nested(names[depth + 1 :], value))
                return
            table[name] = {}
        table = table[name]
    if value is None:
        table.pop(names[-1], None)
    else:
        table[names[-1]] = value


def _nested(names: list[str], value: object) -> Table:
    """A table for the last but one name, those above it without a heading of their own."""
    table = tomlkit.table(is_super_table=len(names) > 1)
    table.add(names[0], value if len(names) == 1 else _nested(names[1:], value))
    return table


def _pruned(table: dict[str, Any]) -> dict[str, Any]:
    """Without tables that hold nothing."""
    found = {key: _pruned(value) if isinstance(value, dict) else value for key, value in table.items()}
    return {key: value for key, value in found.items() if value != {}}
