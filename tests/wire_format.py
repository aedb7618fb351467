"""MQTT bytes for the tests: an encoder and a parser of their own, so that a fault of the product's codec cannot hide.

The encoder builds whatever it is told to, sense or nonsense; the parser reads what a broker sends, strictly.
Properties are lists of (identifier, value); a user property's value is a pair of strings.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, final

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = 8, 9, 10, 11, 12, 13, 14, 15
NAMES = ["RESERVED", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP"]
NAMES += ["SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"]

PAYLOAD_FORMAT, MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA = 0x01, 0x02, 0x03, 0x08, 0x09
SUBSCRIPTION_ID, SESSION_EXPIRY, ASSIGNED_CLIENT_ID, SERVER_KEEP_ALIVE = 0x0B, 0x11, 0x12, 0x13
AUTH_METHOD, AUTH_DATA, REQUEST_PROBLEM, WILL_DELAY, REQUEST_RESPONSE = 0x15, 0x16, 0x17, 0x18, 0x19
RESPONSE_INFO, SERVER_REFERENCE, REASON_STRING, RECEIVE_MAXIMUM = 0x1A, 0x1C, 0x1F, 0x21
TOPIC_ALIAS_MAXIMUM, TOPIC_ALIAS, MAXIMUM_QOS, RETAIN_AVAILABLE, USER_PROPERTY = 0x22, 0x23, 0x24, 0x25, 0x26
MAXIMUM_PACKET_SIZE, WILDCARD_AVAILABLE, SUBSCRIPTION_ID_AVAILABLE, SHARED_AVAILABLE = 0x27, 0x28, 0x29, 0x2A

# identifier -> how its value is written: b(yte), w(ord), d(ouble word), v(ariable), s(tring), x (binary), p(air)
KINDS = {
    0x01: "b", 0x02: "d", 0x03: "s", 0x08: "s", 0x09: "x", 0x0B: "v", 0x11: "d", 0x12: "s", 0x13: "w",
    0x15: "s", 0x16: "x", 0x17: "b", 0x18: "d", 0x19: "b", 0x1A: "s", 0x1C: "s", 0x1F: "s", 0x21: "w",
    0x22: "w", 0x23: "w", 0x24: "b", 0x25: "b", 0x26: "p", 0x27: "d", 0x28: "b", 0x29: "b", 0x2A: "b",
}  # fmt: skip

Props = Iterable[tuple[int, Any]]


class WireError(AssertionError):
    """The broker sent bytes that are no MQTT, or other than what the test expects."""


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def text(value: str | bytes) -> bytes:
    data = value.encode("utf-8") if isinstance(value, str) else value
    return struct.pack("!H", len(data)) + data


def frame(first: int, body: bytes) -> bytes:
    """A packet of its first byte (type and flags) and the rest."""
    return bytes([first]) + varint(len(body)) + body


def properties(props: Props) -> bytes:
    """The property block with its length in front."""
    out = bytearray()
    for ident, value in props:
        out += varint(ident)
        kind = KINDS.get(ident, "x")
        if kind == "b":
            out += struct.pack("!B", value)
        elif kind == "w":
            out += struct.pack("!H", value)
        elif kind == "d":
            out += struct.pack("!I", value)
        elif kind == "v":
            out += varint(value)
        elif kind == "p":
            out += text(value[0]) + text(value[1])
        else:
            out += text(value)
    return varint(len(out)) + bytes(out)


@final
class Will:
    """What the broker publishes for a client that is gone."""

    def __init__(self, topic: str, payload: bytes = b"", qos: int = 0, retain: bool = False, props: Props = ()) -> None:
        self.topic, self.payload, self.qos, self.retain, self.props = topic, payload, qos, retain, list(props)


def connect(
    client_id: str, version: int = 4, clean: bool = True, keepalive: int = 60, will: Will | None = None,
    props: Props = (), username: str | None = None, password: str | bytes | None = None,
) -> bytes:  # fmt: skip
    """A CONNECT; version 3 is MQIsdp, 4 is 3.1.1, 5 is 5.0."""
    flags = 0x02 if clean else 0
    payload = text(client_id)
    if will is not None:
        flags |= 0x04 | will.qos << 3 | (0x20 if will.retain else 0)
        payload += (properties(will.props) if version == 5 else b"") + text(will.topic) + text(will.payload)
    if username is not None:
        flags |= 0x80
        payload += text(username)
    if password is not None:
        flags |= 0x40
        payload += text(password)
    name = "MQIsdp" if version == 3 else "MQTT"
    head = text(name) + bytes([version, flags]) + struct.pack("!H", keepalive)
    return frame(0x10, head + (properties(props) if version == 5 else b"") + payload)


def publish(
    topic: str | bytes, payload: bytes = b"", qos: int = 0, retain: bool = False, dup: bool = False, pid: int = 0,
    version: int = 4, props: Props = (),
) -> bytes:  # fmt: skip
    body = text(topic) + (struct.pack("!H", pid) if qos else b"")
    if version == 5:
        body += properties(props)
    return frame(0x30 | (8 if dup else 0) | qos << 1 | int(retain), body + payload)


def ack(kind: int, pid: int, version: int = 4, code: int | None = None, props: Props | None = None) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP; code and props only where given (v5)."""
    body = struct.pack("!H", pid)
    if version == 5 and (code is not None or props is not None):
        body += bytes([code or 0])
        if props is not None:
            body += properties(props)
    return frame(kind << 4 | (2 if kind == PUBREL else 0), body)


