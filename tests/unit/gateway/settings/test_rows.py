"""Rows put in and taken out; comments and order stay."""

import tomllib
from pathlib import Path

import pytest

from gateway.settings.rows import Row, with_rows, without_rows
from gateway.settings.table import SettingsError

TEXT = """# ours
durability = "os"  # for now

[mqtt]
max_inflight = 32

[[client_type]]
client_id = "a*"  # the first
type = "application"
"""
PATH = Path("f.toml")
ROWS: dict[str, list[Row]] = {
    "client_type": [{"username": "h", "type": "application"}],
    "collector": [{"name": "h", "topics": ["a/#"]}],
}


def test_put_in_and_taken_out_again() -> None:
    text = with_rows(PATH, TEXT, ROWS)
    found = tomllib.loads(text)
    assert [row["type"] for row in found["client_type"]] == ["application", "application"]
    assert found["collector"] == [{"name": "h", "topics": ["a/#"]}]
    for line in TEXT.splitlines():
        assert line in text
    left = without_rows(
        PATH, text, {"client_type": lambda row: row.get("username") == "h", "collector": lambda row: row["name"] == "h"}
    )
    assert tomllib.loads(left) == tomllib.loads(TEXT)
    assert "# the first" in left


def test_into_an_empty_file_and_all_out() -> None:
    text = with_rows(PATH, "", ROWS)
    assert tomllib.loads(text) == ROWS
    assert tomllib.loads(without_rows(PATH, text, {name: lambda _: True for name in ROWS})) == {}


def test_a_list_in_one_line_is_left_alone() -> None:
    with pytest.raises(SettingsError, match="by hand"):
        with_rows(PATH, "client_type = []\n", {"client_type": ROWS["client_type"]})


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(SettingsError, match="by hand"):
        with_rows(PATH, "[client_type]\nx = 1\n", {"client_type": ROWS["client_type"]})
