"""One [[uplink]]: defaults, what must go together, the one line that a wrong one gets, and secrets."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.core.limits import NEVER
from gateway.settings.table import SettingsError, Sources, as_toml, load
from gateway.settings.uplink import FIELDS, UplinkRow

RULE = {"direction": "out", "filter": "a/#"}
BOTH = {"direction": "both", "filter": "a/#"}
ROW: dict[str, Any] = {"name": "plant", "addresses": ["mqtts://a.example"], "rules": [RULE]}


def given(*rows: object) -> list[UplinkRow]:
    return load(Sources(sets=(f"uplink={json.dumps(rows)}",)), {}).uplink


def error_of(*rows: object) -> str:
    with pytest.raises(SettingsError) as caught:
        given(*rows)
    message = str(caught.value)
    assert message.startswith("--set: ")
    assert "\n" not in message
    return message.removeprefix("--set: ")


def test_the_defaults() -> None:
    assert load(Sources(), {}).uplink == []
    row = given(ROW)[0]
    assert (row.version, row.keep_alive_s, row.session_expiry_s, row.heartbeat_ms) == (5, 30, 604_800, 30_000)
    assert (row.max_rate, row.max_bytes, row.max_age_s, row.max_inflight, row.retain) == (0, 0, 0, 0, True)
    assert (row.user, row.password, row.password_file, row.ca, row.insecure) == ("", "", None, None, False)
    assert given(ROW | {"session_expiry": "never"})[0].session_expiry_s == NEVER


def test_every_key_is_a_field_and_has_help() -> None:
    row = given(ROW)[0]
    for field in FIELDS.values():
        assert hasattr(row, field.name)
        assert field.help.endswith(".")


def test_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text(
        """
        [[uplink]]
        name = "plant"
        addresses = ["mqtts://a.example:8883", "wss://b.example/x"]
        user = "gw"
        password = "geheim"
        rules = [
          { direction = "out", filter = "line/#", remote_prefix = "site1/" },
          { direction = "in", filter = "commands/#", qos = 2 },
        ]
        [[uplink]]
        name = "cloud"
        addresses = ["mqtt://c"]
        rules = [{ direction = "both", filter = "x" }]
        """
    )
    settings = load(Sources(path), {})
    assert [(row.name, len(row.addresses), len(row.rules)) for row in settings.uplink] == [
        ("plant", 2, 2),
        ("cloud", 1, 1),
    ]
    (line,) = as_toml(settings, ["uplink"])
    assert "geheim" not in line
    assert 'password = "***"' in line
    assert "geheim" not in repr(settings.uplink)
    path.write_text("listen = ['127.0.0.1:1']\n" + line.replace("***", "x"))
    again = load(Sources(path), {})
    assert [row.addresses for row in again.uplink] == [row.addresses for row in settings.uplink]
    assert again.uplink[1] == settings.uplink[1]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"name": "a b"}, 'uplink[1].name = "a b": expected 1 to 64 of A-Z a-z 0-9 . _ -'),
        ({"name": None}, "uplink[1].name = null: expected"),
        ({"addresses": []}, "uplink.plant.addresses = []: expected a list of addresses"),
        ({"rules": []}, "uplink.plant.rules = []: expected tables with direction"),
        ({"rules": [{"direction": "x"}]}, 'uplink.plant.rules[1].direction = "x": expected one of'),
        ({"version": "4"}, 'uplink.plant.version = "4": expected "3.1.1" or "5"'),
        ({"keep_alive": 0}, "uplink.plant.keep_alive = 0: expected seconds from 1 to 65535"),
        ({"pasword": "x"}, 'uplink.plant.pasword = "***": expected one of the keys name, addresses'),
        ({"password": "x"}, 'uplink.plant.user = "": expected a user name, since there is a password'),
        ({"password_file": "x"}, 'uplink.plant.user = "": expected a user name'),
        ({"user": "u", "password": 5}, 'uplink.plant.password = "***": expected a password'),
        ({"user": "u", "password": "x", "password_file": "f"}, 'uplink.plant.password_file = "f": expected it without'),
        ({"cert": "c"}, 'uplink.plant.key = "": expected a PEM file, since cert and key belong together'),
        ({"key": "c"}, 'uplink.plant.cert = "": expected a PEM file, since cert and key belong together'),
        (
            {"ca": "c", "addresses": ["mqtt://h"]},
            'uplink.plant.addresses = ["mqtt://h:1883"]: expected mqtts:// or wss://',
        ),
        ({"version": "3.1.1", "rules": [BOTH]}, 'uplink.plant.version = "3.1.1": expected "5", whose No Local keeps'),
        ({"dead_letter": "a/#"}, 'uplink.plant.dead_letter = "a/#": expected a topic without wildcards'),
    ],
)
def test_a_wrong_uplink_is_one_line(keys: dict[str, object], message: str) -> None:
    assert error_of(ROW | keys).startswith(message)


def test_names_are_told_apart() -> None:
    assert error_of(ROW, ROW).startswith('uplink[2].name = "plant": expected a name that no uplink before it has')
    assert error_of("x").startswith('uplink[1] = "x": expected tables with name')
    assert len(given(ROW, ROW | {"name": "other"})) == 2


def test_one_way_rules_that_meet_are_refused_on_3_1_1_and_others_are_not() -> None:
    out, back = {"direction": "out", "filter": "a/#"}, {"direction": "in", "filter": "+/b"}
    assert "out a/# and in +/b" in error_of(ROW | {"version": "3.1.1", "rules": [out, back]})
    apart = {"direction": "in", "filter": "b/#"}
    assert given(ROW | {"version": "3.1.1", "rules": [out, apart]})[0].version == 4
    assert given(ROW | {"rules": [out, back]})[0].version == 5


@pytest.mark.parametrize("text", ["uplink={", 'uplink="geheim"', 'uplinks=[{"password": "geheim"}]'])
def test_text_that_is_no_list_shows_no_secret(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(Sources(sets=(text,)), {})
    assert "password" not in text or "geheim" not in str(caught.value)


def test_two_uplinks_to_one_broker_are_two_clients() -> None:
    error = error_of(ROW | {"client_id": "gw"}, ROW | {"name": "other", "client_id": "gw"})
    assert error == 'uplink.other.client_id = "gw": expected another than that of plant, to that broker'
    given(ROW | {"client_id": "gw"}, ROW | {"name": "other", "client_id": "gw", "addresses": ["mqtt://b.example"]})


def test_rules_of_two_uplinks_to_one_broker_must_not_meet_by_3_1_1() -> None:
    back = ROW | {"name": "back", "rules": [RULE | {"direction": "in"}]}
    given(ROW, back)
    for rows in ((ROW | {"version": "3.1.1"}, back), (ROW, back | {"version": "3.1.1"})):
        assert "uplink.back.rules = " in (error := error_of(*rows))
        assert "those of plant, to the same broker, where one of both speaks 3.1.1" in error
    given(ROW | {"version": "3.1.1"}, back | {"addresses": ["mqtts://b.example"]})


@pytest.mark.parametrize("key", ["dead_letter", "heartbeat_topic", "status_topic"])
@pytest.mark.parametrize("topic", ["$share/g/t", "$delayed/5/t", "a/+", "#"])
def test_topics_that_are_none(key: str, topic: str) -> None:
    assert f'uplink.plant.{key} = "{topic}": expected a topic without wildcards' in error_of(ROW | {key: topic})


@pytest.mark.parametrize("key", ["local_prefix", "remote_prefix"])
def test_a_prefix_makes_no_shared_subscription(key: str) -> None:
    assert f"rules[1].{key}" in error_of(ROW | {"rules": [RULE | {key: "$share/g/"}]})
