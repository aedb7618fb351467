"""A relay between MQTT clients and a broker that tells the requirements checker what passes through it."""

import asyncio
import time
from collections.abc import Callable
from typing import Self

from gateway.mqtt import packets
from gateway.mqtt.decode import Decoder
from sparkplug.actions import Publish
from sparkplug.check.observed import Connected, Delivered, Disconnected, Observation, Published, Subscribed

_READ_BYTES = 65536


def utc_ms() -> int:
    return time.time_ns() // 1_000_000


def split(buffer: bytearray) -> list[bytes]:
    """The whole packets at the front of the buffer, taken out of it."""
    found: list[bytes] = []
    while len(buffer) >= 2:
        length = at = 0
        while True:
            at += 1
            if at >= len(buffer):
                return found
            length |= (buffer[at] & 0x7F) << 7 * (at - 1)
            if buffer[at] < 0x80:
                break
        end = at + 1 + length
        if len(buffer) < end:
            break
        found.append(bytes(buffer[:end]))
        del buffer[:end]
    return found


class _Connection:
    """One client's; ``name`` is its client id."""

    def __init__(self, relay: "Relay", client: asyncio.StreamWriter, broker: asyncio.StreamWriter) -> None:
        self.relay, self.client, self.broker = relay, client, broker
        self.name = ""
        self.over = False
        self._from_client = Decoder(0)
        self._from_broker: Decoder | None = None
        self._kept: list[bytes] = []  # frames for the client that wait for the one after them

    def observe(self, seen: Observation) -> None:
        if not self.over:
            self.relay.observe(seen)

    def end(self, reason: int | None) -> None:
        """The client left, or the connection broke."""
        if self.name and not self.over:
            self.observe(Disconnected(self.name, utc_ms(), reason, self.relay.name))
        self.over = True

    def abort(self) -> None:
        self.end(None)
        for writer in (self.client, self.broker):
            writer.transport.abort()

    def upwards(self, frame: bytes) -> None:
        self._from_client.feed(frame)
        packet = self._from_client.next()
        now, server = utc_ms(), self.relay.name
        if isinstance(packet, packets.Connect):
            self.name = packet.client_id
            before = self.relay.connections.get(self.name)
            if before is not None:
                before.end(None)  # taken over
            self.relay.connections[self.name] = self
            self._from_broker = Decoder(0, packet.version)
            will = packet.will
            said = None if will is None else Publish(will.topic.decode(), will.payload, will.qos, will.retain)
            properties = packet.properties
            expiry_s = 0 if properties is None else max(properties.session_expiry_interval, 0)
            clean = packet.clean_start
            self.observe(Connected(self.name, now, packet.version, clean, said, expiry_s, server))
        elif isinstance(packet, packets.Publish):
            message = Publish(packet.topic.decode(), packet.payload, packet.qos, packet.retain)
            self.observe(Published(self.name, now, message, server))
        elif isinstance(packet, packets.Subscribe):
            filters = tuple((one.filter, one.qos) for one in packet.filters)
            self.observe(Subscribed(self.name, now, filters, server))
        elif isinstance(packet, packets.Disconnect):
            self.end(packet.reason)
        self.broker.write(frame)

    def downwards(self, frame: bytes) -> None:
        assert self._from_broker is not None
        self._from_broker.feed(frame)
        packet = self._from_broker.next()
        if not isinstance(packet, packets.Publish):
            self.client.write(frame)
            return
        topic = packet.topic.decode()
        fate = self.relay.fate(self.name, topic)
        if fate == "lose":
            return
        if fate == "keep":
            self._kept.append(frame)
            return
        for each in (frame, *self._kept):
            decoder = Decoder(0, self._from_broker.version)
            decoder.feed(each)
            passed = decoder.next()
            assert isinstance(passed, packets.Publish)
            message = Publish(passed.topic.decode(), passed.payload, passed.qos, passed.retain)
            self.observe(Delivered(self.name, utc_ms(), message, self.relay.name))
            self.client.write(each)
        self._kept.clear()


class Relay:
    """Listens on ``port`` once started. ``fate`` says of each PUBLISH to a client: pass, lose, or keep until after the
    next one."""

    def __init__(self, name: str, broker_port: int, observe: Callable[[Observation], None]) -> None:
        self.name, self.observe = name, observe
        self.connections: dict[str, _Connection] = {}
        self.fate: Callable[[str, str], str] = lambda client, topic: "pass"
        self.port = 0
        self.broker_port = broker_port
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._server.close()
        for connection in self.connections.values():
            connection.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, client: str) -> None:
        """Break that client's connection on both sides."""
        self.connections[client].abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self.broker_port)
        except OSError:
            writer.close()
            self._tasks.discard(task)
            return
        connection = _Connection(self, writer, to_broker)
        down = asyncio.ensure_future(self._pump(from_broker, connection.downwards, connection))
        try:
            await self._pump(reader, connection.upwards, connection)
        finally:
            connection.end(None)
            to_broker.close()
            await asyncio.wait([down], timeout=1)
            down.cancel()
            writer.close()
            self._tasks.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, take: Callable[[bytes], None], connection: _Connection) -> None:
        buffer = bytearray()
        try:
            while data := await reader.read(_READ_BYTES):
                buffer += data
                for frame in split(buffer):
                    take(frame)
        except ConnectionError:
            pass
        if take == connection.downwards:
            connection.end(None)
            connection.client.close()
