"""The form of log lines."""

import json
import logging
import sys

import pytest

from gateway.consumer.logs import JsonLines, TextLines


def record(**fields: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "forebay.consumer", "levelname": "WARNING", "msg": "%s is slow", "args": ("a",)}
    )
    made.__dict__.update(fields)
    return made


def test_json_is_an_object_a_line() -> None:
    line = JsonLines().format(record(topic="prüf", qos=1, error=ValueError("x")))
    assert "\n" not in line
    assert json.loads(line) == {
        "level": "warning", "logger": "forebay.consumer", "text": "a is slow", "topic": "prüf", "qos": 1, "error": "x",
    }  # fmt: skip


def test_text() -> None:
    assert TextLines().format(record()) == "warning a is slow"
    assert TextLines().format(record(topic="t", qos=1)) == "warning a is slow (topic=t qos=1)"


@pytest.mark.parametrize("lines", [JsonLines(), TextLines()])
def test_a_traceback_is_there(lines: logging.Formatter) -> None:
    try:
        raise KeyError("k")
    except KeyError:
        text = lines.format(record(exc_info=sys.exc_info()))
    assert "KeyError: 'k'" in text
