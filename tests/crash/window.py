"""Traffic that lives in the commit window: collectors that are online and prompt, but for now and then one."""

import contextlib
import random
import threading
from collections.abc import Callable
from typing import final

from tests import wire_format as mqtt
from tests.crash.shimlog import Record
from tests.crash.traffic import deliveries, join, said
from tests.harness import Broker
from tests.wire import Wire
from tests.wire_format import Packet

COLLECTORS = ("c1", "c2")
BURST = 4
AHEAD_MAX = 60  # publishes that nobody has answered
LATE = 0.03  # of the deliveries are answered late, and so make their receiver slow for a while
GAP_S = 0.001


def payload(number: int) -> bytes:
    return b"%06d" % number


@final
class Collector:
    """A persistent session; ``acknowledged`` is what it has sent a PUBACK for, over all its connections."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = name
        self.got: list[tuple[int, bytes]] = []  # of this connection
        self.acknowledged: set[bytes] = set()
        self.late: list[tuple[int, bytes]] = []
        self.wire = join(broker.port, name)
        self.port: int = self.wire.sock.getsockname()[1]
        self.wire.subscribe("t", qos=1)

    def take(self, chance: random.Random) -> None:
        for packet in self.wire.until_quiet(GAP_S):
            one = packet["pid"], packet["payload"]
            self.got.append(one)
            if chance.random() < LATE:
                self.late.append(one)
            else:
                self._answer(one)
        while self.late and chance.random() < 0.1:
            self._answer(self.late.pop(0))

    def _answer(self, one: tuple[int, bytes]) -> None:
        self.wire.puback(one[0])
        self.acknowledged.add(one[1])


@final
class Window:
    """One publisher and the collectors, until the broker is gone or ``count`` are acknowledged."""

    def __init__(self, broker: Broker, chance: random.Random, first: int = 1) -> None:
        self.chance = chance
        self.collectors = [Collector(broker, name) for name in COLLECTORS]
        self.publisher = Wire.connect(broker.port, "p", clean=True)
        self.port: int = self.publisher.sock.getsockname()[1]
        self.first = self.next = first  # packet id 1 is the first's
        self.acknowledged: set[int] = set()

    def run(self, count: int) -> None:
        with contextlib.suppress(OSError):
            while len(self.acknowledged) < count and self._step():
                pass
        with contextlib.suppress(OSError):
            self._answers()  # what was on its way when the broker went

    def _step(self) -> bool:
        if self.next - self.first - len(self.acknowledged) < AHEAD_MAX:
            for _ in range(self.chance.randint(1, BURST)):
                self.publisher.publish("t", payload(self.next), 1)
                self.next += 1
        for collector in self.collectors:
            collector.take(self.chance)
        return self._answers()

    def _answers(self) -> bool:
        """False when the broker has closed."""
        while True:
            try:
                packet = self.publisher.read_packet(GAP_S)
            except TimeoutError:
                return True
            if packet is None:
                return False
            self.acknowledged.add(self.number(packet))

    def number(self, packet: Packet) -> int:
        assert packet.type == mqtt.PUBACK, packet
        pid: int = packet["pid"]
        return self.first + pid - 1

    def close(self) -> None:
        for wire in (self.publisher, *(collector.wire for collector in self.collectors)):
            wire.close()

    def verify(self, broker: Broker, promised: set[bytes], had: Callable[[Collector], set[bytes]]) -> None:
        """Every collector gets what was promised to the publisher, but for what it ``had`` acknowledged; in order."""
        for collector in self.collectors:
            again = deliveries(broker, collector.name)
            lost = promised - had(collector) - set(again)
            assert not lost, f"acknowledged, but lost for {collector.name}: {sorted(lost)[:5]} of {len(promised)}"
            assert again == sorted(again), f"{collector.name} out of order: {again[:20]}"

    def verify_kill(self, broker: Broker) -> None:
        """After kill -9: what counts is what this process was told and has said."""
        self.verify(broker, {payload(number) for number in self.acknowledged}, lambda one: one.acknowledged)

    def verify_cut(self, broker: Broker, before: list[Record]) -> None:
        """After a power cut behind the records ``before``: what counts is what the broker had sent and read by then."""

        def had(collector: Collector) -> set[bytes]:
            names = dict(collector.got)
            return {names[pid] for pid in said(before, "I", mqtt.PUBACK, collector.port)}

        told = said(before, "A", mqtt.PUBACK, self.port)
        self.verify(broker, {payload(self.first + pid - 1) for pid in told}, had)


def kill_after(broker: Broker, seconds: float) -> threading.Timer:
    """kill -9 so much later, whatever it is doing then."""
    assert broker.process is not None
    timer = threading.Timer(seconds, broker.process.kill)
    timer.start()
    return timer
