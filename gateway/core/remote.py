"""The other end of a dialled connection: what topics are called there, and what it takes."""

from typing import Final, final

from mypy_extensions import i64

from gateway.core.origin import first_mark
from gateway.core.uplink import Login, Rule, renamed, rule_for
from gateway.mqtt.encode import publish_properties
from gateway.mqtt.packets import V5

NAMES_MAX: Final = 10_000
CACHED_TOPIC_BYTES_MAX: Final = 256


@final
class Remote:
    """Lives as long as the connection. ``origin`` is this gateway's name to others."""

    def __init__(self, login: Login, rules: list[Rule], origin: str, hops_max: int) -> None:
        self.login = login
        self.rules = rules
        self.hops_max = hops_max
        self.mark: bytes = first_mark(origin)
        # the encoded properties, with their length, of a message that has none itself
        self.bare: bytes = publish_properties(self.mark, -1, 0, None) if login.version == V5 else b""
        self.qos_max: i64 = 2
        self.retains: bool = True
        self.window: i64 = 0  # while it takes messages
        self.there: bytes = b""  # what the topic of the message in hand is called there
        self.received: int = 0  # messages that it has brought
        self.present: bool = False  # it knew the session
        self.keep_alive_ms: i64 = 0
        self.pinged: i64 = 0  # gateway ms
        self.asked: dict[int, list[str]] = {}  # filters of SUBSCRIBEs that are not answered, by packet id
        self.forgetting: dict[int, bool] = {}  # packet ids of UNSUBSCRIBEs that are not answered
        self.until: i64 = 0  # gateway ms to which nothing is sent, since it refused something for now; 0 = it is sent
        self.pause_ms: i64 = 0
        self.progress: i64 = 0  # what was settled when it last paused
        self.last_word: str = ""  # why the connection ends
        self.code: int = 0  # of the remote's DISCONNECT
        self.refused: bool = False  # by CONNACK
        self._names: dict[bytes, bytes] = {}

    def name(self, topic: bytes) -> bytes:
        """What a topic of here is called there; b"" when no rule covers it."""
        known = self._names.get(topic)
        if known is not None:
            return known
        text = topic.decode()
        rule = rule_for(self.rules, text, True)
        there = b"" if rule is None else renamed(text, rule.local, rule.remote).encode()
        if len(there) > 65_535:
            there = b""
        if len(topic) <= CACHED_TOPIC_BYTES_MAX:
            if len(self._names) >= NAMES_MAX:
                self._names = {}
            self._names[topic] = there
        return there

    def local(self, topic: str) -> str:
        """What a topic of there is called here; "" when no rule covers it, or it would be too long."""
        rule = rule_for(self.rules, topic, False)
        here = "" if rule is None else renamed(topic, rule.remote, rule.local)
        return here if len(here.encode()) <= 65_535 else ""
