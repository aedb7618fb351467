"""A random walk of delayed messages: a store that is slow, fails or is full, crashes, time that passes.

What was acknowledged is in each durable queue exactly once, in none before its time, and in order as long as the disk
takes everything; what was refused is in none. FOREBAY_WALKS (40) walks of 150 steps; FOREBAY_SEED.
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
STEPS = 150
END_MS = 60_000


@final
class Walk:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker = MemoryBroker({"store.error_hold_s": self.chance.choice(["3s", "60s"])})
        self.version = self.chance.choice([4, 5])
        self.calm = self.chance.random() < 0.4  # the disk takes everything: nothing is put off
        for name, qos in (("one", 1), ("two", 2)):
            station = Station(self.broker, name)
            station.subscribe("t/#", qos=qos)
            station.drop()
        self.broker.advance(2_000)
        self.number = 0
        self.due: dict[int, int] = {}
        self.flight: dict[int, int] = {}  # packet id -> number
        self.promised: set[int] = set()
        self.refused: set[int] = set()
        self.publisher: Station
        self.connect()

    def connect(self) -> None:
        self.flight.clear()
        self.publisher = Station(self.broker, "p", self.version, persistent=False)

    def step(self) -> None:
        acts = [self.publish, self.pass_time, self.lag, self.commit, self.crash, self.fail, self.full]
        self.chance.choices(acts, [40, 30, 6, 12, 2, *([0, 0] if self.calm else [3, 2])])[0]()
        self.look()
        self.nothing_early()

    def publish(self) -> None:
        if self.publisher.link.closed:
            self.connect()
        for _ in range(self.chance.choice([1, 1, 3])):
            if self.publisher.link.closed:
                return
            self.number += 1
            delay = self.chance.choice([0, 0, 1, 2, 10])
            self.due[self.number] = self.broker.now + 1000 * delay
            qos = self.chance.choice([1, 2])
            retain = self.chance.random() < 0.1
            pid = self.publisher.publish(f"$delayed/{delay}/t/{delay}", b"%d" % self.number, qos, retain)
            self.flight[pid] = self.number

    def look(self) -> None:
        for packet in self.publisher.come():
            if packet.type not in (mqtt.PUBACK, mqtt.PUBREC):
                continue
            number = self.flight.pop(packet["pid"])
            if packet.fields.get("code", 0) >= 0x80:
                self.refused.add(number)
                continue
            self.promised.add(number)
            if packet.type == mqtt.PUBREC and not self.publisher.link.closed:
                self.publisher.link.send(mqtt.ack(mqtt.PUBREL, packet["pid"], self.version))

    def nothing_early(self) -> None:
        waits = [number for number, due in self.due.items() if due > self.broker.now]
        queued = self.broker.router.core.sessions["one"].backlog
        assert queued is not None
        assert queued.count <= self.number - len(waits)

    def pass_time(self) -> None:
        self.broker.advance(self.chance.choice([1, 20, 500, 1500]))

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

    def full(self) -> None:
        """For some seconds there is no room for what is heavy."""
        self.broker.hold()
        end = self.broker.now + self.chance.choice([500, 4_000])
        while self.broker.now < end:
            self.broker.router.on_tick(self.broker.now)
            self.broker.pump()
            while (batch := self.broker.submitted) is not None:
                heavy = [*batch.delayed.values(), *batch.retained.values()]
                if batch.segment_id or any(data is not None for data in heavy):
                    self.broker.fail("disk full")
                else:
                    assert self.broker.release_one()
            self.broker.now += 50

    def crash(self) -> None:
        self.look()
        self.broker.crash()
        self.broker.now += self.chance.choice([0, 1_000, 5_000])
        self.connect()

    def finish(self) -> None:
        self.broker.release()
        self.broker.advance(END_MS)
        self.look()
        assert not self.broker.store.delayed
        for name in ("one", "two"):
            came = self.drain(name)
            assert len(came) == len(set(came)), f"{name}: twice"
            assert not self.promised - set(came), f"{name}: lost"
            assert not self.refused & set(came), f"{name}: refused and delivered"
            if self.calm:
                assert [self.due[n] for n in came] == sorted(self.due[n] for n in came), f"{name}: out of order"

    def drain(self, name: str) -> list[int]:
        station = Station(self.broker, name)
        came: list[int] = []
        packets = station.early
        while packets:
            for packet in packets:
                if packet.type == mqtt.PUBLISH:
                    came.append(int(packet["payload"]))
                    kind = mqtt.PUBACK if packet["qos"] == 1 else mqtt.PUBREC
                    station.link.send(mqtt.ack(kind, packet["pid"], 5))
                elif packet.type == mqtt.PUBREL:
                    station.link.send(mqtt.ack(mqtt.PUBCOMP, packet["pid"], 5))
            packets = station.come()
        return came


@pytest.mark.parametrize("number", range(WALKS))
def test_none_is_lost_none_comes_twice_and_none_before_its_time(number: int) -> None:
    seed = SEED + number
    walk = Walk(seed)
    try:
        for _ in range(STEPS):
            walk.step()
        walk.finish()
    except AssertionError as error:
        raise AssertionError(f"FOREBAY_SEED={seed} FOREBAY_WALKS=1: {error}") from error
