"""What each kind of collector is told."""

import dataclasses
import tomllib

import pytest

from gateway.doctor.presets import Wanted, is_ours, limits, rows, typed_in
from gateway.settings.collector import PRODUCTS

WANTED = Wanted("telegraf", "line1", "line1", ("line/1/#", "energy/+"), "10.0.0.1", 1883, 8 * 3600)


@pytest.mark.parametrize("product", PRODUCTS)
def test_name_password_topics_and_address_are_told(product: str) -> None:
    text = "\n".join(typed_in(dataclasses.replace(WANTED, product=product), "pass-word"))
    for word in ("line1", "pass-word", "line/1/#", "energy/+", "10.0.0.1", "1883"):
        assert word in text, word


def test_telegraf_s_lines_are_a_table_of_its_file() -> None:
    lines = typed_in(WANTED, "p")
    (table,) = tomllib.loads("\n".join(lines[1:-1]))["inputs"]["mqtt_consumer"]
    assert table["persistent_session"] is True
    assert (table["qos"], table["client_id"], table["topics"]) == (1, "line1", ["line/1/#", "energy/+"])


def test_the_rows_are_settings() -> None:
    found = rows(WANTED)
    assert found["collector"][0]["topics"] == ["line/1/#", "energy/+"]
    assert found["client_type"] == [{"username": "line1", "type": "application"}]
    assert found["min_session_expiry"] == [{"client_id": "line1", "seconds": 604_800}]


def test_its_own_rows_are_known_again() -> None:
    ours = is_ours("line1", "line1")
    for table, added in rows(WANTED).items():
        assert all(ours[table](row) for row in added)
        assert not ours[table]({"name": "x", "username": "x", "client_id": "x"})
    assert not ours["client_type"]({"username": "line1", "client_id": "a", "type": "device"})


def test_who_acknowledges_in_batches_needs_a_wide_window() -> None:
    assert limits("telegraf") == {"mqtt.max_inflight": 1000}
    assert limits("factry") == {}
