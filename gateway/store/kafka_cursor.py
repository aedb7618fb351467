"""One application's place in its topic: at most a pack is read and not committed."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from gateway.store.engine import EngineDown, Entry
from gateway.store.kafka_options import KafkaOptions
from gateway.store.kafka_record import unpack
from gateway.store.kafka_writer import Lane

log: Final = logging.getLogger(__name__)


@final
class Given:
    """What was read and is not committed, in order; positions are counted, offsets are Kafka's."""

    def __init__(self, base: int) -> None:
        self.base = base  # position of the first
        self._offsets: deque[int] = deque()
        self._settled: deque[bool] = deque()
        self.end = -1  # offset behind all that is settled in a row, -1 = nothing new

    def add(self, offset: int) -> int:
        """Its position."""
        self._offsets.append(offset)
        self._settled.append(False)
        return self.base + len(self._offsets) - 1

    def settle(self, position: int) -> None:
        at = position - self.base
        if not 0 <= at < len(self._settled):
            return
        self._settled[at] = True
        while self._settled and self._settled[0]:
            self._settled.popleft()
            self.end = self._offsets.popleft() + 1
            self.base += 1

    def __len__(self) -> int:
        return len(self._offsets)


@final
class Place:
    """What is known of an application, read or not."""

    def __init__(self, application: str, lane: Lane) -> None:
        self.application = application
        self.lane = lane
        self.filters: tuple[str, ...] = ()
        self.ready = False  # its topic is there, and its group's offset where it is to begin
        self.fresh = False  # it is to begin behind what is in the topic
        self.position = 1  # the next of its cursors: one never settles what another has read
        self.committed = -1  # offset of its group, -1 = not known
        self.committed_s = 0.0  # loop's time then
        self.lost = 0  # records that fell off unread


@final
class KafkaCursor:
    def __init__(self, place: Place, options: KafkaOptions, narrowed: Callable[[Sequence[str]], None]) -> None:
        """``narrowed`` is told other filters."""
        self._place = place
        self._options = options
        self._narrowed = narrowed
        self._partition = TopicPartition(place.lane.topic, 0)
        self._consumer: AIOKafkaConsumer | None = None
        self._given = Given(place.position)
        self._committed = 0  # offset
        self._next = -1  # offset behind what was read, -1 = not known
        self._told = asyncio.Event()  # something was settled
        self._writing = asyncio.Lock()

    @property
    def before(self) -> Sequence[str]:
        return ()

    async def open(self) -> None:
        """Where the group stood, which is known to Kafka. Raises EngineDown."""
        consumer = self._consumer = await consumer_of(self._place.application, self._options)
        partition = self._partition
        try:
            async with asyncio.timeout(self._options.timeout_s):
                if self._next < 0:
                    found = await consumer.committed(partition)
                    if found is None:  # Kafka forgets groups that are silent for a week: what was read comes again
                        found = (await consumer.beginning_offsets([partition]))[partition]
                    self._committed = self._next = found
                consumer.seek(partition, self._next)
        except (KafkaError, TimeoutError) as e:
            await self._leave()
            raise EngineDown(f"topic {partition.topic}: {str(e) or 'no answer'}") from e

    async def read(self, most: int, wait_s: float) -> list[Entry]:
        """See Cursor; not more than fills the pack."""
        consumer = self._consumer
        if consumer is None:
            raise EngineDown("no consumer")
        room = self._room()
        if room <= self._options.pack // 2 and self._given.end >= 0:
            await self.committed()
            room = self._room()
        if room <= 0:
            self._told.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._told.wait()
            return []
        try:
            found = await consumer.getmany(self._partition, timeout_ms=int(1000 * wait_s), max_records=min(most, room))
        except KafkaError as e:
            raise EngineDown(f"topic {self._partition.topic}: {str(e) or type(e).__name__}") from e
        entries: list[Entry] = []
        for record in found.get(self._partition, ()):
            self._look(record.offset)
            position = self._given.add(record.offset)
            self._place.position = position + 1
            mine = unpack(record.key, record.value, record.headers)
            if mine is None:
                log.warning("topic %s, offset %d: not a gateway's record: passed over", record.topic, record.offset)
                self._given.settle(position)
            else:
                entries.append(Entry(position, mine))
        return entries

    def _room(self) -> int:
        """An acked message counts until it is committed."""
        uncommitted = len(self._given)
        if self._given.end >= 0:
            uncommitted += max(self._given.end - self._committed, 0)
        return self._options.pack - uncommitted

    def _look(self, offset: int) -> None:
        """Retention takes the oldest whether they were read or not; a topic made anew begins at 0."""
        if 0 <= self._next < offset:
            self._place.lost += offset - self._next
            log.warning("topic %s: %d messages fell off unread", self._partition.topic, offset - self._next)
        self._next = offset + 1

    def ack(self, position: int) -> None:
        self._given.settle(position)
        self._told.set()

    async def committed(self) -> None:
        """See Cursor."""
        async with self._writing:
            end, consumer = self._given.end, self._consumer
            if end < 0 or consumer is None:
                return
            try:
                async with asyncio.timeout(self._options.timeout_s):
                    await consumer.commit({self._partition: end})
            except (KafkaError, TimeoutError) as e:
                group = self._options.group(self._place.application)
                raise EngineDown(f"group {group}: {str(e) or 'no answer'}") from e
            self._committed = self._place.committed = end
            self._place.committed_s = asyncio.get_running_loop().time()
            if self._given.end == end:
                self._given.end = -1

    async def narrow(self, filters: Sequence[str]) -> None:
        self._narrowed(filters)

    async def resume(self) -> None:
        """See Cursor."""
        await self._leave()
        await self.open()

    async def lag(self) -> int:
        consumer = self._consumer
        if consumer is None:
            return 0
        end = consumer.highwater(self._partition)
        return 0 if end is None else max(0, end - max(self._given.end, self._committed))

    async def close(self) -> None:
        await self._leave()

    async def _leave(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stop(consumer)


async def consumer_of(application: str, options: KafkaOptions) -> AIOKafkaConsumer:
    """In its group, with its topic and no other member. Raises EngineDown."""
    consumer = AIOKafkaConsumer(**options.link(), **options.reading(application))
    consumer.assign([TopicPartition(options.topic(application), 0)])
    try:
        async with asyncio.timeout(2 * options.timeout_s):
            await consumer.start()
    except (KafkaError, OSError, TimeoutError) as e:
        await stop(consumer)
        raise EngineDown(f"no answer from {', '.join(options.servers)}: {str(e) or 'no answer'}") from e
    return consumer


async def stop(consumer: AIOKafkaConsumer) -> None:
    """Without waiting for a cluster that is not there."""
    with contextlib.suppress(KafkaError, OSError, TimeoutError):
        async with asyncio.timeout(2):
            await consumer.stop()
