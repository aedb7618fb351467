"""A publisher that never gives up and a consumer that keeps count, each on a thread of its own, at QoS 1."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Self, final

from tests import wire_format as mqtt
from tests.wire import Wire
from tests.wire_format import WireError

TICK_S: Final = 0.005
WINDOW: Final = 500  # unacknowledged messages of the publisher
_PATIENCE_S: Final = 30.0
BROKEN: Final = (OSError, WireError)


def numbered(number: int) -> bytes:
    return b"%08d" % number


@final
class Source(threading.Thread):
    """Publishes numbers on ``topic`` at ``rate`` per second until ``finish``; what a lost connection leaves
    unacknowledged is sent again, in its order."""

    def __init__(self, port: int, topic: str, rate: float) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0  # all numbers below it
        self.sent = 0
        self.connections = 0
        self.repeated = 0  # sent again on another connection
        self.failure = ""
        self._port, self._topic, self._rate = port, topic, rate
        self._last = threading.Event()  # no new numbers
        self._done = threading.Event()
        self._ended = threading.Event()

    def finish(self, timeout: float) -> int:
        """No new numbers; how many there were, once all are acknowledged."""
        self._last.set()
        assert self._done.wait(timeout), f"{self.sent - self.acknowledged} not acknowledged: {self.failure}"
        return self.sent

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join(_PATIENCE_S)

    def run(self) -> None:
        begun = time.monotonic()
        while not self._ended.is_set() and not self._done.is_set():
            try:
                with Wire.connect(self._port, "source", 4, timeout=5) as wire:
                    self.connections += 1
                    self._publish(wire, begun)
            except BROKEN as error:
                self.failure = str(error)
                time.sleep(0.05)

    def _publish(self, wire: Wire, begun: float) -> None:
        at = self.acknowledged  # the next to be sent on this connection
        wire.sock.settimeout(TICK_S)
        while not self._ended.is_set():
            due = self.sent if self._last.is_set() else int((time.monotonic() - begun) * self._rate)
            end = min(due, self.acknowledged + WINDOW)
            if at < end:
                self.repeated += max(min(end, self.sent) - at, 0)
                self.sent = max(self.sent, end)  # whatever becomes of the writing
                frames = [mqtt.publish(self._topic, numbered(n), 1, pid=n % 65_535 + 1) for n in range(at, end)]
                wire.sock.settimeout(5)
                wire.sock.sendall(b"".join(frames))
                at = end
            self._take_acks(wire)
            if self._last.is_set() and self.acknowledged == self.sent:
                self._done.set()
                return

    def _take_acks(self, wire: Wire) -> None:
        wire.sock.settimeout(TICK_S)
        try:
            data = wire.sock.recv(65_536)
        except TimeoutError:
            return
        if not data:
            raise ConnectionResetError("closed by the gateway")
        wire.data += data
        while len(wire.data) >= 4:
            if wire.data[0] != mqtt.PUBACK << 4:
                raise WireError(f"no PUBACK: {wire.data[:8].hex()}")
            pid = wire.data[2] << 8 | wire.data[3]
            if pid != self.acknowledged % 65_535 + 1:
                raise WireError(f"PUBACK {pid} in the place of {self.acknowledged % 65_535 + 1}")
            self.acknowledged += 1
            del wire.data[:4]


@final
class Sink(threading.Thread):
    """A persistent session that takes all there is on ``topic``; ``numbers`` is what came, in its order."""

    def __init__(
        self, host: str, port: int, topic: str,
        inside: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:  # fmt: skip
        super().__init__(daemon=True)
        self.numbers: list[int] = []
        self.failure = ""
        self._where, self._topic, self._inside = (host, port), topic, inside
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        with self._connected() as wire:  # its session is there before the first message
            wire.subscribe(self._topic, qos=1)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join(_PATIENCE_S)

    def _connected(self) -> Wire:
        with self._inside():
            sock = socket.create_connection(self._where, 5)
        wire = Wire(sock, 4, timeout=_PATIENCE_S)
        wire.send(mqtt.connect("sink", 4, False))
        wire.expect(mqtt.CONNACK, code=0)
        return wire

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with self._connected() as wire:
                    while not self._ended.is_set():
                        self._take(wire)
            except BROKEN as error:
                self.failure = str(error)
                time.sleep(0.05)

    def _take(self, wire: Wire) -> None:
        try:
            packet = wire.read_packet(0.2)
        except TimeoutError:
            return
        if packet is None:
            raise ConnectionResetError("closed by the broker")
        wire.history.clear()
        if packet.type == mqtt.PUBLISH:
            self.numbers.append(int(packet["payload"]))
            wire.send(mqtt.ack(mqtt.PUBACK, packet["pid"]))
