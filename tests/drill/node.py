"""An edge node with devices that publishes at QoS 0 and writes down what it sent."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Final, final

from sparkplug.actions import Action, Disconnect, Publish, Subscribe
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Value
from sparkplug.node import EdgeNode, Phase
from sparkplug.topic import NodeId
from tests import wire_format as mqtt
from tests.drill.record import HISTORICAL, NBIRTH, SKIPPED, Sent, Session, digest

GROUP: Final = "Drill"
KINDS: Final = (DataType.Int64, DataType.Double, DataType.Int32, DataType.Boolean, DataType.String)
RETRY_S: Final = 0.05
ANSWER_S: Final = 20.0


def utc_ms() -> int:
    return time.time_ns() // 1_000_000


def values(count: int, metrics: int) -> dict[str, Value]:
    """What ``metrics`` metrics are at step ``count``; each differs from the step before."""
    kinds: tuple[Value, ...] = (count, 20 + count % 100 / 10, count * 7 % 1000, count % 2 == 1, f"state {count % 4}")
    return {f"Signals/{KINDS[i % 5].name} {i}": kinds[i % 5] for i in range(metrics)}


@final
class Link(asyncio.Protocol):
    """One connection of a node: packets in, bytes out."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.data = bytearray()
        self.room = asyncio.Event()
        self.room.set()
        self.over = asyncio.Event()
        self.accepted = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        while (size := mqtt.frame_size(self.data)) and len(self.data) >= size:
            packet = mqtt.parse(bytes(self.data[:size]), 4)
            del self.data[:size]
            if packet.type == mqtt.CONNACK:
                assert packet["code"] == 0 and not packet["present"], packet
                self.accepted.set()
            elif packet.type == mqtt.PUBLISH:
                self.node.command(self, packet["topic"], packet["payload"])

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()

    def connection_lost(self, why: Exception | None) -> None:
        self.room.set()
        self.accepted.set()
        self.over.set()
        self.node.lost(self)


@final
class Node:
    """``now`` is simulated UTC in ms, that of the payloads. ``run()`` connects it whenever it is not.

    ``keeps``: what changes while it is away comes afterwards as historical; otherwise nobody hears of it.
    """

    def __init__(self, number: int, port: int, devices: int, metrics: int, keep_alive_s: int, keeps: bool) -> None:
        self.machine = EdgeNode(NodeId(GROUP, f"node-{number}"), history_max=10_000 if keeps else 0)
        self.sent = Sent(f"{GROUP}/node-{number}")
        self.now = 0
        self.gateway_run = 0
        self.keeps = keeps
        self.skip = 0  # so many messages from here on are made and not sent
        self.dead = False  # its link: nothing goes through, and nobody says so
        self._port, self._keep_alive_s = port, keep_alive_s
        self._metrics = metrics
        self._link: Link | None = None
        self._leaving = False
        self._gone = asyncio.Event()  # the connection, or never there
        self._gone.set()
        self.devices = [f"device-{i}" for i in range(1, devices + 1)]
        first = [
            Metric(name, datatype=KINDS[i % 5], value=value) for i, (name, value) in enumerate(self._at(0).items())
        ]
        for device in self.devices:
            self.machine.add_device(device, first, 0)

    def _at(self, count: int) -> Mapping[str, Value]:
        return values(count, self._metrics)

    @property
    def born(self) -> bool:
        return self._link is not None and self.machine.phase is Phase.BORN

    # What it does by itself

    async def run(self) -> None:
        """Connect, and connect again, until it has left."""
        loop = asyncio.get_running_loop()
        while not self._leaving:
            wanted = self.machine.connect(self.now)
            will = wanted.will
            with contextlib.suppress(OSError):
                _, link = await loop.create_connection(lambda: Link(self), "127.0.0.1", self._port)
                self._gone.clear()
                self._link = link
                self.sent.sessions.append(Session(digest(will.topic, will.payload), self.gateway_run))
                link.transport.write(
                    mqtt.connect(
                        self.machine.id.node, keepalive=self._keep_alive_s,
                        will=mqtt.Will(will.topic, will.payload, will.qos, will.retain),
                    )
                )  # fmt: skip
                await link.accepted.wait()
                if not link.over.is_set():
                    self._do(self.machine.connected(self.now))
                await self._stay()
            self.machine.disconnected(self.now)
            await asyncio.sleep(RETRY_S)

    async def _stay(self) -> None:
        """Until the connection is gone; never silent for long."""
        while True:
            try:
                await asyncio.wait_for(self._gone.wait(), self._keep_alive_s / 3 if self._keep_alive_s else None)
                return
            except TimeoutError:
                self._write(mqtt.frame(0xC0, b""))

    def lost(self, link: Link) -> None:
        """The connection is gone; with a dead link the node does not know."""
        if link is self._link and not self.dead:
            self._link = None
            self.machine.disconnected(self.now)
            self._gone.set()

    def notice(self) -> None:
        """It gives its dead link up."""
        self.dead = False
        link, self._link = self._link, None
        if link is not None:
            link.transport.abort()
        self.machine.disconnected(self.now)
        self._gone.set()

    def command(self, link: Link, topic: str, payload: bytes) -> None:
        if link is not self._link or self.dead:
            return
        self.sent.asked.setdefault(self.gateway_run, []).append(time.monotonic())
        self._do(self.machine.message(topic, payload, self.now))

    # What the drill has it do

    def step(self, count: int, now: int) -> None:
        """Every device changes; a message for each where there is a connection, and a bit of what was kept."""
        self.now = now
        self._do(self.machine.tick(now), HISTORICAL)
        for device in self.devices:
            self._do(self.machine.write(device, self._at(count), now))

    async def room(self) -> None:
        """Until the connection takes more, or is gone."""
        if self._link is not None and not self.dead:
            await self._link.room.wait()

    async def leave(self) -> None:
        """Say goodbye, and see the gateway close the connection."""
        self._leaving = True
        link = self._link
        assert link is not None and self.born, f"{self.sent.name} is not there to say goodbye"
        for device in self.devices:
            self._do(self.machine.device_lost(device, self.now))
        self._do(self.machine.leave(self.now))
        await asyncio.wait_for(link.over.wait(), ANSWER_S)

    def _do(self, actions: Iterable[Action], flags: int = 0) -> None:
        for action in actions:
            if isinstance(action, Publish):
                self._publish(action, flags)
            elif isinstance(action, Subscribe):
                self._write(mqtt.subscribe(action.filters, 1))
            elif isinstance(action, Disconnect):
                self.sent.sessions[-1].goodbye = True
                self._write(mqtt.disconnect())
            else:
                self.sent.faults.append(f"{self.sent.name}: {action}")

    def _publish(self, message: Publish, flags: int) -> None:
        skipped = self.skip > 0 and "DATA/" in message.topic
        self.skip -= skipped
        flags |= (SKIPPED if skipped else 0) | (NBIRTH if "/NBIRTH/" in message.topic else 0)
        self.sent.sessions[-1].add(digest(message.topic, message.payload), utc_ms(), flags)
        if not skipped:
            self._write(mqtt.publish(message.topic, message.payload, message.qos, message.retain, pid=1))

    def _write(self, data: bytes) -> None:
        if self._link is not None and not self.dead and not self._link.over.is_set():
            self._link.transport.write(data)
