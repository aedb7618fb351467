from pathlib import Path

import pytest

from gateway.provisioning.card import parse, wiped

FULL = b"""# of line 4
hostname = "line-4"

[network]
address = "192.168.10.5/24"   # the one on the sticker

[wifi]
ssid = "plant"
password = "radio-secret"

[user]
name = "admin"
password = "user-secret"

[[uplink]]
name = "cloud"
addresses = ["mqtts://broker.plant:8883"]
user = "gw"
password = "uplink-secret"
rules = [{ direction = "out", filter = "line/#" }]

[[collector]]
product = "telegraf"
name = "tele"
password = "collector-secret"
topics = ["line/#"]

[settings]
log.level = "debug"
mqtt = { max_inflight = 64 }
"""


def test_everything() -> None:
    card = parse(FULL)
    assert card.errors == []
    assert card.hostname == "line-4"
    assert card.network is not None
    assert card.network.address == "192.168.10.5/24"
    assert card.wifi is not None
    assert card.user is not None
    assert (card.user.name, card.user.password) == ("admin", "user-secret")
    assert [row["name"] for row in card.uplinks] == ["cloud"]
    assert [(preset.product, preset.name, preset.client_id) for preset in card.collectors] == [
        ("telegraf", "tele", "tele")
    ]
    assert card.settings == {"log.level": "debug", "mqtt.max_inflight": 64}


def test_the_file_as_shipped_wants_nothing_and_its_examples_are_right() -> None:
    text = (Path(__file__).parents[4] / "images/fat/forebay.toml").read_bytes()
    card = parse(text)
    assert card.errors == []
    assert (card.hostname, card.network, card.user, card.uplinks, card.settings) == ("", None, None, [], {})
    examples = b"\n".join(line.removeprefix(b"# ") for line in text.splitlines() if not line.startswith(b"##"))
    card = parse(examples)
    assert card.errors == []
    assert card.hostname
    assert card.network is not None
    assert card.wifi is not None
    assert card.user is not None
    assert card.uplinks
    assert card.collectors
    assert card.settings


def test_what_notepad_writes_is_read() -> None:
    assert parse(b"\xef\xbb\xbf" + b'hostname = "line-4"\r\n').hostname == "line-4"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"hostname = line-4", "nothing of it was applied: forebay.toml: line 1: hostname = line-4: not valid TOML"),
        (b"password = 12-4", "nothing of it was applied: forebay.toml: line 1: password ***: not valid TOML"),
        ("hostname = 'Stra\u00dfe'".encode("latin-1"), "nothing of it was applied: forebay.toml: not UTF-8 at byte 16"),
        ("hostname = 'a'".encode("utf-16"), "nothing of it was applied: forebay.toml: not UTF-8 at byte 0"),
        (b"a = " + b"[" * 2000, "nothing of it was applied: forebay.toml: not valid TOML: nested too deeply"),
        (b"a = " + b"9" * 5000, "nothing of it was applied: forebay.toml: not valid TOML: a number with"),
    ],
)
def test_no_toml_is_one_error(text: bytes, said: str) -> None:
    card = parse(text)
    assert len(card.errors) == 1
    assert card.errors[0].startswith(said)
    assert not card.is_toml


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('hostname = "line 4"', "hostname = 'line 4': expected letters, digits and hyphens"),
        ("hostname = 4", "hostname = 4: expected"),
        ('user = "admin"', "user: expected a table, [user]"),
        ('[user]\nname = "a:b"\npassword = "12345678"', "user.name"),
        ('[user]\nname = "a"\npassword = "1234567"', "user.password: expected at least 8 characters"),
        ('[user]\nname = "a"\npasword = "12345678"', "user.pasword: unknown key; expected name, password"),
        ('[uplink]\nname = "x"', "uplink: expected [[uplink]]"),
        ('[[uplink]]\naddresses = ["mqtt://a"]', "uplink 1.name: expected a name in quotes"),
        ('[[collector]]\nname = "x"\ntopics = ["#"]\nproduct = "y"', "collector 1.product = 'y': expected one of"),
        ('[[collector]]\nname = "x"', "collector 1.topics = []: expected topic filters"),
        ('[[collector]]\nname = "x"\ntopics = ["#"]\nproduct = "factry"', "collector 1.client_id: a Factry collector"),
        ("netwrok = {}", "netwrok: unknown key; expected hostname, network"),
    ],
)
def test_a_wrong_part_is_named_and_costs_only_itself(text: str, said: str) -> None:
    good = b'\n[[uplink]]\nname = "other"\n' if b"uplink" not in text.encode() else b""
    card = parse(text.encode() + good)
    assert len(card.errors) == 1
    assert card.errors[0].startswith(said)
    assert "1234567" not in card.errors[0]
    assert [row["name"] for row in card.uplinks] == (["other"] if good else [])


def test_passwords_go_and_all_else_stays() -> None:
    left = wiped(FULL, lambda key, table: False)
    assert b"secret" not in left
    assert left.count(b'password = ""') == 4
    assert [line for line in left.splitlines() if b"password" not in line] == [
        line for line in FULL.splitlines() if b"password" not in line
    ]


def test_what_failed_keeps_its_password() -> None:
    left = wiped(FULL, lambda key, table: key == "uplink" and table["name"] == "cloud")
    assert b"uplink-secret" in left
    assert left.count(b"secret") == 1


def test_a_password_in_a_setting_goes_too_and_the_name_of_a_file_stays() -> None:
    left = wiped(b'[settings.http]\nproxy_password = "abc"\npassword_file = "/x"\n', lambda key, table: False)
    assert left == b'[settings.http]\nproxy_password = ""\npassword_file = "/x"\n'
