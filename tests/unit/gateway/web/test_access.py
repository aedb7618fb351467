"""Who may see the page."""

import base64
import stat
import time
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response

from gateway.access import Access as AccessFile
from gateway.auth import Passwords
from gateway.web.access import (
    COOKIE,
    Access,
    KeyFileError,
    Visitor,
    is_near,
    read_key,
)
from gateway.web.guesses import FAILURES_MAX, FAILURES_S, BusyError
from gateway.web.roles import Roles
from tests import asgi
from tests.page import basic

KEY = b"k" * 32
FAR = {"client": "10.0.0.5", "server": "10.0.0.1"}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Rig:
    def __init__(self, folder: Path, always: bool = False) -> None:
        self.folder = folder
        self.passwords = Passwords(folder / "passwd")
        self.passwords.add("ann", b"right")
        self.clock = Clock()
        (folder / "access").write_text('[roles]\nann = "operator"\nhistorian = "application"\nplc = "device"\n')
        self.roles = Roles(AccessFile(folder / "access"))
        self.access = Access(self.passwords, self.roles, KEY, always, self.clock)

    def give(self, role: str) -> None:
        """Another role for ann."""
        fresh = self.folder / "fresh"
        fresh.write_text(f'[roles]\nann = "{role}"\n')
        fresh.rename(self.folder / "access")

    def cookie(self, visitor: Visitor) -> dict[str, str]:
        """The header with which a browser comes back."""
        response = Response()
        self.access.remember(response, visitor, False)
        return {"cookie": response.headers["set-cookie"].partition(";")[0]}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def request(**more: object) -> Request:
    return Request(asgi.scope(**more))  # type: ignore[arg-type]


# Near and far


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "localhost:8080", "[::1]:8080"])
def test_a_browser_on_this_machine_is_near(host: str) -> None:
    assert is_near(request(headers={"host": host}))


@pytest.mark.parametrize(
    "more",
    [
        {"client": "10.0.0.5"},
        {"client": "10.0.0.5", "server": "10.0.0.1"},
        {"server": "10.0.0.1"},
        {"headers": {"x-forwarded-for": "1.2.3.4"}},
        {"headers": {"forwarded": "for=1.2.3.4"}},
        {"headers": {"via": "1.1 proxy"}},
        {"headers": {"host": "evil.example"}},
        {"headers": {"host": "127.0.0.1.evil.example:8080"}},
        {"headers": {"host": ""}},
    ],
)
def test_others_are_far(more: dict[str, object]) -> None:
    assert not is_near(request(**more))


def test_who_is_near_needs_no_login_unless_all_do(tmp_path: Path) -> None:
    for always in (False, True):
        access = Rig(tmp_path, always).access
        near = request()
        assert access.admits(near, access.visitor(near)) is not always
        far = request(**FAR)
        assert not access.admits(far, access.visitor(far))


# Logins


async def test_a_login_is_remembered_by_its_cookie(rig: Rig) -> None:
    visitor = await rig.access.login("10.0.0.5", "ann", "right")
    assert visitor is not None
    back = rig.access.visitor(request(headers=rig.cookie(visitor), **FAR))
    assert (back.user, back.session, back.fresh) == ("ann", visitor.session, False)
    assert rig.access.admits(request(**FAR), back)


async def test_a_wrong_password_an_unknown_user_and_one_without_the_right_are_all_the_same(rig: Rig) -> None:
    for user in ("historian", "plc", "nobody"):
        rig.passwords.add(user, b"right")
    for user, password in (
        ("ann", "wrong"),
        ("bob", "right"),
        ("historian", "right"),
        ("plc", "right"),
        ("nobody", "right"),
    ):
        assert await rig.access.login(f"10.0.0.{len(user)}{len(password)}", user, password) is None


def test_a_cookie_says_what_a_browser_may_do_with_it(rig: Rig) -> None:
    response = Response()
    rig.access.remember(response, Visitor("ann", "s", True), True)
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" in cookie


def test_a_cookie_that_was_changed_or_made_with_another_key_is_nobody(rig: Rig, tmp_path: Path) -> None:
    good = rig.cookie(Visitor("ann", "s", True))["cookie"]
    other = Access(rig.passwords, rig.roles, b"o" * 32, False, rig.clock)
    response = Response()
    other.remember(response, Visitor("ann", "s", True), False)
    for bad in (
        good[:-1],
        good + "x",
        f"{COOKIE}=",
        f"{COOKIE}=a.b.c",
        response.headers["set-cookie"].partition(";")[0],
    ):
        visitor = rig.access.visitor(request(headers={"cookie": bad}))
        assert (visitor.user, visitor.fresh) == ("", True)


