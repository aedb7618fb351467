"""Records go to Kafka: each topic gets its own in order, a batch at a time, and is never given one twice.

The producer is idempotent and tries for as long as it takes, so a batch that got no answer is not sent anew but waited
for by who comes next: Kafka may be killed and started again without a record lost or doubled.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, NamedTuple, final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)

from gateway.store.engine import EngineDown, EngineRefused, Record
from gateway.store.kafka_options import KafkaOptions
from gateway.store.kafka_record import pack

ANEW: Final = 10  # looks at a cluster that does not answer before all of its addresses are tried again
STOP_S: Final = 2.0

Numbered = tuple[int, Record]


class Pending(NamedTuple):
    """A batch on its way, of so many records; ``last`` is the number of the last."""

    sent: "asyncio.Future[object]"
    last: int
    records: int


@final
class Lane:
    """One topic."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.last = 0  # number of the last record that it has
        self.end = -1  # offset behind that, -1 = not known
        self.pending: Pending | None = None


@final
class Writer:
    """Runs on the event loop; one ``put`` for a lane at a time."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._producer: AIOKafkaProducer | None = None
        self._lanes: list[Lane] = []
        self._unanswered = 0
        self._stuck = False  # it tries for ever to send to a topic that is no more

    def lane(self, topic: str) -> Lane:
        lane = Lane(topic)
        self._lanes.append(lane)
        return lane

    def drop(self, lane: Lane) -> None:
        """Nothing more goes there."""
        if lane in self._lanes:
            self._lanes.remove(lane)
        if lane.pending is not None and not lane.pending.sent.done():
            self._stuck = True

    def servers(self) -> int:
        """How many the cluster has, as far as is known."""
        return 0 if self._producer is None else len(self._producer.client.cluster.brokers())

    async def connect(self) -> None:
        """The cluster answers. Raises EngineDown and EngineRefused."""
        producer = self._producer
        if producer is not None and (self._stuck or producer._sender is None or producer._sender.sender_task.done()):
            await self._discard()
            producer = None
        if producer is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._options.timeout_s):
                    if await producer.client.force_metadata_update():
                        self._unanswered = 0
                        return
            self._unanswered += 1
            if self._unanswered < ANEW:
                raise EngineDown(f"no answer from {', '.join(self._options.servers)}")
            await self._discard()
        await self._start()

    async def _start(self) -> None:
        producer = AIOKafkaProducer(**self._options.link(), **self._options.writing())
        try:
            async with asyncio.timeout(2 * self._options.timeout_s):
                await producer.start()
        except (KafkaError, OSError, TimeoutError) as e:
            await stop(producer)
            raise fault(e, f"no answer from {', '.join(self._options.servers)}") from e
        self._producer = producer
        self._unanswered = 0

    async def _discard(self) -> None:
        """What is on its way may still arrive, and is given again: only here a record can come twice."""
        producer, self._producer = self._producer, None
        self._unanswered, self._stuck = 0, False
        for lane in self._lanes:
            lane.pending = None
        if producer is not None:
            await stop(producer)

    async def put(self, lane: Lane, records: Sequence[Numbered]) -> None:
        """All of these are kept when it returns. Raises EngineDown and EngineRefused; then some may be."""
        try:
            async with asyncio.timeout(self._options.timeout_s):
                await self._put(lane, records)
        except TimeoutError:
            raise EngineDown(f"no answer for topic {lane.topic}") from None
        except KafkaError as e:
            lane.pending = None
            raise fault(e, f"topic {lane.topic}") from e

    async def _put(self, lane: Lane, records: Sequence[Numbered]) -> None:
        at = 0
        while True:
            pending = lane.pending
            if pending is not None:
                found = await asyncio.shield(pending.sent)
                lane.pending = None
                lane.last = max(lane.last, pending.last)
                lane.end = getattr(found, "offset", -1 - pending.records) + pending.records
            while at < len(records) and records[at][0] <= lane.last:
                at += 1
            if at == len(records):
                return
            await self._send(lane, records[at:])

    async def _send(self, lane: Lane, records: Sequence[Numbered]) -> None:
        producer = self._producer
        if producer is None or self._stuck:
            raise EngineDown("the producer has to begin anew")
        batch = producer.create_batch()
        last = 0
        for number, record in records:
            key, value, headers = pack(record)
            if batch.append(timestamp=None, key=key, value=value, headers=headers) is None:
                break
            last = number
        sent = await producer.send_batch(batch, lane.topic, partition=0)
        sent.add_done_callback(_heard)
        lane.pending = Pending(sent, last, batch.record_count())

    async def close(self) -> None:
        await self._discard()


def _heard(sent: "asyncio.Future[object]") -> None:
    """Nobody may wait for it any more when it fails."""
    if not sent.cancelled():
        sent.exception()


async def stop(producer: AIOKafkaProducer) -> None:
    """At once: left alone it would wait until the cluster is back."""
    task = asyncio.ensure_future(producer.stop())
    await asyncio.wait([task], timeout=STOP_S)
    if not task.done():
        sender = producer._sender
        if sender is not None and sender.sender_task is not None:
            sender.sender_task.cancel()
        await asyncio.wait([task], timeout=STOP_S)
        task.cancel()
    with contextlib.suppress(KafkaError, OSError, asyncio.CancelledError):
        await task


def fault(error: Exception, what: str) -> EngineDown | EngineRefused:
    """What it means for who wants to go on."""
    text = f"{what}: {str(error) or type(error).__name__}"
    if isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError):
        return EngineRefused(f"{text}; its max.message.bytes must be raised")
    if isinstance(error, TopicAuthorizationFailedError | ClusterAuthorizationFailedError):
        return EngineRefused(text)
    return EngineDown(text)