def subscribe(filters: Sequence[tuple[str, int]], pid: int, version: int = 4, props: Props = ()) -> bytes:
    """A SUBSCRIBE of (filter, options byte)."""
    body = struct.pack("!H", pid) + (properties(props) if version == 5 else b"")
    return frame(0x82, body + b"".join(text(name) + bytes([options]) for name, options in filters))


def unsubscribe(filters: Sequence[str], pid: int, version: int = 4, props: Props = ()) -> bytes:
    body = struct.pack("!H", pid) + (properties(props) if version == 5 else b"")
    return frame(0xA2, body + b"".join(text(name) for name in filters))


def disconnect(version: int = 4, code: int | None = None, props: Props | None = None) -> bytes:
    body = b""
    if version == 5 and (code is not None or props is not None):
        body = bytes([code or 0]) + (properties(props) if props is not None else b"")
    return frame(0xE0, body)


@final
class Packet:
    """One packet as the broker sent it: ``packet["topic"]``; ``packet.props`` is the list of its properties."""

    def __init__(self, kind: int, flags: int, fields: dict[str, Any], raw: bytes) -> None:
        self.type, self.flags, self.fields, self.raw = kind, flags, fields, raw

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def props(self) -> list[tuple[int, Any]]:
        found: list[tuple[int, Any]] = self.fields.get("props", [])
        return found

    def prop(self, ident: int) -> Any:
        """The value of the first property of that identifier, None where it is absent."""
        return next((value for key, value in self.props if key == ident), None)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"{NAMES[self.type]}({shown}) [{self.raw[:80].hex(' ')}{' ...' if len(self.raw) > 80 else ''}]"


