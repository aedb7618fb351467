"""The rows that declare collectors."""

import pytest

from gateway.settings.collector import CollectorRule, Collectors
from gateway.settings.table import SettingsError, Sources, load

ROW = '[{ name = "h", client_id = "h-*", product = "factry", topics = ["a/#", "$share/g/b"] }]'


def test_read_and_shown_alike() -> None:
    kind = Collectors()
    rules = kind.parse(kind.from_text(ROW))
    assert rules == [CollectorRule("h", "h-*", "factry", ("a/#", "$share/g/b"))]
    assert kind.show(rules) == ROW
    assert kind.parse(kind.from_text("")) == []
    assert kind.parse([{"name": "h"}]) == [CollectorRule("h", "h", "other", ())]


@pytest.mark.parametrize(
    "text",
    [
        "h", "{}", '[{ client_id = "h" }]', '[{ name = "" }]', '[{ name = "h", product = "x" }]',
        '[{ name = "h", topics = ["a/#/b"] }]', '[{ name = "h", topics = ["$share/g"] }]',
        '[{ name = "h", more = 1 }]', '[{ name = "h" }, { name = "h" }]', '[{ name = "h", topics = "a" }]',
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(text: str) -> None:
    with pytest.raises(SettingsError, match=r"--set: collector = .*: expected tables with name"):
        load(Sources(None, (f"collector={text}",)), {})
