"""How the log, session states, retained and delayed messages and wills are packed; the store keeps these bytes unread.

A segment's ``targets`` say who must get how much (read at every start); its
``records`` hold the target sets again and the messages. All integers are
MQTT variable byte integers unless fixed-width, big endian.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from gateway.core.envelope import TAILS
from gateway.core.message import Message
from gateway.mqtt.encode import varint
from gateway.mqtt.packets import Will

if TYPE_CHECKING:
    from gateway.core.model import Target

RETAIN: Final = 4
DEADLINE: Final = 8
INGESTED: Final = 16
SINGLE: Final = 32

TARGET_RAP: Final = 4  # deliver with the retain flag of the message
TARGET_IDS: Final = 8  # subscription identifiers follow
TARGET_RUN: Final = 16  # how many sids follow this one with the same options


@final
class Corrupt(Exception):
    """A packed value that ends early or says something impossible."""


@final
class Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at: i64 = 0
        self.end: i64 = len(data)

    def u8(self) -> i64:
        if self.at >= self.end:
            raise Corrupt("ends early")
        value: i64 = self.data[self.at]
        self.at += 1
        return value

    def number(self) -> i64:
        value: i64 = 0
        shift: i64 = 0
        while True:
            byte = self.u8()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 56:
                raise Corrupt("number too long")

    def u16(self) -> i64:
        return (self.u8() << 8) | self.u8()

    def u64(self) -> i64:
        return int.from_bytes(self.take(8), "big")

    def take(self, n: i64) -> bytes:
        if n < 0 or self.at + n > self.end:
            raise Corrupt("ends early")
        piece = self.data[self.at : self.at + n]
        self.at += n
        return piece

    def field(self) -> bytes:
        return self.take(self.number())

    def more(self) -> bool:
        return self.at < self.end


def u64(value: i64) -> bytes:
    number: int = value
    return number.to_bytes(8, "big")


def number(value: i64) -> bytes:
    """Like varint, without its four-byte limit."""
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value >= 128:
        out.append((value & 127) | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(data: bytes) -> bytes:
    return varint(len(data)) + data


def pack_target(sid: int, qos: int, retain_as_published: bool, identifiers: list[int] | None, more: int = 0) -> bytes:
    """``more``: as many sids behind this one get it as well, without identifiers."""
    if more:
        return number(sid) + bytes((qos | (TARGET_RAP if retain_as_published else 0) | TARGET_RUN,)) + number(more)
    flags = qos | (TARGET_RAP if retain_as_published else 0) | (TARGET_IDS if identifiers else 0)
    head = number(sid) + bytes((flags,))
    if not identifiers:
        return head
    return head + varint(len(identifiers)) + b"".join([varint(i) for i in identifiers])


@final
class StoredTarget:
    """One entry of a target set: session or group ``sid`` gets it with these delivery options."""

    def __init__(self, sid: int, qos: int, retain_as_published: bool, identifiers: list[int] | None) -> None:
        self.sid = sid
        self.qos = qos
        self.retain_as_published = retain_as_published
        self.identifiers = identifiers


def unpack_targets(key: bytes) -> list[StoredTarget]:
    r = Reader(key)
    out: list[StoredTarget] = []
    while r.more():
        sid = r.number()
        flags = r.u8()
        if flags & TARGET_RUN:
            more = r.number()
            while more >= 0:
                out.append(StoredTarget(sid, flags & 3, flags & TARGET_RAP != 0, None))
                sid += 1
                more -= 1
            continue
        ids: list[int] | None = None
        if flags & TARGET_IDS:
            ids = []
            n = r.number()
            while n > 0:
                ids.append(r.number())
                n -= 1
        out.append(StoredTarget(sid, flags & 3, flags & TARGET_RAP != 0, ids))
    return out


def pack_message(m: Message) -> bytes:
    """``flags, [deadline], [received, tail], topic, props, payload``: a record, a retained message, part of a will."""
    flags: i64 = m.qos | (RETAIN if m.retain else 0) | (DEADLINE if m.deadline else 0) | (SINGLE if m.single else 0)
    if m.received:
        flags |= INGESTED
    head = bytes((flags,))
    if m.deadline:
        head += u64(m.deadline)
    if m.received:
        head += u64(m.received) + bytes((m.tail,))
    return b"".join(
        [head, varint(len(m.topic)), m.topic, varint(len(m.props)), m.props, varint(len(m.payload)), m.payload]
    )


def read_message(r: Reader) -> Message:
    flags = r.u8()
    deadline: i64 = 0
    if flags & DEADLINE:
        deadline = r.u64()
    received: i64 = 0
    tail: i64 = 0
    if flags & INGESTED:
        received = r.u64()
        tail = r.u8()
        if tail >= TAILS:
            raise Corrupt("unknown envelope")
    topic = r.field()
    props = r.field()
    payload = r.field()
    m = Message(topic, payload, flags & 3, flags & RETAIN != 0, props, deadline)
    m.received = received
    m.tail = tail
    m.single = flags & SINGLE != 0
    return m


def pack_will(w: Will, at: i64) -> bytes:
    """``at``: gateway ms when a pending will is due, 0 while its client is connected. Delay and expiry in seconds."""
    m = Message(w.topic, w.payload, w.qos, w.retain, w.props)
    return u64(at) + u64(w.delay) + u64(w.expiry + 1) + pack_message(m)


def unpack_will(data: bytes) -> tuple[Will, int]:
    r = Reader(data)
    at = r.u64()
    delay = r.u64()
    expiry = r.u64() - 1
    m = read_message(r)
    return Will(m.topic, m.payload, m.qos, m.retain, m.props, expiry, delay), at


def pack_delayed(at: i64, client_id: str, m: Message) -> bytes:
    """``at``: gateway ms when it is due; ``client_id``: of its publisher."""
    return u64(at) + field(client_id.encode()) + pack_message(m)


def unpack_delayed(data: bytes) -> tuple[int, str, Message]:
    """Raises Corrupt."""
    r = Reader(data)
    at = r.u64()
    client_id = text(r)
    return at, client_id, read_message(r)


@final
class TargetSet:
    """Messages of one commit that go to the same targets: written once, however many."""

    def __init__(self, index: int, key: bytes, targets: "list[Target]") -> None:
        self.index = varint(index)
        self.key = key
        self.targets = targets
        self.messages: int = 0
        self.bytes: int = 0


def pack_segment_targets(sets: list[TargetSet], first: i64, time: i64, expires: i64) -> bytes:
    """In gateway ms: ``time`` when the segment was closed, ``expires`` when all of it has expired (0 = never)."""
    out = [u64(first), u64(time), u64(expires), varint(len(sets))]
    for s in sets:
        out.append(number(s.messages))
        out.append(number(s.bytes))
        out.append(field(s.key))
    return b"".join(out)


def pack_segment_records(sets: list[TargetSet], first: i64, records: list[bytes]) -> bytes:
    """``records``: for each message what its position adds to the last one, the index of its set, the message."""
    return b"".join([u64(first), varint(len(sets)), *[field(s.key) for s in sets], *records])


@final
class StoredSet:
    def __init__(self, messages: int, bytes: int, targets: list[StoredTarget]) -> None:
        self.messages = messages
        self.bytes = bytes
        self.targets = targets


def unpack_segment_targets(data: bytes) -> tuple[int, int, int, list[StoredSet]]:
    """First position, time and expiry in gateway ms, and the sets. Raises Corrupt."""
    r = Reader(data)
    first = r.u64()
    time = r.u64()
    expires = r.u64()
    n = r.number()
    out: list[StoredSet] = []
    while n > 0:
        messages = r.number()
        size = r.number()
        out.append(StoredSet(messages, size, unpack_targets(r.field())))
        n -= 1
    return first, time, expires, out


@final
class Entry:
    """A message of a segment and the set of targets it was written for."""

    def __init__(self, message: Message, targets: list[StoredTarget]) -> None:
        self.message = message
        self.targets = targets


@final
class SessionState:
    """The part of a session that changes with every message, in one packed row.

    All log positions <= ``cursor`` are settled, and those in ``ahead``.
    ``sent``: QoS 2 (packet id, sid of the queue it came from, seq) before PUBREC;
    ``released``: packet ids after PUBREC; ``awaiting``: incoming QoS 2 ids.
    ``id_end``: packet ids are taken from a counter that after a crash goes on here.
    ``user``: the user name of the last CONNECT, "" = none.
    """

    def __init__(self) -> None:
        self.cursor: int = 0
        self.ahead: list[int] = []
        self.id_end: int = 0
        self.sent: list[tuple[int, int, int]] = []
        self.released: list[int] = []
        self.awaiting: list[int] = []
        self.user: str = ""
        self.history: int = -1  # position at which it subscribed and reaches back from, 0 = not yet, -1 = it does not
        self.filters: list[tuple[str, int, int]] = []  # of that SUBSCRIBE: filter, options, identifier


def pack_state(s: SessionState) -> bytes:
    out = [u64(s.cursor), u64(s.id_end), number(len(s.ahead))]
    last = s.cursor
    for seq in sorted(s.ahead):
        out.append(number(seq - last))
        last = seq
    out.append(number(len(s.sent)))
    for packet_id, sid, seq in s.sent:
        out.append(number(packet_id) + number(sid) + u64(seq))
    out.append(number(len(s.released)))
    out.extend([number(packet_id) for packet_id in s.released])
    out.append(number(len(s.awaiting)))
    out.extend([number(packet_id) for packet_id in s.awaiting])
    if s.user or s.history >= 0:
        out.append(field(s.user.encode()))
    if s.history >= 0:
        out.append(number(s.history) + number(len(s.filters)))
        for filter, options, identifier in s.filters:
            out.append(field(filter.encode()) + number(options) + number(identifier))
    return b"".join(out)


def unpack_state(data: bytes) -> SessionState:
    r = Reader(data)
    s = SessionState()
    s.cursor = r.u64()
    s.id_end = r.u64()
    last: i64 = s.cursor
    n = r.number()
    while n > 0:
        last += r.number()
        s.ahead.append(last)
        n -= 1
    n = r.number()
    while n > 0:
        packet_id = r.number()
        sid = r.number()
        s.sent.append((packet_id, sid, r.u64()))
        n -= 1
    n = r.number()
    while n > 0:
        s.released.append(r.number())
        n -= 1
    n = r.number()
    while n > 0:
        s.awaiting.append(r.number())
        n -= 1
    if r.more():
        s.user = text(r)
    if r.more():
        s.history = r.number()
        n = r.number()
        while n > 0:
            filter = text(r)
            options = r.number()
            s.filters.append((filter, options, r.number()))
            n -= 1
    return s


def text(r: Reader) -> str:
    try:
        return r.field().decode()
    except UnicodeDecodeError:
        raise Corrupt("not UTF-8") from None