@final
class Reader:
    """Takes values from the body of one packet; running over its end is a WireError."""

    def __init__(self, raw: bytes, start: int, end: int) -> None:
        self.raw, self.at, self.end = raw, start, end

    def left(self) -> int:
        return self.end - self.at

    def take(self, count: int) -> bytes:
        if self.left() < count:
            raise WireError(f"packet ends {count - self.left()} bytes early: {self.raw.hex(' ')}")
        self.at += count
        return self.raw[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def string(self) -> str:
        data = self.take(self.number(2))
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as bad:
            raise WireError(f"bad UTF-8 ({bad}) in {self.raw.hex(' ')}") from None

    def varint(self) -> int:
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise WireError(f"variable byte integer over 4 bytes in {self.raw.hex(' ')}")

    def properties(self) -> list[tuple[int, Any]]:
        inner = Reader(self.raw, self.at, self.at)
        size = self.varint()
        inner.at = self.at
        self.take(size)
        inner.end = self.at
        found: list[tuple[int, Any]] = []
        while inner.left():
            ident = inner.varint()
            kind = KINDS.get(ident)
            if kind is None:
                raise WireError(f"unknown property 0x{ident:02x} in {self.raw.hex(' ')}")
            if kind in "bwd":
                found.append((ident, inner.number({"b": 1, "w": 2, "d": 4}[kind])))
            elif kind == "v":
                found.append((ident, inner.varint()))
            elif kind == "p":
                found.append((ident, (inner.string(), inner.string())))
            else:
                found.append((ident, inner.string() if kind == "s" else inner.take(inner.number(2))))
        return found


def frame_size(data: bytes | bytearray) -> int:
    """Length of the whole first packet in ``data``, 0 when not enough is there to tell."""
    value = 0
    for index in range(1, min(len(data), 5)):
        value |= (data[index] & 0x7F) << 7 * (index - 1)
        if data[index] < 0x80:
            return 1 + index + value
    if len(data) >= 5:
        raise WireError(f"remaining length over 4 bytes: {bytes(data[:16]).hex(' ')}")
    return 0


def parse(raw: bytes, version: int) -> Packet:
    """One whole packet that a server may send; all its bytes must be used."""
    kind, flags = raw[0] >> 4, raw[0] & 15
    head = 1
    while raw[head] >= 0x80:
        head += 1
    body = Reader(raw, head + 1, len(raw))
    fields: dict[str, Any] = {}
    want_flags = 2 if kind == PUBREL else 0
    if kind != PUBLISH and flags != want_flags:
        raise WireError(f"{NAMES[kind]} with flags {flags}: {raw.hex(' ')}")
    if kind == PUBLISH:
        _parse_publish(body, flags, version, fields)
    elif kind == CONNACK:
        fields["present"], fields["code"] = body.number(1), body.number(1)
        if fields["present"] > 1:
            raise WireError(f"CONNACK with reserved flags set: {raw.hex(' ')}")
        if version == 5:
            fields["props"] = body.properties()
    elif kind in (PUBACK, PUBREC, PUBREL, PUBCOMP):
        fields["pid"] = body.number(2)
        _parse_code(body, version, fields)
    elif kind in (SUBACK, UNSUBACK):
        fields["pid"] = body.number(2)
        if version == 5:
            fields["props"] = body.properties()
        fields["codes"] = list(body.take(body.left()))
    elif kind in (DISCONNECT, AUTH):
        if version != 5:
            raise WireError(f"a 3.1.1 server sends no {NAMES[kind]}: {raw.hex(' ')}")
        _parse_code(body, version, fields)
    elif kind != PINGRESP:
        raise WireError(f"a server sends no {NAMES[kind]}: {raw.hex(' ')}")
    if body.left():
        raise WireError(f"{body.left()} bytes too many in {NAMES[kind]}: {raw.hex(' ')}")
    return Packet(kind, flags, fields, raw)


def _parse_publish(body: Reader, flags: int, version: int, fields: dict[str, Any]) -> None:
    qos = flags >> 1 & 3
    if qos == 3 or (qos == 0 and flags & 8):
        raise WireError(f"PUBLISH with flags {flags}: {body.raw.hex(' ')}")
    fields["topic"], fields["qos"] = body.string(), qos
    fields["retain"], fields["dup"] = bool(flags & 1), bool(flags & 8)
    fields["pid"] = body.number(2) if qos else 0
    if qos and not fields["pid"]:
        raise WireError(f"PUBLISH with packet id 0: {body.raw.hex(' ')}")
    if version == 5:
        fields["props"] = body.properties()
    fields["payload"] = body.take(body.left())


def _parse_code(body: Reader, version: int, fields: dict[str, Any]) -> None:
    if version == 5:
        fields["code"] = body.number(1) if body.left() else 0
        fields["props"] = body.properties() if body.left() else []
