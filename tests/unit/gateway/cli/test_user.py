"""``forebay user``, and where passwords come from."""

from pathlib import Path

import pytest

from gateway.auth import Passwords
from tests.command import Forebay


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
