"""Addresses, versions, rules: what is allowed, and how it is written back."""

import pytest

from gateway.core.uplink import BOTH, IN, OUT, Rule
from gateway.settings.entry import RowError
from gateway.settings.kinds import Integer
from gateway.settings.uplink_kinds import Names, Remote, Remotes, Rules, Text, Version, checked


@pytest.mark.parametrize(
    ("text", "remote"),
    [
        ("mqtt://h", Remote("mqtt", "h", 1883, "")),
        ("mqtts://h/", Remote("mqtts", "h", 8883, "")),
        ("mqtts://10.0.0.5:1", Remote("mqtts", "10.0.0.5", 1, "")),
        ("ws://h", Remote("ws", "h", 80, "/mqtt")),
        ("wss://h:8084/a/b?c=d", Remote("wss", "h", 8084, "/a/b?c=d")),
        ("mqtt://[fe80::1]:1884", Remote("mqtt", "fe80::1", 1884, "")),
    ],
)
def test_an_address(text: str, remote: Remote) -> None:
    assert Remotes().parse([text]) == (remote,)
    assert Remotes().parse([str(remote)]) == (remote,)
    assert (remote.tls, remote.websocket) == (remote.scheme in ("mqtts", "wss"), remote.scheme in ("ws", "wss"))


@pytest.mark.parametrize(
    "value",
    [
        [],
        "mqtt://h",
        [1],
        ["h"],
        ["http://h"],
        ["mqtt://.."],
        ["mqtt://"],
        ["mqtt://u:p@h"],
        ["mqtt://h:0"],
        ["mqtt://h:65536"],
        ["mqtt://h:x"],
        ["mqtt://h/path"],
        ["mqtt://h#f"],
        ["mqtt://h h"],
        ["mqtt://[::1"],
    ],
)
def test_no_address(value: object) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        Remotes().parse(value)


def test_versions() -> None:
    assert [Version().parse(value) for value in ("5", "5.0", 5, "3.1.1")] == [5, 5, 5, 4]
    assert Version().show(4) == '"3.1.1"'
    for value in (True, 3, "3.1", "4", None):
        with pytest.raises(ValueError, match=r"^$"):
            Version().parse(value)


def test_names() -> None:
    assert Names().parse(["mqtt"]) == ("mqtt",)
    assert Names().from_text("a, b") == ["a", "b"]
    assert Names().show(("a", "b")) == '["a", "b"]'
    for value in ("mqtt", [""], ["x" * 256], ["\u00e4"], [1]):
        with pytest.raises(ValueError, match=r"^$"):
            Names().parse(value)


def test_text() -> None:
    assert Text("x").parse("a b") == "a b"
    for value in (1, "a\n", "x" * 65_536):
        with pytest.raises(ValueError, match=r"^$"):
            Text("x").parse(value)


def test_rules_there_and_back() -> None:
    rows = [
        {"direction": "out", "filter": "a/#"},
        {"direction": "in", "filter": "+/b", "local_prefix": "l/", "remote_prefix": "r/", "qos": 2},
        {"direction": "both", "filter": "c", "qos": 0, "live_first": True},
    ]
    parsed = Rules().parse(rows)
    assert parsed == (Rule(OUT, "a/#"), Rule(IN, "+/b", "l/", "r/", 2), Rule(BOTH, "c", "", "", 0, True))
    assert Rules().show(parsed) == (
        '[{ direction = "out", filter = "a/#", qos = 1 }, '
        '{ direction = "in", filter = "+/b", local_prefix = "l/", remote_prefix = "r/", qos = 2 }, '
        '{ direction = "both", filter = "c", qos = 0, live_first = true }]'
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x", '[1] = "x": expected tables with direction'),
        ({}, "[1].direction = null: expected one of"),
        ({"direction": "up", "filter": "a"}, '[1].direction = "up": expected one of "out", "in", "both"'),
        ({"direction": "in"}, "[1].filter = null: expected a topic filter"),
        (
            {"direction": "in", "filter": "$share/g/a"},
            '[1].filter = "$share/g/a": expected a topic filter that is none',
        ),
        ({"direction": "in", "filter": "a", "qos": 3}, "[1].qos = 3: expected an integer from 0 to 2"),
        ({"direction": "in", "filter": "a", "qos": True}, "[1].qos = true: expected an integer"),
        ({"direction": "in", "filter": "a", "live_first": 1}, "[1].live_first = 1: expected true or false"),
        ({"direction": "in", "filter": "a", "local_prefix": "+/"}, '[1].local_prefix = "+/": expected the beginning'),
        (
            {"direction": "in", "filter": "#", "remote_prefix": "x"},
            '[1].remote_prefix = "x": expected a prefix that makes',
        ),
        ({"direction": "in", "filter": "a", "prefix": "x"}, '[1].prefix = "x": expected one of the keys direction'),
    ],
)
def test_a_wrong_rule_is_named(row: object, message: str) -> None:
    with pytest.raises(RowError) as caught:
        Rules().parse([row])
    assert str(caught.value).startswith(message)


def test_a_value_inside_a_row_is_led_to() -> None:
    with pytest.raises(RowError, match=r"a\.b = 5: expected an integer from 1 to 2"):
        checked("a.b", Integer(1, 2), 5)
    with pytest.raises(RowError, match=r"u\.rules\[1\]\.filter = null"):
        checked("u.rules", Rules(), [{"direction": "in"}])
