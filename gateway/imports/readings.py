"""How values of other brokers are read: numbers, switches, time spans, sizes, words, and tables of priorities."""

import re
from collections.abc import Mapping
from typing import Final, final

from gateway.imports.table import Text

_ON = {"true": True, "on": True, "yes": True, "1": True}
_OFF = {"false": False, "off": False, "no": False, "0": False}
_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_BYTES = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def _words(words: Mapping[str, object]) -> str:
    return "".join(f' or "{word}"' for word in words)


@final
class Flag:
    """true or false."""

    allowed: Final = "true or false"

    def toml(self, text: Text) -> bool:
        if isinstance(text, str):
            for words in (_ON, _OFF):
                if text.lower() in words:
                    return words[text.lower()]
        raise ValueError


@final
class Whole:
    """A whole number. ``off`` is what our setting calls a value below 1; words are the other broker's."""

    def __init__(
        self, low: int | None, high: int | None = None, off: object = None, words: Mapping[str, object] | None = None
    ) -> None:
        self._low, self._high, self._off = low, high, off
        self._words = words or {}
        at_least = "" if low is None else f" >= {low}"
        self.allowed: Final = f"an integer{at_least if high is None else f' from {low} to {high}'}" + _words(
            self._words
        )

    def toml(self, text: Text) -> object:
        if isinstance(text, str) and text in self._words:
            return self._words[text]
        if not isinstance(text, str) or not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
            raise ValueError
        number = int(text)
        if (self._low is not None and number < self._low) or (self._high is not None and number > self._high):
            raise ValueError
        return self._off if self._off is not None and number < 1 else number


@final
class Span:
    """A time span with units, such as 15s or 1h30m; a bare number counts milliseconds."""

    def __init__(self, words: Mapping[str, object] | None = None) -> None:
        self._words = words or {}
        self.allowed: Final = 'a duration such as "15s", "1h30m", "500ms"' + _words(self._words)

    def toml(self, text: Text) -> object:
        if not isinstance(text, str):
            raise ValueError
        if text in self._words:
            return self._words[text]
        if re.fullmatch(r"[0-9]{1,18}", text):
            return f"{text}ms"
        if not re.fullmatch(r"(?:[0-9]{1,15}(?:\.[0-9]{1,6})?(?:ms|[smhdw]))+", text.lower()):
            raise ValueError
        parts = re.findall(r"([0-9.]+)(ms|[smhdw])", text.lower())
        return f"{round(sum(float(number) * _MS[unit] for number, unit in parts))}ms"


@final
class Bytes:
    """Bytes, as a number or with KB, MB or GB, each 1024 of the one below."""

    allowed: Final = 'a size such as "1MB", "512KB"'

    def toml(self, text: Text) -> int:
        match = re.fullmatch(r"([0-9]{1,15})([A-Za-z]*)", text) if isinstance(text, str) else None
        if match is None or match[2].lower() not in _BYTES:
            raise ValueError
        return int(match[1]) * _BYTES[match[2].lower()]


@final
class Factor:
    """A number such as 1.5."""

    allowed: Final = "a number such as 1.5"

    def toml(self, text: Text) -> float:
        if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", text):
            raise ValueError
        return float(text)


@final
class Word:
    """One of a few words, carried over as it stands, or in small letters."""

    def __init__(self, *words: str, small: bool = False) -> None:
        self._words = words
        self._small = small
        self.allowed: Final = "one of " + ", ".join(f'"{word}"' for word in words)

    def toml(self, text: Text) -> str:
        if not isinstance(text, str) or text not in self._words:
            raise ValueError
        return text.lower() if self._small else text


@final
class Literal:
    """Text as it stands."""

    allowed: Final = "text"

    def toml(self, text: Text) -> str:
        if not isinstance(text, str):
            raise ValueError
        return text


@final
class Hosts:
    """Addresses HOST:PORT, separated by commas."""

    allowed: Final = 'addresses such as "kafka-1:9092,kafka-2:9092"'

    def toml(self, text: Text) -> list[str]:
        if not isinstance(text, str):
            raise ValueError
        found = [part.strip() for part in text.split(",")]
        if not all(re.fullmatch(r"[^\s,;]+:[0-9]{1,5}", part) for part in found):
            raise ValueError
        return found


@final
class Property:
    """A whole number out of a list NAME:NUMBER;NAME:NUMBER, -1 = what our setting says for none; None = not in it."""

    def __init__(self, name: str, unit: str, off: object) -> None:
        self._name, self._unit, self._off = name, unit, off
        self.allowed: Final = f'properties such as "{name}:604800000;segment.bytes:26214400"'

    def toml(self, text: Text) -> object:
        if not isinstance(text, str):
            raise ValueError
        found: object = None
        for part in filter(None, (one.strip() for one in text.split(";"))):
            name, colon, said = part.partition(":")
            if not colon:
                raise ValueError
            if name.strip() == self._name:
                if not re.fullmatch(r"-1|[0-9]{1,18}", said.strip()):
                    raise ValueError
                number = int(said)
                if self._unit == "ms":
                    found = self._off if number < 0 else f"{-(-number // 1000)}s"
                else:
                    found = self._off if number < 0 else number
        return found


@final
class Rates:
    """Limits MESSAGES:SECONDS, separated by commas; the lowest of their rates, in whole messages per second."""

    allowed: Final = 'limits such as "100:1,1000:60"'

    def toml(self, text: Text) -> object:
        if not isinstance(text, str):
            raise ValueError
        rates: list[float] = []
        for part in filter(None, (one.strip() for one in text.split(","))):
            match = re.fullmatch(r"([0-9]{1,12}):([0-9]{1,9})", part)
            if match is None or int(match[2]) == 0:
                raise ValueError
            rates.append(int(match[1]) / int(match[2]))
        return max(1, int(min(rates))) if rates else None


@final
class RateList:
    """Limits MESSAGES:SECONDS, separated by commas, as they stand."""

    allowed: Final = 'limits such as "100:1,1000:60"'

    def toml(self, text: Text) -> str:
        Rates().toml(text)
        return ",".join(part.strip() for part in str(text).split(",") if part.strip())


@final
class Priorities:
    """Topic and priority from 1 to 255, or the word "disabled" for none."""

    allowed: Final = '"disabled" or a table of topics with a priority from 1 to 255 each'

    def toml(self, text: Text) -> object:
        if text == "disabled":
            return {}
        if not isinstance(text, dict):
            raise ValueError
        one = Whole(1, 255)
        return {topic: one.toml(priority) for topic, priority in text.items()}
