"""What a client under watch does, kept until who probes it asks."""

from typing import Final, final

from mypy_extensions import i64

from gateway.core.model import Client
from gateway.mqtt.packets import PUBLISH, Connect, Packet, Publish

BYTES_MAX: Final = 16_777_216  # of payloads that wait to be asked for

# kinds of Seen
CONNECTED: Final = 0
PUBLISHED: Final = 1
CLOSED: Final = 2
REFUSED: Final = 3


@final
class Seen:
    """One thing that the client did; ``connection`` counts from 1 for each watch."""

    def __init__(
        self, kind: int, at: int, connection: int, connect: Connect | None, topic: bytes, publish: Publish | None
    ) -> None:
        self.kind = kind
        self.at = at
        self.connection = connection
        self.connect = connect
        self.topic = topic
        self.publish = publish


@final
class Watch:
    """Of the client with this id, or with a will on this topic: a device may take a new id each time."""

    def __init__(self, client_id: str, will_topic: bytes) -> None:
        self.client_id = client_id
        self.will_topic = will_topic
        self.client: Client | None = None  # its present connection
        self.connection: int = 0
        self.refuse: bool = False
        self.seen: list[Seen] = []
        self.bytes: i64 = 0
        self.missed: int = 0  # not noted, because what was seen was not fetched

    def fits(self, client_id: str, p: Connect) -> bool:
        if self.client_id and client_id == self.client_id:
            return True
        w = p.will
        return w is not None and bool(self.will_topic) and w.topic == self.will_topic

    def note(self, kind: int, at: int, connect: Connect | None = None) -> None:
        self.seen.append(Seen(kind, at, self.connection, connect, b"", None))

    def packet(self, c: Client, p: Packet, now: int) -> None:
        """One that came; only a PUBLISH says something."""
        if p.type != PUBLISH or self.client is not c:
            return
        assert isinstance(p, Publish)
        if self.bytes + len(p.frame) > BYTES_MAX:
            self.missed += 1
            return
        self.bytes += len(p.frame)
        topic = p.topic or c.aliases_in.get(p.alias, b"")
        self.seen.append(Seen(PUBLISHED, now, self.connection, None, topic, p))

    def closed(self, c: Client, now: int) -> None:
        if self.client is c:
            self.client = None
            self.note(CLOSED, now)

    def take(self) -> list[Seen]:
        """What was seen since it was last asked for."""
        seen = self.seen
        self.seen = []
        self.bytes = 0
        return seen
