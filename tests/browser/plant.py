"""A small plant behind the page: machines that publish, collectors that are there, slow or away, a Sparkplug node."""

import contextlib
import threading
import time
from typing import Final, final

from tests import spb_bytes as spb
from tests import wire_format as mqtt
from tests.wire import Wire
from tests.wire_format import WireError

NODE: Final = "presses/press 7"
_PATH: Final = "spBv1.0/presses/{}/press 7"
_REBIRTH: Final = spb.chunk(1, b"Node Control/Rebirth") + spb.number(4, 11) + spb.number(14, 0)


@final
class Plant:
    """Runs on threads of its own until closed; ``births`` counts those of the node."""

    def __init__(self, port: int) -> None:
        self.births = 0
        self.commands = 0
        self._port = port
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> "Plant":
        with Wire.connect(self._port, "historian-away", clean=False) as away:
            away.subscribe("plant/#", qos=1)
        for run in (self._machine, self._collector, self._node):
            thread = threading.Thread(target=self._safely, args=(run,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(10)

    def _safely(self, run: object) -> None:
        assert callable(run)
        with contextlib.suppress(OSError, WireError):  # the broker was stopped
            run()

    def _machine(self) -> None:
        with Wire.connect(self._port, "press-7-plc", version=5) as wire:
            number = 0
            while not self._ended.wait(0.04):
                number += 1
                wire.publish_done(
                    f"plant/press-7/{('temperature', 'force', 'count')[number % 3]}", b"%d" % number, qos=1
                )
                if number % 10 == 0:
                    wire.publish("plant/press-7/live", b"%d" % number)

    def _collector(self) -> None:
        with Wire.connect(self._port, "historian", clean=False) as wire:
            wire.subscribe("plant/#", "spBv1.0/#", qos=1)
            while not self._ended.is_set():
                with contextlib.suppress(TimeoutError):
                    packet = wire.read_packet(0.2)
                    if packet is not None and packet.type == mqtt.PUBLISH:
                        wire.settle(packet)

    def _node(self) -> None:
        will = mqtt.Will(_PATH.format("NDEATH"), spb.ndeath(0, _now()), 1)
        with Wire.connect(self._port, "press 7", will=will) as wire:
            wire.subscribe(_PATH.format("NCMD"), qos=1)
            self._birth(wire)
            seq = 0
            while not self._ended.is_set():
                packet = None
                with contextlib.suppress(TimeoutError):
                    packet = wire.read_packet(0.1)
                if packet is not None and packet.type == mqtt.PUBLISH:
                    wire.settle(packet)
                    self.commands += 1
                    self._birth(wire)
                    seq = 0
                    continue
                seq = (seq + 1) % 256
                values = [spb.metric("", 1000 + seq, alias=1), spb.metric("", 64 + seq % 5, alias=2)]
                wire.publish(_PATH.format("NDATA"), spb.payload(*values, time=_now(), seq=seq))

    def _birth(self, wire: Wire) -> None:
        metrics = [spb.metric("Strokes", 1000, alias=1), spb.metric("Oil temperature", 64, alias=2), _REBIRTH]
        wire.publish(_PATH.format("NBIRTH"), spb.nbirth(0, 0, _now(), *metrics))
        self.births += 1


def _now() -> int:
    return time.time_ns() // 1_000_000
