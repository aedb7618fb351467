"""The log of the APPLICATIONs on Kafka, or what speaks its protocol, as TBMQ has it: a topic and a group for each.

An application's topic has one partition, and in it what its subscriptions asked for when it was appended.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from gateway.store import kafka_topics
from gateway.store.engine import Cursor, Record, wanted
from gateway.store.kafka_cursor import KafkaCursor, Place
from gateway.store.kafka_options import KafkaOptions
from gateway.store.kafka_writer import Numbered, Writer

CHUNK: Final = 256  # records on their way at a time: so many more come twice when the gateway dies
CHUNK_BYTES: Final = 1_048_576
REMIND_S: Final = 43_200.0
ROUTES_MAX: Final = 10_000


@final
class KafkaEngine:
    """One gateway alone: what another appends or reads under the same prefix is not looked for."""

    name: Final = "kafka"

    def __init__(self, options: KafkaOptions) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it tells each try; what matters comes as an error
        self._options = options
        self._writer = Writer(options)
        self._places: dict[str, Place] = {}
        self._routes: dict[str, list[Place]] = {}
        self._making = asyncio.Lock()
        self.largest = 0

    async def connect(self) -> None:
        await self._writer.connect()
        for place in self._places.values():
            place.ready = False  # somebody may have deleted its topic
        await self._prepare(list(self._places.values()))

    # to Kafka

    async def append(self, number: int, records: Sequence[Record], kept: Callable[[int], None]) -> None:
        done = 0
        while done < len(records):
            lanes: dict[Place, list[Numbered]] = {}
            size, end = 0, min(done + CHUNK, len(records))
            while done < end and size < CHUNK_BYTES:
                record = records[done]
                for place in self._readers(record.topic):
                    lanes.setdefault(place, []).append((number + done, record))
                size += len(record.payload) + len(record.topic) + len(record.props)
                done += 1
            if lanes:
                await self._prepare(list(lanes))
                await self._put(lanes)
            kept(done)

    async def _put(self, lanes: dict[Place, list[Numbered]]) -> None:
        """Side by side; all have ended when one has failed."""
        puts = [self._writer.put(place.lane, numbered) for place, numbered in lanes.items()]
        failed = [e for e in await asyncio.gather(*puts, return_exceptions=True) if isinstance(e, BaseException)]
        if failed:
            raise failed[0]

    def _readers(self, topic: str) -> list[Place]:
        found = self._routes.get(topic)
        if found is None:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            found = [place for place in self._places.values() if wanted(place.filters, topic)]
            self._routes[topic] = found
        return found

    async def _prepare(self, places: Sequence[Place]) -> None:
        """Their topics are there, and their groups stand where they begin. Raises EngineDown and EngineRefused."""
        if all(place.ready for place in places):
            return
        async with self._making:
            missing = [place for place in places if not place.ready]
            if missing:
                await kafka_topics.make(self._options, [place.lane.topic for place in missing])
            for place in missing:
                if place.fresh:
                    await kafka_topics.begin(self._options, place)
                    place.fresh = False
                place.ready = True

    # applications

    async def declare(self, application: str, filters: Sequence[str], earliest: bool) -> None:
        await self._prepare([self._place(application, filters)])

    async def open(self, application: str, filters: Sequence[str], earliest: bool, fresh: bool) -> Cursor:
        place = self._place(application, filters)
        if fresh:
            place.fresh, place.ready = True, False
        await self._prepare([place])
        cursor = KafkaCursor(place, self._options, lambda asked: self._filters(place, asked))
        await cursor.open()
        return cursor

    def _place(self, application: str, filters: Sequence[str]) -> Place:
        place = self._places.get(application)
        if place is None:
            place = Place(application, self._writer.lane(self._options.topic(application)))
            self._places[application] = place
        self._filters(place, filters)
        return place

    def _filters(self, place: Place, filters: Sequence[str]) -> None:
        asked = tuple(filters)
        if asked != place.filters:
            place.filters = asked
            self._routes.clear()

    async def forget(self, application: str, wherever: bool) -> None:
        place = self._places.pop(application, None)
        self._routes.clear()
        if place is not None:
            self._writer.drop(place.lane)
        async with self._making:
            await kafka_topics.delete(self._options, self._options.topic(application))

    # what is told

    async def trim(self) -> None:
        """Retention is the topics' own; here it is seen to that Kafka does not forget where a silent reader stood."""
        now = asyncio.get_running_loop().time()
        for place in list(self._places.values()):
            if place.ready and place.committed >= 0 and now - place.committed_s > REMIND_S:
                await kafka_topics.remind(self._options, place)

    async def stats(self) -> dict[str, Any]:
        places = [place for place in self._places.values() if place.ready]
        ends = [(place.lane.end, place.committed) for place in places]
        copies, behind = 0, list[str]()
        if places:
            copies, behind = await kafka_topics.replicas(self._options, [place.lane.topic for place in places])
        return {
            "servers": self._writer.servers(),
            "topics": len(places),
            "messages": sum(max(0, end - at) for end, at in ends if end >= 0 and at >= 0),
            "replicas": copies,
            "replicas_behind": behind,
            "fallen_off": sum(place.lost for place in places),
        }

    async def close(self) -> None:
        await self._writer.close()
