"""The engine against a real Kafka: what it says to keep is there, in order and once, whoever is killed."""

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Sequence
from typing import Final

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from gateway.store.engine import Cursor, EngineDown, EngineRefused, Record
from gateway.store.kafka import KafkaEngine
from gateway.store.kafka_options import KafkaOptions
from tests.kafka import Kafka, missing, shared

WHY: Final = missing()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=f"no Kafka: {WHY}"), pytest.mark.timeout(180)]

PACK: Final = 20
KILLS: Final = int(os.environ.get("FOREBAY_KAFKA_KILLS", "1"))


@pytest.fixture
def kafka() -> Kafka:
    server = shared()
    return server if server.running() else server.start()


@pytest.fixture
async def engine(kafka: Kafka, request: pytest.FixtureRequest) -> AsyncIterator[KafkaEngine]:
    """Each test has topics of its own."""
    made = engine_of(kafka, request.node.name)
    await made.connect()
    yield made
    await made.close()


def engine_of(kafka: Kafka, name: str) -> KafkaEngine:
    prefix = "".join(c if c.isalnum() else "-" for c in name) + "."
    return KafkaEngine(KafkaOptions(servers=[kafka.address], prefix=prefix, pack=PACK, timeout_s=3))


def records(first: int, count: int, topic: str = "line/7") -> list[Record]:
    return [Record(topic, b"%d" % n, 1, False, b"", 0) for n in range(first, first + count)]


async def append(engine: KafkaEngine, number: int, wanted: Sequence[Record]) -> int:
    """How many it said to keep."""
    said: list[int] = []
    await engine.append(number, wanted, said.append)
    assert said == sorted(said)
    return said[-1]


async def read(cursor: Cursor, count: int, settle: bool = True, most: int = 1000) -> list[int]:
    """The next so many."""
    got: list[int] = []
    async with asyncio.timeout(30):
        while len(got) < count:
            for position, record in await cursor.read(min(most, count - len(got)), 0.5):
                got.append(int(record.payload))
                if settle:
                    cursor.ack(position)
    return got


async def test_what_is_appended_is_read_in_order_and_settled_once(engine: KafkaEngine) -> None:
    cursor = await engine.open("app", ["line/#"], False, False)
    assert await append(engine, 1, records(0, 3000)) == 3000
    assert await read(cursor, 2500) == list(range(2500))
    await cursor.committed()
    await cursor.close()
    cursor = await engine.open("app", ["line/#"], False, False)
    assert await read(cursor, 500) == list(range(2500, 3000))
    await cursor.committed()
    assert (await engine.stats())["messages"] == 0
    await cursor.close()


async def test_everything_of_a_record_comes_back(engine: KafkaEngine) -> None:
    sent = [
        Record("a/ä", b"", 0, True, b"\x26\0\x01k\0\x01v", 0),
        Record("a/b", bytes(range(256)), 1, False, b"", 1_800_000_000_123),
        Record("a", b"x" * 1_000_000, 1, True, b"\x01\x01", 1),
    ]
    cursor = await engine.open("app", ["a/#"], False, False)
    await append(engine, 1, sent)
    got: list[Record] = []
    while len(got) < len(sent):
        got += [record for _, record in await cursor.read(10, 1)]
    assert got == sent
    await cursor.close()


async def test_no_more_than_a_pack_is_read_and_not_committed(engine: KafkaEngine) -> None:
    """One message that is not settled holds up all behind its pack; a gateway that dies has at most a pack again."""
    cursor = await engine.open("app", ["#"], False, False)
    await append(engine, 1, records(0, 3 * PACK))
    entries = await cursor.read(1000, 5)
    assert len(entries) <= PACK
    while len(entries) < PACK:
        entries += await cursor.read(1000, 1)
    for position, _ in entries[1:]:
        cursor.ack(position)
    assert await cursor.read(1000, 0.1) == []
    await cursor.close()
    again = await engine.open("app", ["#"], False, False)
    assert await read(again, 3 * PACK) == list(range(3 * PACK))
    await again.close()


async def test_each_application_gets_what_it_asked_for_when_it_was_appended(engine: KafkaEngine) -> None:
    one = await engine.open("one", ["line/1", "line/+/x"], False, False)
    await engine.declare("two", ["line/#"], False)
    await append(engine, 1, records(0, 5, "line/1"))
    await append(engine, 6, records(5, 5, "line/2"))
    await append(engine, 11, records(10, 5, "elsewhere"))
    await one.narrow(["line/2"])
    await append(engine, 16, records(15, 5, "line/2"))
    two = await engine.open("two", ["line/#"], False, False)
    assert await read(one, 10) == [*range(5), *range(15, 20)]
    assert await read(two, 15) == [*range(10), *range(15, 20)]
    await one.close()
    await two.close()


async def test_one_that_begins_anew_gets_nothing_of_before(engine: KafkaEngine) -> None:
    cursor = await engine.open("app", ["#"], False, False)
    await append(engine, 1, records(0, 50))
    await cursor.close()
    cursor = await engine.open("app", ["#"], False, True)
    await append(engine, 51, records(50, 5))
    assert await read(cursor, 5) == list(range(50, 55))
    await cursor.close()
    await engine.forget("app", False)
    cursor = await engine.open("app", ["#"], False, False)
    await append(engine, 56, records(55, 5))
    assert await read(cursor, 5) == list(range(55, 60))
    await cursor.close()


