"""A random walk where delivery beats the disk: prompt, slow and flapping receivers, a store that fails, crashes.

What was acknowledged to a publisher has been acknowledged by every session that must get it, or comes to it after the
crash; each connection sees one growing sequence of each publisher. FOREBAY_WALKS (40) walks of 400 steps; FOREBAY_SEED.
"""

import os
import random
import time
from typing import final

import pytest

from tests import wire_format as mqtt
from tests.memory import MemoryBroker
from tests.station import Station

WALKS = int(os.environ.get("FOREBAY_WALKS", "40"))
SEED = int(os.environ.get("FOREBAY_SEED", str(time.time_ns() % 100_000)))
STEPS = 400


@final
class Receiver:
    """A persistent session; ``promptness`` is its chance to answer when it looks."""

    def __init__(self, name: str, version: int, promptness: float, window: int) -> None:
        self.name, self.version, self.promptness, self.window = name, version, promptness, window
        self.station: Station | None = None
        self.since = 1  # the first message that it must get
        self.last: dict[str, int] = {}  # of this connection, by publisher: one may be pushed back while others are not
        self.pending: list[tuple[int, int]] = []  # packet id, number
        self.acknowledged: set[int] = set()

    def connect(self, broker: MemoryBroker) -> None:
        self.last.clear()
        self.pending.clear()
        props = [(mqtt.RECEIVE_MAXIMUM, self.window)] if self.version == 5 else []
        self.station = Station(broker, self.name, self.version, props=props)

    def look(self) -> None:
        if self.station is None:
            return
        came = [*self.station.early, *self.station.come()]
        self.station.early = []
        for packet in came:
            if packet.type == mqtt.PUBLISH:
                publisher, _, shown = packet["payload"].decode().partition(" ")
                number, last = int(shown), self.last.get(publisher, 0)
                assert number > last, f"{self.name}: {number} behind {last}"
                self.last[publisher] = number
                self.pending.append((packet["pid"], number))

    def answer(self, at: int) -> None:
        assert self.station is not None
        pid, number = self.pending.pop(at)
        self.acknowledged.add(number)
        self.station.puback(pid)

    def answer_all(self) -> bool:
        self.look()
        some = bool(self.pending)
        while self.pending:
            self.answer(0)
            self.look()
        return some


@final
class Publisher:
    def __init__(self, name: str, version: int) -> None:
        self.name, self.version = name, version
        self.flight: dict[int, int] = {}
        self.station: Station | None = None

    def connect(self, broker: MemoryBroker) -> None:
        self.flight.clear()
        self.station = Station(broker, self.name, self.version, persistent=False)

    def look(self) -> list[int]:
        """The numbers that were acknowledged since the last look."""
        assert self.station is not None
        told = []
        for packet in self.station.come():
            if packet.type in (mqtt.PUBACK, mqtt.PUBREC):
                number = self.flight.pop(packet["pid"])
                assert packet.fields.get("code", 0) < 0x80
                told.append(number)
                if packet.type == mqtt.PUBREC:
                    self.station.link.send(mqtt.ack(mqtt.PUBREL, packet["pid"], self.version))
        return told


