"""The loop around a router in memory: what the driver does with sockets, store and reads, at the test's pace."""

import random

from gateway.core.batch import Batch
from gateway.core.limits import Limits
from gateway.core.model import Client
from gateway.core.record import Reader, read_message
from gateway.core.router import Router
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import Packet, Publish
from tests import wire_format as mqtt
from tests.memory import DictStore, entries
from tests.property.peers import Link, Receiver, Sender


class Loop:
    """Commits and reads go through at once, or when the walk says so (``holding``, ``reading_late``, ``failing``)."""

    def __init__(self, limits: Limits, seed: int) -> None:
        self.rng = random.Random(seed)
        self.limits = limits
        self.store = DictStore()
        self.now = 10_000_000
        self.links: dict[Client, Link] = {}
        self.submitted: Batch | None = None
        self.reads: list[tuple[int, list[int]]] = []
        self.holding = False
        self.reading_late = False
        self.failing = False
        self.order: dict[int, int] = {}  # copy -> place in the order of the broker
        self.stored: set[int] = set()  # copies that were ever on disk
        self.router = Router(limits, None, self.now, seed)

    def received(self, link: Link, p: mqtt.Packet) -> None:
        raise NotImplementedError

    def gone(self, peer: Receiver | Sender) -> None:
        raise NotImplementedError

    def pump(self) -> None:
        n = 0
        while self._turn():
            n += 1
            assert n < 5000, "the loop does not come to rest"

    def _turn(self) -> bool:
        router = self.router
        moved = False
        for client in router.take_auth():
            router.on_authenticated(client, True, self.now)
            moved = True
        for client in router.take_sends():
            self._write(client)
            moved = True
        self.reads += router.take_reads()
        if self.reads and not self.reading_late:
            self._answer_read()
            moved = True
        if self.submitted is None:
            self.submitted = router.take_batch(self.now)
            moved = moved or self.submitted is not None
        if self.submitted is not None and self.failing:
            number, self.submitted = self.submitted.number, None
            router.on_commit_failed(number, "no space", self.now)
        elif self.submitted is not None and not self.holding:
            self._commit()
            moved = True
        parked = [(c, c.parked) for c in router.core.parked]
        resumed = router.take_resumed(self.now)
        for c, p in parked:
            if c.parked is not p and not c.closed and not c.closing:
                self._processed(p)
        for client in resumed:
            link = self.links.get(client)
            if link is not None:
                self._decode(link)
            moved = True
        return moved

    def _answer_read(self) -> None:
        token, ids = self.reads.pop(0)
        rows = dict(self.store.read_now(ids))
        self.router.on_segments(token, [(id, rows.get(id, b"")) for id in ids], self.now)

    def _write(self, client: Client) -> None:
        data = client.take()
        link = self.links.get(client)
        if link is None:
            return
        link.unsent += data
        if link.stalled and not client.closing:
            self.router.on_writable(client, len(link.unsent), self.now)
            return
        link.inbox += link.unsent
        link.unsent.clear()
        for packet in link.packets():
            if not link.closed:
                self.received(link, packet)
        if link.closed:
            return
        if client.closing:
            self.cut(link)
        else:
            self.router.on_writable(client, 0, self.now)

    def _commit(self) -> None:
        batch, self.submitted = self.submitted, None
        assert batch is not None
        self._apply(batch)
        self.router.on_committed(batch.number, self.now)
        self.router.on_store_usage(self.store.used_bytes(), self.now)

    def _apply(self, batch: Batch) -> None:
        self.store.apply(batch)
        if batch.segment_id:
            for e in entries(batch.records):
                self.stored.add(copy_of(e.message.payload))
        for row in batch.retained.values():
            if row is not None:
                self.stored.add(copy_of(read_message(Reader(row)).payload))

    def _decode(self, link: Link) -> None:
        client = link.client
        try:
            while not client.blocked and not client.closing:
                packet = client.decoder.next()
                if packet is None:
                    return
                self.router.on_packet(client, packet, self.now)
                if client.parked is None and not client.closing:
                    self._processed(packet)
        except PacketError as error:
            raise AssertionError(f"the broker takes a good packet for a bad one: {error.text}") from error

    def _processed(self, packet: Packet | None) -> None:
        if isinstance(packet, Publish):
            self.order[copy_of(packet.payload)] = len(self.order)

    def send(self, link: Link, data: bytes) -> None:
        link.client.decoder.feed(data)
        self._decode(link)

    def cut(self, link: Link) -> None:
        """The connection is gone, for both sides."""
        if link.closed:
            return
        link.closed = True
        self.links.pop(link.client, None)
        link.peer.link = None
        if link.connected:
            link.peer.offline_at = self.now
        self.gone(link.peer)
        self.router.on_closed(link.client, self.now)


def copy_of(payload: bytes) -> int:
    return int(payload.split(b".")[1])
