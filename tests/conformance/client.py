"""One MQTT client as the tests use it, over whatever carries bytes: the broker in memory or a socket.

Nothing is done behind the test's back: only ``put`` and ``take`` finish a handshake, and they say so.
"""

import contextlib
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol, final

from tests import wire_format as mqtt
from tests.wire_format import WireError

WAIT_S = 30.0
QUIET_S = 0.06  # how long nothing must come to count as nothing
GAP_S = 1.0  # how long after the last packet no more is waited for

KINDS = {name: number for number, name in enumerate(mqtt.NAMES)}
PROPERTIES = {
    "payload_format_indicator": mqtt.PAYLOAD_FORMAT,
    "message_expiry_interval": mqtt.MESSAGE_EXPIRY,
    "content_type": mqtt.CONTENT_TYPE,
    "response_topic": mqtt.RESPONSE_TOPIC,
    "correlation_data": mqtt.CORRELATION_DATA,
    "subscription_identifier": mqtt.SUBSCRIPTION_ID,
    "session_expiry_interval": mqtt.SESSION_EXPIRY,
    "assigned_client_identifier": mqtt.ASSIGNED_CLIENT_ID,
    "server_keep_alive": mqtt.SERVER_KEEP_ALIVE,
    "authentication_method": mqtt.AUTH_METHOD,
    "authentication_data": mqtt.AUTH_DATA,
    "request_problem_information": mqtt.REQUEST_PROBLEM,
    "will_delay_interval": mqtt.WILL_DELAY,
    "request_response_information": mqtt.REQUEST_RESPONSE,
    "response_information": mqtt.RESPONSE_INFO,
    "server_reference": mqtt.SERVER_REFERENCE,
    "reason_string": mqtt.REASON_STRING,
    "receive_maximum": mqtt.RECEIVE_MAXIMUM,
    "topic_alias_maximum": mqtt.TOPIC_ALIAS_MAXIMUM,
    "topic_alias": mqtt.TOPIC_ALIAS,
    "maximum_qos": mqtt.MAXIMUM_QOS,
    "retain_available": mqtt.RETAIN_AVAILABLE,
    "user_property": mqtt.USER_PROPERTY,
    "maximum_packet_size": mqtt.MAXIMUM_PACKET_SIZE,
    "wildcard_subscription_available": mqtt.WILDCARD_AVAILABLE,
    "subscription_identifiers_available": mqtt.SUBSCRIPTION_ID_AVAILABLE,
    "shared_subscription_available": mqtt.SHARED_AVAILABLE,
}
_NAMES = {number: name for name, number in PROPERTIES.items()}
_REPEATED = ("user_property", "subscription_identifier")


def properties(values: dict[str, Any]) -> list[tuple[int, Any]]:
    """``name=value`` as the encoder wants it; None is left out, a list is repeated."""
    made: list[tuple[int, Any]] = []
    for name, value in values.items():
        if value is not None:
            items = value if isinstance(value, list) else [value]
            made += [(PROPERTIES[name], item) for item in items]
    return made


class Link(Protocol):
    """A connection of bytes."""

    def send(self, data: bytes) -> None: ...

    def receive(self, wait_s: float) -> bytes | None:
        """What has come; b"" when the broker has closed, None when nothing came within ``wait_s``."""

    def stall(self) -> None:
        """What comes is no longer read."""

    def end(self) -> None:
        """No more will be sent."""

    def close(self) -> None: ...


@final
class Got:
    """A packet that the broker sent; ``props`` by name, user properties and subscription identifiers as lists."""

    def __init__(self, packet: mqtt.Packet) -> None:
        fields = packet.fields
        self.type = mqtt.NAMES[packet.type]
        self.raw = packet.raw
        self.topic: str = fields.get("topic", "")
        self.payload: bytes = fields.get("payload", b"")
        self.qos: int = fields.get("qos", 0)
        self.retain: bool = fields.get("retain", False)
        self.dup: bool = fields.get("dup", False)
        self.pid: int = fields.get("pid", 0)
        self.reason: int = fields.get("code", 0)
        self.reasons: list[int] = fields.get("codes", [])
        self.session_present = bool(fields.get("present", 0))
        self.props: dict[str, Any] = {}
        for number, value in packet.props:
            name = _NAMES[number]
            if name in _REPEATED:
                self.props.setdefault(name, []).append(value)
            elif name in self.props:
                raise WireError(f"{name} twice in {packet!r}")
            else:
                self.props[name] = value
        self._shown = repr(packet)

    def __repr__(self) -> str:
        return self._shown


