"""``forebay collector``: rows, user, and what to type in."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gateway.auth import Passwords
from tests.command import Forebay
from tests.harness import Broker
from tests.wire import Wire

START = '# ours\ndata_dir = "data"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "forebay.toml"
    made.write_text(START)
    return made


def test_add_list_remove(forebay: Forebay, tmp_path: Path, file: Path) -> None:
    code, out, err = forebay("collector", "add", "telegraf", "line1", "-t", "line/1/#", "-c", str(file))
    assert (code, err) == (0, "")
    assert "persistent_session = true" in out
    password = next(line.split('"')[1] for line in out.splitlines() if line.strip().startswith("password"))
    assert Passwords(tmp_path / "data" / "passwd").verify("line1", password.encode())
    found = tomllib.loads(file.read_text())
    assert found["mqtt"]["max_inflight"] == 1000
    assert found["collector"][0]["product"] == "telegraf"
    assert password not in file.read_text()
    for access, topic, may in (
        ("read", "line/1/#", 0),
        ("read", "line/1/x", 0),
        ("read", "#", 1),
        ("write", "line/1/x", 1),
    ):
        assert forebay("acl", "check", access, topic, "--user", "line1", "-c", str(file)).code == may, (access, topic)
    assert forebay("config", "check", "-c", str(file)).code == 0
    (row,) = json.loads(forebay("collector", "list", "-c", str(file), "--json").out)
    assert row == {"name": "line1", "product": "telegraf", "client_id": "line1", "topics": ["line/1/#"], "user": True}
    assert "line1" in forebay("collector", "list", "-c", str(file)).out
    assert forebay("collector", "remove", "line1", "-c", str(file)) == (0, "line1: removed\n", "")
    assert json.loads(forebay("collector", "list", "-c", str(file), "--json").out) == []
    assert "line1" not in Passwords(tmp_path / "data" / "passwd").names()
    assert json.loads(forebay("acl", "list", "-c", str(file), "--json").out)[0]["from"] == "role", "no rule of its own"
    assert tomllib.loads(file.read_text()) == {"data_dir": "data", "mqtt": {"max_inflight": 1000}}


def test_json_has_the_password_and_the_lines(forebay: Forebay, tmp_path: Path, file: Path) -> None:
    told = json.loads(forebay("collector", "add", "other", "h", "-t", "#", "-c", str(file), "--json").out)
    assert told.keys() == {"name", "client_id", "password", "set"}
    assert Passwords(tmp_path / "data" / "passwd").verify("h", told["password"].encode())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("add", "factry", "h", "-t", "#"), 2, "--client-id"),
        (("add", "other", "h", "-t", "a/#/b"), 2, "--topic a/#/b: expected a topic filter"),
        (("add", "kepware", "h", "-t", "#"), 2, "kepware"),
        (("remove", "h"), 2, "no such collector"),
    ],
)
def test_what_is_wrong_is_one_line_and_changes_nothing(
    forebay: Forebay, tmp_path: Path, file: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = forebay("collector", *arguments, "-c", str(file))
    assert (result.code, result.out) == (code, "")
    assert words in result.err and result.err.count("\n") == 1
    assert file.read_text() == START
    assert Passwords(tmp_path / "data" / "passwd").names() == []


def test_without_a_settings_file_there_is_nowhere_to_write(forebay: Forebay) -> None:
    result = forebay("collector", "add", "other", "h", "-t", "#")
    assert result.code == 2
    assert "--config" in result.err


def test_a_name_that_is_taken(forebay: Forebay, tmp_path: Path, file: Path) -> None:
    Passwords(tmp_path / "data" / "passwd").add("h", b"x")
    result = forebay("collector", "add", "other", "h", "-t", "#", "-c", str(file))
    assert result.code == 1
    assert 'there is a user "h" already' in result.err
    assert file.read_text() == START


def test_a_rule_before_it_that_wins_is_told(forebay: Forebay, file: Path) -> None:
    file.write_text(START + '[[client_type]]\nclient_id = "*"\ntype = "device"\n')
    result = forebay("collector", "add", "other", "h", "-t", "#", "-c", str(file))
    assert result.code == 0
    assert "makes h a device" in result.err


def test_a_running_broker_lets_it_in_at_once(forebay: Forebay, tmp_path: Path, file: Path) -> None:
    with Broker(tmp_path / "data", arguments=["--config", str(file)]) as broker:
        told = json.loads(forebay("collector", "add", "other", "h", "-t", "line/#", "-c", str(file), "--json").out)
        login: dict[str, Any] = {"username": "h", "password": told["password"], "clean": False}
        with Wire.connect(broker.port, "h", 5, **login) as wire:
            assert wire.subscribe("line/#", qos=1) == [1]
            assert wire.subscribe("other/#", qos=1) == [0x87]
        kept = json.loads(forebay("sessions", "show", "h", "-c", str(file), "--json").out)
        assert kept["persistent"], "though it asked for no session expiry"
        assert forebay("collector", "remove", "h", "-c", str(file)).code == 0
        Wire.connect(broker.port, "h", 4, code=4, **login).close()
