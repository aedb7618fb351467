"""A raw MQTT client for the tests: blocking socket, one packet at a time, nothing done behind the test's back."""

import contextlib
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Self, final

from tests import wire_format as mqtt
from tests.wire_format import NAMES, Packet, Props, Will, WireError

TIMEOUT_S = 30.0  # for what must come: a busy machine is no finding


@final
class Wire:
    """One connection. ``pid`` is the next packet id that a publish or subscribe without one of its own takes."""

    def __init__(self, sock: socket.socket, version: int = 4, timeout: float = TIMEOUT_S) -> None:
        self.sock, self.version, self.timeout = sock, version, timeout
        self.pid = 1
        self.data = bytearray()  # received, not yet taken apart
        self.waiting: deque[Packet] = deque()  # parsed, passed over by a wait for another packet
        self.connack: Packet | None = None
        self.history: list[str] = []  # for the failure messages

    # Starting and ending

    @classmethod
    def open(
        cls, port: int, version: int = 4, host: str = "127.0.0.1", timeout: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> Self:  # fmt: skip
        """A TCP (or TLS) connection on which nothing was sent yet."""
        sock = socket.create_connection((host, port), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(tls.wrap_socket(sock, server_hostname="localhost") if tls else sock, version, timeout)

    @classmethod
    def connect(
        cls, port: int, client_id: str = "", version: int = 4, clean: bool = True, keepalive: int = 60,
        will: Will | None = None, props: Props = (), username: str | None = None,
        password: str | bytes | None = None, host: str = "127.0.0.1", timeout: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None, code: int = 0, present: int | None = None,
    ) -> Self:  # fmt: skip
        """Connect and wait for a CONNACK of ``code`` (and session present flag, where given)."""
        wire = cls.open(port, version, host, timeout, tls)
        try:
            wire.send(mqtt.connect(client_id, version, clean, keepalive, will, props, username, password))
            want: dict[str, Any] = {"code": code}
            if present is not None:
                want["present"] = present
            wire.connack = wire.expect(mqtt.CONNACK, **want)
        except BaseException:
            wire.close()
            raise
        return wire

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket without a DISCONNECT."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    # Bytes and packets

    def send(self, data: bytes) -> None:
        self.history.append(f"> {data[:64].hex(' ')}{' ...' if len(data) > 64 else ''}")
        self.sock.settimeout(self.timeout)
        self.sock.sendall(data)

    def read_packet(self, timeout: float | None = None) -> Packet | None:
        """The next packet, None when the broker closed; silence for ``timeout`` seconds raises TimeoutError."""
        if self.waiting:
            return self.waiting.popleft()
        return self._read_fresh(self.timeout if timeout is None else timeout)

    def _read_fresh(self, timeout: float) -> Packet | None:
        deadline = time.monotonic() + timeout
        while True:
            size = mqtt.frame_size(self.data)
            if size and len(self.data) >= size:
                raw = bytes(self.data[:size])
                del self.data[:size]
                packet = mqtt.parse(raw, self.version)
                self.history.append(f"< {packet!r}")
                return packet
            # a deadline in the past still takes what is already there
            self.sock.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                more = self.sock.recv(262_144)
            except ConnectionError:
                more = b""
            if not more:
                self.history.append("< closed")
                return None
            self.data += more

    def recv_packet(self, timeout: float | None = None) -> Packet:
        """The next packet; silence and a closed connection fail the test."""
        try:
            packet = self.read_packet(timeout)
        except TimeoutError:
            raise self.failure(f"nothing came in {timeout or self.timeout} s") from None
        if packet is None:
            raise self.failure("the broker closed the connection")
        return packet

    def failure(self, why: str) -> WireError:
        """An error that shows the end of the conversation."""
        rest = f"\n  undecoded: {bytes(self.data[:80]).hex(' ')}" if self.data else ""
        return WireError(why + "".join(f"\n  {line}" for line in self.history[-12:]) + rest)

    # Expectations

    def check(self, packet: Packet, kind: int, fields: dict[str, Any]) -> Packet:
        wrong = [f"{key}={want!r}" for key, want in fields.items() if packet.fields.get(key) != want]
        if packet.type != kind or wrong:
            raise self.failure(f"expected {NAMES[kind]} {', '.join(wrong)}\n  but got {packet!r}")
        return packet

    def expect(self, kind: int, timeout: float | None = None, **fields: Any) -> Packet:
        """The next packet must be of this kind, with these fields."""
        try:
            packet = self.recv_packet(timeout)
        except WireError as error:
            raise WireError(f"expected {NAMES[kind]} {fields or ''}: {error}") from None
        return self.check(packet, kind, fields)

    def wait_for(self, kind: int, timeout: float | None = None, **fields: Any) -> Packet:
        """The first packet of this kind; others that come before it stay for later calls, in their order."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        for index, packet in enumerate(self.waiting):
            if packet.type == kind:
                del self.waiting[index]
                return self.check(packet, kind, fields)
        while True:
            try:
                fresh = self._read_fresh(deadline - time.monotonic())
            except TimeoutError:
                raise self.failure(f"no {NAMES[kind]} {fields or ''} came") from None
            if fresh is None:
                raise self.failure(f"closed before a {NAMES[kind]} {fields or ''} came")
            if fresh.type == kind:
                return self.check(fresh, kind, fields)
            self.waiting.append(fresh)

    def expect_nothing(self, seconds: float = 0.3) -> None:
        """No packet and no close within this time."""
        try:
            packet = self.read_packet(seconds)
        except TimeoutError:
            if self.data:
                raise self.failure("expected silence, but part of a packet came") from None
            return
        raise self.failure(f"expected silence, but {'the connection was closed' if packet is None else packet!r}")

    def expect_closed(self, timeout: float | None = None) -> None:
        """The broker closes, without a packet before it."""
        try:
            packet = self.read_packet(timeout)
        except TimeoutError:
            raise self.failure("expected the connection to be closed, it is still open") from None
        if packet is not None:
            raise self.failure(f"expected a close, but got {packet!r}")

    def quiet(self, seconds: float = 0.3) -> list[Packet]:
        """Every packet until none came for ``seconds`` (or the broker closed)."""
        return list(self.until_quiet(seconds))

    def until_quiet(self, seconds: float) -> Iterator[Packet]:
        while True:
            try:
                packet = self.read_packet(seconds)
            except TimeoutError:
                return
            if packet is None:
                return
            yield packet

    # What clients say

    def next_pid(self) -> int:
        pid = self.pid
        self.pid = pid % 65_535 + 1
        return pid

    def publish(
        self, topic: str, payload: bytes = b"", qos: int = 0, retain: bool = False, dup: bool = False,
        pid: int | None = None, props: Props = (),
    ) -> int:  # fmt: skip
        """Send a PUBLISH; returns its packet id (0 at QoS 0)."""
        used = (self.next_pid() if pid is None else pid) if qos else 0
        self.send(mqtt.publish(topic, payload, qos, retain, dup, used, self.version, props))
        return used

    def publish_done(
        self, topic: str, payload: bytes = b"", qos: int = 1, retain: bool = False, props: Props = ()
    ) -> Packet:
        """Publish and see the handshake to its end; returns the PUBACK or PUBREC. Deliveries meanwhile are kept."""
        pid = self.publish(topic, payload, qos, retain, props=props)
        if qos == 1:
            return self.wait_for(mqtt.PUBACK, pid=pid)
        answer = self.wait_for(mqtt.PUBREC, pid=pid)
        if answer.fields.get("code", 0) < 0x80:
            self.pubrel(pid)
            self.wait_for(mqtt.PUBCOMP, pid=pid)
        return answer

    def subscribe(
        self, *filters: str | tuple[str, int], qos: int = 0, props: Props = (), pid: int | None = None
    ) -> list[int]:
        """Subscribe and wait for the SUBACK; returns its codes. A filter is a name or (name, options byte)."""
        used = self.next_pid() if pid is None else pid
        wanted = [(item, qos) if isinstance(item, str) else item for item in filters]
        self.send(mqtt.subscribe(wanted, used, self.version, props))
        codes: list[int] = self.wait_for(mqtt.SUBACK, pid=used)["codes"]
        return codes

    def unsubscribe(self, *filters: str) -> list[int]:
        """Unsubscribe and wait for the UNSUBACK; returns its codes (none in 3.1.1)."""
        pid = self.next_pid()
        self.send(mqtt.unsubscribe(filters, pid, self.version))
        codes: list[int] = self.wait_for(mqtt.UNSUBACK, pid=pid)["codes"]
        return codes

    def ack(self, kind: int, pid: int, code: int | None = None, props: Props | None = None) -> None:
        self.send(mqtt.ack(kind, pid, self.version, code, props))

    def puback(self, pid: int, code: int | None = None) -> None:
        self.ack(mqtt.PUBACK, pid, code)

    def pubrec(self, pid: int, code: int | None = None) -> None:
        self.ack(mqtt.PUBREC, pid, code)

    def pubrel(self, pid: int, code: int | None = None) -> None:
        self.ack(mqtt.PUBREL, pid, code)

    def pubcomp(self, pid: int, code: int | None = None) -> None:
        self.ack(mqtt.PUBCOMP, pid, code)

    def settle(self, packet: Packet) -> None:
        """Answer a received PUBLISH to the end of its handshake."""
        if packet["qos"] == 1:
            self.puback(packet["pid"])
        elif packet["qos"] == 2:
            self.pubrec(packet["pid"])
            self.wait_for(mqtt.PUBREL, pid=packet["pid"])
            self.pubcomp(packet["pid"])

    def take(self, count: int, timeout: float | None = None) -> list[Packet]:
        """The next ``count`` PUBLISHes, each settled."""
        taken = []
        for _ in range(count):
            packet = self.expect(mqtt.PUBLISH, timeout)
            self.settle(packet)
            taken.append(packet)
        return taken

    def ping(self) -> None:
        """PINGREQ, PINGRESP: everything sent before has been read by the broker once this returns."""
        self.send(mqtt.frame(0xC0, b""))
        self.wait_for(mqtt.PINGRESP)

    def disconnect(self, code: int | None = None, props: Props | None = None) -> None:
        """Say goodbye and wait until the broker has closed."""
        self.send(mqtt.disconnect(self.version, code, props))
        with contextlib.suppress(OSError, TimeoutError):
            while self._read_fresh(self.timeout) is not None:
                pass
        self.sock.close()
