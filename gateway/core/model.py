"""The state of the core: connections, sessions, shared groups, durable queues and what is on its way between them.

Plain objects that know each other; what happens to them is in the modules named after the verbs.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from gateway.core.acl import Rights
from gateway.core.fifo import Fifo
from gateway.core.held import Held
from gateway.core.history import History
from gateway.core.message import Message, PendingAck
from gateway.core.meter import Meter
from gateway.core.nodes import Node, Source
from gateway.core.part import Part
from gateway.core.remote import Remote
from gateway.core.seen import Seen
from gateway.core.topics import Subscription
from gateway.core.uplink import Uplink
from gateway.mqtt.decode import Decoder
from gateway.mqtt.outgoing import Outgoing
from gateway.mqtt.packets import V5, Connect, Packet, Will

# states of an outgoing QoS 1/2 delivery
WAITING: Final = 0
STAGED: Final = 1  # QoS 2: packet id chosen, on its way to the disk
SENT: Final = 2
RELEASING: Final = 3  # QoS 2: PUBREC received, its record on its way to the disk
RELEASED: Final = 4  # QoS 2: PUBREL sent

# of packet ids; a crash skips what is left of one: thirty in a row must not bring the ids round to those that a client
# still knows
ID_BLOCK: Final = 2048

AHEAD_MAX: Final = 4096  # positions settled out of order before those that say nothing any more are looked for

# outbound paths
DIRECT: Final = 0  # the session ends with the connection
DEVICE: Final = 1
APPLICATION: Final = 2
BATCH_MAX: Final = 200  # PUBLISHes and PUBRELs of one batch of an APPLICATION

LANE: Final = 1_099_511_627_776  # a durable queue of a rank has the sid of its session and so many times its number
ZERO: Final = 256  # added to that number for its QoS 0


@final
class Target:
    """A session or shared group that a topic leads to, with what its subscriptions ask for.

    Overlapping subscriptions are one target: highest QoS, all identifiers [MQTT-3.3.4-2..-5].
    """

    def __init__(
        self,
        owner: "Session | None",
        group: "Group | None",
        qos: int,
        no_local: bool,
        retain_as_published: bool,
        identifiers: list[int] | None,
    ) -> None:
        self.owner = owner
        self.group = group
        self.qos: i64 = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.identifiers = identifiers
        # a frame may be passed on as it came, if the versions agree
        self.plain: bool = owner is not None and not no_local and identifiers is None
        self.kept: bool = False  # QoS > 0 is queued on disk
        self.backlog: Backlog | None = None  # there
        if owner is not None:
            self.backlog = owner.backlog
        elif group is not None:
            self.backlog = group.backlog


@final
class Route:
    """Where a topic leads; kept until a subscription changes."""

    def __init__(self, topic: bytes, name: str, generation: int) -> None:
        self.topic = topic
        self.name = name
        self.generation = generation
        self.targets: list[Target] = []
        self.groups: list[Target] = []
        self.durable: list[Target] = []  # those of both lists that are kept
        self.key: bytes = b""  # the packed target set of ``durable``
        self.no_local: bool = False  # some target must not get its own messages back
        self.source: Source | None = None  # of a Sparkplug topic, when the bridge is on
        self.closed: bool = False  # to clients: the broker's own, what is published later, and what this one may not
        self.delayed: bool = False  # a topic under $delayed/
        self.delay_s: int = 0
        self.onward: str = ""  # where its messages go then, "" = it is malformed
        self.special: bool = False  # at QoS 0 too the frame cannot simply be passed on
        self.renamed: bool = False  # the frame has another topic


@mypyc_attr(acyclic=True)
@final
class Delivery:
    """One message for one session: waiting, or in flight under a packet id."""

    def __init__(
        self, message: Message, qos: i64, retain: bool, identifiers: list[int] | None, backlog: "Backlog | None"
    ) -> None:
        self.message = message
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.backlog = backlog  # where it is settled, None in memory
        self.group: Group | None = None  # the shared group it came through
        self.state: i64 = WAITING
        self.packet_id: i64 = 0
        self.sent_at: i64 = 0  # gateway ms of the sending on this connection, or of the PUBREL
        self.held: bool = False  # in flight, of a durable queue
        self.counted: bool = False  # holds a slot of the window of this connection


@final
class Backlog:
    """A durable queue: a cursor on the log. Disk holds all of it, RAM a window.

    ``ram`` continues what is ``held`` (in flight); both end at position ``loaded``.
    When ``live`` the window reaches the end of the log and a new message joins it.
    """

    def __init__(self, sid: int, cursor: int) -> None:
        self.sid = sid
        self.cursor: i64 = cursor
        self.loaded: i64 = cursor
        self.read_to: int = 0  # id of the last segment that was read
        self.ahead: set[int] = set()
        self.ahead_max: int = AHEAD_MAX
        self.owed: dict[int, int] = {}  # segment id -> deliveries not settled
        self.held = Held()
        self.restored: dict[int, Delivery] = {}  # QoS 2 in flight before a crash, to go out again in their place
        self.ram: Fifo[Delivery] = Fifo()
        self.ram_bytes: i64 = 0
        self.live: bool = True
        self.ordered: bool = True  # ``held`` is in log order and before all else
        self.reading: int = 0  # token of the read under way
        self.parts: dict[int, Part] = {}  # that were read and are not in the window yet
        self.at_hand: i64 = 0  # their bytes, packed
        self.fetched: int = 0  # id of the last of them
        self.part: int = 0  # id of the one that is being taken in
        self.part_at: i64 = 0  # and how much of it was
        self.history: History | None = None  # it began with the earliest and is not through with it
        self.ended: bool = False
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.dirty: bool = False
        self.outer: bool = False  # what it holds came from an engine, and is settled there
        self.session: Session | None = None
        self.group: Group | None = None

    def at_end(self) -> bool:
        """A call, since a refill may change it."""
        return self.live

    def rewind(self) -> None:
        """What was read and is not in the window is read again."""
        self.parts.clear()
        self.at_hand = 0
        self.fetched = 0
        self.part = 0

    def unsent(self, end: i64) -> i64:
        """The first position that has not left yet; ``end`` when all have."""
        if self.ram:
            return self.ram.head().message.seq
        return end if self.live else self.loaded + 1

    def lowest(self, end: i64) -> i64:
        """The first position that is not settled; ``end`` when all is."""
        low: i64 = end if self.live else self.loaded + 1
        if self.ram:
            low = min(low, self.ram.head().message.seq)
        return self.held.lowest(low)


@final
class Outer:
    """What an APPLICATION gets from an engine in place of the log; it waits in memory."""

    def __init__(self, backlog: Backlog) -> None:
        self.backlog = backlog  # ended as far as the log goes; its deliveries know by it where they are settled
        self.waiting: i64 = 0  # brought and not settled
        self.behind: bool = False  # what waits in the log goes first
        self.targets: dict[bytes, Target | None] = {}  # by topic, of this generation of subscriptions
        self.generation: int = -1


@final
class Rank:
    """What waits for a session under one priority, a FIFO for QoS 0 and one for the others: on disk, or in memory."""

    def __init__(self, priority: int, weight: i64) -> None:
        self.priority = priority
        self.weight = weight  # orders the ranks
        self.credit: i64 = 0  # messages left of its turn in this round
        self.backlog: Backlog | None = None
        self.zero: Backlog | None = None
        self.queue: Fifo[Delivery] = Fifo()
        self.queue0: Fifo[Delivery] = Fifo()


@final
class Feed:
    """What a new subscription still has to get of the retained messages; they cost no queue while they wait."""

    def __init__(self, subscription: Subscription, found: list[tuple[str, Message]]) -> None:
        self.subscription = subscription
        self.found = found
        self.at: int = 0


@final
class Session:
    def __init__(self, sid: int, client_id: str) -> None:
        self.sid = sid
        self.client_id = client_id
        self.client: Client | None = None
        self.version: int = 4
        self.expiry_s: int = 0
        self.min_expiry_s: int = 0
        self.deadline: i64 = 0  # gateway ms at which it ends, 0 while connected or never
        self.subscriptions: dict[str, Subscription] = {}  # by the filter as the client wrote it
        self.groups: list[Group] = []
        self.backlog: Backlog | None = None  # a durable session has one
        self.queue: Fifo[Delivery] = Fifo()  # a memory session's QoS > 0
        self.queue0: Fifo[Delivery] = Fifo()  # QoS 0 held back by congestion
        self.queue_bytes: i64 = 0
        self.ranks: list[Rank] | None = None  # the highest first, in place of one queue for all topics
        self.ranked: i64 = 0  # messages in memory there
        self.stage: int = 0  # changes of the priorities that it has behind it
        self.inflight: dict[int, Delivery] = {}  # by packet id, in the order of sending
        self.resend: Fifo[int] = Fifo()  # packet ids to send again after a reconnect
        self.used: i64 = 0  # slots of the outgoing window taken on this connection
        self.staged: i64 = 0
        self.next_id: i64 = 0  # a counter; the packet id is next_id % 65535 + 1
        self.id_end: i64 = 0x7FFFFFFFFFFF  # the counter's durable end
        self.id_wanted: i64 = 0x7FFFFFFFFFFF  # asked for
        self.id_block: i64 = ID_BLOCK  # how many at once
        self.id_asked: i64 = 0  # gateway ms
        self.awaiting: dict[int, int] = {}  # incoming QoS 2 ids -> number of the commit that holds them
        self.awaiting_since: dict[int, int] = {}  # gateway ms; only while such ids are given up after a time
        self.dirty: bool = False  # its packed state must be written
        self.fresh: list[Subscription] = []  # get retained messages once they are on disk
        self.feeds: Fifo[Feed] = Fifo()  # retained messages that wait for room
        self.will: Will | None = None
        self.will_at: i64 = 0  # gateway ms, 0 = not pending
        self.slow: bool = False  # did not answer within the commit window
        self.prompt: i64 = 0  # acknowledgements within it, in a row
        self.rate: i64 = 0  # acknowledgements per second
        self.rate_n: i64 = 0
        self.rate_at: i64 = 0
        self.matched: i64 = 0
        self.settled: i64 = 0
        # what its client rule says while it is an APPLICATION's (rules.py); 0 = nothing
        self.user: str = ""  # name of the last CONNECT: rules go by it while nobody is connected, too
        self.rights: Rights | None = None  # None = it may do everything
        self.max_bytes: i64 = 0
        self.max_age_ms: i64 = 0
        self.full_bytes: i64 = 0  # that wait; above it what comes is dropped
        self.trimming: bool = False  # a read is under way for what falls off
        self.drain_rate: i64 = 0  # messages per second
        self.credit: i64 = 0  # thousandths of a message that may be drained now
        self.drain_bytes: i64 = 0  # bytes per second
        self.credit_bytes: i64 = 0  # thousandths of a byte
        self.credit_at: i64 = 0  # gateway ms
        self.paced: bool = False  # one of the two rates is set
        self.uplink: Uplink | None = None  # whose session it is
        self.loose: i64 = 0  # settled on disk, which its row does not say yet
        self.fastened_at: i64 = 0  # gateway ms at which that was last to be written
        self.outer: Outer | None = None  # it reads from an engine
        self.overtakes: bool = False  # what comes now goes before what waits, where a rule of the uplink says so

    @property
    def durable(self) -> bool:
        return self.backlog is not None

    def backlogs(self) -> list[Backlog]:
        """All that it has on disk: one queue, or one for each rank."""
        b = self.backlog
        if b is None:
            return []
        out = [b]
        for r in self.ranks or []:
            out.extend([lane for lane in (r.backlog, r.zero) if lane is not None and lane is not b])
        return out

    def owed(self) -> i64:
        """Messages of its queues on disk, those in flight included."""
        b = self.backlog
        if b is None:
            return 0
        return b.count if self.ranks is None else sum([one.count for one in self.backlogs()])

    def let_go(self) -> None:
        """It has ended: remembered routes may still know it for long, its messages must not stay with them."""
        self.queue.clear()
        self.queue0.clear()
        self.ranks = None
        self.ranked = 0
        self.queue_bytes = 0
        self.inflight = {}
        self.resend.clear()
        self.feeds.clear()


@final
class Group:
    """A shared subscription: $share/name/filter, one receiver for each message."""

    def __init__(self, sid: int, share: str, filter: str) -> None:
        self.sid = sid
        self.share = share  # "$share/name/filter"
        self.filter = filter
        self.members: list[Session] = []
        self.options: dict[int, Subscription] = {}  # by the member's sid
        self.turn: int = 0
        self.sticky: Session | None = None  # who gets everything under that strategy
        self.backlog: Backlog | None = None  # durable as soon as a member is


@final
class Client:
    """One network connection. ``link`` is the driver's; the core never looks into it."""

    def __init__(self, link: object, peer: str, max_packet_bytes: int, now: int) -> None:
        self.link = link
        self.peer = peer
        self.decoder = Decoder(max_packet_bytes)
        self.version: int = 0
        self.session: Session | None = None
        self.connect: Connect | None = None
        self.seen: Seen | None = None  # what is remembered of it, from its CONNACK on
        self.connected: bool = False  # CONNACK is out
        self.blocked: bool = False  # the driver must not decode further
        self.parked: Packet | None = None  # what it was blocked by
        self.meter: Meter | None = None  # of its PUBLISHes, where they have a rate limit
        self.paced: bool = False  # blocked by that
        self.paid: bool = False  # what is parked has gone through the meter
        self.slowed: bool = False  # it was blocked by it once
        self.closing: bool = False
        self.closed: bool = False
        self.out = Outgoing()
        self.unsent: i64 = 0  # bytes that the driver could not write yet
        self.in_sends: bool = False  # already in the list of those with something to send
        self.congested: bool = False
        self.deaf: bool = False  # blocked because it does not read its answers
        self.swamped: bool = False  # blocked because too many of its answers wait for the disk
        self.owed: i64 = 0  # such answers
        self.behind0: bool = False  # QoS 0 waits that no other may overtake
        self.path: i64 = DIRECT
        self.gathers: bool = False  # its path has a say in when a PUBLISH leaves; else with the loop turn
        self.buffer: i64 = 0  # direct and device: so many PUBLISHes leave together, 0 = each with its turn
        self.waiting: i64 = 0  # PUBLISHes in ``out`` for which no flush was asked yet
        self.batch_flush: i64 = 0  # application: a flush after so many of a batch, 0 = after each
        self.in_batch: bool = False
        self.batch: i64 = 0  # what this batch has written
        self.more: bool = False  # the last batch was full
        self.quick: i64 = 0  # 4 or 5: frames of this version may be appended as they are
        self.window: i64 = 0
        self.max_packet: i64 = 0  # the client's Maximum Packet Size, 0 = none
        self.simple: bool = True  # no PUBLISH needs a look at size, alias or topic
        self.mark: bytes = b""  # it is the uplink of another gateway: what it gets bears our name
        self.remote: Remote | None = None  # the connection was dialled: what is at its other end
        self.problem_information: bool = True
        self.aliases_in: dict[int, bytes] = {}
        self.aliases_out: dict[bytes, int] = {}
        self.alias_out_max: i64 = 0
        self.routes: dict[bytes, Route] = {}
        self.nodes: list[Node] = []  # Sparkplug nodes that were born on it
        self.acks: Fifo[PendingAck] = Fifo()  # PUBACK, in the order of the PUBLISHes
        self.recs: Fifo[PendingAck] = Fifo()  # PUBREC
        self.unacked: i64 = 0  # incoming QoS 1 not answered yet
        self.kept0: i64 = 0  # the commit that has what it sent last at QoS 0 and the disk is to have
        self.answering: bool = False  # some of ``acks`` may leave at the end of the turn
        self.keep_alive_ms: i64 = 0
        self.heard: i64 = now
        self.opened: i64 = now
        self.watch: object = None  # the Watch of who probes this client

    def take(self) -> bytes:
        """All bytes to write, once."""
        self.waiting = 0
        return self.out.take()

    def unpark(self) -> Packet | None:
        """What it was blocked by, to be tried again; a call, since trying may park it again."""
        p = self.parked
        self.parked = None
        return p

    def jammed(self) -> bool:
        """Congested, gone, or its batch full; a call, since every sending may change it."""
        return self.congested or self.closing or self.batch >= BATCH_MAX

    def set_quick(self) -> None:
        held = self.congested or self.behind0
        if not self.connected or self.closing or held or not self.simple:
            self.quick = 0
        else:
            self.quick = V5 if self.version == V5 else 4
