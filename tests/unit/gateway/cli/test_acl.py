"""``forebay acl``."""

import json
from pathlib import Path

import pytest

from gateway.access import Access
from gateway.core.acl import READ, WRITE, Rule
from tests.command import Forebay


def test_allow_deny_list_remove(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text('acl = [{ allow = "read", topic = "site/#" }]\n')
    assert forebay("acl", "allow", "write", "plant/%u/#", "--user", "plc-*").out == (
        '{ allow = "write", topic = "plant/%u/#", username = "plc-*" }\n'
    )
    assert forebay("acl", "deny", "readwrite", "secret", "--client-id", "c", "--role", "r").code == 0
    assert forebay("acl", "deny", "readwrite", "secret", "--client-id", "c", "--role", "r").code == 0
    access = Access(tmp_path / "var" / "access.toml")
    assert access.rules == [
        Rule(True, WRITE, "plant/%u/#", "plc-*"),
        Rule(False, READ | WRITE, "secret", "", "c", "r"),
    ]
    rows = json.loads(forebay("acl", "list", "-c", "f.toml", "--json").out)
    assert rows[:2] == [
        {"from": "settings", "allow": "read", "topic": "site/#"},
        {"number": 1, "from": "acl", "allow": "write", "topic": "plant/%u/#", "username": "plc-*"},
    ]
    assert {row.get("role") for row in rows if row["from"] == "role"} == {"device", "application", "operator"}
    assert "plant/%u/#" in forebay("acl", "list").out
    assert forebay("acl", "remove", "1").out == (
        '{ allow = "write", topic = "plant/%u/#", username = "plc-*" }: removed\n'
    )
    assert forebay("acl", "remove", "2") == (
        2,
        "",
        "forebay: 2: expected the number of a rule in forebay acl list\n",
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("allow", "all", "a"), "all: expected read, write or readwrite"),
        (("deny", "read", "a/#/b"), "a/#/b: expected a topic filter without $share"),
        (("allow", "read", "$share/g/a"), "$share/g/a: expected a topic filter without $share"),
        (("check", "readwrite", "a"), "readwrite: expected read or write"),
        (("check", "write", "a/+"), "a/+: expected a topic"),
        (("check", "write", "$share/g/a"), "$share/g/a: expected a topic"),
        (("check", "read", "$share/g"), "$share/g: expected a topic filter"),
    ],
)
def test_what_is_no_rule_is_one_line(forebay: Forebay, arguments: tuple[str, ...], error: str) -> None:
    assert forebay("acl", *arguments) == (2, "", f"forebay: {error}\n")


def test_check_says_which_rule_decides(forebay: Forebay) -> None:
    def check(*arguments: str) -> tuple[int, str]:
        code, out, _ = forebay("acl", "check", *arguments)
        return code, out.strip()

    assert check("write", "a") == (0, "allowed: no rule holds for this client")
    forebay("user", "role", "anna", "application")
    forebay("acl", "deny", "read", "secret/%u/#", "--user", "anna")
    assert check("write", "a", "--user", "anna") == (1, "denied: no rule allows it")
    assert check("read", "#", "--user", "anna") == (0, 'allowed: { allow = "read", topic = "#" }')
    denial = '{ deny = "read", topic = "secret/%u/#", username = "anna" }'
    assert check("read", "secret/anna/x", "--user", "anna") == (1, f"denied: {denial}")
    assert check("read", "$share/g/#", "--user", "anna") == (1, f"denied: {denial}")
    assert check("read", "$SYS/#", "--user", "anna") == (1, "denied: no rule allows it")
    shown = json.loads(forebay("acl", "check", "write", "a", "--user", "anna", "--json").out)
    assert shown == {"allowed": False, "why": "no rule allows it"}
