"""The topics of applications, and where their groups begin."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidReplicationFactorError,
    KafkaError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from gateway.store.engine import EngineDown, EngineRefused
from gateway.store.kafka_cursor import Place, consumer_of, stop
from gateway.store.kafka_options import KafkaOptions

_FOR_GOOD: Final = (
    ClusterAuthorizationFailedError,
    InvalidReplicationFactorError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
)


@contextlib.asynccontextmanager
async def _asking(options: KafkaOptions) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**options.link())
    try:
        async with asyncio.timeout(2 * options.timeout_s):
            await admin.start()
            yield admin
    except (KafkaError, OSError, TimeoutError) as e:
        raise EngineDown(f"no answer from {', '.join(options.servers)}: {str(e) or 'no answer'}") from e
    finally:
        with contextlib.suppress(KafkaError, OSError):
            await admin.close()


async def make(options: KafkaOptions, topics: Sequence[str]) -> None:
    """One partition each, for one order; those that are there stay. Raises EngineDown and EngineRefused."""
    settings = options.topic_settings()
    wanted = [
        NewTopic(topic, 1, options.replication or -1, {} if not options.replication else None, settings)
        for topic in topics
    ]
    async with _asking(options) as admin:
        made = await admin.create_topics(wanted)
    for topic, code, *told in made.topic_errors:
        error = for_code(code)
        if code and error is not TopicAlreadyExistsError:
            text = f"topic {topic} cannot be made: {(told and told[0]) or error.__name__}"
            raise EngineRefused(text) if issubclass(error, _FOR_GOOD) else EngineDown(text)


async def delete(options: KafkaOptions, topic: str) -> None:
    """With all that is in it; its group's offset goes with it. Raises EngineDown."""
    async with _asking(options) as admin:
        done = await admin.delete_topics([topic])
    for name, code, *_ in done.topic_error_codes:
        error = for_code(code)
        if code and error is not UnknownTopicOrPartitionError:
            raise EngineDown(f"topic {name} cannot be deleted: {error.__name__}")


async def replicas(options: KafkaOptions, topics: Sequence[str]) -> tuple[int, list[str]]:
    """How many servers keep the topic that the fewest keep, and those that are away or behind. Raises EngineDown."""
    async with _asking(options) as admin:
        found = await admin.describe_topics(list(topics))
    parts = [part for topic in found for part in topic["partitions"]]
    behind = {server for part in parts for server in part["replicas"] if server not in part["isr"]}
    return min((len(part["replicas"]) for part in parts), default=0), [f"server {one}" for one in sorted(behind)]


async def begin(options: KafkaOptions, place: Place) -> None:
    """Its group goes on behind what is in the topic now. Raises EngineDown."""
    await _commit(options, place, -1)


async def remind(options: KafkaOptions, place: Place) -> None:
    """Commit the same once more: Kafka forgets the offset of a group that is silent for long. Raises EngineDown."""
    if place.committed >= 0:
        await _commit(options, place, place.committed)


async def _commit(options: KafkaOptions, place: Place, offset: int) -> None:
    """-1 = the end."""
    partition = TopicPartition(place.lane.topic, 0)
    consumer = await consumer_of(place.application, options)
    try:
        async with asyncio.timeout(options.timeout_s):
            at = offset if offset >= 0 else (await consumer.end_offsets([partition]))[partition]
            await consumer.commit({partition: at})
    except (KafkaError, TimeoutError) as e:
        raise EngineDown(f"topic {partition.topic}: {str(e) or 'no answer'}") from e
    finally:
        await stop(consumer)
    place.committed, place.committed_s = at, asyncio.get_running_loop().time()
