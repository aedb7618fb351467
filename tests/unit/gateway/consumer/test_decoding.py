"""Payloads to values."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import sparkplug
from gateway.consumer.decoding import DecodeError, decoder
from gateway.consumer.source import DeclarationError
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import encode


@dataclass
class Spot:
    x: float
    y: float


@dataclass
class Reading:
    press: int
    celsius: float
    note: str | None = None
    spots: list[Spot] = field(default_factory=list)
    extra: Any = None


class Model:
    """What a pydantic model looks like from outside."""

    def __init__(self, press: int) -> None:
        self.press = press

    @classmethod
    def model_validate_json(cls, payload: bytes) -> "Model":
        said = json.loads(payload)
        if "press" not in said:
            raise ValueError("press: Field required")
        return cls(said["press"])


def made(decode: Any, payload: bytes) -> Any:
    found = decoder(decode)
    assert found is not None
    return found(payload)


def test_bytes_are_the_payload() -> None:
    assert decoder(bytes) is None
    assert decoder("bytes") is None


@pytest.mark.parametrize("decode", ["json", json])
def test_json(decode: Any) -> None:
    assert made(decode, b'{"a": [1, null]}') == {"a": [1, None]}
    for bad in (b"{", b"\xff", b"", b"[" * 100_000):
        with pytest.raises(DecodeError, match="not JSON"):
            made(decode, bad)


def test_text() -> None:
    assert made(str, "21,5 °C".encode()) == "21,5 °C"
    with pytest.raises(DecodeError, match="not UTF-8"):
        made(str, b"\xff")


@pytest.mark.parametrize("decode", ["sparkplug", sparkplug])
def test_sparkplug(decode: Any) -> None:
    payload = Payload(timestamp=1, seq=2, metrics=[Metric("a", datatype=DataType.Int32, value=-3)])
    value = made(decode, encode(payload))
    assert (value.seq, value.metrics[0].value) == (2, -3)
    with pytest.raises(DecodeError, match="no Sparkplug payload"):
        made(decode, b"\xff\xff")


def test_a_dataclass() -> None:
    value = made(Reading, b'{"press": 7, "celsius": 21, "spots": [{"x": 1, "y": 2.5}], "unknown": 1, "extra": [1]}')
    assert value == Reading(7, 21.0, None, [Spot(1.0, 2.5)], [1])
    assert isinstance(value.celsius, float)
    assert made(Reading, b'{"press": 7, "celsius": 1.5, "note": "n"}').note == "n"


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (b"[]", "expected an object"),
        (b'{"press": 7}', "celsius"),
        (b'{"press": "7", "celsius": 1}', r"Reading\.press: expected int, not '7'"),
        (b'{"press": true, "celsius": 1}', r"Reading\.press: expected int"),
        (b'{"press": 7, "celsius": null}', r"Reading\.celsius: expected float, not None"),
        (b'{"press": 7, "celsius": 1, "note": 5}', r"Reading\.note: expected str"),
        (b'{"press": 7, "celsius": 1, "spots": {}}', r"Reading\.spots: expected list"),
        (b'{"press": 7, "celsius": 1, "spots": [{"x": 1, "y": "a"}]}', r"Reading\.spots\[0\]\.y: expected float"),
    ],
)
def test_what_a_dataclass_does_not_take(payload: bytes, what: str) -> None:
    with pytest.raises(DecodeError, match=what):
        made(Reading, payload)


def test_a_pydantic_model() -> None:
    assert made(Model, b'{"press": 7}').press == 7
    with pytest.raises(DecodeError, match="press"):
        made(Model, b"{}")


@pytest.mark.parametrize(("kind", "payload", "value"), [(float, b"21.5", 21.5), (int, b" 42 ", 42)])
def test_numbers(kind: Any, payload: bytes, value: float) -> None:
    assert made(kind, payload) == value
    with pytest.raises(DecodeError, match="no number"):
        made(kind, b"21,5")


def test_a_function() -> None:
    whole: Callable[[bytes], int] = int
    assert made(lambda payload: whole(payload) + 1, b"41") == 42
    with pytest.raises(ValueError, match="invalid literal"):
        made(lambda payload: whole(payload), b"x")


@pytest.mark.parametrize("decode", ["xml", 5, dict, object()])
def test_what_decodes_nothing_is_refused(decode: Any) -> None:
    with pytest.raises(DeclarationError, match="expected"):
        decoder(decode)
