"""Clients of the random walk: each keeps the rules of MQTT and notes what the broker owes it."""

import random
from typing import final

from gateway.core.model import Client
from tests import wire_format as mqtt

PERSISTENT_S = 1000


@final
class Link:
    """One connection; what the broker writes waits in ``unsent`` while the peer does not read."""

    def __init__(self, client: Client, peer: "Receiver | Sender") -> None:
        self.client = client
        self.peer = peer
        self.unsent = bytearray()
        self.inbox = bytearray()
        self.stalled = False
        self.closed = False
        self.connected = False

    def packets(self) -> list[mqtt.Packet]:
        found: list[mqtt.Packet] = []
        while True:
            size = mqtt.frame_size(self.inbox)
            if not size or size > len(self.inbox):
                return found
            raw = bytes(self.inbox[:size])
            del self.inbox[:size]
            if raw[0] >> 4 == mqtt.CONNECT:  # the broker dialled
                found.append(mqtt.Packet(mqtt.CONNECT, 0, {}, raw))
            else:
                found.append(mqtt.parse(raw, self.peer.version))


@final
class Post:
    """A message of a sender: ``copies`` are its PUBLISH packets, each with a number of its own in the payload."""

    def __init__(self, number: int, topic: str, qos: int, retain: bool, expiry: int, size: int) -> None:
        self.number = number
        self.topic = topic
        self.qos = qos
        self.retain = retain
        self.expiry = expiry
        self.size = size
        self.copies: list[int] = []
        self.released = False
        self.acknowledged = False
        self.exact = True
        self.epoch = 0
        self.owed: list[Life] = []  # lives that had matched for sure when it was first sent

    def payload(self, copy: int) -> bytes:
        return f"{self.number}.{copy}.{self.topic}.".encode().ljust(self.size, b"x")


@final
class Life:
    """A session or shared group from its beginning to its end, as the model sees it."""

    def __init__(self, name: str, shared: bool) -> None:
        self.name = name
        self.shared = shared
        self.over = False
        self.filters: dict[str, int] = {}  # for sure in place, with their QoS
        self.must: set[int] = set()  # acknowledged to their senders
        self.got: dict[int, int] = {}  # message number -> new deliveries of it
        self.copies: dict[int, str] = {}  # copy -> who got it
        self.answered: set[int] = set()  # message numbers that the client has answered
        # place in the broker's order of the last first delivery; with priorities of each topic and QoS
        self.last: dict[tuple[str, int], int] = {}


@final
class Receiver:
    def __init__(
        self,
        name: str,
        version: int,
        persistent: bool,
        filters: dict[str, int],
        window: int,
        share: str = "",
        max_packet: int = 0,
        aliases: int = 0,
        dialled: bool = False,
    ) -> None:
        self.name = name
        self.version = version
        self.persistent = persistent
        self.wanted = filters
        self.window = window
        self.share = share
        self.max_packet = max_packet
        self.aliases_max = aliases if version == 5 else 0
        self.in_order = True
        self.dialled = dialled  # the broker at the other end of an uplink, which is called as its session is here
        self.link: Link | None = None
        self.life = Life(name, False)
        self.present = False  # the broker has its session for sure
        self.offline_at = 0
        self.next_pid = 1
        self.asked: dict[int, list[str]] = {}  # SUBSCRIBE under way
        self.known: set[int] = set()  # QoS 2 ids received and not released
        self.open: dict[int, tuple[int, int]] = {}  # unanswered on this connection: id -> (message, QoS)
        self.recs: set[int] = set()  # PUBREC sent, PUBREL awaited
        self.rels: list[int] = []  # PUBREL received, PUBCOMP to send
        self.flight: set[int] = set()  # ids that take a slot of the window
        self.late: list[int] = []  # QoS 1 ids of connections before, never answered
        self.payloads: dict[int, int] = {}  # id -> copy it was used for, while in flight
        self.aliases: dict[int, str] = {}

    def connect_bytes(self, clean: bool) -> bytes:
        props: list[tuple[int, int]] = []
        if self.version == 5:
            props.append((mqtt.RECEIVE_MAXIMUM, self.window))
            if self.persistent:
                props.append((mqtt.SESSION_EXPIRY, PERSISTENT_S))
            if self.max_packet:
                props.append((mqtt.MAXIMUM_PACKET_SIZE, self.max_packet))
            if self.aliases_max:
                props.append((mqtt.TOPIC_ALIAS_MAXIMUM, self.aliases_max))
        return mqtt.connect(self.name, self.version, clean, 0, props=props)

    def fresh_connection(self) -> None:
        self.late += [pid for pid, (_, qos) in self.open.items() if qos == 1]
        self.open = {}
        self.asked = {}
        self.rels = []
        self.flight = set()
        self.aliases = {}

    def fresh_session(self) -> None:
        self.life.over = True
        self.life = Life(self.name, False)
        self.present = False
        self.forget()

    def forget(self) -> None:
        """It knows nothing of what was in flight."""
        self.known = set()
        self.recs = set()
        self.late = []
        self.payloads = {}


@final
class Sender:
    def __init__(self, name: str, version: int, persistent: bool) -> None:
        self.name = name
        self.version = version
        self.persistent = persistent
        self.link: Link | None = None
        self.next_pid = 1
        self.flight: dict[int, Post] = {}
        self.releasing: set[int] = set()  # PUBREL sent on this connection
        self.present = False
        self.offline_at = 0

    def connect_bytes(self, clean: bool) -> bytes:
        props = [(mqtt.SESSION_EXPIRY, PERSISTENT_S)] if self.version == 5 and self.persistent else []
        will = mqtt.Will("t/c", b"0.0.t/c.", 1)
        return mqtt.connect(self.name, self.version, clean, 0, will, props)

    def pid(self, rng: random.Random) -> int:
        while True:
            pid = rng.randint(1, 12)
            if pid not in self.flight:
                return pid
