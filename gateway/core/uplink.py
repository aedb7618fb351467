"""What an uplink is to the core: its topic rules and limits, how it logs in where, and what comes of it."""

from typing import Final, NamedTuple, final

from gateway.core.limits import NEVER
from gateway.core.topics import matches

SESSION_PREFIX: Final = "$uplink/"  # of the client id of its session; no client may come in with such a one
DEAD_PREFIX: Final = "$dead/"  # of the client id of the session that holds a dead letter

# directions of a rule
OUT: Final = "out"
IN: Final = "in"
BOTH: Final = "both"

# kinds of events
CONNECTED: Final = "connected"  # the remote has accepted; ``present`` tells whether it knew the session
REFUSED: Final = "refused"  # by CONNACK, with ``code``: its reason code (3.1.1: return code 1 to 5)
LOST: Final = "lost"  # a connection that was, or was being, made is no more; ``code`` of the remote's DISCONNECT, or 0
BEAT: Final = "beat"  # a heartbeat came back: ``data``
FORGOTTEN: Final = "forgotten"  # the remote has answered to all filters that were to be unsubscribed from
DENIED: Final = "denied"  # SUBACK: the remote does not grant the filter in ``text``, with ``code``


@final
class Rule(NamedTuple):
    """Topics that are handed on: ``local`` + ``filter`` here is ``remote`` + ``filter`` there.

    Both prefixes stand as they are, without a slash of their own. ``qos`` is a cap.
    """

    direction: str
    filter: str
    local: str = ""
    remote: str = ""
    qos: int = 1
    live_first: bool = False  # after an outage what comes goes before what has waited

    @property
    def here(self) -> str:
        return self.local + self.filter

    @property
    def there(self) -> str:
        return self.remote + self.filter


@final
class Uplink:
    """One uplink; 0 = no limit. Where several rules match a topic the first one gives the remote topic."""

    def __init__(self, name: str, rules: list[Rule]) -> None:
        self.name = name
        self.rules = rules
        self.max_bytes: int = 0  # that wait; above it the oldest fall off
        self.drop_newest: bool = False  # or, above it, what comes is dropped
        self.max_age_s: int = 0  # of what waits
        self.max_rate: int = 0  # messages/s from the queue
        self.max_bytes_s: int = 0  # bytes/s from the queue
        self.window: int = 0  # in flight at most, within the remote's Receive Maximum; 0 = as for clients
        self.retain: bool = True  # retained messages are sent as such
        self.dead_topic: str = ""  # what the remote refuses for good is published below it; "" = counted and dropped

    @property
    def client_id(self) -> str:
        """Of its session here."""
        return SESSION_PREFIX + self.name

    def key(self) -> str:
        """What a connection that is open goes by."""
        return f"{self.rules} {self.window} {self.retain}"

    def out_rules(self) -> list[Rule]:
        return [rule for rule in self.rules if rule.direction != IN]

    def in_rules(self) -> list[Rule]:
        return [rule for rule in self.rules if rule.direction != OUT]


@final
class Login:
    """How to log in at one remote broker; a failover list is several of them.

    ``remote`` names the broker (host:port): the one whose session the uplink's own state belongs to.
    """

    def __init__(self, uplink: str, remote: str, client_id: str) -> None:
        self.uplink = uplink  # name
        self.remote = remote
        self.client_id = client_id
        self.version: int = 5  # or 4 = 3.1.1
        self.username: str | None = None
        self.password: bytes | None = None
        self.keep_alive_s: int = 60  # 0 = none
        self.session_expiry_s: int = NEVER  # 5.0: how long the remote keeps what "in" rules wait for
        self.status_topic: str = ""  # there, retained: "1" while connected, "0" as the will; "" = none
        self.beat_topic: str = ""  # there: heartbeats go to it and are subscribed to; "" = none


@final
class Event:
    """Something happened to an uplink."""

    def __init__(self, uplink: str, kind: str, code: int = 0, text: str = "") -> None:
        self.uplink = uplink
        self.kind = kind
        self.code = code
        self.text = text
        self.present: bool = False
        self.data: bytes = b""


def renamed(topic: str, prefix: str, other: str) -> str:
    """``topic`` with ``other`` in the place of ``prefix``."""
    return other + topic[len(prefix) :]


def overlap(first: str, second: str) -> bool:
    """Whether some topic matches both filters."""
    a = first.split("/")
    b = second.split("/")
    at = 0
    while at < len(a) and at < len(b):
        x = a[at]
        y = b[at]
        if x == "#" or y == "#":
            return not (at == 0 and (first if y == "#" else second).startswith("$"))
        if x != y and x != "+" and y != "+":
            return False
        if at == 0 and "+" in (x, y) and (x.startswith("$") or y.startswith("$")):
            return False
        at += 1
    return len(a) == len(b) or (a[at:] == ["#"] or b[at:] == ["#"])


def looping(rules: list[Rule]) -> str:
    """The first pair of rules that would send back what it brought, as text; "" = none.

    With 5.0 No Local and the origin of a message prevent that; 3.1.1 knows neither, so there it must not be.
    """
    for out in rules:
        if out.direction == IN:
            continue
        for back in rules:
            if back.direction != OUT and (overlap(out.here, back.here) or overlap(out.there, back.there)):
                if out is back:
                    return f"{out.direction} {out.filter}"
                return f"{out.direction} {out.filter} and {back.direction} {back.filter}"
    return ""


def rule_for(rules: list[Rule], topic: str, outwards: bool) -> Rule | None:
    """The first rule that a topic (of here when ``outwards``, else of there) falls under.

    A filter such as a/# matches the topic a as well: it is no topic behind the prefix a/.
    """
    for rule in rules:
        if outwards:
            if rule.direction != IN and topic.startswith(rule.local) and matches(rule.here, topic):
                return rule
        elif rule.direction != OUT and topic.startswith(rule.remote) and matches(rule.there, topic):
            return rule
    return None
