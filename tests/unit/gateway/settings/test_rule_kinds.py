import tomllib

import pytest

from gateway.core.acl import READ, WRITE, Rule
from gateway.settings.rule_kinds import AclRules, Origins, Rates

ACL = AclRules()


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        ({"allow": "read", "topic": "a/#"}, Rule(True, READ, "a/#")),
        ({"deny": "write", "topic": "%u/+"}, Rule(False, WRITE, "%u/+")),
        (
            {"allow": "readwrite", "topic": "a", "username": "u*", "client_id": "c?", "role": "r"},
            Rule(True, READ | WRITE, "a", "u*", "c?", "r"),
        ),
    ],
)
def test_a_rule_is_a_table(row: dict[str, str], rule: Rule) -> None:
    assert ACL.parse([row]) == [rule]
    assert ACL.row(rule) == row


@pytest.mark.parametrize(
    "value",
    [
        "allow",
        {},
        [{}],
        ["allow read a"],
        [{"topic": "a"}],
        [{"allow": "read"}],
        [{"allow": "read", "deny": "read", "topic": "a"}],
        [{"allow": "execute", "topic": "a"}],
        [{"allow": "read", "topic": "a/#/b"}],
        [{"allow": "read", "topic": ""}],
        [{"allow": "read", "topic": "$share/g/a"}],
        [{"allow": "read", "topic": "a", "user": "x"}],
        [{"allow": "read", "topic": "a", "username": 5}],
        [{"allow": ["read"], "topic": "a"}],
    ],
)
def test_what_is_no_rule(value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # it has no text
        ACL.parse(value)


def test_rules_as_text_and_back() -> None:
    text = "allow read plant x/+/#;role=viewer, deny write a/%c;username=u;client_id=c*"
    rules = ACL.parse(ACL.from_text(text))
    assert rules == [Rule(True, READ, "plant x/+/#", role="viewer"), Rule(False, WRITE, "a/%c", "u", "c*")]
    assert ACL.parse(tomllib.loads(f"acl = {ACL.show(rules)}")["acl"]) == rules
    assert ACL.parse(ACL.from_text("")) == []
    assert ACL.from_text("allow read") == "allow read"


def test_origins() -> None:
    kind = Origins()
    origins = ["https://gateway.example", "http://10.0.0.1:8080", "*"]
    assert kind.parse(origins) == origins
    assert kind.parse(kind.from_text("https://a.example, *")) == ["https://a.example", "*"]
    assert kind.show(origins) == '["https://gateway.example", "http://10.0.0.1:8080", "*"]'
    for wrong in ("*", ["gateway"], ["http://a/path"], [5], ["null"]):
        with pytest.raises(ValueError):  # noqa: PT011
            kind.parse(wrong)


def test_rates() -> None:
    kind = Rates()
    assert kind.parse(" 10:1, 300:60 ") == [(10, 1), (300, 60)]
    assert kind.parse("") == []
    assert kind.show([(10, 1), (300, 60)]) == '"10:1,300:60"'
    for wrong in ("10", "10:0", "0:1", "-1:1", "10:1;5:1", 5, "9999999999:1"):
        with pytest.raises(ValueError):  # noqa: PT011
            kind.parse(wrong)
