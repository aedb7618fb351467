import re
import stat
from pathlib import Path

from gateway.access import Access
from gateway.auth import Passwords
from gateway.provisioning.setup_code import USER, make_code, offer, read, withdraw


def test_codes_differ_and_can_be_read_off_a_screen() -> None:
    codes = {make_code() for _ in range(100)}
    assert len(codes) == 100
    assert all(re.fullmatch("([A-HJKMNP-Z2-9]{4}-){2}[A-HJKMNP-Z2-9]{4}", code) for code in codes)


def test_it_is_the_password_of_setup_until_somebody_has_a_user(tmp_path: Path) -> None:
    passwords, access, kept = Passwords(tmp_path / "passwd"), Access(tmp_path / "access.toml"), tmp_path / "code"
    code = offer(kept, passwords, access)
    assert passwords.verify(USER, code.encode())
    assert access.roles == {USER: "operator"}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert offer(kept, passwords, access) == code  # the next start shows the same
    passwords.add("plc", b"12345678")  # one that operates nothing
    assert offer(kept, passwords, access) == code
    with access.change():
        access.roles["admin"] = "operator"
    passwords.add("admin", b"12345678")
    assert offer(kept, passwords, access) == ""
    assert passwords.names() == ["plc", "admin"]
    assert access.roles == {"admin": "operator"}
    assert read(kept) == ""


def test_a_user_named_setup_that_a_person_made_stays(tmp_path: Path) -> None:
    passwords, access = Passwords(tmp_path / "passwd"), Access(tmp_path / "access.toml")
    passwords.add(USER, b"12345678")
    assert not withdraw(tmp_path / "code", passwords, access)
    assert passwords.verify(USER, b"12345678")
