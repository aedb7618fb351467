"""Everything the core holds, in one object that the verbs work on; and what the next commit will carry."""

from heapq import heappush
from typing import Final, final

from mypy_extensions import i64

from gateway.core.engine import EngineState
from gateway.core.fifo import Fifo
from gateway.core.flush import FlushCache
from gateway.core.ledger import Ledger
from gateway.core.limits import Limits
from gateway.core.links import Uplinks
from gateway.core.message import Message, PendingAck, Segment
from gateway.core.meter import Meter
from gateway.core.model import Backlog, Client, Group, Route, Session
from gateway.core.nodes import Nodes
from gateway.core.part import Part
from gateway.core.priority import Priorities
from gateway.core.record import TargetSet
from gateway.core.retained import Retained
from gateway.core.seen import Seen
from gateway.core.topics import Trie
from gateway.core.watch import Watch

# what is done when a commit is on disk
SEND: Final = 0  # bytes to a client
CONNACKED: Final = 1  # the CONNACK of a client may leave
STAGED_SEND: Final = 2  # the first sending of a QoS 2 delivery
RELEASE: Final = 3  # PUBREL of a QoS 2 delivery
IDS: Final = 4  # packet ids up to ``value`` may be used
RETAINED: Final = 5  # retained messages for the new subscriptions of a session
HISTORY: Final = 6  # all of the time before a session that begins with the earliest is on disk

# a crash sends over an uplink again what its row does not say: that is written after so many messages, or in a second
LOOSE_MAX: Final = 16
LOOSE_MS: Final = 5  # but not more often
OWED_MAX: Final = 2048  # answers of one connection that wait for a commit

# timers
SESSION_END: Final = 0
WILL: Final = 1
SEGMENT_EXPIRED: Final = 2
PACED: Final = 3  # a client has room under its rate limit again


@final
class Waiter:
    def __init__(self, kind: int, client: Client | None, session: Session | None, value: int, data: bytes) -> None:
        self.kind = kind
        self.client = client
        self.session = session
        self.value = value
        self.data = data