async def test_a_record_that_is_given_again_is_kept_once(engine: KafkaEngine) -> None:
    cursor = await engine.open("app", ["#"], False, False)
    await append(engine, 1, records(0, 10))
    await append(engine, 6, records(5, 10))
    assert await read(cursor, 15) == list(range(15))
    assert await cursor.read(10, 0.3) == []
    await cursor.close()


async def test_what_no_gateway_wrote_is_passed_over(engine: KafkaEngine, kafka: Kafka) -> None:
    cursor = await engine.open("app", ["#"], False, False)
    await append(engine, 1, records(0, 1))
    async with AIOKafkaProducer(bootstrap_servers=kafka.address) as other:
        for key in (None, b"line/7", b"\xff"):
            await other.send_and_wait(engine._options.topic("app"), b"alien", key=key, headers=[("x", b"y")])
    await append(engine, 2, records(1, 1))
    assert await read(cursor, 2) == [0, 1]
    await cursor.committed()
    await cursor.close()


async def test_an_application_that_ends_while_kafka_is_away_stops_nobody(engine: KafkaEngine, kafka: Kafka) -> None:
    """Its topic is deleted while something is on its way there."""
    await engine.declare("gone", ["#"], False)
    await engine.declare("stays", ["#"], False)
    await append(engine, 1, records(0, 1))
    await asyncio.to_thread(kafka.kill9)
    with pytest.raises(EngineDown):
        await append(engine, 2, records(1, 1))
    await asyncio.to_thread(kafka.start)
    async with asyncio.timeout(60):
        await engine.forget("gone", False)
        kept: list[int] = []
        while not kept:
            try:
                await engine.append(2, records(1, 3), kept.append)
            except EngineDown:
                await engine.connect()
        cursor = await engine.open("stays", ["#"], False, False)
        assert list(dict.fromkeys(await read(cursor, 4))) == list(range(4))
    await cursor.close()


async def test_what_fell_off_unread_is_counted(
    engine: KafkaEngine, kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    cursor = await engine.open("app", ["#"], False, False)
    await append(engine, 1, records(0, 10))
    assert await read(cursor, 2) == [0, 1]
    await cursor.committed()
    await cursor.close()
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.address)
    await admin.start()
    await admin.delete_records({TopicPartition(engine._options.topic("app"), 0): RecordsToDelete(5)})
    await admin.close()
    cursor = await engine.open("app", ["#"], False, False)
    assert await read(cursor, 5) == [5, 6, 7, 8, 9]
    await cursor.committed()
    found = await engine.stats()
    assert (found["fallen_off"], found["messages"], found["topics"]) == (3, 0, 1)
    assert (found["servers"], found["replicas"], found["replicas_behind"]) == (1, 1, [])
    assert "3 messages fell off unread" in caplog.text
    await cursor.close()


async def test_a_topic_that_somebody_deletes_is_made_anew(engine: KafkaEngine, kafka: Kafka) -> None:
    await engine.declare("app", ["#"], False)
    await append(engine, 1, records(0, 1))
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.address)
    await admin.start()
    await admin.delete_topics([engine._options.topic("app")])
    await admin.close()
    async with asyncio.timeout(60):
        kept: list[int] = []
        while not kept:
            try:
                await engine.append(2, records(1, 3), kept.append)
            except EngineDown:
                await engine.connect()
    cursor = await engine.open("app", ["#"], False, False)
    assert await read(cursor, 3) == [1, 2, 3]
    await cursor.close()


async def test_a_record_that_no_topic_takes_is_told(kafka: Kafka) -> None:
    engine = KafkaEngine(KafkaOptions(servers=[kafka.address], prefix="small.", packet_bytes=1, timeout_s=3))
    await engine.connect()
    await engine.declare("app", ["#"], False)
    with pytest.raises(EngineRefused, match=r"max\.message\.bytes"):
        await append(engine, 1, [Record("a", b"x" * 2_000_000, 1, False, b"", 0)])
    await append(engine, 2, records(0, 1))
    await engine.close()


async def test_kafka_is_killed_under_load_and_nothing_is_lost_or_doubled(
    engine: KafkaEngine, kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    """FOREBAY_KAFKA_KILLS is how often (1)."""
    caplog.set_level(logging.CRITICAL, "gateway.store")
    chance = random.Random(7)
    cursor = await engine.open("app", ["#"], False, False)
    got: list[int] = []
    total = 6000
    told = 0

    async def write() -> None:
        nonlocal told
        at = 0
        while at < total:
            batch = records(at, min(chance.randint(1, 200), total - at))
            before = at

            def kept(n: int, before: int = before) -> None:
                nonlocal told
                told = before + n

            try:
                await engine.append(at + 1, batch, kept)
            except EngineDown:
                while True:
                    try:
                        await engine.connect()
                        break
                    except EngineDown:
                        await asyncio.sleep(0.1)
            at = told

    async def take() -> None:
        while len(got) < total:
            try:
                for position, record in await cursor.read(1000, 0.5):
                    got.append(int(record.payload))
                    cursor.ack(position)
            except EngineDown:
                while True:
                    try:
                        await cursor.resume()
                        break
                    except EngineDown:
                        await asyncio.sleep(0.1)

    async def kill() -> None:
        for _ in range(KILLS):
            await asyncio.sleep(chance.uniform(0.2, 0.6))
            await asyncio.to_thread(kafka.kill9)
            await asyncio.sleep(chance.choice([0, 1]))
            await asyncio.to_thread(kafka.start)

    async with asyncio.timeout(120):
        await asyncio.gather(write(), take(), kill())
    assert list(dict.fromkeys(got)) == list(range(total))
    assert len(got) - total <= KILLS * PACK  # of the readers that began anew
    await cursor.close()
