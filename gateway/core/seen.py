"""What a client id was seen to do, for those who ask whether its flows are buffered: kept after it has left.

Noted at CONNECT, SUBSCRIBE, the end of a connection, and at the first PUBLISH of a topic after subscriptions changed
(when its route is looked up): a message on a known route costs nothing here.
"""

from typing import Final, final

from mypy_extensions import i64

from gateway.mqtt.packets import V5, Connect, Publish

CLIENTS_MAX: Final = 4096  # those that came longest ago go first
# topics and filters that are remembered: any client can make up names, and leave
NAMES_MAX: Final = 200  # of one client; of others only that there are some
NAMES_MIN: Final = 5  # of one, however many clients there are
NAMES_ALL: Final = 20_000  # they share these; those who came first keep what they have
NAME_CHARS_MAX: Final = 256
QUARREL_MS: Final = 60_000

# bits of a topic: the QoS at which it was published
AT_QOS: Final = (1, 2, 4)


@final
class Seen:
    """One client id; times in gateway ms, ``expiry_s`` -1 = it asked for none."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.peer: str = ""
        self.user: str = ""
        self.version: int = 0
        self.assigned: bool = False  # the id is the broker's
        self.clean: bool = False
        self.keep_alive_s: int = 0
        self.expiry_s: int = -1
        self.max_packet: int = 0
        self.came_at: i64 = 0
        self.left_at: i64 = 0  # 0 = it is connected
        self.matched: i64 = 0  # messages for its session until it came, or left
        self.connects: int = 0
        self.quarrels: int = 0  # a connection with its id took the place of one that was not QUARREL_MS old
        self.rival: str = ""  # address of the last one that lost it so
        self.silences: int = 0  # connections that ended by the keep alive
        self.asked: dict[str, int] | None = None  # filters of this connection and what the SUBACK said
        self.asked_more: bool = False  # there are others
        self.topics: dict[str, int] | None = None  # published, with the bits of their QoS
        self.topics_more: bool = False  # there are others
        self.message_expiry_s: int = -1  # the shortest that it gave a message
        self.largest: int = 0  # of these messages, bytes on the wire

    def came(self, p: Connect, peer: str, assigned: bool, matched: i64, now: i64) -> None:
        self.peer = peer
        self.user = p.username or ""
        self.version = p.version
        self.assigned = assigned
        self.clean = p.clean_start
        self.keep_alive_s = p.keep_alive
        properties = p.properties
        self.expiry_s = -1 if properties is None or p.version != V5 else properties.session_expiry_interval
        self.max_packet = 0 if properties is None else max(properties.maximum_packet_size, 0)
        self.came_at = now
        self.left_at = 0
        self.matched = matched
        self.connects += 1
        self.asked = None
        self.asked_more = False

    def left(self, matched: i64, now: i64) -> None:
        self.left_at = now
        self.matched = matched

    def taken(self, rival: str, now: i64) -> None:
        """The next connection takes the id away from one from ``rival``: soon after it came, or since it is dead."""
        if now - self.came_at < QUARREL_MS:
            self.quarrels += 1
            self.rival = rival

    def subscribed(self, filter: str, reason: int, most: int) -> None:
        """``most``: see names_each()."""
        asked = self.asked
        if asked is None:
            asked = {}
            self.asked = asked
        if filter not in asked and (len(asked) >= most or len(filter) > NAME_CHARS_MAX):
            self.asked_more = True
            return
        asked[filter] = reason

    def published(self, topic: str, p: Publish, most: int) -> None:
        """A route was looked up for this message."""
        topics = self.topics
        if topics is None:
            topics = {}
            self.topics = topics
        bits = topics.get(topic, 0)
        if bits == 0 and (len(topics) >= most or len(topic) > NAME_CHARS_MAX):
            self.topics_more = True
            return
        topics[topic] = bits | AT_QOS[p.qos]
        self.largest = max(self.largest, len(p.frame))
        if p.expiry >= 0 and (self.message_expiry_s < 0 or p.expiry < self.message_expiry_s):
            self.message_expiry_s = p.expiry


def names_each(known: dict[str, Seen]) -> int:
    """How many names of one client are remembered, as many as there are now."""
    return max(NAMES_MIN, min(NAMES_MAX, NAMES_ALL // max(1, len(known))))


def remember(known: dict[str, Seen], client_id: str) -> Seen:
    """The one of this id, as the newest; too many: the one that came longest ago is forgotten."""
    seen = known.pop(client_id, None)
    if seen is None:
        seen = Seen(client_id)
        if len(known) >= CLIENTS_MAX:
            del known[next(iter(known))]
    known[client_id] = seen
    return seen
