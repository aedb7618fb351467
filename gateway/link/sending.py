"""What goes out: a window that waits, results, what a lost connection left open, a store that outlives us."""

import asyncio
import logging
from collections import deque
from typing import Final, Protocol, final

from gateway.link.keeping import Change, Keeping, Message, Outbox
from gateway.link.terms import LostError, Peer, RefusedError, named
from gateway.mqtt import packets, reasons
from gateway.mqtt.encode import encode_ack, encode_publish
from gateway.mqtt.packets import V5, Properties
from gateway.mqtt.properties import encode_properties

_BLAMES: Final = frozenset(
    {
        reasons.TOPIC_NAME_INVALID,
        reasons.PACKET_TOO_LARGE,
        reasons.PAYLOAD_FORMAT_INVALID,
        reasons.RETAIN_NOT_SUPPORTED,
        reasons.QOS_NOT_SUPPORTED,
    }
)
_DUP: Final = 0x08
_TOPIC_MAX: Final = 65535  # bytes
_NOT_IN_A_TOPIC: Final = frozenset("+#\0")

_log = logging.getLogger("forebay.client")


class Ids(Protocol):
    """Where packet ids come from, for SUBSCRIBE too."""

    def next_id(self) -> int: ...
    def free_id(self, id: int) -> None: ...
    def use(self, id: int) -> None: ...


class Wire(Protocol):
    """The connection that is written to."""

    def put(self, data: bytes) -> None: ...


