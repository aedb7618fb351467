"""What is carried over, what is said, what is refused."""

import pytest

from gateway.imports.convert import convert, shown
from gateway.imports.readings import Priorities, Whole
from gateway.imports.table import Given, ImportFileError, Mapped, Origin, Unmapped

_ORIGIN = Origin(
    "Other",
    [
        Mapped("window", "mqtt.max_inflight", Whole(1), "it counts otherwise", "WINDOW"),
        Mapped("later", "mqtt.no_such_setting", Whole(1)),
        Mapped("table", "mqtt.no_such_setting", Priorities()),
        Unmapped("cache.*", "there is no cache"),
    ],
)


def test_only_what_differs_from_the_default_is_written_under_its_origin() -> None:
    assert list(convert(_ORIGIN, [Given("WINDOW", "64", 3)]).toml()) == [
        '# WINDOW = "64" (line 3)',
        "mqtt.max_inflight = 64",
    ]
    assert list(convert(_ORIGIN, [Given("window", "32", 3)]).toml()) == []


def test_of_a_key_given_twice_the_last_counts() -> None:
    given = [Given("window", "64", 3), Given("window", "32", 4)]
    assert list(convert(_ORIGIN, given).toml()) == []
    assert list(convert(_ORIGIN, given[::-1]).toml()) == ['# window = "64" (line 3)', "mqtt.max_inflight = 64"]


def test_each_key_that_does_not_carry_over_is_one_remark() -> None:
    given = [
        Given("window", "64", 1),
        Given("cache.size", "1", 2),
        Given("later", "5", 3),
        Given("other\x1b[2J\nkey", "x", 4),
        Given("WINDOW", None, 5),
    ]
    assert convert(_ORIGIN, given).remarks == [
        "line 1: window: mqtt.max_inflight differs: it counts otherwise",
        "line 2: cache.size: no counterpart: there is no cache",
        "line 3: later: no counterpart in this version",
        'line 4: "other\\u001b[2J\\nkey": no counterpart: not among the settings of Other known here',
        "line 5: WINDOW: not imported: its value is not in this file",
    ]


def test_a_value_beyond_our_range_is_a_remark() -> None:
    result = convert(_ORIGIN, [Given("window", "70000", 1)])
    assert not result.taken
    assert result.remarks == [
        'line 1: window: no counterpart for "70000": '
        "mqtt.max_inflight is an integer from 1 to 65535 and keeps its default"
    ]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (Given("window", "0", 9), 'line 9: window = "0": expected an integer >= 1'),
        (Given("window", "many\n", 9), 'line 9: window = "many\\n": expected an integer >= 1'),
        (Given("later", "x", 9), 'line 9: later = "x": expected an integer >= 1'),
        (
            Given("table", {"a/b": "0"}, 9),
            'line 9: table = "a/b" = 0: expected "disabled" or a table of topics with a priority from 1 to 255 each',
        ),
    ],
)
def test_bad_input_names_line_key_value_and_what_is_allowed(given: Given, line: str) -> None:
    with pytest.raises(ImportFileError) as raised:
        convert(_ORIGIN, [given])
    assert str(raised.value) == line


def test_long_values_are_cut() -> None:
    assert len(shown("x" * 1000)) == 120
    assert "\x7f" not in shown("a\x7fb")
