"""Delayed messages over kill -9 at random moments, and over a wall clock that jumps.

FOREBAY_KILL_ROUNDS sets the number of kills (3), FOREBAY_SEED what is random.
"""

import os
import random
import threading
import time
from pathlib import Path

import pytest

from gateway.cli.control import ask
from tests import wire_format as mqtt
from tests.harness import FAKETIME_LIBRARIES, Broker
from tests.wire import Wire

ROUNDS = int(os.environ.get("FOREBAY_KILL_ROUNDS", "3"))
SEED = int(os.environ.get("FOREBAY_SEED", str(time.time_ns() % 100_000)))
WINDOW = 10
AWAY = [(mqtt.SESSION_EXPIRY, 3600)]


def subscribe_and_leave(broker: Broker) -> None:
    with Wire.connect(broker.port, "away", 5, clean=False, props=AWAY) as away:
        away.subscribe("t/#", qos=2)
        away.disconnect()


def publish_until_killed(broker: Broker, chance: random.Random, first: int) -> tuple[int, set[int]]:
    """The next number, and those that were acknowledged."""
    acknowledged: set[int] = set()
    flight: dict[int, int] = {}
    number = first
    killer = threading.Timer(chance.uniform(0.3, 1.5), broker.kill9)
    with Wire.connect(broker.port, "p", 5) as publisher:
        killer.start()
        try:
            while True:
                while len(flight) < WINDOW:
                    topic = f"$delayed/{chance.choice([0, 1, 2])}/t/x"
                    flight[publisher.publish(topic, b"%d" % number, chance.choice([1, 2]))] = number
                    number += 1
                packet = publisher.read_packet(30)
                if packet is None:
                    break
                if packet.type == mqtt.PUBCOMP:
                    del flight[packet["pid"]]
                elif packet.type == mqtt.PUBREC:
                    acknowledged.add(flight[packet["pid"]])
                    publisher.pubrel(packet["pid"])
                else:
                    acknowledged.add(flight.pop(packet["pid"]))
        except OSError:
            pass
        finally:
            killer.join()
    return number, acknowledged


def test_what_was_acknowledged_comes_once_whenever_it_is_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    number, acknowledged = 0, set[int]()
    with Broker(tmp_path / "data") as broker:
        subscribe_and_leave(broker)
        for _ in range(ROUNDS):
            number, more = publish_until_killed(broker, chance, number)
            acknowledged |= more
            time.sleep(chance.choice([0, 1]))
            broker.start()
        assert acknowledged, f"seed {SEED}"
        came: list[int] = []
        with Wire.connect(broker.port, "away", 5, clean=False, props=AWAY) as away:
            give_up = time.monotonic() + 90
            while acknowledged - set(came) and time.monotonic() < give_up:
                for packet in away.until_quiet(0.5):
                    if packet.type == mqtt.PUBLISH:
                        came.append(int(packet["payload"]))
                        away.ack(mqtt.PUBACK if packet["qos"] == 1 else mqtt.PUBREC, packet["pid"])
                    elif packet.type == mqtt.PUBREL:
                        away.pubcomp(packet["pid"])
        assert not acknowledged - set(came), f"lost, seed {SEED}"
        # QoS 1 that was sent when the kill came would come again, but here nobody was there to send it to
        assert len(came) == len(set(came)), f"twice, seed {SEED}"


def test_status_shows_what_waits(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        with Wire.connect(broker.port, "p", 5) as publisher:
            publisher.publish_done("$delayed/600/t", b"x")
        broker.restart()
        shown = ask(broker.data_dir / "control.sock", {"cmd": "status"})["delayed"]
        assert shown["messages"] == 1
        assert 0 < shown["next_ms"] <= 600_000


@pytest.mark.skipif(not any(Path(path).exists() for path in FAKETIME_LIBRARIES), reason="libfaketime is not installed")
def test_a_wall_clock_that_jumps_moves_nothing(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", faketime="+0") as broker:
        with Wire.connect(broker.port, "s", 5) as client:
            client.subscribe("t", qos=1)
            since = time.monotonic()
            client.publish_done("$delayed/4/t", b"x")
            broker.set_faketime("+14d")
            client.expect(mqtt.PUBLISH, 30, payload=b"x")
            assert time.monotonic() - since > 3.9
