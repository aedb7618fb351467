"""The broker without sockets, disk and clock: Router and Decoder, driven as the real loop drives them.

The store is a few dictionaries; a commit happens at once, or when the test says so, or fails. ``crash`` throws the
router away and makes a new one of what was committed.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar, final

from gateway.core import probing
from gateway.core.batch import Batch, SessionRow, Snapshot
from gateway.core.message import Segment
from gateway.core.model import Client
from gateway.core.part import Part
from gateway.core.record import Entry
from gateway.core.router import Router
from gateway.core.uplink import Login
from gateway.mqtt.errors import PacketError
from gateway.settings.table import Sources, load

K = TypeVar("K")

UTC_OFFSET_MS = 1_700_000_000_000  # what the wall clock shows at gateway time 0
WAIT_MS_MAX = 100  # gateway time that waiting for a packet may take: what is due later must not hide in it


@final
class DictStore:
    """What is committed, by the rules of ``Batch``."""

    def __init__(self) -> None:
        self.sessions: dict[int, SessionRow] = {}
        self.cursors: dict[int, bytes] = {}
        self.subscriptions: dict[tuple[int, str], tuple[int, int]] = {}
        self.retained: dict[str, bytes] = {}
        self.wills: dict[str, bytes] = {}
        self.bridge: dict[str, bytes] = {}
        self.delayed: dict[int, bytes] = {}
        self.counters: dict[tuple[int, str], int] = {}
        self.meta: dict[str, int | str] = {}
        self.segments: dict[int, tuple[int, bytes, bytes]] = {}  # id -> last, targets, records
        self.numbers: list[int] = []

    def apply(self, batch: Batch) -> None:
        self.numbers.append(batch.number)
        assert batch.number == self.numbers[0] + len(self.numbers) - 1, "a number was left out"
        for sid in batch.gone:
            self.sessions.pop(sid, None)
            self.cursors.pop(sid, None)
            for key in [key for key in self.subscriptions if key[0] == sid]:
                del self.subscriptions[key]
            for counter in [key for key in self.counters if key[0] == sid]:
                del self.counters[counter]
        for pair in batch.unsubscribed:
            self.subscriptions.pop(pair, None)
        for row in batch.sessions:
            self.sessions[row[0]] = row
        self.cursors.update(batch.cursors)
        for sid, filter, options, identifier in batch.subscriptions:
            self.subscriptions[sid, filter] = options, identifier
        _replace(self.retained, batch.retained)
        _replace(self.wills, batch.wills)
        _replace(self.bridge, batch.bridge)
        _replace(self.delayed, batch.delayed)
        for sid, name, value in batch.counters:
            self.counters[sid, name] = value
        self.meta.update(batch.meta)
        for segment in batch.dead_segments:
            self.segments.pop(segment, None)
        if batch.segment_id:
            assert batch.segment_id not in self.segments, "sequence numbers were used twice"
            self.segments[batch.segment_id] = batch.segment_last, batch.targets, batch.records

    def snapshot(self) -> Snapshot:
        made = Snapshot()
        made.sessions = list(self.sessions.values())
        made.cursors = dict(self.cursors)
        made.subscriptions = [(sid, filter, *rest) for (sid, filter), rest in self.subscriptions.items()]
        made.retained = list(self.retained.items())
        made.wills = list(self.wills.items())
        made.bridge = list(self.bridge.items())
        made.delayed = list(self.delayed.items())
        made.counters = [(sid, name, value) for (sid, name), value in self.counters.items()]
        made.meta = dict(self.meta)
        made.segments = [(first, last, targets) for first, (last, targets, _) in sorted(self.segments.items())]
        return made

    def read_now(self, ids: Iterable[int]) -> list[tuple[int, bytes]]:
        """(segment id, records) of those that are there."""
        return [(segment, self.segments[segment][2]) for segment in ids if segment in self.segments]

    def used_bytes(self) -> int:
        return sum(len(targets) + len(records) for _, targets, records in self.segments.values())


def entries(records: bytes) -> list[Entry]:
    """The messages of a stored segment."""
    found = Part(Segment(1), records).all()
    assert found is not None
    return found


def _replace(table: dict[K, bytes], changes: Mapping[K, bytes | None]) -> None:
    for key, value in changes.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


@final
class MemoryLink:
    """One connection; what the broker wrote gathers in ``inbox``, or in ``unsent`` while the peer does not read."""

    def __init__(self, broker: "MemoryBroker", number: int, login: Login | None = None) -> None:
        self.broker = broker
        peer = f"127.0.0.1:{number}"
        router = broker.router
        self.client: Client = (
            router.open(self, peer, broker.now) if login is None else router.uplinks.dial(self, peer, login, broker.now)
        )
        self.inbox = bytearray()
        self.unsent = bytearray()
        self.stalled = False
        self.closed = False

    def send(self, data: bytes) -> None:
        if self.closed:
            raise ConnectionResetError("the broker has closed")
        self.client.decoder.feed(data)
        self.broker.decode(self)
        self.broker.pump()

    def receive(self, wait_s: float) -> bytes | None:
        if not self.inbox and not self.closed:
            self.broker.wait(self, min(round(wait_s * 1000), WAIT_MS_MAX))
        if self.inbox:
            data = bytes(self.inbox)
            self.inbox.clear()
            return data
        return b"" if self.closed else None

    def end(self) -> None:
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.broker.router.on_closed(self.client, self.broker.now)
            self.broker.forget(self)
            self.broker.pump()

    def stall(self) -> None:
        """The peer stops to read."""
        self.stalled = True

    def read_some(self, size: int) -> None:
        """The peer has taken so many bytes of those that wait, and stops again."""
        self.inbox += self.unsent[:size]
        del self.unsent[:size]
        self.broker.router.on_writable(self.client, len(self.unsent), self.broker.now)
        self.broker.pump()

    def read_on(self) -> None:
        """The peer reads again: all that waits goes through."""
        self.stalled = False
        self.inbox += self.unsent
        self.unsent.clear()
        self.broker.router.on_writable(self.client, 0, self.broker.now)
        self.broker.pump()


@final
class MemoryBroker:
    """See the module. ``holding`` keeps the commits back: ``release`` lets one or all go, ``fail`` refuses one."""

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        given = tuple(f"{name}={_text(value)}" for name, value in (settings or {}).items())
        self.limits = load(Sources(sets=given), {}).limits()
        self.store = DictStore()
        self.now = 10_000_000
        self.seed = 0
        self.holding = False
        self.submitted: Batch | None = None
        self.opened = 0
        self.links: dict[Client, MemoryLink] = {}
        self.router: Router
        self._start(None)

    def _start(self, snapshot: Snapshot | None) -> None:
        self.seed += 1
        self.router = Router(self.limits, snapshot, self.now, self.seed, utc_ms=self.now + UTC_OFFSET_MS)
        self.router.finish_load(self.store.read_now(self.router.needed_segments()), self.now)
        self.router.on_tick(self.now)
        self.pump()

    def open(self) -> MemoryLink:
        self.opened += 1
        link = MemoryLink(self, self.opened)
        self.links[link.client] = link
        return link

    def dial(self, login: Login) -> MemoryLink:
        """A connection to a remote, for an uplink; what this side says to it gathers in ``inbox``."""
        self.opened += 1
        link = MemoryLink(self, self.opened, login)
        self.links[link.client] = link
        self.pump()
        return link

    def forget(self, link: MemoryLink) -> None:
        del self.links[link.client]

    def crash(self) -> None:
        """As kill -9: whatever was not committed is gone; the new one starts where the clock stands."""
        for link in self.links.values():
            link.closed = True
        self.links.clear()
        self.submitted = None
        self.holding = False
        self.store.numbers.clear()
        self._start(self.store.snapshot())

    # The loop

    def decode(self, link: MemoryLink) -> None:
        client = link.client
        try:
            while not client.blocked and not client.closing:
                packet = client.decoder.next()
                if packet is None:
                    return
                if client.watch is not None:
                    probing.packet(client, packet, self.now)
                self.router.on_packet(client, packet, self.now)
        except PacketError as error:
            self.router.on_bad_packet(client, error.reason, error.text, self.now)

    def pump(self) -> None:
        """One turn of the loop after another, until nothing moves."""
        while self._turn():
            pass

    def _turn(self) -> bool:
        moved = False
        for client in self.router.take_auth():
            self.router.on_authenticated(client, True, self.now)
            moved = True
        for client in self.router.take_sends():
            self._write(client)
            moved = True
        for token, ids in self.router.take_reads():
            self.router.on_segments(token, self.store.read_now(ids), self.now)
            moved = True
        if self.submitted is None:
            self.submitted = self.router.take_batch(self.now)
            moved = moved or self.submitted is not None
        if self.submitted is not None and not self.holding:
            self._commit()
            moved = True
        for client in self.router.take_resumed(self.now):
            if client in self.links:
                self.decode(self.links[client])
            moved = True
        return moved

    def _write(self, client: Client) -> None:
        data = client.take()
        link = self.links.get(client)
        if link is None:
            return
        if link.stalled:
            link.unsent += data
        else:
            link.inbox += data
        self.router.on_writable(client, len(link.unsent), self.now)
        if client.closing:
            link.close()

    def _commit(self) -> None:
        batch, self.submitted = self.submitted, None
        assert batch is not None
        self.store.apply(batch)
        self.router.on_committed(batch.number, self.now)
        self.router.on_store_usage(self.store.used_bytes(), self.now)

    # What a test may do to it

    def hold(self) -> None:
        """From now on no commit ends."""
        self.holding = True

    def release(self) -> None:
        """The held commit is on disk, and those that follow go through again."""
        self.holding = False
        self.pump()

    def release_one(self) -> bool:
        """Only the commit that is under way is on disk; False when none was."""
        if self.submitted is None:
            return False
        self._commit()
        self.pump()
        return True

    def fail(self, text: str = "disk I/O error") -> None:
        """The commit that is under way comes back as failed; nothing of it is kept."""
        batch, self.submitted = self.submitted, None
        assert batch is not None, "no commit is under way"
        self.router.on_commit_failed(batch.number, text, self.now)
        self.pump()

    def wait(self, link: MemoryLink, milliseconds: int) -> None:
        """Time passes until something comes on this connection, at most so much."""
        end = self.now + milliseconds
        while self.now < end and not link.inbox and not link.closed:
            self.now = min(end, max(self.router.on_tick(self.now), self.now + 1))
            self.router.on_tick(self.now)
            self.pump()

    def advance(self, milliseconds: int) -> None:
        """Time passes; everything that is due in between happens at its time (long spans in a thousand steps)."""
        end = self.now + milliseconds
        coarse = milliseconds // 1000 if milliseconds > 600_000 else 1
        while True:
            due = self.router.on_tick(self.now)
            self.pump()
            if self.now >= end:
                return
            self.now = min(end, max(due, self.now + coarse))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
