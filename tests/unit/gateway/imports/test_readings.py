"""Values of other brokers: what each kind takes, and what it refuses."""

import pytest

from gateway.imports.readings import Bytes, Factor, Flag, Hosts, Literal, Priorities, Property, Span, Whole, Word
from gateway.imports.table import Reading, Text


@pytest.mark.parametrize(
    ("reading", "text", "value"),
    [
        (Flag(), "true", True),
        (Flag(), "OFF", False),
        (Whole(0, 10), "7", 7),
        (Whole(None, off="never"), "-1", "never"),
        (Whole(0, off="unlimited"), "0", "unlimited"),
        (Whole(0, words={"infinity": "unlimited"}), "infinity", "unlimited"),
        (Span(), "15s", "15000ms"),
        (Span(), "1h30m", "5400000ms"),
        (Span(), "0.5d", "43200000ms"),
        (Span(), "100ms", "100ms"),
        (Span(), "2500", "2500ms"),
        (Span({"infinity": "never"}), "infinity", "never"),
        (Bytes(), "1MB", 1_048_576),
        (Bytes(), "64kb", 65_536),
        (Bytes(), "1024", 1024),
        (Factor(), "1.5", 1.5),
        (Word("lowest", "highest"), "highest", "highest"),
        (Literal(), "plant1.", "plant1."),
        (Hosts(), "k1:9092, [::1]:9093", ["k1:9092", "[::1]:9093"]),
        (Property("a.b", "", "none"), "x:y;a.b:7", 7),
        (Property("a.b", "", "none"), "a.b:-1", "none"),
        (Property("a.b", "", "none"), "x:y", None),
        (Priorities(), "disabled", {}),
        (Priorities(), {"a/b": "10", "a/#": "255"}, {"a/b": 10, "a/#": 255}),
    ],
)
def test_taken(reading: Reading, text: Text, value: object) -> None:
    assert reading.toml(text) == value


@pytest.mark.parametrize(
    ("reading", "texts"),
    [
        (Flag(), ["", "maybe", {"a": "b"}]),
        (Whole(1, 10), ["0", "11", "", "1.5", "ten", "9" * 5000, "１", {"a": "b"}]),
        (Span(), ["", "15 s", "s", "1y", "infinity", "-1s", {"a": "b"}]),
        (Bytes(), ["", "1TB", "MB", "-1", {"a": "b"}]),
        (Factor(), ["", "x", "-1", "1e9", {"a": "b"}]),
        (Word("lowest"), ["Lowest", "", {"a": "b"}]),
        (Literal(), [{"a": "b"}]),
        (Hosts(), ["", "k1", "k1:9092,", "k1:9092;k2:9092", {"a": "b"}]),
        (Property("a.b", "", "none"), ["a.b", "a.b:x", "a.b:-2", {"a": "b"}]),
        (Priorities(), ["enabled", {"a": "0"}, {"a": "256"}, {"a": "high"}]),
    ],
)
def test_refused(reading: Reading, texts: list[Text]) -> None:
    assert reading.allowed
    for text in texts:
        with pytest.raises(ValueError, match=r"^$"):
            reading.toml(text)
