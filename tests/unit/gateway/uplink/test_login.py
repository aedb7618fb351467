"""What the settings of an uplink become for the core."""

from pathlib import Path
from typing import Any

import pytest

from gateway.settings.uplink import UplinkRow, parsed
from gateway.uplink.dial import DialError
from gateway.uplink.login import client_id_of, login_of, refusal, status_topic_of, uplink_of

OUT = {"direction": "out", "filter": "a/#", "remote_prefix": "site/", "qos": 2}


def row(**keys: Any) -> UplinkRow:
    return parsed({"name": "plant", "addresses": ["mqtt://h:1"], "rules": [OUT], **keys}, "")


def test_rules_and_limits_reach_the_core() -> None:
    found = uplink_of(
        row(
            max_bytes="1MiB",
            max_age="1h",
            when_full="drop_newest",
            max_rate=5,
            max_bytes_per_s=6,
            max_inflight=7,
            dead_letter="dead",
            retain=False,
        )
    )
    assert found.client_id == "$uplink/plant"
    assert [(rule.here, rule.there, rule.qos) for rule in found.rules] == [("a/#", "site/a/#", 2)]
    assert (found.max_bytes, found.max_age_s, found.max_rate, found.max_bytes_s) == (1 << 20, 3600, 5, 6)
    assert (found.window, found.dead_topic, found.retain) == (7, "dead", False)
    assert found.drop_newest
    assert not uplink_of(row()).drop_newest


def test_the_client_id_is_made_from_the_gateways_unless_one_is_given() -> None:
    assert client_id_of(row(), "abc") == "forebay-abc-plant"
    assert client_id_of(row(client_id="x"), "abc") == "x"


def test_a_login_has_the_topics_that_are_asked_for() -> None:
    made = row(keep_alive="20s", session_expiry="1h", user="u", password="p")
    login = login_of(made, made.addresses[0], "me")
    assert (login.uplink, login.remote, login.client_id, login.version) == ("plant", "h:1", "me", 5)
    assert (login.username, login.password, login.keep_alive_s, login.session_expiry_s) == ("u", b"p", 20, 3600)
    assert login.status_topic == "$SYS/broker/connection/me/state"
    assert login.beat_topic == "forebay/heartbeat/me"
    made = row(status_topics="local", heartbeat=0, version="3.1.1")
    login = login_of(made, made.addresses[0], "me")
    assert (login.version, login.status_topic, login.beat_topic, login.username) == (4, "", "", None)
    assert status_topic_of(made, "me") == "$SYS/broker/connection/me/state"
    made = row(heartbeat_topic="h", status_topic="s")
    login = login_of(made, made.addresses[0], "me")
    assert (login.status_topic, login.beat_topic) == ("s", "h")


def test_a_password_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = row(user="u", password_file=str(path))
    with pytest.raises(DialError, match="secret: No such file") as caught:
        login_of(made, made.addresses[0], "me")
    assert caught.value.refused
    for text, expected in ((b"one\r\nrest", b"one"), (b"two", b"two")):
        path.write_bytes(text)
        assert login_of(made, made.addresses[0], "me").password == expected


def test_what_a_connack_says() -> None:
    assert refusal(0x87, 5) == ("not authorized (0x87)", True)
    assert not refusal(0x88, 5)[1]
    assert refusal(5, 4) == ("not authorized (return code 5)", True)
    assert not refusal(3, 4)[1]
    assert refusal(77, 4) == ("unknown reason (return code 77)", False)
