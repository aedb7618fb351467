"""What the republisher keeps over restarts, in one small JSON file: its bdSeq, and the births that name what waits."""

import json
import os
import stat
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from sparkplug.origin import Kept
from sparkplug.sequence import SEQ_COUNT

_VERSION: Final = 1


class StateFileError(Exception):
    """The file cannot be used; the text names it and says why, in one line."""


@final
@dataclass(slots=True)
class Remembered:
    """``bd_seq``: the last one used, -1 before the first."""

    bd_seq: int = -1
    births: list[Kept] = field(default_factory=list)


def load(path: Path) -> Remembered:
    """What the file says; that of before the first session when there is none. Raises StateFileError."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return Remembered()
    except (OSError, UnicodeDecodeError) as error:
        raise StateFileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        found = json.loads(text)
        if found["version"] != _VERSION or found["bd_seq"] not in range(-1, SEQ_COUNT):
            raise ValueError
        births = [
            Kept(str(one["topic"]), b64decode(one["birth"], validate=True), bool(one["current"]), bool(one["alive"]))
            for one in found["births"]
        ]
    except (ValueError, KeyError, TypeError):
        raise StateFileError(f"{path}: expected a state file of forebay sparkplug republish") from None
    return Remembered(found["bd_seq"], births)


def save(path: Path, what: Remembered) -> None:
    """Put the new state in the place of the old one, on disk when this returns. Raises StateFileError."""
    births = [
        {"topic": one.topic, "birth": b64encode(one.data).decode(), "current": one.current, "alive": one.alive}
        for one in what.births
    ]
    text = json.dumps({"version": _VERSION, "bd_seq": what.bd_seq, "births": births}, indent=1)
    new = path.with_name(path.name + ".new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stat.S_IRUSR | stat.S_IWUSR), "w") as out:
            out.write(text + "\n")
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StateFileError(f"{path}: cannot be written: {error.strerror}") from None