@final
class Commit:
    """What gathers for one transaction."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.segment: Segment | None = None  # made when the commit is closed
        self.messages: list[Message] = []
        self.records: list[bytes] = []
        self.sets: dict[bytes, TargetSet] = {}
        self.bytes: i64 = 0
        self.acks: list[PendingAck] = []
        self.waiters: list[Waiter] = []
        self.staged: list[Message] = []  # may leave when it is on disk
        self.ids_end: int = 0  # ingest ids below it may then be given
        self.sessions: dict[int, tuple[int, str, int, int, int]] = {}
        self.gone: list[int] = []
        self.dirty_sessions: list[Session] = []
        self.dirty_backlogs: list[Backlog] = []
        self.cursors: dict[int, bytes] = {}
        self.subscriptions: dict[tuple[int, str], tuple[int, str, int, int]] = {}
        self.unsubscribed: dict[tuple[int, str], bool] = {}
        self.retained: dict[str, bytes | None] = {}
        self.bridge: dict[str, bytes | None] = {}
        self.wills: dict[str, bytes | None] = {}
        self.delayed: dict[int, bytes | None] = {}
        self.dead: list[int] = []
        self.counters: list[tuple[int, str, int]] = []
        self.meta: dict[str, int | str] = {}
        self.waits_since: i64 = 0  # gateway ms since when acknowledgements wait for a store in trouble
        self.retry_at: i64 = 0
        self.submitted: bool = False  # in the store's hands
        self.since: i64 = 0  # gateway ms, last since when
        self.hangs: bool = False  # it has been for long
        self.whole: bool = True  # not without its messages
        self.urgent: bool = False
        self.drained: i64 = 0  # what its row of the engine's writer says of ``EngineState.drained``, 0 = it has none
        self.lazy_at: i64 = 0  # gateway ms by which it is due though nobody waits, 0 = nothing in it

    def idle(self) -> bool:
        """Nobody waits for it: no message, and no acknowledgement that is not done already."""
        if self.segment is not None or self.waiters or self.wills or self.delayed or self.sessions or self.gone:
            return False
        for a in self.acks:
            if not a.done:
                return False
        return True


@final
class Reading:
    """A read of segments on behalf of a queue, or to give up what is in them."""

    def __init__(self, backlog: Backlog | None, segments: list[Segment], first: int, reason: str) -> None:
        """Parts below ``first`` are left out."""
        self.backlog = backlog
        self.others: list[Backlog] = []  # that wait for the same
        self.segments = segments
        self.ids: list[int] = [id for s in segments for id in range(max(s.id, first), s.upto + 1)]
        self.reason = reason  # of the drops, when it is to give up
        self.token: int = 0


@final
class Unpacked:
    """Parts of the log that several queues are about to need, by stored id, the oldest first."""

    def __init__(self) -> None:
        self.found: dict[int, Part] = {}
        self.bytes: i64 = 0  # packed

    def add(self, id: int, part: Part, most: i64) -> None:
        self.found[id] = part
        self.bytes += part.size
        while self.bytes > most:
            oldest = next(iter(self.found))
            self.bytes -= self.found.pop(oldest).size


@final
class Drain:
    """How fast a queue gets shorter; messages per second, averaged over some seconds."""

    def __init__(self, now: i64, settled: i64, count: i64) -> None:
        self.at = now
        self.settled = settled
        self.count = count
        self.rate: float = -1.0  # taken by the client; below 0 = not measured yet
        self.shrinks: float = 0.0  # the same less what came meanwhile


@final
class Applications:
    """Sessions that their client rules, or their queues, ask to look at from time to time."""

    def __init__(self) -> None:
        self.bounded: dict[Session, bool] = {}  # whose unread messages may fall off
        self.paced: dict[Session, bool] = {}  # that wait for their drain rate
        self.drains: dict[Session, Drain] = {}  # connected, with messages waiting
        self.histories: dict[Backlog, bool] = {}  # that began with the earliest and are not through with it


@final
class Kept:
    """Segments that are settled and stay for those who begin with the earliest; by id, in the order of settling."""

    def __init__(self) -> None:
        self.segments: dict[int, Segment] = {}
        self.bytes: i64 = 0


@final
class Copies:
    """Retained messages that a SUBSCRIBE of a persistent session put into the log, by topic, with their positions."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[Message, int]] = {}
        self.last: i64 = 0


@final
class Delayed:
    """Messages that are published later; the disk has the same."""

    def __init__(self) -> None:
        self.rows: dict[int, bytes] = {}  # packed, by id
        self.order: list[tuple[int, int]] = []  # heap of (gateway ms, id)
        self.bytes: i64 = 0  # packed
        self.next_id: int = 1


@final
class Door:
    """Who comes in, and how fast it may go on."""

    def __init__(self) -> None:
        self.asking: list[Client] = []  # whether they may come in
        self.meter: Meter | None = None  # of what all clients publish


