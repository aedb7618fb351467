"""Is this system fit to stay: the broker answers a QoS 1 round trip whose message was on disk before its PUBACK.

It goes over the control socket, so that it needs no user and no certificate; the way in the broker is that of any
client. Its topic begins with ``$``, which no wildcard matches, so that no collector ever sees it.
"""

import os
import socket
import time
from pathlib import Path
from typing import Final, final

from gateway.access import HEALTH_ID, HEALTH_TOPIC
from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import encode, encode_ack, encode_publish
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import (
    CONNACK,
    DISCONNECT,
    PUBACK,
    PUBLISH,
    SUBACK,
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
from gateway.net.control import ShortPath, elsewhere

ANSWER_S: Final = 20.0  # for each packet; a slow card takes its time
_SESSION_S: Final = 300
_PACKET_BYTES_MAX: Final = 65_536


class UnhealthyError(Exception):
    """What does not work; one line for people."""


def round_trip(control: Path, answer_s: float = ANSWER_S) -> None:
    """Publish to a persistent session that is away, and see that it gets it when it is back. Raises UnhealthyError."""
    payload = os.urandom(16)
    with _Talk(control, HEALTH_ID, True, answer_s) as reader:
        reader.subscribe()
    with _Talk(control, f"{HEALTH_ID}-publisher", True, answer_s) as publisher:
        publisher.publish(payload)
        publisher.forget()
    with _Talk(control, HEALTH_ID, False, answer_s) as reader:
        if reader.receive() != payload:
            raise UnhealthyError("another message came back than was published")
        reader.forget()


def wait_for_health(control: Path, seconds: float) -> str:
    """Why the broker is not healthy after so long, or "" as soon as it is."""
    end = time.monotonic() + seconds
    while True:
        try:
            round_trip(control)
        except UnhealthyError as error:
            reason = str(error)
        else:
            return ""
        if time.monotonic() >= end:
            return reason
        time.sleep(min(1.0, max(0.0, end - time.monotonic())))


@final
class _Talk:
    """One MQTT connection through the control socket."""

    def __init__(self, control: Path, client_id: str, clean: bool, answer_s: float) -> None:
        self._control, self._client_id, self._clean, self._answer_s = control, client_id, clean, answer_s
        self._link = socket.socket(socket.AF_UNIX)
        self._link.settimeout(answer_s)
        self._decoder = Decoder(_PACKET_BYTES_MAX, V5)
        self._last = Disconnect()

    def __enter__(self) -> "_Talk":
        try:
            self._open()
        except BaseException:
            self._link.close()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._send(encode(self._last, V5))
                while self._link.recv(_PACKET_BYTES_MAX):
                    pass  # closed by the broker: it has taken note
        except OSError as error:
            raise UnhealthyError(f"the broker did not end the connection: {error.strerror or error}") from None
        finally:
            self._link.close()

    def subscribe(self) -> None:
        self._send(encode(Subscribe(1, [Filter(HEALTH_TOPIC, 1)]), V5))
        answer = self._expect(SUBACK)
        assert isinstance(answer, Suback)
        if answer.reasons != [1]:
            raise UnhealthyError(f"its subscription was answered with {answer.reasons}")

    def publish(self, payload: bytes) -> None:
        """On disk when it returns, since who subscribed is not connected."""
        self._send(encode_publish(V5, HEALTH_TOPIC.encode(), payload, 1, False, False, 1, b""))
        answer = self._expect(PUBACK)
        assert isinstance(answer, Ack)
        if answer.reason:
            raise UnhealthyError(f"a message was refused with reason code 0x{answer.reason:02x}")

    def receive(self) -> bytes:
        message = self._expect(PUBLISH)
        assert isinstance(message, Publish)
        self._send(encode_ack(PUBACK, message.packet_id, 0, V5))
        return bytes(message.payload)

    def forget(self) -> None:
        """The session ends with the connection."""
        self._last.properties = Properties()
        self._last.properties.session_expiry_interval = 0

    def _open(self) -> None:
        try:
            with ShortPath(self._control) as short:
                self._link.connect(short)
        except OSError as error:
            if elsewhere(self._control).is_socket():
                raise UnhealthyError(f"the broker cannot write to {self._control.parent}") from None
            raise UnhealthyError(f"the broker does not run ({self._control}: {error.strerror or error})") from None
        self._send(b'{"cmd": "mqtt"}\n')
        line = b""
        while not line.endswith(b"\n"):
            line += self._receive(1)
        if b'"ok": true' not in line:
            raise UnhealthyError(f"the broker takes no client over its control socket: {line.decode().strip()}")
        properties = Properties()
        properties.session_expiry_interval = _SESSION_S
        self._send(encode(Connect(V5, self._client_id, self._clean, 0, None, None, None, properties), V5))
        answer = self._expect(CONNACK)
        assert isinstance(answer, Connack)
        if answer.reason:
            raise UnhealthyError(f"a connection was refused with reason code 0x{answer.reason:02x}")

    def _expect(self, kind: int) -> Packet:
        try:
            while (packet := self._decoder.next()) is None:
                self._decoder.feed(self._receive(_PACKET_BYTES_MAX))
        except PacketError as error:
            raise UnhealthyError(f"the broker sent what is no MQTT: {error}") from None
        if packet.type == DISCONNECT:
            raise UnhealthyError("the broker ended the connection")
        if packet.type != kind:
            raise UnhealthyError(f"the broker sent packet type {packet.type}, expected {kind}")
        return packet

    def _receive(self, count: int) -> bytes:
        try:
            data = self._link.recv(count)
        except TimeoutError:
            raise UnhealthyError(f"the broker does not answer within {self._answer_s:g} s") from None
        except OSError as error:
            raise UnhealthyError(f"the broker closed the connection: {error.strerror or error}") from None
        if not data:
            raise UnhealthyError("the broker closed the connection")
        return data

    def _send(self, data: bytes) -> None:
        try:
            self._link.sendall(data)
        except OSError as error:
            raise UnhealthyError(f"the broker closed the connection: {error.strerror or error}") from None
