"""The core without sockets and disk, for the benchmarks of its parts: clients by name, bytes in, commits at once."""

from typing import final

from gateway.core.batch import Batch
from gateway.core.limits import Limits
from gateway.core.model import Client
from gateway.core.router import Router
from gateway.mqtt.encode import encode, encode_publish
from gateway.mqtt.packets import V311, Connect, Disconnect, Filter, Subscribe


@final
class Rig:
    """Clients speak 3.1.1. Nothing leaves before ``take``, nothing is durable before ``commit``."""

    def __init__(self, limits: Limits) -> None:
        self.now = 1_000_000
        self.router = Router(limits, None, self.now, 1)
        self.clients: dict[str, Client] = {}

    def connect(self, name: str, persistent: bool) -> Client:
        """A connection with its CONNACK out."""
        router = self.router
        client = router.open(self, name, self.now)
        self.clients[name] = client
        self.feed(name, encode(Connect(V311, name, not persistent, 0), V311))
        for waiting in router.take_auth():
            router.on_authenticated(waiting, True, self.now)
        self.commit()
        self.take()
        assert client.connected
        return client

    def subscriber(self, name: str, filter: str, qos: int, persistent: bool) -> Client:
        client = self.connect(name, persistent)
        self.feed(name, encode(Subscribe(1, [Filter(filter, qos)]), V311))
        self.commit()
        self.take()
        return client

    def publisher(self, name: str, topic: bytes, qos: int, payload: bytes, count: int) -> bytes:
        """Connect, and the bytes of ``count`` PUBLISH packets to feed."""
        self.connect(name, False)
        return b"".join(
            encode_publish(V311, topic, payload, qos, False, False, i + 1 if qos else 0, b"") for i in range(count)
        )

    def leave(self, name: str) -> None:
        """DISCONNECT, and the socket is gone."""
        self.feed(name, encode(Disconnect(0), V311))
        self.router.on_closed(self.clients.pop(name), self.now)

    def feed(self, name: str, data: bytes) -> None:
        """Bytes of this client, packet by packet to the core."""
        client = self.clients[name]
        decoder = client.decoder
        decoder.feed(data)
        while not client.blocked and not client.closing:
            packet = decoder.next()
            if packet is None:
                break
            self.router.on_packet(client, packet, self.now)

    def take(self) -> dict[str, bytes]:
        """What the core has to write, by client."""
        return {client.peer: client.take() for client in self.router.take_sends()}

    def commit(self) -> Batch | None:
        """The batch that is due, taken as if it were on disk."""
        batch = self.router.take_batch(self.now)
        if batch is not None:
            self.router.on_committed(batch.number, self.now)
            self.take()
        return batch
