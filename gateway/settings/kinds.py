"""The kinds of value that a setting can have: what is allowed, how it is read, how it is written back.

``parse`` takes what TOML gives (or a program passes) and raises ValueError whose text ends "expected ...";
``from_text`` turns the text of an environment variable or ``--set`` into what TOML would have given.
"""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol, final

from gateway.core.limits import NEVER
from gateway.core.topics import check_filter
from gateway.hosts import is_host

_SIZES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_DURATIONS_MS = {"": 1000, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
SIZE_MAX: Final = 1 << 50  # bytes; what is compiled counts them in 64 bits
KEYS: Final = Path("/etc/forebay/credentials")  # what forebay.service loads from there, only its process can read
KEY_PREFIX: Final = "keys_"  # what systemd puts before the names of that folder
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")  # int() refuses what is far longer
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")

Address = tuple[str, int]
"""Host and port; port 0 lets the system choose."""


class EntryError(ValueError):
    """One entry of a table is not allowed."""

    def __init__(self, key: str, value: object) -> None:
        super().__init__(key)
        self.key, self.value = key, value


def one_of(words: Iterable[str]) -> str:
    """What is allowed, for a message."""
    return "one of " + ", ".join(f'"{word}"' for word in words)


class Kind(Protocol):
    """How one kind of value is read and shown."""

    @property
    def allowed(self) -> str:
        """What is allowed, for messages and the reference: "an integer from 1 to 65535"."""

    def parse(self, value: object) -> object:
        """The value in the program's own unit. Raises ValueError without text when it is not allowed."""

    def from_text(self, text: str) -> object:
        """The TOML value that an environment variable or --set means; unreadable text stays text."""

    def show(self, value: object) -> str:
        """The parsed value as TOML."""


def quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" >= {low}"
    return "" if high is None else f" <= {high}"


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _or_words(text: str, words: dict[str, int]) -> str:
    return text + "".join(f' or "{word}"' for word in words)


def _quantity(text: str, units: dict[str, int]) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        raise ValueError
    return float(match[1]) * units[match[2].lower()]


@final
class Integer:
    """A whole number; a word may stand for one ("unlimited" for 0)."""

    def __init__(self, low: int | None = None, high: int | None = None, words: dict[str, int] | None = None) -> None:
        self.low, self.high = low, high
        self.words = words or {}
        self.allowed = _or_words(f"an integer{_range(low, high)}", self.words)

    def parse(self, value: object) -> int:
        if isinstance(value, str) and value in self.words:
            return self.words[value]
        if not isinstance(value, int) or isinstance(value, bool) or not _within(value, self.low, self.high):
            raise ValueError
        return value

    def from_text(self, text: str) -> object:
        return int(text) if _WHOLE.fullmatch(text) else text

    def show(self, value: object) -> str:
        for word, number in self.words.items():
            if value == number:
                return json.dumps(word)
        return str(value)


@final
class Ratio:
    """A factor such as 1.5, kept as whole percent (150)."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self.allowed = f"a number{_range(low, high)}"

    def parse(self, value: object) -> int:
        if not isinstance(value, int | float) or isinstance(value, bool) or not _within(value, self.low, self.high):
            raise ValueError
        return round(value * 100)

    def from_text(self, text: str) -> object:
        return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else text

    def show(self, value: object) -> str:
        assert isinstance(value, int)
        return str(value / 100)


@final
class Size:
    """Bytes, as a number or with a unit: 1048576, "512MiB"."""

    def __init__(self, low: int = 0, high: int = SIZE_MAX, words: dict[str, int] | None = None) -> None:
        self.low, self.high = low, high
        self.words = words or {}
        self.allowed = _or_words(f'an integer{_range(low, high)} (bytes) or a size such as "512MiB"', self.words)

    def parse(self, value: object) -> int:
        if isinstance(value, str):
            if value in self.words:
                return self.words[value]
            amount = _quantity(value, _SIZES)
            if amount > self.high:  # and so what is no int at all
                raise ValueError
            value = int(amount)
        if not isinstance(value, int) or isinstance(value, bool) or not _within(value, self.low, self.high):
            raise ValueError
        return value

    def from_text(self, text: str) -> object:
        return int(text) if _WHOLE.fullmatch(text) else text

    def show(self, value: object) -> str:
        assert isinstance(value, int)
        for word, number in self.words.items():
            if value == number:
                return json.dumps(word)
        for unit in ("GiB", "MiB", "KiB"):
            if value and value % _SIZES[unit.lower()] == 0:
                return f'"{value // _SIZES[unit.lower()]}{unit}"'
        return str(value)


@final
class Duration:
    """A time span: 30 (seconds), "30s", "5m", "2h", "7d"; kept in seconds, or in milliseconds with ``ms``.

    ``low`` and ``high`` are seconds.
    """

    def __init__(
        self, low: float = 0, high: float = NEVER, words: dict[str, int] | None = None, ms: bool = False
    ) -> None:
        self.low, self.high = low, high
        self.words = words or {}
        self.ms = ms
        limits = _range(low, None if high == NEVER else high)
        self.allowed = _or_words(f'seconds{limits} or a duration such as "30s", "5m", "2h", "7d"', self.words)

    def parse(self, value: object) -> int:
        if isinstance(value, str):
            if value in self.words:
                return self.words[value]
            value = _quantity(value, _DURATIONS_MS) / 1000
        if not isinstance(value, int | float) or isinstance(value, bool) or not _within(value, self.low, self.high):
            raise ValueError
        if self.ms:
            return round(value * 1000)
        if value != int(value):
            raise ValueError
        return int(value)

    def from_text(self, text: str) -> object:
        return text

    def show(self, value: object) -> str:
        assert isinstance(value, int)
        for word, number in self.words.items():
            if value == number:
                return json.dumps(word)
        millis = value if self.ms else value * 1000
        for unit in ("d", "h", "m", "s"):
            if millis and millis % _DURATIONS_MS[unit] == 0:
                return f'"{millis // _DURATIONS_MS[unit]}{unit}"'
        return f'"{millis}ms"' if millis else "0"


@final
class Boolean:
    """true or false."""

    allowed = "true or false"
    _WORDS: dict[str, bool] = {"true": True, "yes": True, "on": True, "1": True} | {
        "false": False,
        "no": False,
        "off": False,
        "0": False,
    }

    def parse(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    def from_text(self, text: str) -> object:
        return self._WORDS.get(text.lower(), text)

    def show(self, value: object) -> str:
        return "true" if value else "false"


@final
class Choice:
    """One of a few words; a TOML boolean is taken for "true" or "false" where these are among them."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.allowed = one_of(words)

    def parse(self, value: object) -> str:
        if isinstance(value, bool):
            value = "true" if value else "false"
        if not isinstance(value, str) or value not in self.words:
            raise ValueError
        return value

    def from_text(self, text: str) -> object:
        return text

    def show(self, value: object) -> str:
        return quoted(str(value))


@final
class FilePath:
    """A path; a relative one counts from the working directory. Empty = none, unless one is required."""

    def __init__(self, required: bool = False) -> None:
        self.required = required
        self.allowed = "a path in quotes"

    def parse(self, value: object) -> Path | None:
        if not isinstance(value, str) or "\0" in value or (self.required and not value):
            raise ValueError
        return _own_copy(Path(value).expanduser()) if value else None

    def from_text(self, text: str) -> object:
        return text

    def show(self, value: object) -> str:
        return quoted("" if value is None else str(value))


def _own_copy(path: Path) -> Path:
    """Where a file of the folder KEYS is for a process that systemd has given a copy of its own."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if folder is None or path.parent != KEYS:
        return path
    copy = Path(folder) / (KEY_PREFIX + path.name)
    return copy if copy.exists() else path


@final
class Addresses:
    """A list of HOST:PORT; an IPv6 host stands in brackets; port 0 lets the system choose."""

    allowed = 'a list of "HOST:PORT" such as ["127.0.0.1:1883", "[::1]:1883"]'

    def parse(self, value: object) -> list[Address]:
        if not isinstance(value, list | tuple):
            raise ValueError
        return [self._one(item) for item in value]

    def _one(self, item: object) -> Address:
        if not isinstance(item, str):
            raise ValueError
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]]+)):(\d{1,5})", item)
        if match is None or int(match[3]) > 65535 or (match[2] and not is_host(match[2])):
            raise ValueError
        return match[1] or match[2], int(match[3])

    def from_text(self, text: str) -> object:
        return [part.strip() for part in text.split(",") if part.strip()]

    def show(self, value: object) -> str:
        assert isinstance(value, list)
        return json.dumps([f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in value])


@final
class Expiries:
    """A list of tables {client_id = pattern with * and ?, seconds = duration}; as text: PATTERN=7d,PATTERN=30d."""

    allowed = 'tables with client_id (a pattern with * and ?) and seconds (such as 3600 or "7d")'

    def __init__(self) -> None:
        self._span = Duration(low=1, words={"never": NEVER})

    def parse(self, value: object) -> list[tuple[str, int]]:
        if not isinstance(value, list):
            raise ValueError
        rows: list[tuple[str, int]] = []
        for row in value:
            if not isinstance(row, dict) or row.keys() != {"client_id", "seconds"}:
                raise ValueError
            pattern = row["client_id"]
            if not isinstance(pattern, str) or not pattern:
                raise ValueError
            rows.append((pattern, self._span.parse(row["seconds"])))
        return rows

    def from_text(self, text: str) -> object:
        rows: list[dict[str, str]] = []
        for part in text.split(",") if text else ():
            pattern, _, span = part.rpartition("=")
            rows.append({"client_id": pattern.strip(), "seconds": span.strip()})
        return rows

    def show(self, value: object) -> str:
        assert isinstance(value, list)
        rows = (f"{{ client_id = {quoted(name)}, seconds = {self._span.show(s)} }}" for name, s in value)
        return "[" + ", ".join(rows) + "]"


@final
class Priorities:
    """A table of topic filters with a whole number from 1 to 255 each, in its order; as text: FILTER=200,FILTER=5."""

    allowed = (
        'a table of topics or filters with a priority from 1 to 255 each, such as { "plant/+/alarm" = 200 }; '
        "as text FILTER=PRIORITY, separated by commas"
    )

    def parse(self, value: object) -> list[tuple[str, int]]:
        if not isinstance(value, dict):
            raise ValueError
        for filter, priority in value.items():
            if not isinstance(priority, int) or isinstance(priority, bool) or not 1 <= priority <= 255:
                raise EntryError(filter, priority)
            if not check_filter(filter, 0) or filter.startswith("$share/"):
                raise EntryError(filter, priority)
        return list(value.items())

    def from_text(self, text: str) -> object:
        rows: dict[str, object] = {}
        for part in text.split(",") if text else ():
            filter, _, priority = part.strip().rpartition("=")
            rows[filter.strip()] = int(priority) if re.fullmatch(r"\s*\d{1,9}\s*", priority) else priority
        return rows

    def show(self, value: object) -> str:
        assert isinstance(value, list)
        rows = ", ".join(f"{quoted(filter)} = {priority}" for filter, priority in value)
        return f"{{ {rows} }}" if rows else "{}"