@final
class Builder:
    """Packets of one protocol version as bytes."""

    def __init__(self, version: int) -> None:
        self.version = version

    def connect(
        self, client_id: str, *, clean: bool = True, keep_alive: int = 0, expiry: int | None = None,
        will: tuple[Any, ...] | None = None, username: str | None = None, password: bytes | None = None, **props: Any,
    ) -> bytes:  # fmt: skip
        """``will`` is (topic, payload, qos, retain[, properties by name])."""
        made = None
        if will is not None:
            topic, payload, qos, retain = will[:4]
            made = mqtt.Will(topic, payload, qos, retain, properties(will[4] if len(will) > 4 else {}))
        props["session_expiry_interval"] = expiry
        return mqtt.connect(client_id, self.version, clean, keep_alive, made, properties(props), username, password)

    def publish(
        self, topic: str, payload: bytes = b"", qos: int = 0, *, retain: bool = False, dup: bool = False, pid: int = 1,
        **props: Any,
    ) -> bytes:  # fmt: skip
        return mqtt.publish(topic, payload, qos, retain, dup, pid, self.version, properties(props))

    def ack(self, kind: str, pid: int, reason: int | None = None) -> bytes:
        return mqtt.ack(KINDS[kind], pid, self.version, reason)


@final
class Client:
    """See the module. ``wire`` makes bytes of this client's version."""

    def __init__(self, link: Link, version: int) -> None:
        self.link, self.version = link, version
        self.wire = Builder(version)
        self.client_id = ""
        self.connack: Got = None  # type: ignore[assignment]  # set by the one who connects
        self.next_pid = 1
        self.data = bytearray()
        self.waiting: deque[Got] = deque()
        self.closed = False
        self.buffer = bytearray()
        self.history: deque[str] = deque(maxlen=16)

    # Bytes and packets

    def send(self, data: bytes) -> None:
        self.history.append(f"> {data[:64].hex(' ')}{' ...' if len(data) > 64 else ''}")
        self.link.send(data)

    def failure(self, why: str) -> WireError:
        return WireError(why + "".join(f"\n  {line}" for line in self.history))

    def _fresh(self, wait_s: float) -> Got | None:
        """The next packet from the connection; None on silence or close (``closed`` tells)."""
        deadline = time.monotonic() + wait_s
        while True:
            size = mqtt.frame_size(self.data)
            if size and len(self.data) >= size:
                raw = bytes(self.data[:size])
                del self.data[:size]
                got = Got(mqtt.parse(raw, self.version))
                self.history.append(f"< {got!r}")
                return got
            if self.closed:
                return None
            more = self.link.receive(max(deadline - time.monotonic(), 0.001))
            if more is None:
                return None
            if not more:
                self.closed = True
                self.history.append("< closed")
            self.data += more

    def _next(self, wait_s: float) -> Got | None:
        return self.waiting.popleft() if self.waiting else self._fresh(wait_s)

    def recv(self) -> Got:
        """The next packet; silence and a close fail."""
        got = self._next(WAIT_S)
        if got is None:
            raise self.failure("the broker closed the connection" if self.closed else "nothing came")
        return got

    def _check(self, got: Got, kind: str, fields: dict[str, Any]) -> Got:
        wrong = [f"{name}={want!r}" for name, want in fields.items() if getattr(got, name) != want]
        if got.type != kind or wrong:
            raise self.failure(f"expected {kind} {', '.join(wrong)}\n  but got {got!r}")
        return got

    def expect(self, kind: str, **fields: Any) -> Got:
        """The next packet must be of this kind and have these fields."""
        got = self._next(WAIT_S)
        if got is None:
            raise self.failure(f"expected {kind} {fields}, but {'it was closed' if self.closed else 'nothing came'}")
        return self._check(got, kind, fields)

    def wait_for(self, kind: str, **fields: Any) -> Got:
        """The first packet of this kind; others that come before stay for later."""
        for index, got in enumerate(self.waiting):
            if got.type == kind:
                del self.waiting[index]
                return self._check(got, kind, fields)
        deadline = time.monotonic() + WAIT_S
        while True:
            fresh = self._fresh(deadline - time.monotonic())
            if fresh is None:
                raise self.failure(f"no {kind} {fields} came{', it was closed' if self.closed else ''}")
            if fresh.type == kind:
                return self._check(fresh, kind, fields)
            self.waiting.append(fresh)

    def recv_many(self, kind: str, count: int) -> list[Got]:
        return [self.expect(kind) for _ in range(count)]

    def expect_nothing(self) -> None:
        """No packet and no close."""
        got = self._next(QUIET_S)
        if got is not None or self.closed or self.data:
            raise self.failure(f"expected silence, but {got or ('it was closed' if self.closed else 'a part came')}")

    def expect_closed(self, reason: int | tuple[int, ...] | None = None, *, silent: bool = False) -> None:
        """The broker closes; a 5.0 client is told ``reason`` in a DISCONNECT before, a ``silent`` one nothing."""
        got = self._next(WAIT_S)
        if got is not None:
            allowed = (reason,) if isinstance(reason, int) else reason
            if got.type != "DISCONNECT" or silent or (allowed is not None and got.reason not in allowed):
                shown = "nothing" if silent else f"DISCONNECT {[hex(r) for r in allowed] if allowed else ''}"
                raise self.failure(f"expected {shown} before the close, but got {got!r}")
        elif reason is not None:
            raise self.failure("expected a DISCONNECT, but there was none")
        if got is not None and (more := self._next(WAIT_S)) is not None:
            raise self.failure(f"a packet after the DISCONNECT: {more!r}")
        if not self.closed:
            raise self.failure("expected a close, it is still open")

    def expect_refused(self, *reasons: int) -> None:
        """The CONNECT is not accepted: a CONNACK of one of these reasons, or a close without one [MQTT-3.1.4-2]."""
        got = self._next(WAIT_S)
        if got is not None:
            self._check(got, "CONNACK", {"session_present": False})
            if got.reason not in reasons:
                raise self.failure(f"expected a CONNACK of {[hex(r) for r in reasons]}, but got {got!r}")
            got = self._next(WAIT_S)
        if got is not None or not self.closed:
            raise self.failure(f"expected a close, but {got or 'it is still open'}")

    def stall(self) -> None:
        """Stop to read: what the broker sends piles up on its side."""
        self.link.stall()

    def drain(self) -> list[Got]:
        """Every packet until none comes any more."""
        found = []
        while (got := self._next(GAP_S)) is not None:
            found.append(got)
            if len(found) > 10_000:
                raise self.failure("it never ends")
        return found

    # What a client says

    def send_connect(self, client_id: str, **options: Any) -> None:
        self.client_id = client_id
        self.send(self.wire.connect(client_id, **options))

    def pid(self) -> int:
        used = self.next_pid
        self.next_pid = used % 65_535 + 1
        return used

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, *, pid: int | None = None, **options: Any) -> int:
        """Send and wait for nothing; returns the packet id, 0 at QoS 0."""
        used = (self.pid() if pid is None else pid) if qos else 0
        self.send(self.wire.publish(topic, payload, qos, pid=used, **options if self.version == 5 else _plain(options)))
        return used

    def put(self, topic: str, payload: bytes = b"", qos: int = 1, *, pid: int | None = None, **options: Any) -> Got:
        """Publish and see the handshake to its end (QoS 0: until the broker has read it); the PUBACK or PUBREC."""
        used = self.publish(topic, payload, qos, pid=pid, **options)
        if qos == 0:
            return self.ping()
        if qos == 1:
            return self.wait_for("PUBACK", pid=used)
        answer = self.wait_for("PUBREC", pid=used)
        if answer.reason < 0x80:
            self.ack("PUBREL", used)
            self.wait_for("PUBCOMP", pid=used)
        return answer

    def buffer_publish(self, topic: str, payload: bytes, qos: int) -> None:
        self.buffer += self.wire.publish(topic, payload, qos, pid=self.pid() if qos else 0)

    def flush(self) -> None:
        self.send(bytes(self.buffer))
        self.buffer.clear()

    def ack(self, kind: str, pid: int, reason: int | None = None) -> None:
        self.send(self.wire.ack(kind, pid, reason))

    def ack_many(self, kind: str, pids: Iterable[int]) -> None:
        self.send(b"".join(self.wire.ack(kind, pid) for pid in pids))

    def take(self, **fields: Any) -> Got:
        """The next packet is a PUBLISH with these fields; it is acknowledged to the end of its handshake."""
        got = self.expect("PUBLISH", **fields)
        if got.qos == 1:
            self.ack("PUBACK", got.pid)
        elif got.qos == 2:
            self.ack("PUBREC", got.pid)
            self.wait_for("PUBREL", pid=got.pid)
            self.ack("PUBCOMP", got.pid)
        return got

    def take_all(self) -> list[Got]:
        """Every PUBLISH until none comes any more; they, and PUBRELs between them, are answered as they come."""
        found = []
        while (got := self._next(GAP_S)) is not None:
            if got.type == "PUBREL":
                self.ack("PUBCOMP", got.pid)
                continue
            self._check(got, "PUBLISH", {})
            if got.qos:
                self.ack("PUBACK" if got.qos == 1 else "PUBREC", got.pid)
            found.append(got)
            if len(found) > 10_000:
                raise self.failure("it never ends")
        return found

    def subscribe(
        self, *filters: str, qos: int = 0, no_local: bool = False, as_published: bool = False, handling: int = 0,
        identifier: int | None = None, **props: Any,
    ) -> list[int]:  # fmt: skip
        """Subscribe and wait for the SUBACK; its reason codes. What comes before it stays for later."""
        options = qos | (4 if no_local else 0) | (8 if as_published else 0) | handling << 4
        pid = self.pid()
        made = properties({"subscription_identifier": identifier, **props})
        self.send(mqtt.subscribe([(name, options) for name in filters], pid, self.version, made))
        return self.wait_for("SUBACK", pid=pid).reasons

    def unsubscribe(self, *filters: str) -> list[int]:
        pid = self.pid()
        self.send(mqtt.unsubscribe(filters, pid, self.version))
        return self.wait_for("UNSUBACK", pid=pid).reasons

    def ping(self) -> Got:
        """PINGREQ, PINGRESP: the connection lives, and what was sent before has been read."""
        self.send(b"\xc0\x00")
        return self.wait_for("PINGRESP")

    # Ending

    def _until_closed(self) -> None:
        while (got := self._fresh(WAIT_S)) is not None:
            self.waiting.append(got)
        if not self.closed:
            raise self.failure("the broker did not close")

    def disconnect(self, reason: int | None = None, *, expiry: int | None = None) -> None:
        """Say goodbye and wait until the broker has closed [MQTT-3.14.4]; what it sent meanwhile stays for later."""
        props = properties({"session_expiry_interval": expiry}) if expiry is not None else None
        with contextlib.suppress(ConnectionError):
            self.send(mqtt.disconnect(self.version, reason, props))
        self._until_closed()

    def drop(self) -> None:
        """End the connection without a DISCONNECT; returns once the broker has noticed."""
        self.link.end()
        self._until_closed()
        self.link.close()


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Without properties, which 3.1.1 does not have."""
    return {name: value for name, value in options.items() if name not in PROPERTIES}