@final
class Core:
    def __init__(self, limits: Limits, now: int, seed: int) -> None:
        self.limits = limits
        self.trie = Trie()
        self.priorities = Priorities(limits.mqueue_priorities, limits.mqueue_default_priority == "highest")
        self.tables: list[int] = []  # positions in the log at which the priorities changed
        self.retained = Retained()
        self.ledger = Ledger()
        self.sessions: dict[str, Session] = {}
        self.by_sid: dict[int, Session] = {}
        self.groups: dict[str, Group] = {}
        self.group_by_sid: dict[int, Group] = {}
        self.clients: dict[Client, bool] = {}
        self.seen: dict[str, Seen] = {}  # by client id, who came last at the end
        self.routes: dict[bytes, Route] = {}
        self.stored_wills: dict[str, bool] = {}
        self.sends: list[Client] = []  # this and the next four are for the driver
        self.flush: FlushCache | None = None  # while the direct or the device path gathers
        self.door = Door()
        self.resumed: list[Client] = []
        self.parked: list[Client] = []
        self.waiting: i64 = 0  # bytes in RAM for slow clients: queues of memory sessions, what sockets did not take
        self.reads: list[tuple[int, list[int]]] = []
        self.log: list[str] = []
        self.alarms: list[str] = []
        # the log
        self.next_seq: i64 = 1
        self.next_sid: int = 1
        self.next_token: int = 1
        self.commit = Commit(1)
        self.flying: Commit | None = None  # handed to the store
        self.next_segment: int = 1
        self.hold: Fifo[Message] = Fifo()  # delivered, their inserts held back; in order of their ends
        self.hold_bytes: i64 = 0
        self.moved: dict[Session, bool] = {}  # something was settled there that no commit has written yet
        self.moved_at: i64 = 0  # gateway ms since when
        self.durable_commit: int = 0
        self.segments: dict[int, Segment] = {}  # committed, not settled
        self.newest: Segment | None = None  # the last that was committed
        self.kept = Kept()
        self.unpacked = Unpacked()
        self.readings: dict[int, Reading] = {}
        self.coming: dict[int, Reading] = {}  # by the first id, those of queues that read ahead
        self.needed: dict[int, Segment] = {}  # stored ids to be read at the start
        self.apps = Applications()
        self.nodes, self.uplinks, self.delayed = Nodes(), Uplinks(), Delayed()
        self.engine = EngineState()
        self.copies: dict[tuple[int, str], Copies] = {}  # by sid and filter, while some of them were not sent yet
        self.used_bytes: i64 = 0
        self.full_since: i64 = 0
        self.store_error: str = ""
        self.error_since: i64 = 0  # gateway ms, 0 = the store works
        self.stall_at: i64 = 0  # gateway ms until which commits go without messages, 0 = the disk takes them
        self.evict_from: int = 0  # segments up to this one were looked at
        self.evict_at: i64 = 0
        self.sent_loads: list[tuple[Session, int, int, int]] = []  # QoS 2 in flight, to be read at the start
        self.half: list[tuple[Backlog, int]] = []  # queues whose cursor stands inside a stored id, at the start
        self.wake_at: i64 = 0  # something is due earlier than the last tick said; 0 = not
        self.told: i64 = 0  # gateway ms at which the driver will look again, 0 = it has not been told
        self.timers: list[tuple[int, int, int]] = []  # (gateway ms, kind, sid or segment id)
        self.timers_max: int = 64  # above it those that no longer mean anything are dropped
        self.started: i64 = now
        self.checked_at: i64 = now
        self.sys_at: i64 = now
        self.counters_at: i64 = now
        self.seed = seed
        self.stopping: bool = False
        self.retry: bool = False  # parked clients may be able to go on
        self.watches: list[Watch] = []  # of who probes a client
        self.answering: list[Client] = []  # whose acknowledgements leave at the end of the turn

    def touch(self, c: Client) -> None:
        """This client has something to send or is to be closed."""
        if not c.in_sends:
            c.in_sends = True
            self.sends.append(c)

    def send(self, c: Client, data: bytes) -> None:
        c.out.write(data)
        if not c.in_sends:
            c.in_sends = True
            self.sends.append(c)

    def block(self, c: Client) -> None:
        c.blocked = True

    def unblock(self, c: Client) -> None:
        if c.blocked and not c.deaf and not c.swamped and c.parked is None:
            c.blocked = False
            self.resumed.append(c)

    def answer_later(self, c: Client, data: bytes) -> None:
        """With the open commit; who has too many answers to come is read no further."""
        self.commit.urgent = True
        self.answer_with(self.commit, c, data)

    def answer_with(self, commit: Commit, c: Client, data: bytes) -> None:
        """With one that may be on its way already."""
        commit.waiters.append(Waiter(SEND, c, None, 0, data))
        c.owed += 1
        if c.owed > OWED_MAX:
            c.swamped = True
            self.block(c)

    def answered(self, c: Client) -> None:
        """One of these is done."""
        c.owed -= 1
        if c.swamped and c.owed <= OWED_MAX // 2:
            c.swamped = False
            self.unblock(c)

    def queued(self, s: Session, size: i64) -> None:
        """A session's queue in memory grows, or shrinks (below 0), by so many bytes."""
        s.queue_bytes += size
        self.waiting += size

    def high(self) -> i64:
        """Unsent bytes above which a connection is congested; less for each where too many wait for all."""
        most: i64 = self.limits.waiting_bytes_max
        high: i64 = self.limits.out_high_bytes
        return high // 16 if most and self.waiting * 2 > most else high

    def timer(self, at: i64, kind: int, id: int) -> None:
        when: int = at
        heappush(self.timers, (when, kind, id))
        if len(self.timers) > self.timers_max:
            self.sweep_timers()
        self.wake(at)

    def sweep_timers(self) -> None:
        """Drop those that no longer mean anything: what they were for has ended or was put off."""
        alive: set[tuple[int, int, int]] = set()
        for entry in self.timers:
            at, kind, id = entry
            s = self.by_sid.get(id)
            if kind == SEGMENT_EXPIRED:
                segment = self.segments.get(id)
                if segment is not None and at == segment.expires:
                    alive.add(entry)
            elif kind == PACED:
                if s is not None and s.client is not None and s.client.paced:
                    alive.add(entry)
            elif s is not None and at == (s.deadline if kind == SESSION_END else s.will_at):
                alive.add(entry)
        self.timers = sorted(alive)
        self.timers_max = 2 * len(alive) + 64

    def wake(self, at: i64) -> None:
        if self.told and at >= self.told:
            return
        if self.wake_at == 0 or at < self.wake_at:
            self.wake_at = at

    def in_trouble(self, now: i64) -> bool:
        """The store has failed for longer than publishers are held."""
        return self.error_since != 0 and now - self.error_since >= self.limits.error_hold_ms

    def lazy(self, now: i64) -> None:
        """Something waits that nobody waits for."""
        if not self.commit.lazy_at:
            self.commit.lazy_at = now + self.limits.lazy_commit_ms
            self.wake(self.commit.lazy_at)

    def dirty_session(self, s: Session) -> None:
        if not s.dirty:
            s.dirty = True
            self.commit.dirty_sessions.append(s)

    def dirty_backlog(self, b: Backlog) -> None:
        """Its row is the row of its session or group, or its own."""
        s = b.session
        if s is not None and s.backlog is b:
            self.dirty_session(s)
        elif not b.dirty:
            b.dirty = True
            self.commit.dirty_backlogs.append(b)

    def moved_on(self, b: Backlog, now: i64) -> None:
        """Something was settled there. The row of a session can wait: a crash before that costs a repetition.

        QoS 2 makes the session dirty as well. Where the two have rows of their own they must be written together.
        """
        s = b.session
        if s is None or s.backlog is not b:
            self.dirty_backlog(b)
            return
        if s.uplink is not None or s is self.engine.writer:
            if s.uplink is None:
                self.engine.drained += 1
            s.loose += 1
            if s.loose >= LOOSE_MAX:
                self.fasten(s, now)
                return
        if not self.moved:
            self.moved_at = now
        self.moved[s] = True

    def fasten(self, s: Session, now: i64) -> None:
        """The session's row is to be on disk soon, though nobody waits for it."""
        due = max(now, s.fastened_at + LOOSE_MS)
        s.loose = 0
        s.fastened_at = due
        self.dirty_session(s)
        if not self.commit.lazy_at or self.commit.lazy_at > due:
            self.commit.lazy_at = due
            self.wake(due)

    def will_row(self, client_id: str, packed: bytes | None) -> None:
        """A stored will; removing one that was never stored writes nothing."""
        if packed is not None:
            self.stored_wills[client_id] = True
        elif self.stored_wills.pop(client_id, False):
            pass
        else:
            return
        self.commit.wills[client_id] = packed
        self.commit.urgent = True

    def session_row(self, s: Session, deadline: i64) -> None:
        if s.durable:
            when: int = deadline
            self.commit.sessions[s.sid] = (s.sid, s.client_id, 0, s.expiry_s, when)

    def wait(self, kind: int, client: Client | None, session: Session | None, value: int, data: bytes) -> None:
        self.commit.waiters.append(Waiter(kind, client, session, value, data))
        self.commit.urgent = True
