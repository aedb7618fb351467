import stat
from pathlib import Path

import pytest

from gateway.access import Access, AccessError, Ban, read_ban
from gateway.core.acl import READ, Rule


@pytest.fixture
def access(tmp_path: Path) -> Access:
    return Access(tmp_path / "data" / "access.toml")


def test_what_is_changed_is_there_for_the_next_reader(access: Access) -> None:
    with access.change():
        access.roles['anna "b" ünï'] = "device"
        access.rules.append(Rule(True, READ, "a/#", username="anna"))
        access.bans.append(Ban("client_id", "c-*"))
        access.bans.append(Ban("address", "10.0.0.0/24"))
    again = Access(access.path)
    assert (again.roles, again.rules, again.bans) == (access.roles, access.rules, access.bans)
    assert again.damage == []
    assert stat.S_IMODE(access.path.stat().st_mode) == 0o600
    with again.change():
        again.roles.clear()
    access.reload()
    assert access.roles == {}
    assert access.rules == again.rules


def test_nothing_is_said_without_a_file(access: Access) -> None:
    assert access.acl([]) is None
    assert access.banned("10.0.0.1", "c", "u") is None
    general = access.acl([Rule(True, READ, "a")])
    assert general is not None
    assert general.closed


def test_single_rules_hold_only_those_whom_they_name(access: Access) -> None:
    with access.change():
        access.rules.append(Rule(True, READ, "a", username="anna"))
        access.roles["berta"] = "application"
    acl = access.acl([])
    assert acl is not None
    assert not acl.closed
    assert acl.of("carl", "c") is None
    assert acl.of("anna", "c") is not None
    assert acl.of("berta", "c") is not None


@pytest.mark.parametrize(
    ("ban", "host", "client_id", "username", "banned"),
    [
        (Ban("address", "10.0.0.5"), "10.0.0.5", "c", "u", True),
        (Ban("address", "10.0.0.0/24"), "10.0.0.77", "", "", True),
        (Ban("address", "10.0.0.0/24"), "10.0.1.1", "c", "u", False),
        (Ban("address", "10.0.0.0/24"), "::ffff:10.0.0.1", "c", "u", True),
        (Ban("address", "fe80::/10"), "fe80::1%eth0", "c", "u", True),
        (Ban("address", "10.0.0.0/24"), "unix", "c", "u", False),
        (Ban("client_id", "plc-*"), "h", "plc-1", "", True),
        (Ban("client_id", "*"), "h", "", "", False),
        (Ban("username", "an?a"), "h", "c", "anna", True),
        (Ban("username", "*"), "h", "c", "", False),
    ],
)
def test_who_is_banned(access: Access, ban: Ban, host: str, client_id: str, username: str, banned: bool) -> None:
    with access.change():
        access.bans.append(ban)
    assert (access.banned(host, client_id, username) == ban) is banned


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('rules = [{ allow = "read" }, { allow = "read", topic = "a" }]', 1),
        ('bans = [{ address = "nowhere" }, { client_id = "c" }, { a = "b", c = "d" }, 5]', 3),
        ('rules = "all"\nbans = 5\nroles = []\nrights = 1', 4),
    ],
)
def test_bad_rows_are_set_aside_and_told(access: Access, text: str, count: int) -> None:
    access.path.parent.mkdir()
    access.path.write_text(text)
    access.reload()
    assert len(access.damage) == count
    assert all(str(access.path) in line and "\n" not in line for line in access.damage)
    assert len(access.rules) + len(access.bans) == (0 if count == 4 else 1)
    with pytest.raises(AccessError, match="first put that right"), access.change():
        pass
    assert access.path.read_text() == text


def test_a_role_that_is_no_text_gives_no_rights(access: Access) -> None:
    access.path.parent.mkdir()
    access.path.write_text("roles = { anna = 5 }")
    access.reload()
    acl = access.acl([])
    assert acl is not None
    rights = acl.of("anna", "c")
    assert rights is not None
    assert not rights.may_write("a")


@pytest.mark.parametrize("data", [b"rules = [", b"\xff\xfe", b"a = " + b"[" * 5000])
def test_a_file_that_is_no_toml_is_one_line_and_changes_nothing(access: Access, data: bytes) -> None:
    with access.change():
        access.roles["anna"] = "device"
    access.path.write_bytes(data)
    with pytest.raises(AccessError) as caught:
        access.reload()
    assert "\n" not in str(caught.value)
    assert access.roles == {"anna": "device"}


def test_trouble_with_the_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(AccessError, match="cannot be read: Is a directory"):
        Access(tmp_path / "folder")
    (tmp_path / "plain").touch()
    with pytest.raises(AccessError, match=r"cannot be (read|written)"):
        with Access(tmp_path / "plain" / "access.toml").change():
            pass


def test_bans_are_written_in_one_way() -> None:
    assert read_ban({"address": "10.0.0.5/24"}) == Ban("address", "10.0.0.0/24")
    assert read_ban({"address": "10.0.0.5/32"}) == Ban("address", "10.0.0.5")
    assert read_ban({"address": "FE80::1"}) == Ban("address", "fe80::1")