def test_a_new_password_ends_the_logins_made_with_the_old_one(rig: Rig) -> None:
    headers = rig.cookie(Visitor("ann", "s", True))
    assert rig.access.visitor(request(headers=headers)).user == "ann"
    Passwords(rig.passwords.path).add("ann", b"other")
    assert rig.access.visitor(request(headers=headers)).user == ""


def test_who_loses_the_role_is_out_at_once(rig: Rig) -> None:
    far = request(headers=rig.cookie(Visitor("ann", "s", True)), **FAR)
    assert rig.access.admits(far, rig.access.visitor(far))
    rig.give("")
    assert not rig.access.admits(far, rig.access.visitor(far))


def test_a_removed_user_is_nobody(rig: Rig) -> None:
    headers = rig.cookie(Visitor("ann", "s", True))
    Passwords(rig.passwords.path).remove("ann")
    assert rig.access.visitor(request(headers=headers)).user == ""


def test_who_logged_out_is_nobody_whoever_kept_the_cookie(rig: Rig) -> None:
    headers = rig.cookie(Visitor("ann", "s", True))
    rig.access.logout(rig.access.visitor(request(headers=headers)))
    assert rig.access.visitor(request(headers=headers)).user == ""


# Guessing


async def test_after_some_failures_an_address_is_refused_unheard(rig: Rig) -> None:
    for _ in range(FAILURES_MAX):
        assert await rig.access.login("10.0.0.5", "ann", "wrong") is None
    for password in ("wrong", "right"):
        with pytest.raises(BusyError):
            await rig.access.login("10.0.0.5", "ann", password)
    assert await rig.access.login("10.0.0.6", "ann", "right") is not None
    rig.clock.now += FAILURES_S
    assert await rig.access.login("10.0.0.5", "ann", "right") is not None


async def test_a_success_wipes_the_failures_out(rig: Rig) -> None:
    for _ in range(3):
        for _ in range(FAILURES_MAX - 1):
            assert await rig.access.login("10.0.0.5", "ann", "wrong") is None
        assert await rig.access.login("10.0.0.5", "ann", "right") is not None


# Programs


@pytest.mark.parametrize(
    ("header", "right"),
    [
        (base64.b64encode(b"ann:right").decode(), True),
        (base64.b64encode(b"ann:wrong").decode(), False),
        (base64.b64encode(b"\xff\xfe").decode(), False),
        ("no base64!", False),
        ("", False),
    ],
)
async def test_basic(rig: Rig, header: str, right: bool) -> None:
    assert await rig.access.basic(request(headers={"authorization": f"Basic {header}"}, **FAR)) is right


@pytest.mark.parametrize(("user", "reads"), [("ann", True), ("historian", True), ("plc", False), ("nobody", False)])
async def test_metrics_are_for_those_who_may_read_everything_anyway(rig: Rig, user: str, reads: bool) -> None:
    rig.passwords.add(user, b"right")
    assert await rig.access.basic(request(headers=basic(user, "right"), **FAR)) is reads


async def test_another_scheme_is_no_login(rig: Rig) -> None:
    assert not await rig.access.basic(request(headers={"authorization": "Bearer x"}))


# Forms


def test_a_form_has_the_token_of_its_visitor(rig: Rig) -> None:
    visitor, other = Visitor("", "s", False), Visitor("", "t", False)
    token = rig.access.form_token(visitor)
    assert rig.access.is_own_form(visitor, token)
    assert not rig.access.is_own_form(other, token)
    for wrong in ("", "x", token[:-1], "ä"):
        assert not rig.access.is_own_form(visitor, wrong)
    assert not rig.access.is_own_form(Visitor("", "s", True), token)


# The key


def test_the_key_is_made_once_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "web.key"
    key = read_key(path)
    assert read_key(path) == key
    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_that_is_too_short_or_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"x")
    for path in (tmp_path / "short", tmp_path / "no folder" / "key"):
        with pytest.raises(KeyFileError, match=path.name):
            read_key(path)


def test_whether_anybody_could_log_in(rig: Rig, tmp_path: Path) -> None:
    assert rig.access.has_users()
    nobody = Access(Passwords(tmp_path / "none"), rig.roles, KEY, False, time.monotonic)
    assert not nobody.has_users()
