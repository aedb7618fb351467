"""Who may publish and subscribe where.

A rule allows or denies reading, writing or both on what a topic filter matches, for the clients that it names. A denial
wins over whatever is allowed, so the order of rules says nothing; what no rule allows is denied.
"""

from typing import Final, NamedTuple, final

from gateway.core.patterns import is_plain, matches
from gateway.core.topics import matches as filter_matches

READ: Final = 1  # subscribe, and get what the subscription matches
WRITE: Final = 2  # publish, wills included

DELAYED: Final = "$delayed/"  # then seconds and the topic that counts
CERTIFICATES: Final = "$sparkplug/certificates/"  # then the topic that it is a copy of


class Rule(NamedTuple):
    """``topic`` is a filter, in which %u stands for the user and %c for the client id.

    It is for clients by name (patterns with * and ?, "" = any) and by the role of their user ("" = any, none too).
    """

    allow: bool
    access: int  # READ | WRITE
    topic: str
    username: str = ""
    client_id: str = ""
    role: str = ""


DEVICE: Final = "device"
APPLICATION: Final = "application"
OPERATOR: Final = "operator"

_COMMANDS: Final = ("spBv1.0/+/NCMD/#", "spBv1.0/+/DCMD/#")
_STATES: Final = ("spBv1.0/STATE/#", "STATE/#")

ROLES: Final[dict[str, list[Rule]]] = {
    DEVICE: [
        Rule(True, WRITE, "#"),
        *[Rule(False, WRITE, topic) for topic in _COMMANDS + _STATES],
        *[Rule(True, READ, topic) for topic in _COMMANDS + _STATES],
        *[Rule(True, READ, topic) for topic in ("%u/#", "%c/#", "+/%u/#", "+/%c/#")],
    ],
    APPLICATION: [Rule(True, READ, "#")],
    OPERATOR: [
        Rule(True, READ | WRITE, "#"),
        Rule(True, READ, "$SYS/#"),
        Rule(True, READ, "$sparkplug/#"),
    ],
}
"""The roles that are always there; rules of the settings that name a role add to it, or make one of that name."""


@final
class Rights:
    """What one client may do; never changes."""

    def __init__(self, username: str, client_id: str, rules: list[Rule]) -> None:
        self.writable: list[str] = []
        self.unwritable: list[str] = []
        self.readable: list[str] = []
        self.unreadable: list[str] = []
        for rule in rules:
            filter = expand(rule.topic, username, client_id)
            if not filter:
                continue
            if rule.access & WRITE:
                (self.writable if rule.allow else self.unwritable).append(filter)
            if rule.access & READ:
                (self.readable if rule.allow else self.unreadable).append(filter)

    def may_write(self, topic: str) -> bool:
        """Whether it may publish there. What is delayed goes by the topic that it is for."""
        if topic.startswith(DELAYED):
            levels = topic.split("/", 2)
            topic = levels[2] if len(levels) == 3 else topic
        return not _any_matches(self.unwritable, topic) and _any_matches(self.writable, topic)

    def may_read(self, topic: str) -> bool:
        """Whether it may get a message of this topic; a copy of a Sparkplug birth goes by what it is a copy of."""
        return self.may_subscribe(topic, False)

    def may_subscribe(self, filter: str, shared: bool) -> bool:
        """Whether one rule allows all of the filter, and none denies all of it.

        What is denied within it is left out at delivery (``withholds``), but not for the members of a shared
        subscription, who may differ: there any denial counts.
        """
        asked = filter[len(CERTIFICATES) :] if filter.startswith(CERTIFICATES) else filter
        for denied in self.unreadable:
            if covers(denied, asked) or covers(denied, filter):
                return False
            if shared and (overlap(denied, asked) or overlap(denied, filter)):
                return False
        for allowed in self.readable:
            if covers(allowed, asked) or covers(allowed, filter):
                return True
        return False

    def withholds(self, topic: str) -> bool:
        """Whether a message is left out that a subscription matches."""
        return len(self.unreadable) > 0 and not self.may_read(topic)


@final
class Acl:
    """All rules. ``general`` are those of the settings: with any of them nobody may do what is not allowed.

    ``own`` and ``roles`` (by user name) hold only those whom they name.
    """

    def __init__(self, general: list[Rule], own: list[Rule], roles: dict[str, str]) -> None:
        self.roles = roles
        self.closed: bool = len(general) > 0
        self._by_user: dict[str, list[Rule]] = {}
        self._others: list[Rule] = []
        for rule in general + own:
            if rule.username and is_plain(rule.username):
                self._by_user.setdefault(rule.username, []).append(rule)
            else:
                self._others.append(rule)

    def rules_of(self, username: str, client_id: str) -> list[Rule]:
        """The rules for a client; a user name "" is none."""
        role = self.roles.get(username, "") if username else ""
        found: list[Rule] = []
        for rule in self._by_user.get(username, []) + self._others if username else self._others:
            if rule.role and rule.role != role:
                continue
            if rule.client_id and not matches(client_id, rule.client_id):
                continue
            if rule.username and (not username or not matches(username, rule.username)):
                continue
            found.append(rule)
        return found + ROLES.get(role, [])

    def of(self, username: str, client_id: str) -> Rights | None:
        """What a client may do, None = everything."""
        rules = self.rules_of(username, client_id)
        if not rules and not self.closed and username not in self.roles:
            return None
        return Rights(username, client_id, rules)


def expand(topic: str, username: str, client_id: str) -> str:
    """The filter with the client's names in it, "" when they fit no level: a name must not reach beyond its own."""
    if "%" not in topic:
        return topic
    levels: list[str] = []
    for level in topic.split("/"):
        parts = level.split("%")
        made = parts[0]
        for part in parts[1:]:
            if part.startswith(("u", "c")):
                name = username if part.startswith("u") else client_id
                if not name or name.startswith("$") or "/" in name or "+" in name or "#" in name:
                    return ""
                made += name + part[1:]
            else:
                made += "%" + part
        levels.append(made)
    return "/".join(levels)


def _any_matches(filters: list[str], topic: str) -> bool:
    for filter in filters:
        if filter_matches(filter, topic):
            return True
    return False


def covers(outer: str, inner: str) -> bool:
    """Whether every topic that the filter ``inner`` matches is matched by ``outer``; a topic is a filter, too."""
    if inner.startswith("$") and outer.startswith(("+", "#")):
        return False
    wanted = inner.split("/")
    count = len(wanted)
    i = 0
    for level in outer.split("/"):
        if level == "#":
            return True
        if i == count or wanted[i] == "#" or (level != "+" and level != wanted[i]):
            return False
        i += 1
    return i == count


def overlap(one: str, other: str) -> bool:
    """Whether some topic is matched by both filters."""
    if (one.startswith("$") and other.startswith(("+", "#"))) or (other.startswith("$") and one.startswith(("+", "#"))):
        return False
    a = one.split("/")
    b = other.split("/")
    i = 0
    while i < len(a) and i < len(b):
        if a[i] == "#" or b[i] == "#":
            return True
        if a[i] != "+" and b[i] != "+" and a[i] != b[i]:
            return False
        i += 1
    return len(a) == len(b) or (i < len(a) and a[i] == "#") or (i < len(b) and b[i] == "#")
