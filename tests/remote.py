"""A broker of the tests at the far end of an uplink: it answers as it is told to, and forwards or does not."""

import asyncio
import ssl
from typing import Self, final

from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import encode, encode_ack, encode_publish
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from gateway.net.websocket import ServerWebSocket


class Told(asyncio.Protocol):
    """One connection to it."""

    def __init__(self, remote: "FakeRemote") -> None:
        self.remote = remote
        self.decoder = Decoder(0)
        self.transport: asyncio.Transport | None = None
        self.filters: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.remote.links.append(self)
        self.remote.dials += 1

    def data_received(self, data: bytes) -> None:
        self.decoder.feed(data)
        try:
            while (packet := self.decoder.next()) is not None:
                self.remote.packets.append(packet)
                self.answer(packet)
        except PacketError:
            assert self.transport is not None
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self.remote.links:
            self.remote.links.remove(self)

    def send(self, packet: Packet) -> None:
        self.write(encode(packet, self.decoder.version))

    def write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def answer(self, packet: Packet) -> None:
        remote = self.remote
        if isinstance(packet, Connect):
            remote.connects.append(packet)
            if remote.silent:
                return
            self.send(Connack(remote.present, remote.connack))
            if remote.connack and self.transport is not None:
                self.transport.close()
        elif isinstance(packet, Subscribe):
            self.filters += [one.filter for one in packet.filters if one.filter not in remote.denies]
            codes = [0x87 if one.filter in remote.denies else one.qos for one in packet.filters]
            self.send(Suback(packet.packet_id, codes))
        elif isinstance(packet, Unsubscribe):
            if remote.forgets:
                self.send(Unsuback(packet.packet_id, [0] * len(packet.filters)))
        elif isinstance(packet, Publish):
            remote.publishes.append(packet)
            if packet.qos:
                self.write(encode_ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id, 0, self.decoder.version))
            if remote.forwards:
                remote.forward(packet)
        elif isinstance(packet, Ack) and packet.type == PUBREL:
            self.write(encode_ack(PUBCOMP, packet.packet_id, 0, self.decoder.version))
        elif isinstance(packet, Pingreq):
            self.send(Pingresp())
        elif isinstance(packet, Disconnect) and self.transport is not None:
            self.transport.close()


@final
class FakeRemote:
    """``async with``: it listens on ``port``. What it does is set by its attributes, at any time."""

    def __init__(self, tls: ssl.SSLContext | None = None, port: int = 0, websocket: bool = False) -> None:
        self.port = port
        self.forwards = True
        self.silent = False  # no CONNACK
        self.connack = 0
        self.present = False  # it says that it knows the session
        self.forgets = True  # it answers an UNSUBSCRIBE
        self.denies: set[str] = set()  # filters
        self.dials = 0
        self.links: list[Told] = []
        self.connects: list[Connect] = []
        self.publishes: list[Publish] = []
        self.packets: list[Packet] = []
        self._tls, self._websocket = tls, websocket
        self._server: asyncio.Server | None = None

    def _accept(self) -> asyncio.Protocol:
        return ServerWebSocket(Told(self), (), lambda why: None) if self._websocket else Told(self)

    def forward(self, packet: Publish) -> None:
        """To whoever has subscribed to just that topic, at QoS 0."""
        for link in self.links:
            if packet.topic.decode() in link.filters:
                link.write(encode_publish(link.decoder.version, packet.topic, packet.payload, 0, False, False, 0, b""))

    def cut(self) -> None:
        """Every connection breaks."""
        for link in list(self.links):
            if link.transport is not None:
                link.transport.abort()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Nobody listens any more, and every connection breaks."""
        if self._server is not None:
            self._server.close()
            self.cut()
            self._server = None
        await asyncio.sleep(0)
