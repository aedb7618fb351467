"""Whether an uplink would work: one address, one step after the other, as a client of its own."""

import asyncio
import secrets
import time
from typing import Final, TypeVar, cast, final

from gateway.core.uplink import Login
from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import encode, encode_publish
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import (
    V5,
    Ack,
    Connack,
    Connect,
    Disconnect,
    Filter,
    Packet,
    Properties,
    Publish,
    Suback,
    Subscribe,
)
from gateway.mqtt.reasons import reason_name
from gateway.settings.uplink import UplinkRow
from gateway.settings.uplink_kinds import Remote
from gateway.uplink.dial import DialError, Told, dial
from gateway.uplink.login import login_of, refusal

WAIT_S: Final = 10.0
_PACKET_ID: Final = 1
P = TypeVar("P", bound=Packet)


@final
class Talk(asyncio.Protocol):
    """Packets of a broker, one after the other."""

    def __init__(self, version: int) -> None:
        self.transport: asyncio.Transport | None = None
        self._decoder = Decoder(0, version)
        self._came: asyncio.Queue[Packet | DialError] = asyncio.Queue()
        self._kept: list[Packet] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._decoder.feed(data)
        try:
            while (packet := self._decoder.next()) is not None:
                self._came.put_nowait(packet)
        except PacketError as e:
            self._came.put_nowait(DialError("", f"what comes is no MQTT: {e.text}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._came.put_nowait(DialError("", f"the connection is closed{f': {exc}' if exc else ''}"))

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    async def answer(self, step: str, kind: type[P]) -> P:
        """The next packet of this kind; others stay for those who ask for them. Raises DialError."""
        for number, packet in enumerate(self._kept):
            if isinstance(packet, kind):
                del self._kept[number]
                return packet
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    came = await self._came.get()
                    if isinstance(came, kind):
                        return came
                    if isinstance(came, DialError):
                        raise DialError(step, came.why)
                    if isinstance(came, Disconnect):
                        raise DialError(step, f"the broker disconnects: {said(came.reason)}")
                    self._kept.append(came)
        except TimeoutError:
            raise DialError(step, f"no answer within {WAIT_S:g} s") from None


def said(code: int) -> str:
    return f"{reason_name(code)} (0x{code:02x})"


async def trial(row: UplinkRow, remote: Remote, client_id: str, told: Told) -> None:
    """Tell every step that worked; the one that did not is the DialError.

    The client id is another one than the uplink's, which may be connected; the topic is its heartbeat topic.
    """
    login = login_of(row, remote, client_id)
    held = await dial(row, remote, told)
    talk = Talk(row.version)
    held.take(talk)
    try:
        await _log_in(talk, login, told)
        topic = row.heartbeat_topic or f"forebay/heartbeat/{client_id}"
        await _there_and_back(talk, row.version, topic, told)
        talk.send(encode(Disconnect(), row.version))
    finally:
        held.close()


async def _log_in(talk: Talk, login: Login, told: Told) -> None:
    connect = Connect(login.version, login.client_id, True, login.keep_alive_s, login.username, login.password)
    if login.version == V5:
        connect.properties = Properties()
    talk.send(encode(connect, login.version))
    connack = await talk.answer("CONNECT", Connack)
    if connack.reason:
        text, lasting = refusal(connack.reason, login.version)
        raise DialError("CONNECT", text, lasting)
    found = [f"as {login.client_id}"]
    if connack.properties is not None:
        if connack.properties.receive_maximum >= 0:
            found.append(f"receive maximum {connack.properties.receive_maximum}")
        if connack.properties.maximum_packet_size >= 0:
            found.append(f"packets up to {connack.properties.maximum_packet_size} bytes")
    told("CONNECT", ", ".join(found))


async def _there_and_back(talk: Talk, version: int, topic: str, told: Told) -> None:
    talk.send(encode(Subscribe(_PACKET_ID, [Filter(topic, 0)]), version))
    suback = await talk.answer("SUBSCRIBE", Suback)
    if suback.reasons[0] >= 0x80:
        raise DialError("SUBSCRIBE", f"{topic}: {said(suback.reasons[0])}")
    told("SUBSCRIBE", topic)
    payload = secrets.token_hex(8).encode()
    left = time.monotonic()
    talk.send(encode_publish(version, topic.encode(), payload, 1, False, False, _PACKET_ID, b""))
    puback = await talk.answer("PUBLISH", Ack)
    if puback.reason >= 0x80:
        raise DialError("PUBLISH", f"{topic}: {said(puback.reason)}")
    told("PUBLISH", f"acknowledged in {(time.monotonic() - left) * 1000:.0f} ms")
    while (await talk.answer("heartbeat", Publish)).payload != payload:
        pass  # of the uplink itself
    told("heartbeat", f"there and back in {(time.monotonic() - left) * 1000:.0f} ms")
