"""An application and its cursor: what it is given, what goes back, and what happens when it moves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from gateway.engine import application, driver
from gateway.store.engine import CursorTaken, EngineDown, EngineRefused, Record
from tests.conformance.client import Client
from tests.core_rig import connect, session_of
from tests.unit.gateway.engine.engine_gateway import EngineGateway


@pytest.fixture
async def gateway(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EngineGateway]:
    monkeypatch.setattr(application, "REJOIN_S", 0.05)
    monkeypatch.setattr(application, "RETRY_S", 0.01)
    made = EngineGateway(monkeypatch)
    made.driver.start()
    await made.until(lambda: made.state == "up")
    yield made
    await made.driver.stop()
    assert made.faults == []


def put(gateway: EngineGateway, count: int, topic: str = "plant/a", expires_ms: int = 0) -> None:
    first = len(gateway.engine.log)
    gateway.engine.log += [Record(topic, b"%d" % n, 1, False, b"", expires_ms) for n in range(first, first + count)]
    gateway.engine.came.set()


async def reader(gateway: EngineGateway, *filters: str, name: str = "app-1") -> Client:
    client = connect(gateway.broker, name)
    client.subscribe(*filters, qos=1)
    await gateway.until(lambda: name in gateway.engine.cursors)
    return client


async def come(gateway: EngineGateway, client: Client, count: int) -> list[bytes]:
    await gateway.until(lambda: len(session_of(gateway.broker, "app-1").inflight) >= count)
    return [client.take().payload for _ in range(count)]


async def test_it_gets_what_the_engine_has_and_what_is_settled_goes_back(gateway: EngineGateway) -> None:
    client = await reader(gateway, "plant/#")
    put(gateway, 3)
    assert await come(gateway, client, 3) == [b"0", b"1", b"2"]
    cursor = gateway.engine.cursors["app-1"]
    await gateway.until(lambda: cursor.committed_n == 3)
    assert cursor.settled == {1, 2, 3}


async def test_no_more_than_it_can_have_in_hand_is_read(
    gateway: EngineGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "UNSETTLED_MAX", 5)
    client = await reader(gateway, "plant/#")
    put(gateway, 12)
    cursor = gateway.engine.cursors["app-1"]
    assert await come(gateway, client, 5) == [b"0", b"1", b"2", b"3", b"4"]
    assert await come(gateway, client, 5) == [b"5", b"6", b"7", b"8", b"9"]
    await gateway.until(lambda: cursor.at == 12)


async def test_a_new_connection_goes_on_behind_what_is_settled(gateway: EngineGateway) -> None:
    client = await reader(gateway, "plant/#")
    put(gateway, 3)
    assert await come(gateway, client, 1) == [b"0"]
    await gateway.until(lambda: gateway.engine.cursors["app-1"].settled == {1})
    client.drop()
    await gateway.until(lambda: not gateway.driver.view(0)["applications"][0]["connected"])
    client = connect(gateway.broker, "app-1")
    assert await come(gateway, client, 2) == [b"1", b"2"]


async def test_what_it_had_elsewhere_is_waited_for_before_anything_is_passed_over(gateway: EngineGateway) -> None:
    await gateway.engine.open("app-1", ["plant/a", "plant/b"], False, False)
    put(gateway, 1, "plant/b")
    client = connect(gateway.broker, "app-1")
    client.subscribe("plant/a", qos=1)
    await gateway.until(lambda: ("open", "app-1", ("plant/a",), False) in gateway.engine.calls)
    client.subscribe("plant/b", qos=1)
    assert await come(gateway, client, 1) == [b"0"]


async def test_what_it_does_not_ask_for_again_is_let_go_after_a_while(gateway: EngineGateway) -> None:
    await gateway.engine.open("app-1", ["plant/a", "plant/b"], False, False)
    client = connect(gateway.broker, "app-1")
    client.subscribe("plant/a", qos=1)
    await gateway.until(lambda: gateway.engine.cursors["app-1"].filters == ["plant/a"])


async def test_one_that_reads_at_another_gateway_is_closed_here(gateway: EngineGateway) -> None:
    client = await reader(gateway, "plant/#")
    gateway.engine.cursors["app-1"].taken = True
    gateway.engine.came.set()
    await gateway.until(lambda: session_of(gateway.broker, "app-1").client is None)
    client.expect_closed(0x8E)


async def test_after_trouble_it_reads_on(gateway: EngineGateway) -> None:
    client = await reader(gateway, "plant/#")
    gateway.engine.fall()
    await gateway.until(lambda: gateway.state == "down")
    gateway.engine.up = True
    put(gateway, 2)
    assert await come(gateway, client, 2) == [b"0", b"1"]


async def test_one_that_moved_while_the_engine_was_away_is_closed_here(gateway: EngineGateway) -> None:
    client = await reader(gateway, "plant/#")
    gateway.engine.fall()
    gateway.engine.cursors["app-1"].taken = True
    gateway.engine.up = True
    await gateway.until(lambda: session_of(gateway.broker, "app-1").client is None)
    client.expect_closed(0x8E)


async def test_one_whose_place_is_refused_for_a_while_reads_on(
    gateway: EngineGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await reader(gateway, "plant/#")
    cursor, tries = gateway.engine.cursors["app-1"], 0
    resume = cursor.resume

    async def refused() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise EngineRefused("not allowed")
        await resume()

    monkeypatch.setattr(cursor, "resume", refused)
    cursor.broken = True
    put(gateway, 2)
    assert await come(gateway, client, 2) == [b"0", b"1"]
    assert "app-1: not allowed" in gateway.text.getvalue()


async def test_what_could_not_be_committed_is_committed_though_nothing_more_is_settled(
    gateway: EngineGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await reader(gateway, "plant/#")
    cursor, tries = gateway.engine.cursors["app-1"], 0
    committed = cursor.committed

    async def failing() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise EngineDown("lost")
        await committed()

    monkeypatch.setattr(cursor, "committed", failing)
    put(gateway, 3)
    await come(gateway, client, 3)
    await gateway.until(lambda: cursor.committed_n == 3)


async def test_its_end_is_told_and_so_is_a_fresh_start(gateway: EngineGateway) -> None:
    client = await reader(gateway, "plant/#")
    client.drop()
    gateway.broker.router.remove_session("app-1", gateway.broker.now)
    await gateway.until(lambda: ("forget", "app-1", False) in gateway.engine.calls)
    connect(gateway.broker, "app-1", clean=True).subscribe("plant/#", qos=1)
    await gateway.until(lambda: ("open", "app-1", ("plant/#",), True) in gateway.engine.calls)


async def test_without_a_filter_it_has_no_place_in_the_log(gateway: EngineGateway) -> None:
    client = await reader(gateway, "plant/#")
    client.unsubscribe("plant/#")
    await gateway.until(lambda: ("forget", "app-1", True) in gateway.engine.calls)
    client.subscribe("plant/b", qos=1)
    await gateway.until(lambda: ("open", "app-1", ("plant/b",), False) in gateway.engine.calls)


async def test_one_that_is_away_at_the_start_is_declared(gateway: EngineGateway) -> None:
    client = await reader(gateway, "plant/#")
    client.drop()
    await gateway.until(lambda: ("declare", "app-1", ("plant/#",)) in gateway.engine.calls)


async def test_expired_ones_are_settled_unread(gateway: EngineGateway) -> None:
    client = await reader(gateway, "plant/#")
    put(gateway, 1, expires_ms=1)
    put(gateway, 1)
    assert await come(gateway, client, 1) == [b"1"]
    await gateway.until(lambda: gateway.engine.cursors["app-1"].settled == {1, 2})


async def test_who_subscribes_while_another_is_opened_misses_nothing_that_is_published_after(
    gateway: EngineGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = gateway.engine.calls
    opened = gateway.engine.open
    first, go = asyncio.Event(), asyncio.Event()

    async def slowly(*given: Any) -> Any:
        first.set()
        await go.wait()
        return await opened(*given)

    async def noted(number: int, records: Sequence[Record], kept: Callable[[int], None]) -> None:
        calls.append(("append",))
        kept(len(records))

    monkeypatch.setattr(gateway.engine, "open", slowly)
    monkeypatch.setattr(gateway.engine, "append", noted)
    connect(gateway.broker, "app-1").subscribe("plant/#", qos=1)
    await gateway.until(first.is_set)
    connect(gateway.broker, "app-2").subscribe("plant/#", qos=1)
    connect(gateway.broker, "p", clean=True, expiry=0).publish("plant/a", b"1", 1)
    await gateway.until(lambda: gateway.driver.view(0)["in_flight"] == 1)
    go.set()
    await gateway.until(lambda: ("append",) in calls)
    assert [one[:2] for one in calls] == [("open", "app-1"), ("open", "app-2"), ("append",)]


async def test_one_whose_place_is_refused_keeps_nobody_else_waiting(
    gateway: EngineGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "AGAIN_S", 0.01)
    opened, refused = gateway.engine.open, [EngineRefused("too many consumers"), CursorTaken("elsewhere")]

    async def open(application: str, *given: Any) -> Any:
        if application == "app-1" and refused:
            raise refused.pop()
        return await opened(application, *given)

    monkeypatch.setattr(gateway.engine, "open", open)
    await reader(gateway, "plant/#", name="app-2")
    client = await reader(gateway, "plant/#")
    put(gateway, 1)
    assert await come(gateway, client, 1) == [b"0"]
    assert "app-1: too many consumers" in gateway.text.getvalue()
    assert gateway.state == "up"
