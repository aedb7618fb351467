"""docs/settings.md says what the table says."""

from pathlib import Path

from gateway.cli.reference import lines
from gateway.settings.table import TABLE

PAGE = Path(__file__).parents[4] / "docs" / "settings.md"


def test_the_page_is_as_generated() -> None:
    assert PAGE.read_text() == "".join(lines()), "run: make docs"


def test_every_setting_is_a_row() -> None:
    for entry in TABLE.values():
        assert f"| `{entry.name}` |" in PAGE.read_text()
