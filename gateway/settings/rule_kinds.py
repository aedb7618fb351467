"""Kinds of settings that are lists of rules: who may do what, which pages may connect, how fast messages may come."""

import re
from typing import Final, final

from gateway.core.acl import READ, WRITE, Rule
from gateway.core.topics import check_filter
from gateway.settings.kinds import quoted

ACCESS: Final = {"read": READ, "write": WRITE, "readwrite": READ | WRITE}
_NAMES: Final = {access: word for word, access in ACCESS.items()}
_WHO: Final = ("username", "client_id", "role")


@final
class AclRules:
    """A list of tables {allow or deny = access, topic = filter} and, as it is wanted, username, client_id and role.

    As text: allow read plant/#;role=viewer,deny write plant/+/config.
    """

    allowed = (
        'tables with allow or deny ("read", "write" or "readwrite") and topic (a filter; %u and %c stand for user and '
        "client id), also with username and client_id (patterns with * and ?) and role; "
        "as text allow|deny ACCESS TOPIC, each with ;KEY=VALUE for the others, separated by commas"
    )

    def parse(self, value: object) -> list[Rule]:
        if not isinstance(value, list):
            raise ValueError
        return [self.one(row) for row in value]

    def one(self, row: object) -> Rule:
        """Raises ValueError."""
        if not isinstance(row, dict) or ("allow" in row) == ("deny" in row):
            raise ValueError
        allow = "allow" in row
        access, topic = row["allow" if allow else "deny"], row.get("topic")
        if not isinstance(access, str) or access not in ACCESS or not isinstance(topic, str):
            raise ValueError
        if not check_filter(topic, 0) or topic.startswith("$share/"):
            raise ValueError
        who = {name: row.get(name, "") for name in _WHO}
        if row.keys() - {"allow", "deny", "topic", *_WHO} or not all(isinstance(name, str) for name in who.values()):
            raise ValueError
        return Rule(allow, ACCESS[access], topic, **who)

    def from_text(self, text: str) -> object:
        rows: list[object] = []
        for part in text.split(",") if text else ():
            first, *others = part.strip().split(";")
            words = first.split(" ", 2)
            if len(words) != 3:
                return text
            row: dict[str, str] = {words[0]: words[1], "topic": words[2]}
            for other in others:
                key, _, said = other.partition("=")
                row[key.strip()] = said.strip()
            rows.append(row)
        return rows

    def row(self, rule: Rule) -> dict[str, str]:
        """The rule as its table."""
        made = {"allow" if rule.allow else "deny": _NAMES[rule.access], "topic": rule.topic}
        who = {"username": rule.username, "client_id": rule.client_id, "role": rule.role}
        return made | {name: said for name, said in who.items() if said}

    def show_one(self, rule: Rule) -> str:
        return "{ " + ", ".join(f"{name} = {quoted(said)}" for name, said in self.row(rule).items()) + " }"

    def show(self, value: object) -> str:
        assert isinstance(value, list)
        return "[" + ", ".join(self.show_one(rule) for rule in value) + "]"


@final
class Origins:
    """A list of SCHEME://HOST[:PORT], or "*"."""

    allowed = 'a list of origins of web pages such as ["https://gateway.example"] or ["*"]'

    def parse(self, value: object) -> list[str]:
        if not isinstance(value, list | tuple):
            raise ValueError
        for origin in value:
            if not isinstance(origin, str) or not re.fullmatch(r"\*|[a-z][a-z0-9+.-]*://[^\s/]+", origin):
                raise ValueError
        return list(value)

    def from_text(self, text: str) -> object:
        return [part.strip() for part in text.split(",") if part.strip()]

    def show(self, value: object) -> str:
        assert isinstance(value, list)
        return "[" + ", ".join(quoted(origin) for origin in value) + "]"


@final
class Rates:
    """Limits MESSAGES:SECONDS, separated by commas, all of which hold: 100:1,1000:60. Empty = none."""

    allowed = 'limits MESSAGES:SECONDS such as "100:1,1000:60"'

    def parse(self, value: object) -> list[tuple[int, int]]:
        if not isinstance(value, str):
            raise ValueError
        rates: list[tuple[int, int]] = []
        for part in filter(None, (one.strip() for one in value.split(","))):
            match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,6})", part)
            if match is None or int(match[1]) == 0 or int(match[2]) == 0:
                raise ValueError
            rates.append((int(match[1]), int(match[2])))
        return rates

    def from_text(self, text: str) -> object:
        return text

    def show(self, value: object) -> str:
        assert isinstance(value, list)
        return quoted(",".join(f"{messages}:{seconds}" for messages, seconds in value))
