"""Received bytes to packets: framing, limits, PUBLISH; the other bodies are in ``bodies``."""

from typing import Final, final

from mypy_extensions import i64

from gateway.mqtt import bodies, packets
from gateway.mqtt.errors import MalformedPacket, PacketError, ProtocolError
from gateway.mqtt.fields import Reader
from gateway.mqtt.fields import check_topic_name as check_topic_name
from gateway.mqtt.packets import V5, V31, Packet, Publish
from gateway.mqtt.properties import scan_message
from gateway.mqtt.reasons import PACKET_TOO_LARGE

# what only a server sends: a bit for each packet type
_FROM_SERVER: Final = 1 << packets.CONNACK | 1 << packets.SUBACK | 1 << packets.UNSUBACK | 1 << packets.PINGRESP
# the types whose fixed header flags are 0010 [MQTT-2.1.3-1]
_FLAGS_2: Final = 1 << packets.PUBREL | 1 << packets.SUBSCRIBE | 1 << packets.UNSUBSCRIBE


@final
class Decoder:
    """The packets in a stream of bytes that arrives in any chunks.

    ``max_packet_bytes`` counts the whole packet with its fixed header, 0 = no
    limit. ``version`` 0 is a server's side: the first packet must be CONNECT
    [MQTT-3.1.0-1], which sets ``version``, and what only servers send is a
    protocol error. A client gives the version that it sent. After an error
    the decoder is dead: it holds nothing, takes nothing and yields nothing.

    With ``passes_over`` a PUBLISH above the limit is no error: it comes without
    its payload (``Publish.cut``), which is read and forgotten. For a peer that
    cannot be told of the limit, and would send it again and again.
    """

    def __init__(self, max_packet_bytes: int, version: int = 0) -> None:
        self.version: int = version  # still 0 when a CONNECT failed before its protocol level was known
        self._server: bool = version == 0
        self._max: i64 = max_packet_bytes
        self._dead: bool = False
        self._data: bytes = b""
        self._pos: i64 = 0
        self._size: i64 = 0  # of _data
        self._later = bytearray()  # what came after _data
        self.passes_over: bool = False
        self._skip: i64 = 0  # bytes to come of a payload that is passed over
        self._need: i64 = 0  # bytes that the packet at _pos takes in all, 0 = not known

    @property
    def buffered(self) -> int:
        """Bytes received and not yet decoded."""
        return self._size - self._pos + len(self._later)

    def feed(self, data: bytes) -> None:
        """Take received bytes."""
        if self._dead:
            return
        if self._skip > 0:
            skip = min(self._skip, len(data))
            self._skip -= skip
            data = data[skip:]
        if self._pos == self._size and not self._later:
            self._data = data
            self._pos = 0
            self._size = len(data)
        else:
            self._later += data

    def next(self) -> Packet | None:
        """The next packet, None when it is not complete yet; raises PacketError."""
        if self._dead:
            return None
        try:
            packet = self._next()
            if packet is None and self._later and self.buffered >= self._need:
                self._join()
                packet = self._next()
        except PacketError:
            self._dead = True
            self._release()
            self._later = bytearray()
            raise
        return packet

    def _join(self) -> None:
        self._data = self._data[self._pos :] + bytes(self._later)
        self._later = bytearray()
        self._pos = 0
        self._size = len(self._data)

    def _release(self) -> None:
        self._data = b""
        self._pos = 0
        self._size = 0

    def _next(self) -> Packet | None:
        data = self._data
        start = self._pos
        size = self._size
        if start == size:
            if size:
                self._release()
            return None
        first: i64 = data[start]
        if first >> 4 != packets.PUBLISH or self.version == 0:
            self._check_first(first)
        at = start + 1
        left: i64 = 0
        shift: i64 = 0
        byte: i64 = 0x80
        while at < size:
            byte = data[at]
            at += 1
            left |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 21:
                raise MalformedPacket("remaining length has more than four bytes")
        if byte >= 0x80:
            self._wait(0)
            return None
        if byte == 0 and shift > 0 and self.version == V5:
            raise MalformedPacket("remaining length is not in its shortest form")  # [MQTT-1.5.5-1]
        end = at + left
        if end - start > self._max > 0:
            if self.passes_over and first >> 4 == packets.PUBLISH:
                return self._pass_over(first, start, at, end)
            raise PacketError(PACKET_TOO_LARGE, f"packet of {end - start} bytes, the limit is {self._max}")
        if end > size:
            self._wait(end - start)
            return None
        self._pos = end
        self._need = 0
        if first >> 4 == packets.PUBLISH:
            return self._publish(first, start, at, end)
        return self._body(first, Reader(data, at, end))

    def _wait(self, need: i64) -> None:
        """Keep the start of a packet, and nothing of what came before it."""
        self._need = need
        if self._pos > 0 and not self._later:
            self._data = self._data[self._pos :]
            self._size -= self._pos
            self._pos = 0

    def _check_first(self, first: i64) -> None:
        """Refuse what cannot be right whatever follows, before waiting for it."""
        packet_type = first >> 4
        if self.version == 0:
            if packet_type != packets.CONNECT:
                raise ProtocolError("first packet is not CONNECT")  # [MQTT-3.1.0-1]
        elif self._server:
            if packet_type == packets.CONNECT:
                raise ProtocolError("second CONNECT")  # [MQTT-3.1.0-2]
            if _FROM_SERVER >> packet_type & 1:
                raise ProtocolError(f"packet type {packet_type} is for servers to send")
        if packet_type == 0 or (packet_type == packets.AUTH and self.version != V5):
            raise MalformedPacket(f"packet type {packet_type} is reserved")
        flags = first & 0x0F
        expected: i64 = 2 if _FLAGS_2 >> packet_type & 1 else 0
        if self.version == V31 and expected == 2:
            flags &= 0x07  # 3.1 sends these again with DUP
        if flags != expected:
            raise MalformedPacket(f"fixed header flags {flags} of packet type {packet_type}")  # [MQTT-2.1.3-1]

    def _pass_over(self, first: i64, start: i64, at: i64, end: i64) -> Publish | None:
        """A PUBLISH of 3.1.1 without its payload, once topic and packet id are here."""
        data = self._data
        size = self._size
        head = at + 2
        if head <= size:
            high: i64 = data[at]
            low: i64 = data[at + 1]
            head += (high << 8 | low) + (2 if first >> 1 & 3 else 0)
        if head > size:
            self._wait(head - start)
            return None
        rest = end - size
        if rest <= 0:
            self._pos = end
        else:
            self._pos = size
            known = min(rest, len(self._later))
            del self._later[:known]
            self._skip = rest - known
        self._need = 0
        p = self._publish(first, start, at, head)
        p.body = end - start
        return p

    def _publish(self, first: i64, start: i64, at: i64, end: i64) -> Publish:
        data = self._data
        qos = first >> 1 & 3
        if qos == 3:
            raise MalformedPacket("both QoS bits are set")  # [MQTT-3.3.1-4]
        if qos == 0 and first & 8 != 0:
            raise MalformedPacket("DUP at QoS 0")  # [MQTT-3.3.1-2]
        topic_at = at + 2
        if topic_at > end:
            raise MalformedPacket("PUBLISH ends inside its topic")
        high: i64 = data[at]
        low: i64 = data[at + 1]
        at = topic_at + (high << 8 | low)
        id_at = at
        packet_id: i64 = 0
        if qos > 0:
            at += 2
        if at > end:
            raise MalformedPacket("PUBLISH ends inside its topic or packet identifier")
        topic = data[topic_at:id_at]
        if qos > 0:
            high = data[id_at]
            low = data[id_at + 1]
            packet_id = high << 8 | low
            if packet_id == 0:
                raise MalformedPacket("packet identifier is 0")  # [MQTT-2.2.1-3]
        if self.version == V5:
            if at < end and data[at] == 0:
                at += 1
            else:
                return self._publish_with_properties(first, start, topic, id_at, packet_id, at, end)
        if id_at == topic_at:
            raise ProtocolError("PUBLISH without a topic")
        return Publish(
            data[start:end], topic, at - start, id_at - start, packet_id, qos, first & 1 != 0, first & 8 != 0
        )

    def _publish_with_properties(
        self, first: i64, start: i64, topic: bytes, id_at: i64, packet_id: i64, at: i64, end: i64
    ) -> Publish:
        data = self._data
        reader = Reader(data, at, end)
        body = reader.varint() + reader.pos
        if body > end:
            raise MalformedPacket("PUBLISH ends inside its properties")
        props, expiry, alias, identifiers = scan_message(data, reader.pos, body, packets.PUBLISH)
        if alias == 0 and not topic:
            raise ProtocolError("PUBLISH with neither a topic nor an alias")
        if self._server and identifiers is not None:
            raise ProtocolError("subscription identifier from a client")  # [MQTT-3.3.4-6]
        return Publish(
            data[start:end],
            topic,
            body - start,
            id_at - start,
            packet_id,
            first >> 1 & 3,
            first & 1 != 0,
            first & 8 != 0,
            props,
            expiry,
            alias,
            identifiers,
        )

    def _body(self, first: i64, reader: Reader) -> Packet:
        packet_type: int = first >> 4
        version = self.version
        if packets.PUBACK <= packet_type <= packets.PUBCOMP:
            return bodies.read_ack(reader, packet_type, version)
        if packet_type == packets.PINGREQ:
            reader.finish()
            return packets.Pingreq()
        if packet_type == packets.PINGRESP:
            reader.finish()
            return packets.Pingresp()
        if packet_type == packets.SUBSCRIBE:
            return bodies.read_subscribe(reader, version)
        if packet_type == packets.UNSUBSCRIBE:
            return bodies.read_unsubscribe(reader, version)
        if packet_type == packets.CONNECT:
            return self._connect(reader)
        if packet_type == packets.DISCONNECT:
            return bodies.read_disconnect(reader, version)
        if packet_type == packets.AUTH:
            return bodies.read_auth(reader)
        if packet_type == packets.CONNACK:
            return bodies.read_connack(reader, version)
        if packet_type == packets.SUBACK:
            return bodies.read_suback(reader, version)
        return bodies.read_unsuback(reader, version)

    def _connect(self, reader: Reader) -> packets.Connect:
        version = bodies.read_version(reader)
        self.version = version
        return bodies.read_connect(reader, version)
