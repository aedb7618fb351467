"""Checks values against a JSON Schema, as far as our schemas go: each fault is a key and what is expected there.

Known keywords: type, enum, properties, required, additionalProperties (false), items, pattern, minLength, minimum and
maximum; a schema with another one is refused, so that none is passed over in silence.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, final

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
}
_SAID: Final = {
    "object": "a table", "array": "a list", "string": "text", "integer": "a whole number", "boolean": "true or false",
}  # fmt: skip
_ANNOTATIONS: Final = frozenset({"$schema", "title", "description"})
_KEYWORDS: Final = frozenset(
    {"type", "enum", "properties", "required", "additionalProperties", "items", "pattern", "minLength", "minimum",
     "maximum"}
)  # fmt: skip


class SchemaError(Exception):
    """The schema itself says something that is not understood here."""


@final
class Fault:
    """``key`` is dotted, with the place in a list in brackets; "" is the whole."""

    def __init__(self, key: str, what: str) -> None:
        self.key = key
        self.what = what

    def __str__(self) -> str:
        text = f"{self.key}: {self.what}" if self.key else self.what
        return " ".join(text.split())  # a quoted key may hold a line break


def understood(schema: dict[str, Any]) -> None:
    """Raises SchemaError for the first keyword, here or below, that check() does not know."""
    for keyword in schema:
        if keyword not in _KEYWORDS and keyword not in _ANNOTATIONS:
            raise SchemaError(f"unknown keyword {keyword}")
    if schema.get("additionalProperties", False) is not False:
        raise SchemaError("additionalProperties: expected false")
    below = list(schema.get("properties", {}).values())
    if "items" in schema:
        below.append(schema["items"])
    for inner in below:
        understood(inner)


def check(value: object, schema: dict[str, Any], key: str = "") -> Iterator[Fault]:
    """Every fault of the value, in the order of the schema."""
    if not _is(value, schema.get("type")):
        yield Fault(key, f"{_shown(value)}: expected {_expected(schema)}")
    elif isinstance(value, dict):
        yield from _table(value, schema, key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from check(item, schema.get("items", {}), f"{key}[{number}]")
    elif not _fits(value, schema):
        yield Fault(key, f"{_shown(value)}: expected {_expected(schema)}")


def _table(value: dict[str, Any], schema: dict[str, Any], key: str) -> Iterator[Fault]:
    known = schema.get("properties", {})
    start = f"{key}." if key else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield Fault(start + name, f"missing: expected {_expected(known.get(name, {}))}")
    for name, inner in value.items():
        if name in known:
            yield from check(inner, known[name], start + name)
        elif schema.get("additionalProperties") is False:
            yield Fault(start + name, f"unknown: expected one of {', '.join(known)}")


def _is(value: object, wanted: str | list[str] | None) -> bool:
    if wanted is None:
        return True
    names = [wanted] if isinstance(wanted, str) else wanted
    if isinstance(value, bool):  # which Python takes for an integer
        return "boolean" in names
    return any(isinstance(value, _TYPES[name]) for name in names)


def _fits(value: object, schema: dict[str, Any]) -> bool:
    # 1 and true are equal to Python, not to JSON
    if "enum" in schema and not any(value == one and type(value) is type(one) for one in schema["enum"]):
        return False
    if isinstance(value, str):
        pattern = schema.get("pattern", "").replace("$", r"\Z")  # Python's $ also fits before a last line break
        return len(value) >= schema.get("minLength", 0) and re.search(pattern, value) is not None
    if isinstance(value, int):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True


def _expected(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(str(one) for one in schema["enum"])
    if "pattern" in schema:
        return f"text like {schema['pattern']}"
    if "minimum" in schema and "maximum" in schema:
        return f"a whole number from {schema['minimum']} to {schema['maximum']}"
    wanted = schema.get("type", [])
    text = " or ".join(_SAID[name] for name in ([wanted] if isinstance(wanted, str) else wanted)) or "a value"
    least = schema.get("minLength", 0)
    return text + (f" of at least {least} character{'s' if least > 1 else ''}" if least else "")


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
