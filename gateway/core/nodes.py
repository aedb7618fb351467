"""Sparkplug edge nodes as their messages show them: who speaks on which topic, where in its sequence a node stands."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from sparkplug.scan import Scan

if TYPE_CHECKING:
    from gateway.core.model import Client

NAMESPACE: Final = "spBv1.0/"

NBIRTH: Final = 0
DBIRTH: Final = 1
NDATA: Final = 2
DDATA: Final = 3
NDEATH: Final = 4
DDEATH: Final = 5
COMMAND: Final = 6  # from here on what hosts say
NCMD: Final = 6
DCMD: Final = 7

TYPES: Final = ("NBIRTH", "DBIRTH", "NDATA", "DDATA", "NDEATH", "DDEATH", "NCMD", "DCMD")
ALIVE_KEY: Final = "bridge.alive"  # in the store's meta: UTC ms up to which what came is on disk
SOURCES_MAX: Final = 100_000  # topics; beyond it messages are kept as all others, but nothing is known of their nodes
NODES_MAX: Final = 10_000

# what happened to a node
BORN: Final = 0  # ``a`` = 1: the birth repeats the bdSeq of the last death
DIED: Final = 1
STALE_DEATH: Final = 2  # an NDEATH of a session before this one
EARLY: Final = 3  # data without a birth on its connection, told once until there is one
GAP: Final = 4  # ``a`` was expected, ``b`` came
FILLED: Final = 5  # what a gap left out has come after all
OLD_BIRTH: Final = 6  # a birth of before the one in force
LEFT: Final = 7  # its connection is gone; ``a`` = 1: by DISCONNECT 0x00
FORGOTTEN: Final = 8  # others needed its room

ROOM: Final = 10  # of the nodes a tenth is forgotten at a time
PATIENCE: Final = 1000  # names refused before it is looked again who could be forgotten


TAP_MESSAGES_MAX: Final = 200
TAP_BYTES_MAX: Final = 1_048_576


@final
class Tap:
    """The latest messages of a node, kept while somebody looks at its values; they are numbered from 1."""

    def __init__(self) -> None:
        self.number: int = 0  # of the last one
        self.messages: list[tuple[int, str, bytes]] = []  # type, device, payload
        self.bytes: i64 = 0

    def note(self, kind: int, device: str, payload: bytes) -> None:
        self.number += 1
        self.messages.append((kind, device, payload))
        self.bytes += len(payload)
        while len(self.messages) > TAP_MESSAGES_MAX or self.bytes > TAP_BYTES_MAX:
            _, _, gone = self.messages.pop(0)
            self.bytes -= len(gone)

    def after(self, number: int) -> list[tuple[int, str, bytes]] | None:
        """Those above that number; None when some of them are gone."""
        wanted = self.number - number
        if wanted < 0 or wanted > len(self.messages):
            return None
        return self.messages[len(self.messages) - wanted :]

    def clear(self) -> None:
        """Only what comes from now on."""
        self.messages = []
        self.bytes = 0


@final
class Node:
    """An edge node, and what tells a gap from a message that came late or twice. Payload times are its own, in ms."""

    def __init__(self, group: str, edge: str) -> None:
        self.group = group
        self.edge = edge
        self.key = group + "/" + edge
        self.client: Client | None = None  # the connection that gave the birth, while it stands
        self.speaker: Client | None = None  # the one whose data came without a birth
        self.born: bool = False
        self.epoch: i64 = 0  # counts the births in force
        self.expected: i64 = -1  # the next sequence number, -1 = any
        self.bd_seq: i64 = -1
        self.dead_bd_seq: i64 = -1  # of the last death
        self.birth_time: i64 = -1
        self.newest: i64 = -1
        self.heard: i64 = 0  # UTC ms of the last message that was in order
        self.early: bool = False
        self.missing: set[int] = set()  # sequence numbers that a gap left out
        self.hashes: list[int] | None = None  # of what came at QoS > 0, by sequence number
        self.epochs: list[int] = []
        self.sources: list[Source] = []
        self.tap: Tap | None = None

    def stays(self) -> bool:
        """It is connected, or has a birth that others rely on."""
        speaker = self.speaker
        if self.born or self.client is not None or (speaker is not None and not speaker.closed):
            return True
        return any(source.births for source in self.sources)

    def forget(self) -> None:
        """What came may have to come again."""
        self.hashes = None


@final
class Source:
    """A topic of a node or device; counts what came on it."""

    def __init__(self, node: Node, kind: int, topic: str, device: str) -> None:
        self.node = node
        self.kind = kind
        self.topic = topic
        self.device = device  # "" for the node's own
        self.salt: int = hash(topic)
        self.births: list[Birth] = []  # of a birth topic: those still needed, the newest last
        self.qos0: i64 = 0
        self.qos1: i64 = 0
        self.qos2: i64 = 0
        self.late: i64 = 0
        self.repeated: i64 = 0
        self.resent: i64 = 0  # of these on a later connection
        self.historical: i64 = 0
        self.unreadable: i64 = 0
        self.rebirth: bool = False  # of an NBIRTH: it has Node Control/Rebirth

    def count(self, qos: i64) -> None:
        if qos == 0:
            self.qos0 += 1
        elif qos == 1:
            self.qos1 += 1
        else:
            self.qos2 += 1


@final
class Birth:
    """A birth and what it holds for: messages of its node from ingest id ``id`` on, up to the next one.

    Only the birth in force has its payload here: of those before there may be any number, and disk is cheaper than RAM.
    """

    def __init__(self, id: int, received: int, payload: bytes) -> None:
        self.id = id
        self.received = received  # UTC ms
        self.payload = payload


@final
class Event:
    """Something that the bridge should know of a node; ``at`` in UTC ms, ``a`` and ``b`` as the kind says."""

    def __init__(self, kind: int, node: Node, source: Source | None, at: int, a: int, b: int) -> None:
        self.kind = kind
        self.node = node
        self.source = source
        self.at = at
        self.a = a
        self.b = b
        self.client: Client | None = node.client
        self.heard: int = node.heard  # before it


def parse(topic: str) -> tuple[int, str, str, str] | None:
    """Kind, group, edge node and device of a Sparkplug topic; None for any other [tck-id-topic-structure]."""
    levels = topic.split("/")
    count = len(levels)
    if count < 4 or count > 5 or levels[0] != "spBv1.0" or levels[2] not in TYPES:
        return None
    kind = TYPES.index(levels[2])
    of_device = levels[2][0] == "D"
    if of_device != (count == 5) or not levels[1] or not levels[3] or not levels[-1]:
        return None
    return kind, levels[1], levels[3], levels[4] if of_device else ""


def last_heard(node: Node) -> int:
    return node.heard


@final
class Nodes:
    """All that were heard of, and what the core needs for them. Caps bound what a peer can make: at them those are
    forgotten that have no birth and no connection, and none else.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, Node] = {}
        self.sources: dict[str, Source] = {}
        self.full: bool = False
        self._told: bool = False
        self._refused: int = PATIENCE
        self.superseded: list[Source] = []  # birth topics with more than the birth in force
        self.events: list[Event] = []
        self.scan = Scan()
        # ingest ids, which are positions of the log
        self.ids_end: i64 = 0  # those below it are never given again
        self.ids_wanted: i64 = 0
        self.utc_offset_ms: i64 = 0  # UTC is gateway time and this
        self.utc_exact: bool = False  # the wall clock is synchronised

    def take_full(self) -> bool:
        """Whether the caps were reached; told once."""
        full = self.full and not self._told
        self._told = self.full
        return full

    def crowded(self, topic: str) -> bool:
        """Whether there is no room for the source of this topic, and it is worth a look who could be forgotten."""
        if len(self.sources) < SOURCES_MAX and len(self.by_key) < NODES_MAX:
            return False
        if not topic.startswith(NAMESPACE) or topic in self.sources:
            return False
        self._refused += 1
        return self._refused > PATIENCE

    def make_room(self) -> list[Node]:
        """Forget those who were silent the longest; whoever keeps routes must drop them."""
        self._refused = 0
        silent = [node for node in self.by_key.values() if not node.stays()]
        silent.sort(key=last_heard)
        gone = silent[: NODES_MAX // ROOM]
        for node in gone:
            del self.by_key[node.key]
            for source in node.sources:
                del self.sources[source.topic]
        if gone:
            self.full = False
            self._refused = PATIENCE
        return gone

    def source_of(self, topic: str) -> Source | None:
        """The source of a Sparkplug topic, new or known; None for others, and for what is beyond the caps."""
        if not topic.startswith(NAMESPACE):
            return None
        known = self.sources.get(topic)
        if known is not None:
            return known
        found = parse(topic)
        if found is None:
            return None
        kind, group, edge, device = found
        key = group + "/" + edge
        node = self.by_key.get(key)
        if len(self.sources) >= SOURCES_MAX or (node is None and len(self.by_key) >= NODES_MAX):
            self.full = True
            return None
        if node is None:
            node = Node(group, edge)
            self.by_key[key] = node
        source = Source(node, kind, topic, device)
        node.sources.append(source)
        self.sources[topic] = source
        return source
