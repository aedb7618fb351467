"""The HOCON that EMQX's settings are written in."""

import pytest

from gateway.imports.hocon import read
from gateway.imports.table import ImportFileError, Text

_MAPS = frozenset({"mqtt.mqueue_priorities"})


def _pairs(text: str) -> dict[str, Text | None]:
    return {given.name: given.text for given in read(text, _MAPS)}


@pytest.mark.parametrize(
    "text",
    [
        "mqtt { max_inflight = 64, idle_timeout = 15s }",
        "mqtt {\n  max_inflight = 64\n  idle_timeout = 15s\n}\n",
        "mqtt.max_inflight = 64\nmqtt.idle_timeout = 15s",
        'mqtt.max_inflight: "64"\nmqtt.idle_timeout: "15s"',
        '{"mqtt": {"max_inflight": 64, "idle_timeout": "15s"}}',
        "# first\nmqtt { max_inflight = 64 # so many\n idle_timeout = 15s // so long\n }",
        "mqtt { max_inflight = 1 }\nmqtt { max_inflight = 64, idle_timeout = 15s, }",
        "mqtt = 3\nmqtt = {\n max_inflight = 64 }\r\nmqtt.idle_timeout = 15s\r\n",
        'mqtt {\n max_inflight =\n 64\n idle_timeout = """15s""" }',
        "\ufeffmqtt\t{ max_inflight=64\n\n\n,idle_timeout=15s}",
    ],
)
def test_ways_to_write_the_same(text: str) -> None:
    assert _pairs(text) == {"mqtt.max_inflight": "64", "mqtt.idle_timeout": "15s"}


def test_lines_are_counted() -> None:
    given = read("# one\nmqtt {\n  a = 1\n\n  b = 2\n}\nc.d = 3", _MAPS)
    assert [(item.name, item.line) for item in given] == [("mqtt.a", 3), ("mqtt.b", 5), ("c.d", 7)]


def test_zones_lists_and_strings() -> None:
    text = """
    zones.iot.mqtt { max_inflight = 5 }
    listeners.tcp.default { bind = "0.0.0.0:1883", acceptors = 16 }
    authentication = [ # users
        { mechanism = password_based, note = "]" }
    ]
    path = "C:\\\\x\\u0041"
    url = http
    """
    assert _pairs(text) == {
        "zones.iot.mqtt.max_inflight": "5",
        "listeners.tcp.default.bind": "0.0.0.0:1883",
        "listeners.tcp.default.acceptors": "16",
        "authentication": '[ # users\n        { mechanism = password_based, note = "]" }\n    ]',
        "path": "C:\\xA",
        "url": "http",
    }


def test_a_table_of_priorities_is_one_value() -> None:
    assert _pairs('mqtt.mqueue_priorities { "t/1" = 10, "a.b/#" = 255 }') == {
        "mqtt.mqueue_priorities": {"t/1": "10", "a.b/#": "255"}
    }
    assert _pairs("mqtt.mqueue_priorities = disabled") == {"mqtt.mqueue_priorities": "disabled"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("mqtt {\n a = 1\n", 'line 3: end of file: expected "}"'),
        ("mqtt { a = 1 } }", 'line 1: "}": expected a key'),
        ("mqtt\n", 'line 1: mqtt: "": expected =, : or {'),
        ("a = 1\nmqtt max_inflight", 'line 2: mqtt: "max_inflight": expected =, : or {'),
        ('\ninclude "base.conf"', "line 2: include: other files are not read: put their text in this one"),
        ("a = ${B}", 'line 1: a = "${B}": substitutions are not read: put the value there'),
        ("a = x${B}", 'line 1: a = "${B}": substitutions are not read: put the value there'),
        ("a += 1", "line 1: a: += is not read: expected ="),
        ('"a\\nb" += 1', 'line 1: "a\\nb": += is not read: expected ='),
        ('a = "open\n', 'line 1: "\\"open": expected a string that ends on its line'),
        ('a = "x" y', 'line 1: a = "xy": expected one value'),
        ('a = """x', 'line 1: end of file: expected """'),
        ("a = [1, 2", 'line 1: a: end of file: expected "]"'),
        ("a. = 1", 'line 1: " = 1": expected a key'),
        ("a{" * 40, "line 1: expected at most 30 braces within each other"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, line: str) -> None:
    with pytest.raises(ImportFileError) as raised:
        read(text, _MAPS)
    assert str(raised.value) == line
