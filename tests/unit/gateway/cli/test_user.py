"""``forebay user``, and where passwords come from."""

import json
import socket
from pathlib import Path

import pytest

from gateway.access import Access
from gateway.auth import Passwords
from tests import wire_format as mqtt
from tests.command import Forebay
from tests.harness import Broker
from tests.wire import Wire


def test_add_list_remove(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"from a file\r\nnot this\n")
    assert forebay("user", "add", "anna", "--password-file", "secret") == (0, "anna: added\n", "")
    assert Passwords(tmp_path / "var" / "passwd").verify("anna", b"from a file")
    assert forebay("user", "add", "anna", "--password-file", "-", stdin=b"typed\n").out == "anna: password changed\n"
    assert Passwords(tmp_path / "var" / "passwd").verify("anna", b"typed")
    assert forebay("user", "list").out == "anna\n"
    assert forebay("user", "remove", "anna").out == "anna: removed\n"
    assert forebay("user", "list") == (0, "", "")
    assert forebay("user", "remove", "anna") == (1, "", 'forebay: var/passwd: no user "anna"\n')


def test_password_from_the_environment(forebay: Forebay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_PASSWORD", "hush")
    assert forebay("user", "add", "anna", "--data-dir", "d").code == 0
    assert Passwords(tmp_path / "d" / "passwd").verify("anna", b"hush")


def test_no_way_to_a_password(forebay: Forebay) -> None:
    code, _, err = forebay("user", "add", "anna")
    assert code == 2
    assert err == "forebay: no terminal to ask for a password: expected --password-file or FOREBAY_PASSWORD\n"
    assert forebay("user", "add", "anna", "--password-file", "none").err == (
        "forebay: none: cannot be read: No such file or directory\n"
    )
    assert forebay("user", "add", "a:b", "--password-file", "-", stdin=b"x").code == 1


def test_damage_is_told(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("rubbish\n")
    code, out, err = forebay("user", "list", "--data-dir", ".")
    assert (code, out) == (0, "")
    assert err == "forebay: passwd: line 1: not NAME:$argon2id$...; it lets nobody in\n"


def test_roles(forebay: Forebay, tmp_path: Path) -> None:
    assert forebay("user", "add", "anna", "--role", "device", "--password-file", "-", stdin=b"x").code == 0
    assert forebay("user", "role", "plc-1", "application").out == "plc-1: application\n"
    assert Access(tmp_path / "var" / "access.toml").roles == {"anna": "device", "plc-1": "application"}
    assert forebay("user", "list").out == "anna (device)\nplc-1 (application)\n"
    assert json.loads(forebay("user", "list", "--json").out) == [
        {"user": "anna", "role": "device", "password": True},
        {"user": "plc-1", "role": "application", "password": False},
    ]
    assert forebay("user", "role", "anna", "packer") == (
        2,
        "",
        "forebay: --role packer: expected one of application, device, none, operator\n",
    )
    assert forebay("acl", "allow", "read", "pack/#", "--role", "packer").code == 0
    assert forebay("user", "role", "anna", "packer").code == 0
    assert forebay("user", "remove", "anna").code == 0
    assert forebay("user", "role", "plc-1", "none").out == "plc-1: no role\n"
    assert Access(tmp_path / "var" / "access.toml").roles == {}


def test_a_user_is_not_added_without_the_role_that_it_should_have(forebay: Forebay) -> None:
    assert forebay("user", "add", "anna", "--role", "nosuch", "--password-file", "-", stdin=b"x").code == 2
    assert forebay("user", "list").out == ""


def test_bans(forebay: Forebay) -> None:
    assert forebay("user", "ban", "eve").out == "eve: banned\n"
    assert forebay("user", "ban", "--client-id", "c-*").code == 0
    assert forebay("user", "ban", "--address", "10.0.0.7/24").out == "10.0.0.0/24: banned\n"
    assert forebay("user", "ban", "--address", "10.0.0.0/24").code == 0
    assert forebay("user", "bans").out == "username eve\nclient_id c-*\naddress 10.0.0.0/24\n"
    assert forebay("user", "unban", "--address", "10.0.0.0/24").out == "10.0.0.0/24: no longer banned\n"
    assert json.loads(forebay("user", "bans", "--json").out) == [{"username": "eve"}, {"client_id": "c-*"}]
    for arguments, error in (
        (("ban",), "expected one of a user, --client-id and --address"),
        (("ban", "a", "--client-id", "b"), "expected one of a user, --client-id and --address"),
        (("ban", "--address", "x"), "--address x: expected an address or network such as 10.0.0.0/24"),
        (("unban", "adam"), "adam: expected a username in forebay user bans"),
    ):
        assert forebay("user", *arguments) == (2, "", f"forebay: {error}\n")


def test_who_comes_and_goes_is_shown_and_may_come_again(forebay: Forebay, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    rule = {"flapping_detect.enable": True, "flapping_detect.max_count": 3, "flapping_detect.ban_time": "1h"}
    with Broker(tmp_path / "data", rule) as broker:
        assert forebay("user", "bans", *data).out == ""
        for _ in range(3):
            Wire.connect(broker.port, "restless", clean=False).close()
        with Wire.connect(broker.port, "calm"), socket.create_connection(("127.0.0.1", broker.port), 30) as sock:
            sock.sendall(mqtt.connect("restless", 5))
            assert sock.recv(100)[3] == 0x8A
            (row,) = json.loads(forebay("user", "bans", "--json", *data).out)
            assert row["client_id"] == "restless" and 3500 < row["left_s"] <= 3600
            assert forebay("user", "bans", *data).out.startswith("client_id restless came too often from 127.0.0.1:")
            assert "restless has connected more than 3 times within 60 s" in broker.log()
            out = forebay("user", "unban", "--client-id", "restless", *data).out
            assert out == "restless: no longer banned\n"
            assert forebay("user", "bans", *data).out == ""
            assert forebay("user", "unban", "--client-id", "restless", *data).code == 2
            Wire.connect(broker.port, "restless").close()
    with Broker(tmp_path / "data", rule) as broker:
        for _ in range(3):
            Wire.connect(broker.port, "restless").close()
