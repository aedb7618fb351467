"""The lines below ``connection`` as an uplink."""

import pytest

from gateway.imports.mosquitto_bridge import Bridge
from gateway.imports.mosquitto_file import Line
from gateway.imports.table import ImportFileError


def bridge(*lines: str) -> Bridge:
    made = Bridge(Line("line 1", "connection", "to the cloud"))
    for number, text in enumerate(lines, 2):
        key, _, value = text.partition(" ")
        assert made.take(Line(f"line {number}", key, value))
    return made


def test_addresses_rules_and_what_is_said_of_the_other_side() -> None:
    made = bridge(
        "address a:1 b",
        "topic x/# out 2 local/ remote/",
        "keepalive_interval 0",
        "bridge_protocol_version mqttv50",
        "bridge_alpn mqtt",
        "bridge_outgoing_retain false",
        "notifications false",
    )
    assert made.row() == {
        "name": "to-the-cloud",
        "addresses": ["mqtt://a:1", "mqtt://b"],
        "rules": [
            {"direction": "out", "filter": "x/#", "qos": 2, "local_prefix": "local/", "remote_prefix": "remote/"}
        ],
        "version": "5",
        "keep_alive": 1,
        "alpn": ["mqtt"],
        "retain": False,
        "status_topics": "off",
    }
    assert made.remarks == []


def test_one_topic_under_another_name_needs_the_same_last_level() -> None:
    made = bridge("address a", 'topic "" out 1 x/t y/z/t', 'topic "" out 1 x/t y/u')
    assert made.row()["rules"] == [
        {"direction": "out", "filter": "t", "qos": 1, "local_prefix": "x/", "remote_prefix": "y/z/"}
    ]
    assert made.remarks == ["line 4: topic: no counterpart: one topic under quite another name there"]


def test_3_1_1_stays_unless_a_topic_goes_both_ways() -> None:
    assert bridge("address a", "topic t out 1").row()["version"] == "3.1.1"
    both = bridge("address a", "topic t both 1")
    assert both.row()["version"] == "5"
    assert len(both.remarks) == 1


def test_not_of_a_bridge_or_wrong() -> None:
    made = bridge("address a")
    assert not made.take(Line("line 3", "max_packet_size", "1"))
    for key, value in (("topic", "a out 3"), ("topic", ""), ("bridge_protocol_version", "6"), ("notifications", "x")):
        with pytest.raises(ImportFileError, match=f"line 3: {key}"):
            made.take(Line("line 3", key, value))
