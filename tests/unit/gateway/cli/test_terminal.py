"""What a terminal gets to see."""

from gateway.cli.terminal import metric_value, shown, time_of


def test_nothing_that_a_terminal_would_act_on() -> None:
    assert shown("a\x1b[2Jb\n\u202e") == "a\\x1b[2Jb\\n\\u202e"
    assert shown("grün 温度") == "grün 温度"


def test_times() -> None:
    assert time_of(None) == "no time"
    assert time_of(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert time_of(2**64) == str(2**64)


def test_values() -> None:
    assert metric_value({}) == "null"
    assert metric_value({"value": "a\x07"}) == "a\\x07"
    assert metric_value({"value": [1, 2]}) == "[1, 2]"
