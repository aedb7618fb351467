"""The schema checker: each keyword, what is said of a fault, and agreement with the jsonschema library."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import profiles
from gateway.schema import SchemaError, check, understood

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "text": {"type": "string", "minLength": 2},
        "qos": {"type": "integer", "minimum": 0, "maximum": 2},
        "on": {"type": "boolean"},
        "kind": {"enum": ["ram", "disk", 1]},
        "either": {"type": ["integer", "string"]},
        "list": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}},
        "table": {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "string"}}},
    },
}


def faults(value: object) -> list[str]:
    return [str(fault) for fault in check(value, SCHEMA)]


def test_a_sound_value_has_no_fault() -> None:
    sound = {"name": "a", "text": "ab", "qos": 2, "on": True, "kind": "ram", "either": "x", "list": [0, 9]}
    assert faults({**sound, "table": {"a": ""}}) == []


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ([], "[]: expected a table"),
        ({}, "name: missing: expected text like ^[a-z]+$"),
        ({"name": "A"}, 'name: "A": expected text like ^[a-z]+$'),
        ({"name": "a\n"}, 'name: "a\\n": expected text like ^[a-z]+$'),
        ({"name": "a", "text": "x"}, 'text: "x": expected text of at least 2 characters'),
        ({"name": "a", "qos": 3}, "qos: 3: expected a whole number from 0 to 2"),
        ({"name": "a", "qos": True}, "qos: true: expected a whole number from 0 to 2"),
        ({"name": "a", "qos": 1.0}, "qos: 1.0: expected a whole number from 0 to 2"),
        ({"name": "a", "on": 1}, "on: 1: expected true or false"),
        ({"name": "a", "kind": "tape"}, 'kind: "tape": expected one of ram, disk, 1'),
        ({"name": "a", "kind": True}, "kind: true: expected one of ram, disk, 1"),
        ({"name": "a", "either": []}, "either: []: expected a whole number or text"),
        ({"name": "a", "list": [1, 10]}, "list[1]: 10: expected a whole number from 0 to 9"),
        ({"name": "a", "table": {"b": 1}}, "table.b: unknown: expected one of a"),
        ({"name": "a", "two\nlines": 1}, f"two lines: unknown: expected one of {', '.join(SCHEMA['properties'])}"),
    ],
)
def test_a_fault_names_key_and_what_is_expected(value: object, fault: str) -> None:
    assert faults(value) == [fault]


def test_a_long_value_is_cut() -> None:
    (fault,) = faults({"name": "A" * 1000})
    assert len(fault) < 120


def test_a_keyword_that_is_not_known_is_refused() -> None:
    unknown: list[dict[str, Any]] = [
        {"oneOf": []}, {"properties": {"a": {"items": {"maxItems": 1}}}}, {"additionalProperties": {}},
    ]  # fmt: skip
    for schema in unknown:
        with pytest.raises(SchemaError):
            understood(schema)
    understood(SCHEMA)


def test_the_profile_schema_is_valid_and_understood() -> None:
    schema = profiles.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    understood(schema)


ATOMS = st.none() | st.booleans() | st.integers(-2, 11) | st.sampled_from(["", "a", "ab", "A", "ram", "a\n", "disk"])
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3), max_leaves=4)
NAMES = st.sampled_from([*SCHEMA["properties"], "other", "a"])


@given(st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, ATOMS, max_size=2), max_size=8))
def test_it_finds_faults_where_the_library_does(value: dict[str, Any]) -> None:
    library = jsonschema.Draft202012Validator(
        json.loads(json.dumps(SCHEMA).replace("]+$", "]+\\\\Z"))  # its $ also fits before a last line break
    )
    assert (not faults(value)) == library.is_valid(value)
