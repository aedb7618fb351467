"""The kinds of value in an ``[[uplink]]``: addresses, rules, and what is written like other text but is not."""

import json
import re
from typing import Final, NamedTuple, final
from urllib.parse import urlsplit

from gateway.core.topics import check_filter
from gateway.core.uplink import BOTH, IN, OUT, Rule
from gateway.hosts import is_host
from gateway.settings.entry import RowError
from gateway.settings.kinds import Boolean, Choice, Integer, Kind, quoted

PORTS: Final = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
VERSIONS: Final = {"3.1.1": 4, "5": 5}


class Remote(NamedTuple):
    """Where a broker listens."""

    scheme: str
    host: str
    port: int
    path: str  # of a WebSocket

    @property
    def tls(self) -> bool:
        return self.scheme in ("mqtts", "wss")

    @property
    def websocket(self) -> bool:
        return self.scheme in ("ws", "wss")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


@final
class Text:
    """Printable text; empty = none unless it is required."""

    def __init__(self, allowed: str, pattern: re.Pattern[str] | None = None) -> None:
        self.allowed = allowed
        self._pattern = pattern

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or not value.isprintable() or len(value.encode()) > 65_535:
            raise ValueError
        if self._pattern is not None and not self._pattern.fullmatch(value):
            raise ValueError
        return value

    def from_text(self, text: str) -> object:
        return text

    def show(self, value: object) -> str:
        return quoted(str(value))


@final
class Version:
    """A version of MQTT, kept as its protocol level."""

    allowed = '"3.1.1" or "5"'

    def parse(self, value: object) -> int:
        text = {"5.0": "5"}.get(str(value), str(value))
        if isinstance(value, bool) or text not in VERSIONS:
            raise ValueError
        return VERSIONS[text]

    def from_text(self, text: str) -> object:
        return text

    def show(self, value: object) -> str:
        return quoted(next(text for text, level in VERSIONS.items() if level == value))


@final
class Remotes:
    """Addresses of one broker, or of several that stand in for each other."""

    allowed = (
        'a list of addresses such as ["mqtts://a.example:8883", "mqtt://10.0.0.5"], each mqtt://, mqtts://, ws:// or '
        "wss://, without user and password"
    )

    def parse(self, value: object) -> tuple[Remote, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError
        return tuple(self._one(item) for item in value)

    def _one(self, item: object) -> Remote:
        if not isinstance(item, str) or not item.isprintable() or " " in item:
            raise ValueError
        try:
            found = urlsplit(item)
            port = found.port
        except ValueError:
            raise ValueError from None  # without the text of the other
        if found.scheme not in PORTS or not found.hostname or not is_host(found.hostname):
            raise ValueError
        if "@" in found.netloc or found.fragment or port == 0:
            raise ValueError
        websocket = found.scheme in ("ws", "wss")
        path = found.path + (f"?{found.query}" if found.query else "")
        if not websocket and path not in ("", "/"):
            raise ValueError
        return Remote(found.scheme, found.hostname, port or PORTS[found.scheme], (path or "/mqtt") if websocket else "")

    def from_text(self, text: str) -> object:
        return [part.strip() for part in text.split(",") if part.strip()]

    def show(self, value: object) -> str:
        assert isinstance(value, tuple)
        return json.dumps([str(remote) for remote in value])


@final
class Names:
    """A list of words, as ALPN has them."""

    allowed = 'a list of protocol names such as ["mqtt"], each of 1 to 255 characters of ASCII'

    def parse(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValueError
        for item in value:
            if not isinstance(item, str) or not item.isascii() or not 1 <= len(item) <= 255:
                raise ValueError
        return tuple(value)

    def from_text(self, text: str) -> object:
        return [part.strip() for part in text.split(",") if part.strip()]

    def show(self, value: object) -> str:
        assert isinstance(value, tuple)
        return json.dumps(list(value))


_DIRECTIONS: Final = Choice(OUT, IN, BOTH)
_LIVE: Final = Boolean()
_QOS: Final = Integer(0, 2)
_FILTER: Final = "a topic filter that is none of $share"
_PREFIX: Final = 'the beginning of a topic, without wildcards, such as "site1/"'


@final
class Rules:
    """The rules of an uplink; every wrong one is named by its place in the list, counted from 1."""

    allowed = (
        'tables with direction ("out", "in" or "both") and filter; local_prefix, remote_prefix, qos and live_first '
        "may be there"
    )
    _KEYS: Final = ("direction", "filter", "local_prefix", "remote_prefix", "qos", "live_first")

    def parse(self, value: object) -> tuple[Rule, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError
        return tuple(self._one(f"[{number}]", row) for number, row in enumerate(value, 1))

    def _one(self, at: str, row: object) -> Rule:
        if not isinstance(row, dict):
            raise RowError(at, row, self.allowed)
        for key in row:
            if key not in self._KEYS:
                raise RowError(f"{at}.{key}", row[key], f"one of the keys {', '.join(self._KEYS)}")
        direction = checked(f"{at}.direction", _DIRECTIONS, row.get("direction"))
        qos = checked(f"{at}.qos", _QOS, row.get("qos", 1))
        filter = row.get("filter")
        if not isinstance(filter, str) or not check_filter(filter, 0) or filter.startswith("$share"):
            raise RowError(f"{at}.filter", filter, _FILTER)
        prefixes: list[str] = []
        for key in ("local_prefix", "remote_prefix"):
            prefix = row.get(key, "")
            if not isinstance(prefix, str) or any(char in prefix for char in "+#\0"):
                raise RowError(f"{at}.{key}", prefix, _PREFIX)
            if not check_filter(prefix + filter, 0) or (prefix + filter).startswith("$share"):
                raise RowError(f"{at}.{key}", prefix, f"a prefix that makes a topic filter with {quoted(filter)}")
            prefixes.append(prefix)
        live_first = checked(f"{at}.live_first", _LIVE, row.get("live_first", False))
        assert isinstance(direction, str)
        assert isinstance(qos, int)
        return Rule(direction, filter, prefixes[0], prefixes[1], qos, live_first is True)

    def from_text(self, text: str) -> object:
        return text

    def show(self, value: object) -> str:
        assert isinstance(value, tuple)
        return "[" + ", ".join(self._shown(rule) for rule in value) + "]"

    def _shown(self, rule: Rule) -> str:
        pairs = [f"direction = {quoted(rule.direction)}", f"filter = {quoted(rule.filter)}"]
        given = {"local_prefix": rule.local, "remote_prefix": rule.remote}
        pairs += [f"{key} = {quoted(prefix)}" for key, prefix in given.items() if prefix]
        pairs += [f"qos = {rule.qos}", *(["live_first = true"] if rule.live_first else [])]
        return "{ " + ", ".join(pairs) + " }"


def checked(path: str, kind: Kind, value: object) -> object:
    """The parsed value. Raises RowError that leads to it."""
    try:
        return kind.parse(value)
    except RowError as error:
        raise error.inside(path) from None
    except ValueError:
        raise RowError(path, value, kind.allowed) from None