@final
class Walk:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker = MemoryBroker()
        self.broker.limits.hold_bytes_max = self.chance.choice([60, 1_000_000])
        self.broker.limits.commit_window_ms = self.chance.choice([5, 20, 20])
        self.receivers = [
            Receiver("fast", 5, 1.0, 100),
            Receiver("narrow", 5, 0.9, 2),
            Receiver("old", 4, 0.97, 0),
            Receiver("slow", 5, 0.2, 20),
        ][: self.chance.choice([1, 2, 3, 4, 4])]
        self.publishers = [Publisher("p4", 4), Publisher("p5", 5)]
        self.twice = self.chance.random() < 0.5  # QoS 2 comes in, or else subscriptions ask for it: here none goes out
        self.number = 0
        self.promised: set[int] = set()
        self.held = 0
        for receiver in self.receivers:
            self.begin(receiver)
        for publisher in self.publishers:
            publisher.connect(self.broker)

    def begin(self, receiver: Receiver) -> None:
        """A session that starts anew."""
        receiver.since = self.number + 1
        receiver.connect(self.broker)
        assert receiver.station is not None
        receiver.station.subscribe("t/#", qos=1 if self.twice else self.chance.choice([1, 2]))

    def step(self) -> None:
        chance = self.chance
        acts = [
            self.publish,
            self.look,
            self.pass_time,
            self.flap,
            self.lag,
            self.commit,
            self.fail,
            self.end,
            self.crash,
        ]
        chance.choices(acts, [40, 60, 25, 5, 4, 12, 2, 1, 1])[0]()
        for publisher in self.publishers:
            self.promised.update(publisher.look())
        core = self.broker.router.core
        self.held = max(self.held, len(core.hold))
        assert core.hold_bytes == sum(message.size for message in core.hold)

    def publish(self) -> None:
        publisher = self.chance.choice(self.publishers)
        assert publisher.station is not None
        for _ in range(self.chance.choice([1, 1, 4])):
            self.number += 1
            qos = 2 if self.twice and self.chance.random() < 0.06 else 1
            retain = self.chance.random() < 0.03
            pid = publisher.station.pid()
            publisher.flight[pid] = self.number
            payload = f"{publisher.name} {self.number}".encode()
            publisher.station.link.send(
                mqtt.publish("t/a", payload, qos, retain, False, pid, publisher.version)
            )  # its acknowledgement is seen by the next look

    def look(self) -> None:
        for receiver in self.receivers:
            receiver.look()
            while receiver.pending and self.chance.random() < receiver.promptness:
                receiver.answer(0 if self.chance.random() < 0.8 else self.chance.randrange(len(receiver.pending)))
                receiver.look()

    def pass_time(self) -> None:
        self.broker.advance(self.chance.choice([1, 1, 5, 30]))

    def flap(self) -> None:
        receiver = self.chance.choice(self.receivers)
        if receiver.station is None:
            receiver.connect(self.broker)
        elif self.chance.random() < 0.3:
            receiver.connect(self.broker)  # takes over
        else:
            self.chance.choice([receiver.station.drop, receiver.station.disconnect])()
            receiver.station = None
            receiver.pending.clear()

    def lag(self) -> None:
        self.broker.hold()

    def commit(self) -> None:
        if self.chance.random() < 0.5:
            self.broker.release_one()
        else:
            self.broker.release()

    def fail(self) -> None:
        if self.broker.submitted is not None:
            self.broker.fail()

    def end(self) -> None:
        """The operator removes a session; what it had not acknowledged is dropped."""
        self.broker.release()
        self.broker.advance(1000)
        receiver = self.chance.choice(self.receivers)
        assert self.broker.router.remove_session(receiver.name, self.broker.now)
        self.broker.pump()
        self.begin(receiver)

    def crash(self) -> None:
        for publisher in self.publishers:
            self.promised.update(publisher.look())
        self.broker.crash()
        self.check()
        for publisher in self.publishers:
            publisher.connect(self.broker)

    def check(self) -> None:
        """Everyone comes and takes all that is there."""
        for receiver in self.receivers:
            receiver.connect(self.broker)
        self.drain()
        for receiver in self.receivers:
            lost = {number for number in self.promised if number >= receiver.since} - receiver.acknowledged
            assert not lost, f"acknowledged, but lost for {receiver.name}: {sorted(lost)[:5]}"

    def drain(self) -> None:
        while sum(receiver.answer_all() for receiver in self.receivers):
            self.broker.advance(50)

    def finish(self) -> None:
        """The store works, everyone answers: no publisher waits, nothing is left behind."""
        self.broker.release()
        self.broker.advance(1000)
        self.check()
        for publisher in self.publishers:
            self.promised.update(publisher.look())
            assert not publisher.flight
        self.broker.advance(3000)
        core = self.broker.router.core
        assert not core.hold
        assert core.hold_bytes == 0
        assert not self.broker.store.segments
        self.crash()


@pytest.mark.parametrize("part", range(4))
def test_delivery_before_the_disk(part: int) -> None:
    held = 0
    for number in range(part, WALKS, 4):
        walk = Walk(SEED + number)
        try:
            for _ in range(STEPS):
                walk.step()
            walk.finish()
        except AssertionError as error:
            pytest.fail(f"seed {SEED + number}: {error}")
        held += walk.held
    assert held > WALKS // 4  # or it walks past what it is for