@final
class Sending:
    """The sending half of a session, over as many connections as it lives.

    At most ``limit`` messages are under way, and never more than the peer's Receive Maximum on one connection
    [MQTT-3.3.4-7]. With an ``outbox`` a message is on disk before it is sent, and its PUBREL before that is.

    A peer that ends the connection because of a message does not say which. What was in flight then goes one at a time
    over the next ones; the message that is alone when it happens again gets the peer's code, as if refused.
    """

    def __init__(self, version: int, ids: Ids, limit: int, outbox: Outbox | None) -> None:
        self.sent = 0  # messages, QoS 0 too
        self.again = 0  # of QoS 1 and 2 that were sent once more
        self._version, self._ids, self._limit = version, ids, limit
        self._room = limit  # messages that may be under way now
        self._peer: Peer | None = None
        self._wire: Wire | None = None
        self._blocked = False  # the connection's buffer is full
        self._is_closed = False
        self._messages: dict[int, Message] = {}  # by packet id, in the order in which they were sent first
        self._unsent: deque[Message] = deque()  # of these, what this connection has not seen yet
        self._in_flight = 0  # of the peer's Receive Maximum, on this connection
        self._waiters: deque[asyncio.Event] = deque()
        self._suspects: set[int] = set()  # packet ids of messages one of which made the peer end a connection
        self._alone: Message | None = None  # the one that is in flight while there are any
        self._is_ready = True  # for suspects: nothing else is under way at the start of the connection
        self._keeping = None if outbox is None else Keeping(outbox, self._on_disk, self._unkept)
        if self._keeping is not None:
            for message in self._keeping.load():
                ids.use(message.packet_id)
                self._messages[message.packet_id] = message

    @property
    def under_way(self) -> int:
        """Messages of QoS 1 and 2 that are not acknowledged."""
        return len(self._messages)

    # For the user

    async def publish(
        self, topic: str, payload: bytes, qos: int, retain: bool, properties: Properties | None
    ) -> "asyncio.Future[int]":
        """Send when there is room, in the order of the calls; the future's result is the peer's reason code.

        QoS 0 waits for a connection and is done when it is written; QoS 1 and 2 are taken without one too. Raises
        RefusedError for what the peer said it does not take, ValueError for what cannot be encoded.
        """
        props = encode_properties(properties, packets.PUBLISH) if self._version == V5 else b""
        name = topic.encode()
        if not 0 < len(name) <= _TOPIC_MAX or not _NOT_IN_A_TOPIC.isdisjoint(topic):
            raise ValueError(f"{topic[:80]!r} is no topic that can be published to")
        if self._is_closed:
            raise LostError("the client is closed")
        await self._turn(qos)
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        packet_id = self._ids.next_id() if qos else 0
        try:
            frame = _publish(self._version, name, payload, qos, retain, packet_id, props)
            self._check(qos, retain, len(frame))
        except BaseException:
            if qos:
                self._ids.free_id(packet_id)
            self._wake()
            raise
        self.sent += 1
        if not qos:
            assert self._wire is not None
            self._wire.put(frame)
            done.set_result(0)
        else:
            message = Message(packet_id, frame)
            message.done = done
            self._start(message)
        self._wake()
        return done

    def _check(self, qos: int, retain: bool, size: int) -> None:
        code = self._objection(qos, retain, size)
        if code:
            raise RefusedError(f"the broker does not take this message ({named(code)})", code)

    def _objection(self, qos: int, retain: bool, size: int) -> int:
        """The reason code with which the peer would refuse it, 0 when it would not."""
        peer = self._peer
        if peer is None:
            return 0
        if qos > peer.maximum_qos:
            return reasons.QOS_NOT_SUPPORTED
        if retain and not peer.retain:
            return reasons.RETAIN_NOT_SUPPORTED
        if 0 < peer.maximum_packet_bytes < size:
            return reasons.PACKET_TOO_LARGE
        return 0

    async def _turn(self, qos: int) -> None:
        """Wait for room, behind those that wait already."""
        if not self._waiters and self._has_room(qos):
            return
        place = asyncio.Event()
        self._waiters.append(place)
        try:
            while self._waiters[0] is not place or not self._has_room(qos):
                place.clear()
                await place.wait()
                if self._is_closed:
                    raise LostError("the client is closed")
        except BaseException:
            self._waiters.remove(place)
            self._wake()
            raise
        self._waiters.popleft()

    def _has_room(self, qos: int) -> bool:
        if qos == 0:
            return self._wire is not None and not self._blocked and not self._suspects
        return len(self._messages) < self._room and not self._blocked

    def _wake(self) -> None:
        """The first that waits may try again; it wakes the next."""
        if self._waiters:
            self._waiters[0].set()

    def _start(self, message: Message) -> None:
        self._messages[message.packet_id] = message
        if self._keeping is None:
            self._go_on(message)
            self._pump()
        else:
            self._keeping.keep(message, Change(message.packet_id, message.frame))

    # For the connection

    def connected(self, wire: Wire, peer: Peer, session_present: bool) -> None:
        """Send what is open: again with DUP in a session that is there [MQTT-4.4.0-1], as new in one that is not."""
        self._wire, self._peer = wire, peer
        self._blocked = self._is_closed = False
        self._in_flight = 0
        self._alone, self._is_ready = None, not self._suspects
        self._room = min(self._limit, peer.receive_maximum)
        self._unsent.clear()
        for message in list(self._messages.values()):
            first = message.frame[0]
            code = self._objection(first >> 1 & 3, first & 1 != 0, len(message.frame))
            if code:
                self._finish(message, code)
                continue
            if not session_present:
                message.tried = False
                if message.released:
                    message.released = False
                    if self._keeping is not None:
                        self._keeping.keep(message, Change(message.packet_id, message.frame))
            if message.released:
                self._in_flight += 1  # some peers count it
            if message.pending == 0:
                self._go_on(message)
        self._pump()
        self._wake()

    def ready(self) -> None:
        """The subscriptions of this connection are made: what ends it from now on is a message."""
        self._is_ready = True
        self._pump()

    def disconnected(self) -> None:
        """The connection is over; what it left open waits for the next."""
        self._wire, self._alone = None, None
        self._blocked = False
        self._unsent.clear()
        self._wake()

    def on_disconnect(self, reason: int) -> None:
        """The peer ends the connection: because of a message?"""
        if reason not in _BLAMES:
            return
        alone = self._alone
        if alone is not None and self._messages.get(alone.packet_id) is alone and not alone.released:
            _log.warning("a message to %s is set aside: the broker ends the connection over it (%s)",
                         topic_of(alone.frame), named(reason))  # fmt: skip
            self._finish(alone, reason)
        elif alone is None:
            unsent = {message.packet_id for message in self._unsent}
            for message in self._messages.values():
                if message.tried and not message.released and message.packet_id not in unsent:
                    self._suspects.add(message.packet_id)

    def blocked(self, is_blocked: bool) -> None:
        """The connection's buffer is full, or has room again."""
        self._blocked = is_blocked
        if not is_blocked:
            self._pump()
            self._wake()

    def _pump(self) -> None:
        wire, peer = self._wire, self._peer
        if wire is None or peer is None:
            return
        while self._unsent and self._in_flight < peer.receive_maximum:
            if self._suspects:
                if self._in_flight or not self._is_ready:
                    return
                self._alone = self._unsent[0]
            self._in_flight += 1
            message = self._unsent.popleft()
            if message.tried:
                self.again += 1
                wire.put(bytes((message.frame[0] | _DUP,)) + message.frame[1:])
            else:
                message.tried = True
                wire.put(message.frame)

    def on_puback(self, packet_id: int, code: int) -> None:
        """PUBACK, PUBCOMP: the peer has it; 0x80 and more: it did not take it."""
        message = self._messages.get(packet_id)
        if message is not None:
            self._in_flight = max(0, self._in_flight - 1)
            self._finish(message, code)
            self._pump()
            self._wake()

    def on_pubrec(self, packet_id: int, code: int) -> None:
        """The peer has it, and is told to forget the packet id; 0x80 and more ends it here [MQTT-4.3.3]."""
        message = self._messages.get(packet_id)
        if code >= 0x80:
            self.on_puback(packet_id, code)
        elif message is None or message.frame[0] >> 1 & 3 != 2:
            if self._wire is not None:
                code = reasons.PACKET_IDENTIFIER_NOT_FOUND
                self._wire.put(encode_ack(packets.PUBREL, packet_id, code, self._version))
        elif not message.released:
            message.released = True
            if self._keeping is None:
                self._go_on(message)
            else:
                self._keeping.keep(message, Change(packet_id, None, True))
        elif message.pending == 0:
            self._go_on(message)

    def on_pubcomp(self, packet_id: int, code: int) -> None:
        """The end of QoS 2. A peer that no longer knows the packet id has forgotten it because it had it."""
        self.on_puback(packet_id, 0 if code == reasons.PACKET_IDENTIFIER_NOT_FOUND else code)

    def _go_on(self, message: Message) -> None:
        """Its next packet, in this connection."""
        if self._wire is None:
            return
        if message.released:
            self._wire.put(encode_ack(packets.PUBREL, message.packet_id, 0, self._version))
        else:
            self._unsent.append(message)

    def _finish(self, message: Message, code: int) -> None:
        del self._messages[message.packet_id]
        self._suspects.discard(message.packet_id)
        if message is self._alone:
            self._alone = None
        self._ids.free_id(message.packet_id)
        if self._keeping is not None:
            self._keeping.forget(message.packet_id)
        message.finish(code)

    # The store

    def _on_disk(self, messages: list[Message]) -> None:
        """They may go on."""
        for message in messages:
            if self._messages.get(message.packet_id) is message:
                self._go_on(message)
        self._pump()

    def _unkept(self, messages: list[Message], why: str) -> None:
        """What could not be stored is not sent; a PUBREL that could not comes with the next connection."""
        for message in messages:
            if not message.released and self._messages.get(message.packet_id) is message:
                del self._messages[message.packet_id]
                self._ids.free_id(message.packet_id)
                message.fail(why)
        self._wake()

    async def close(self) -> None:
        """Nobody will send what is open: without a store it fails, with one it is for the next run."""
        self._is_closed = True
        for place in self._waiters:
            place.set()
        for message in self._messages.values():
            message.fail("the client was closed before the broker had the message")
        if self._keeping is not None:
            await self._keeping.close()
            return
        for packet_id in self._messages:
            self._ids.free_id(packet_id)
        self._messages.clear()


def topic_of(frame: bytes) -> str:
    """Of a PUBLISH."""
    at = 2
    while frame[at - 1] & 0x80:
        at += 1
    return frame[at + 2 : at + 2 + int.from_bytes(frame[at : at + 2])].decode(errors="replace")


def _publish(version: int, topic: bytes, payload: bytes, qos: int, retain: bool, packet_id: int, props: bytes) -> bytes:
    """The frame; ``props`` are encoded with their length."""
    if not props or props == b"\0":
        return encode_publish(version, topic, payload, qos, retain, False, packet_id, b"")
    skip = 1
    while props[skip - 1] & 0x80:
        skip += 1
    return encode_publish(version, topic, payload, qos, retain, False, packet_id, props[skip:])
