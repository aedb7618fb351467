"""Whose rule holds, and for how long a session remembers it."""

import pytest

from gateway.core.limits import ClientRule, Limits
from gateway.core.rules import rule_of
from tests.core_rig import broker, connect, core_of, session_of


@pytest.mark.parametrize(
    ("client_id", "username", "which"),
    [
        ("x-1", "bad", 0),
        ("x-1", "good", 1),
        ("x-1", None, 1),
        ("y", "historian", 2),
        ("y", "u", 3),
        ("z", "u", None),
        ("y", None, None),
    ],
)
def test_the_first_rule_that_names_a_client_holds(client_id: str, username: str | None, which: int | None) -> None:
    limits = Limits()
    limits.client_types = [
        ClientRule("x-*", "bad", False),
        ClientRule("x-*", "", True),
        ClientRule("", "his*", True),
        ClientRule("y", "u", True),
    ]
    found = rule_of(limits, client_id, username)
    assert (None if found is None else limits.client_types.index(found)) == which


def test_only_stars_and_question_marks_are_special() -> None:
    limits = Limits()
    limits.client_types = [ClientRule("[a]?", "", True)]
    assert rule_of(limits, "[a]1", None)
    assert rule_of(limits, "a1", None) is None


def test_a_rule_by_user_name_holds_while_nobody_is_connected_and_after_a_crash() -> None:
    b = broker(client_types=[ClientRule("", "his*", True, max_bytes=500)], app_max_age_s=7)
    connect(b, "s", username="historian", password=b"x").drop()
    for _ in range(2):
        s = session_of(b, "s")
        assert (s.max_bytes, s.max_age_ms) == (500, 7000)
        assert core_of(b).apps.bounded == {s: True}
        b.crash()
    connect(b, "s", username="other", password=b"x")
    s = session_of(b, "s")
    assert (s.max_bytes, s.max_age_ms) == (0, 0)
    assert not core_of(b).apps.bounded


def test_a_rule_may_take_back_what_holds_for_all() -> None:
    b = broker(client_types=[ClientRule("s", "", True, max_bytes=0, drain_rate=9)], app_max_bytes=1, app_drain_rate=5)
    connect(b, "s")
    s = session_of(b, "s")
    assert (s.max_bytes, s.drain_rate) == (0, 9)


def test_a_reload_changes_what_holds() -> None:
    b = broker(client_types=[ClientRule("s", "", True)], app_max_bytes=1)
    connect(b, "s").drop()
    connect(b, "device")
    b.limits.client_types = [ClientRule("device", "", True)]
    b.router.reload(b.limits, b.now)
    assert list(core_of(b).apps.bounded) == [session_of(b, "device")]


def test_a_session_without_a_log_has_no_rule() -> None:
    b = broker(client_types=[ClientRule("*", "", True)], app_max_bytes=1, app_drain_rate=1)
    connect(b, "s", clean=True, expiry=0)
    s = session_of(b, "s")
    assert (s.max_bytes, s.drain_rate) == (0, 0)
