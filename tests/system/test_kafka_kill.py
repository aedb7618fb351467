"""The log of an APPLICATION on Kafka under load while Kafka and the gateway are killed at random: nothing acknowledged
is lost, the order stays, and what comes twice was on its way when somebody died.

FOREBAY_KAFKA_S is how long (5 s), FOREBAY_SEED what is random.
"""

import os
import random
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from gateway.cli.control import ask
from gateway.store.kafka import CHUNK
from tests.harness import Broker
from tests.kafka import Kafka, missing, shared
from tests.system.disks import until
from tests.system.flow import WINDOW, Sink, Source

SECONDS = float(os.environ.get("FOREBAY_KAFKA_S", "5"))
SEED = int(os.environ.get("FOREBAY_SEED", str(time.time_ns() % 100_000)))
RATE: Final = 800
PACK: Final = 50
LOOSE: Final = 4 * CHUNK  # on their way from the store here to Kafka, and there but not said to be on the disk here
PATIENCE_S: Final = 90.0
WHY: Final = missing()

pytestmark = pytest.mark.skipif(bool(WHY), reason=f"no Kafka: {WHY}")


def settings(kafka: Kafka) -> dict[str, object]:
    return {
        "client_type": "sink=application", "application_log.engine": "kafka", "application_log.engine_timeout": "2s",
        "application_log.kafka.servers": kafka.address, "application_log.kafka.pack": PACK,
        "application_log.kafka.prefix": "kill.",
    }  # fmt: skip


@pytest.mark.timeout(3 * PATIENCE_S + 2 * SECONDS)
def test_kafka_and_the_gateway_are_killed_under_load(tmp_path: Path) -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    with ExitStack() as stack:
        kafka = shared()
        kafka.kill9()
        gateway = stack.enter_context(Broker(tmp_path / "data", settings(kafka)))
        sink = stack.enter_context(Sink("127.0.0.1", gateway.port, "line/#"))
        source = stack.enter_context(Source(gateway.port, "line/7/data", RATE))
        until(lambda: source.acknowledged > 100, "nothing is taken while there is no Kafka yet", PATIENCE_S)
        kafka.start()
        until(lambda: sink.numbers, "nothing comes out of Kafka", PATIENCE_S)
        told = hammer(chance, kafka, gateway)
        count = source.finish(PATIENCE_S)
        until(lambda: len(set(sink.numbers)) >= count, "not all has come", PATIENCE_S)
        until(lambda: waiting(gateway) == 0, "something waits for ever", PATIENCE_S)
        numbers = list(sink.numbers)
        text = f"seed {SEED}, {told}\n{gateway.log()[-3000:]}"
        assert list(dict.fromkeys(numbers)) == list(range(count)), text
        kills = told.count("gateway")
        assert len(numbers) - count <= source.repeated + kills * (PACK + WINDOW + LOOSE), text
        print({"messages": count, "twice": len(numbers) - count, "sent again": source.repeated, "told": told})


def hammer(chance: random.Random, kafka: Kafka, gateway: Broker) -> list[str]:
    """Each once, in any order, then at random until the time is over."""
    victims: dict[str, Kafka | Broker] = {"kafka": kafka, "gateway": gateway}
    due = chance.sample(list(victims), 2)
    told: list[str] = []
    end = time.monotonic() + SECONDS
    while due or time.monotonic() < end:
        time.sleep(chance.uniform(0.2, 1.5))
        name = due.pop() if due else chance.choice(list(victims))
        told.append(name)
        victims[name].kill9()
        time.sleep(chance.choice([0, 0.5, 3]))  # longer than the engine may take to answer, too
        victims[name].start()
    return told


def waiting(gateway: Broker) -> int:
    """Messages in the store here that Kafka has not got."""
    status: dict[str, dict[str, int]] = ask(gateway.data_dir / "control.sock", {"cmd": "status"})
    return status["engine"]["waiting"]
