"""MQTT topics as NATS subjects and back, and filters as the subjects of a consumer, which may not overlap."""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

# what would mean something in a subject, or end the line that it stands in
_SPECIAL: Final = re.compile(r"[%.*>\x00-\x20\x7f\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff\x80-\x9f]")
_ESCAPED: Final = re.compile(r"%([0-9A-F]{2,6});")
_EMPTY: Final = "%"  # a level without a character
_LONG: Final = "%long"  # in place of the levels of a topic for which a subject has no room
SUBJECT_BYTES_MAX: Final = 1500  # a line of the protocol has 4096, with another subject, the sizes and a prefix on it


def token(level: str, first: bool) -> str:
    """One level of a topic as a token."""
    if not level:
        return _EMPTY
    escaped = _SPECIAL.sub(_escape, level)
    return f"%24;{escaped[1:]}" if first and escaped[0] == "$" else escaped


def _escape(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X};"


def level(token: str) -> str:
    """The level that a token stands for."""
    return "" if token == _EMPTY else _ESCAPED.sub(_unescape, token)


def _unescape(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))


def subject(prefix: str, topic: str) -> str:
    """The subject of a topic. One that is too long has a hash in place of its levels: see ``is_long``."""
    levels = topic.split("/")
    made = ".".join([prefix, *(token(one, at == 0) for at, one in enumerate(levels))])
    if len(made.encode()) <= SUBJECT_BYTES_MAX:
        return made
    return f"{prefix}.{_LONG}.{hashlib.sha256(topic.encode()).hexdigest()}"


def is_long(prefix: str, subject: str) -> bool:
    """Whether it does not say the topic, which the message then has to say itself."""
    return subject.startswith(f"{prefix}.{_LONG}.")


def topic(prefix: str, subject: str) -> str:
    """The topic of a subject that is not long."""
    return "/".join(level(one) for one in subject[len(prefix) + 1 :].split("."))


def of_filter(prefix: str, filter: str) -> list[str]:
    """The subjects that a topic filter asks for: a/# is a and a.> (``a/#`` matches ``a``, too)."""
    levels = filter.split("/")
    tokens = [prefix]
    for at, one in enumerate(levels):
        if one == "#":
            deep = ".".join([*tokens, ">"])
            return [deep] if at == 0 else [".".join(tokens), deep]
        tokens.append("*" if one == "+" else token(one, at == 0))
    made = ".".join(tokens)
    return [made] if len(made.encode()) <= SUBJECT_BYTES_MAX else []


def collide(first: str, second: str) -> bool:
    """Whether some subject matches both."""
    a, b = first.split("."), second.split(".")
    for x, y in zip(a, b, strict=False):
        if ">" in (x, y):
            return True
        if x != y and "*" not in (x, y):
            return False
    return len(a) == len(b)


def join(first: str, second: str) -> str:
    """A subject with wildcards that matches all that either does."""
    a, b = first.split("."), second.split(".")
    out: list[str] = []
    for x, y in zip(a, b, strict=False):
        if ">" in (x, y):
            return ".".join([*out, ">"])
        out.append(x if x == y else "*")
    return ".".join(out)


def cover(prefix: str, filters: Sequence[str]) -> list[str]:
    """Subjects that match at least what the filters match and of which no two collide; [] for no filters.

    Topics whose subject would be too long are always among them.
    """
    if not filters:
        return []
    waiting = [f"{prefix}.{_LONG}.>", *(one for filter in filters for one in of_filter(prefix, filter))]
    out: list[str] = []
    while waiting:
        one = waiting.pop()
        rival = next((other for other in out if collide(one, other)), None)
        if rival is None:
            out.append(one)
        else:
            out.remove(rival)
            waiting.append(join(one, rival))
    return sorted(out)
