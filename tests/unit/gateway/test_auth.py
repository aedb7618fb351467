"""The password file: who gets in, what a damaged line does, and that a rewrite loses nothing."""

import stat
import threading
from pathlib import Path

import pytest
from argon2 import PasswordHasher, Type, extract_parameters

from gateway.auth import MEMORY_KIB, AuthError, Passwords


@pytest.fixture
def passwords(tmp_path: Path) -> Passwords:
    return Passwords(tmp_path / "passwd")


def test_only_the_right_password_gets_in(passwords: Passwords) -> None:
    assert passwords.add("anna", b"secret") is True
    assert passwords.verify("anna", b"secret")
    for name, password in (("anna", b"Secret"), ("anna", b""), ("berta", b"secret"), ("", b""), ("anna ", b"secret")):
        assert not passwords.verify(name, password)
    assert Passwords(passwords.path).verify("anna", b"secret")


def test_the_empty_file_lets_nobody_in(passwords: Passwords) -> None:
    assert not passwords.path.exists()
    assert not passwords.verify("anna", b"")


def test_a_password_may_be_any_bytes(passwords: Passwords) -> None:
    passwords.add("ünï", b"\x00\xff:\n")
    assert Passwords(passwords.path).verify("ünï", b"\x00\xff:\n")


def test_adding_again_changes_the_password(passwords: Passwords) -> None:
    passwords.add("anna", b"one")
    passwords.add("berta", b"other")
    assert passwords.add("anna", b"two") is False
    assert not passwords.verify("anna", b"one")
    assert passwords.verify("anna", b"two")
    assert passwords.verify("berta", b"other")


def test_removing(passwords: Passwords) -> None:
    passwords.add("anna", b"one")
    passwords.add("berta", b"other")
    passwords.remove("anna")
    assert passwords.names() == ["berta"]
    assert not passwords.verify("anna", b"one")
    with pytest.raises(AuthError, match='no user "anna"'):
        passwords.remove("anna")


def test_hashes_are_argon2id_within_19_mib_and_salted(passwords: Passwords) -> None:
    passwords.add("a", b"same")
    passwords.add("b", b"same")
    hashes = [line.partition(":")[2] for line in passwords.path.read_text().splitlines()]
    assert hashes[0] != hashes[1]
    assert all(hashed.startswith("$argon2id$") for hashed in hashes)
    assert MEMORY_KIB <= 19 * 1024
    assert {extract_parameters(hashed).memory_cost for hashed in hashes} == {MEMORY_KIB}


def test_an_unknown_user_costs_a_hash_too(passwords: Passwords) -> None:
    """The hash that a stranger is held against is as costly as a user's."""
    assert extract_parameters(passwords._nobody).memory_cost == MEMORY_KIB
    assert not passwords.verify("nobody", b"anything")


@pytest.mark.parametrize(
    "line",
    [
        "nocolon",
        ":$argon2id$",
        "carl:plain",
        "carl:",
        "carl:$argon2id$v=19$broken",
        "carl:" + PasswordHasher(1, 8, 1, type=Type.I).hash("x", salt=b"saltsalt"),
        "\udcff:x",
    ],
)
def test_a_damaged_line_is_reported_kept_and_lets_nobody_in(passwords: Passwords, line: str) -> None:
    passwords.add("anna", b"secret")
    old = passwords.path.read_bytes()
    raw = line.encode(errors="surrogateescape") + b"\n"
    passwords.path.write_bytes(raw + old)
    passwords.reload()
    assert len(passwords.damage) == 1
    assert "line 1" in passwords.damage[0]
    assert passwords.verify("anna", b"secret")
    assert not passwords.verify("carl", b"x")
    passwords.add("berta", b"b")
    assert raw in passwords.path.read_bytes()


def test_a_second_line_for_a_user_does_not_count(passwords: Passwords) -> None:
    passwords.add("anna", b"one")
    first = passwords.path.read_text()
    passwords.add("anna", b"two")
    passwords.path.write_text("# users\n\n" + passwords.path.read_text() + first)
    passwords.reload()
    assert 'line 4: a second line for "anna"' in passwords.damage[0]
    assert passwords.verify("anna", b"two")
    assert not passwords.verify("anna", b"one")


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "#a", "x" * 1025, "a\0"])
def test_names_that_cannot_be_a_line(passwords: Passwords, name: str) -> None:
    with pytest.raises(AuthError, match="expected a user name"):
        passwords.add(name, b"x")
    with pytest.raises(AuthError, match="not empty"):
        passwords.add("anna", b"")
    assert not passwords.path.exists()


def test_the_file_is_the_owners_alone_and_nothing_is_left_over(passwords: Passwords) -> None:
    passwords.add("anna", b"one")
    passwords.path.chmod(0o644)
    passwords.add("berta", b"two")
    assert stat.S_IMODE(passwords.path.stat().st_mode) == 0o600
    assert [path.name for path in passwords.path.parent.iterdir()] == ["passwd"]


def test_two_writers_lose_nobody(tmp_path: Path) -> None:
    path = tmp_path / "passwd"
    writers = [threading.Thread(target=Passwords(path).add, args=(f"user{i}", b"x")) for i in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(Passwords(path).names()) == [f"user{i}" for i in range(6)]


def test_trouble_with_the_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(AuthError, match="cannot be read: Is a directory"):
        Passwords(tmp_path / "folder")
    (tmp_path / "file").touch()
    with pytest.raises(AuthError, match=r"cannot be (read|written): Not a directory"):
        Passwords(tmp_path / "file" / "passwd").add("a", b"b")


def test_a_failed_reload_keeps_the_users(passwords: Passwords) -> None:
    passwords.add("anna", b"one")
    passwords.path.unlink()
    passwords.path.mkdir()
    with pytest.raises(AuthError):
        passwords.reload()
    assert passwords.verify("anna", b"one")
