"""Cursors on a real stream: where they stand, who has them, and that nothing is read out of order or twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.store.engine import Cursor, CursorTaken, EngineDown
from gateway.store.nats import NatsEngine
from gateway.store.nats_cursor import base, filters_of, floor
from tests.engines import NatsServer, nats_binary
from tests.unit.gateway.store.test_nats import WAIT_S, options, record


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[tuple[NatsEngine, NatsEngine]]:
    binary, why = nats_binary()
    if not binary:
        pytest.skip(why)
    with NatsServer(tmp_path / "nats", binary=binary, sync="2m") as server:
        made = [NatsEngine(options(server), lambda: None) for _ in range(2)]
        for engine in made:
            await engine.connect()
        yield made[0], made[1]
        for engine in made:
            await engine.close()


async def put(engine: NatsEngine, first: int, count: int, topic: str = "plant/a") -> None:
    await engine.append(first, [record(n, topic) for n in range(first, first + count)], lambda n: None)


async def got(cursor: Cursor, count: int) -> list[tuple[int, int]]:
    """Positions and the numbers that are payloads."""
    found: list[tuple[int, int]] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            found += [(entry.position, int(entry.record.payload)) for entry in await cursor.read(count, 1)]
    return found


async def test_another_gateway_goes_on_behind_what_is_settled_and_in_order(
    engines: tuple[NatsEngine, NatsEngine],
) -> None:
    here, there = engines
    cursor = await here.open("a", ["plant/#"], False, False)
    assert list(cursor.before) == []
    await put(here, 1, 10)
    first = await got(cursor, 10)
    for position, n in first:
        if n <= 3 or n == 6:
            cursor.ack(position)
    await cursor.committed()
    other = await there.open("a", ["plant/#"], False, False)
    assert list(other.before) == ["plant/#"]
    assert [n for _, n in await got(other, 7)] == [4, 5, 6, 7, 8, 9, 10]
    with pytest.raises(EngineDown, match="is gone"):
        await got(cursor, 99)
    with pytest.raises(CursorTaken):
        await cursor.resume()
    with pytest.raises(CursorTaken):
        await cursor.read(10, 1)


async def test_a_new_one_begins_at_the_end_or_with_the_earliest(engines: tuple[NatsEngine, NatsEngine]) -> None:
    here, _ = engines
    await put(here, 1, 3)
    late = await here.open("late", ["#"], False, False)
    early = await here.open("early", ["#"], True, False)
    await put(here, 4, 1)
    assert [n for _, n in await got(late, 1)] == [4]
    assert [n for _, n in await got(early, 4)] == [1, 2, 3, 4]


async def test_one_that_is_declared_gets_what_comes_before_it_is_opened(engines: tuple[NatsEngine, NatsEngine]) -> None:
    here, there = engines
    await here.declare("a", ["plant/#"], False)
    await put(here, 1, 3)
    await there.declare("a", ["plant/#"], False)
    assert [n for _, n in await got(await there.open("a", ["plant/#"], False, False), 3)] == [1, 2, 3]


async def test_fresh_ones_and_forgotten_ones_have_nothing_of_before(engines: tuple[NatsEngine, NatsEngine]) -> None:
    here, there = engines
    await here.declare("a", ["#"], False)
    await put(here, 1, 3)
    cursor = await there.open("a", ["#"], False, True)
    await put(here, 4, 1)
    assert [n for _, n in await got(cursor, 1)] == [4]
    await here.forget("a", False)  # what this gateway made is not there any more: the other's is left alone
    await put(here, 5, 1)
    assert [n for _, n in await got(cursor, 1)] == [5]
    await here.forget("a", True)
    assert await here._consumers.of("a") == []


async def test_filters_of_before_are_kept_until_they_are_narrowed(engines: tuple[NatsEngine, NatsEngine]) -> None:
    here, there = engines
    await here.declare("a", ["x", "y"], False)
    cursor = await there.open("a", ["x"], False, False)
    await put(here, 1, 1, "y")
    await cursor.narrow(["x", "y"])
    assert [n for _, n in await got(cursor, 1)] == [1]
    await cursor.narrow(["z/+"])
    await put(here, 2, 1, "x")
    await put(here, 3, 1, "z/1")
    assert [n for _, n in await got(cursor, 1)] == [3]


async def test_after_a_lost_connection_nothing_is_read_twice_and_what_was_settled_is_told_again(
    engines: tuple[NatsEngine, NatsEngine],
) -> None:
    here, there = engines
    cursor = await here.open("a", ["#"], False, False)
    await put(here, 1, 6)
    first = await got(cursor, 6)
    for position, _ in first[:4]:
        cursor.ack(position)  # and the server does not hear of it
    await here.connect()
    with pytest.raises(EngineDown):
        await cursor.read(10, 1)
    await cursor.resume()
    await put(there, 7, 2)
    assert [n for _, n in await got(cursor, 2)] == [7, 8]
    for position, _ in first[4:]:
        cursor.ack(position)
    await cursor.committed()
    assert await cursor.lag() == 2
    other = await there.open("a", ["#"], False, False)
    assert [n for _, n in await got(other, 2)] == [7, 8]


async def test_one_that_somebody_deletes_is_made_again_where_it_stood(engines: tuple[NatsEngine, NatsEngine]) -> None:
    here, _ = engines
    cursor = await here.open("a", ["#"], False, False)
    await put(here, 1, 4)
    first = await got(cursor, 4)
    cursor.ack(first[0][0])
    await cursor.committed()
    await here._consumers.delete(await here._consumers.of("a"))
    await cursor.resume()
    await put(here, 5, 1)
    assert [n for _, n in await got(cursor, 1)] == [5]
    other = await here.open("a", ["#"], False, False)
    assert [n for _, n in await got(other, 4)] == [2, 3, 4, 5]


def test_names_of_consumers_are_such() -> None:
    assert base("historian-1") == "historian-1"
    assert base("a/b c") != base("a/b_c")
    assert all(char.isalnum() or char in "-_" for char in base("a/b c.*>"))


def test_what_others_have_made_is_read_with_care() -> None:
    assert floor({"ack_floor": {"stream_seq": 7}, "config": {}}) == 7
    assert floor({"ack_floor": {"stream_seq": 0}, "config": {"opt_start_seq": 5}}) == 4
    assert filters_of({"config": {}}) == []
    assert filters_of({"config": {"metadata": {"filters": "no json"}}}) == []
    assert filters_of({"config": {"metadata": {"filters": '["a", 1]'}}}) == ["a"]


async def test_opened_again_here_what_was_settled_ahead_of_others_does_not_come_again(
    engines: tuple[NatsEngine, NatsEngine],
) -> None:
    here, _ = engines
    cursor = await here.open("a", ["#"], False, False)
    await put(here, 1, 5)
    first = await got(cursor, 5)
    for position, n in first:
        if n in (1, 3, 5):
            cursor.ack(position)
    await cursor.committed()
    await cursor.close()
    again = await here.open("a", ["#"], False, False)
    await put(here, 6, 1)
    assert [n for _, n in await got(again, 3)] == [2, 4, 6]


async def test_a_stream_that_was_made_anew_is_read_from_its_beginning(engines: tuple[NatsEngine, NatsEngine]) -> None:
    here, _ = engines
    cursor = await here.open("a", ["#"], True, False)
    await put(here, 1, 5)
    await got(cursor, 5)
    await here._api("STREAM.DELETE.LOG", {})
    await here.connect()
    await cursor.resume()
    await put(here, 6, 2)
    assert [n for _, n in await got(cursor, 2)] == [6, 7]
