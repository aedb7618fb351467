"""The driver between the core and an engine: what is appended, when publishers hear of it, and what trouble does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from gateway.core.engine import ENGINE_ID
from gateway.engine import driver
from gateway.store.engine import Record
from tests import wire_format as mqtt
from tests.engine_rig import application
from tests.memory_engine import MemoryCursor
from tests.station import Station
from tests.unit.gateway.engine.engine_gateway import EngineGateway


@pytest.fixture
async def gateway(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EngineGateway]:
    monkeypatch.setattr(driver, "REFUSED_S", 0.01)
    made = EngineGateway(monkeypatch)
    made.driver.start()
    yield made
    await made.driver.stop()
    assert made.faults == []
    assert "defect" not in made.text.getvalue()


def publisher(gateway: EngineGateway) -> Station:
    return Station(gateway.broker, "p", persistent=False)


async def test_a_publisher_hears_when_the_engine_has_it(gateway: EngineGateway) -> None:
    await gateway.until(lambda: gateway.state == "up")
    p = publisher(gateway)
    gateway.engine.go.clear()
    used = p.publish("plant/a", b"1", props=[(mqtt.MESSAGE_EXPIRY, 60), (mqtt.USER_PROPERTY, ("k", "v"))])
    await gateway.until(lambda: gateway.driver.view(0)["in_flight"] == 1)
    assert p.pids(mqtt.PUBACK) == []
    gateway.engine.go.set()
    await gateway.until(lambda: gateway.driver.view(0)["in_flight"] == 0)
    gateway.broker.pump()
    assert p.pids(mqtt.PUBACK) == [used]
    record = gateway.engine.log[0]
    assert record[:4] == ("plant/a", b"1", 1, False)
    assert record.props == b"\x26\x00\x01k\x00\x01v"
    assert record.expires_ms > 0


async def test_while_it_is_down_all_waits_here_and_then_goes_in_order(gateway: EngineGateway) -> None:
    await gateway.until(lambda: gateway.state == "up")
    p = publisher(gateway)
    for n in range(50):
        p.publish("plant/a", b"%d" % n)
    gateway.engine.accepts = 10
    await gateway.until(lambda: gateway.state == "down")
    for n in range(50, 100):
        p.publish("plant/a", b"%d" % n)
    await gateway.until(lambda: gateway.driver.view(0)["waiting"] or gateway.state == "down")
    assert len(p.pids(mqtt.PUBACK)) == 100
    gateway.engine.accepts = None
    await gateway.until(lambda: len(gateway.engine.log) == 100)
    assert [int(record.payload) for record in gateway.engine.log] == list(range(100))
    assert gateway.engine.numbers == sorted(set(gateway.engine.numbers))
    assert "engine memory: down: it is full" in gateway.text.getvalue()


async def test_a_lost_connection_is_noticed_though_nothing_is_appended(gateway: EngineGateway) -> None:
    await gateway.until(lambda: gateway.state == "up")
    gateway.engine.fall()
    await gateway.until(lambda: gateway.state == "down")
    assert not gateway.broker.router.engine.attached
    gateway.engine.up = True
    await gateway.until(lambda: gateway.state == "up")


async def test_what_is_refused_is_shown_and_tried_again(gateway: EngineGateway) -> None:
    gateway.engine.refusal = "version 1 is too old"
    gateway.engine.fall()
    await gateway.until(lambda: gateway.state == "refused")
    assert gateway.driver.view(0)["error"] == "version 1 is too old"
    gateway.engine.refusal, gateway.engine.up = "", True
    await gateway.until(lambda: gateway.state == "up")
    assert gateway.driver.view(0)["error"] is None


async def test_a_defect_of_the_engine_is_told_and_not_the_end(
    gateway: EngineGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.until(lambda: gateway.state == "up")
    monkeypatch.setattr(driver, "RETRY_S_MAX", 0.01)

    async def broken(*_: object) -> None:
        raise KeyError("x")

    append = gateway.engine.append
    gateway.engine.append = broken  # type: ignore[method-assign, assignment]
    p = publisher(gateway)
    p.publish("plant/a", b"1")
    await gateway.until(lambda: gateway.state == "down")
    gateway.engine.append = append  # type: ignore[method-assign]
    await gateway.until(lambda: len(gateway.engine.log) == 1)
    assert "KeyError" in gateway.text.getvalue()
    gateway.text.truncate(0)


async def test_qos_0_needs_no_answer(gateway: EngineGateway) -> None:
    await gateway.until(lambda: gateway.state == "up")
    publisher(gateway).publish("plant/a", b"0", qos=0)
    await gateway.until(lambda: gateway.engine.log)
    assert gateway.engine.log == [Record("plant/a", b"0", 0, False, b"", 0)]


async def test_at_the_end_what_is_not_kept_stays_here(gateway: EngineGateway) -> None:
    await gateway.until(lambda: gateway.state == "up")
    p = publisher(gateway)
    gateway.engine.go.clear()
    used = p.publish("plant/a", b"1")
    await gateway.until(lambda: gateway.driver.view(0)["in_flight"] == 1)
    await gateway.driver.stop()
    gateway.broker.pump()
    assert p.pids(mqtt.PUBACK) == [used]
    assert gateway.broker.store.segments


async def test_nothing_is_appended_before_everybody_who_wants_it_is_known(
    gateway: EngineGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One subscribes, and somebody publishes to it, while the engine is still busy with another."""
    await gateway.until(lambda: gateway.state == "up")
    engine, asked, go = gateway.engine, asyncio.Event(), asyncio.Event()
    open_, append = engine.open, engine.append

    async def slowly(client_id: str, filters: Sequence[str], earliest: bool, fresh: bool) -> MemoryCursor:
        if client_id == "app-1":
            asked.set()
            await go.wait()
        return await open_(client_id, filters, earliest, fresh)

    async def telling(number: int, records: Sequence[Record], kept: Callable[[int], None]) -> None:
        engine.calls.append(("append",))
        await append(number, records, kept)

    monkeypatch.setattr(engine, "open", slowly)
    monkeypatch.setattr(engine, "append", telling)
    application(gateway.broker, "app-1")
    await gateway.until(asked.is_set)
    application(gateway.broker, "app-2")
    publisher(gateway).publish("plant/a", b"1")
    await gateway.until(lambda: gateway.driver.view(0)["in_flight"] == 1)
    go.set()
    await gateway.until(lambda: engine.log)
    known = [call[1] for call in engine.calls[: engine.calls.index(("append",))] if call[0] == "open"]
    assert known == ["app-1", "app-2"]


async def test_a_message_with_the_packet_id_of_one_that_is_gone_is_another(gateway: EngineGateway) -> None:
    """An engine that goes by numbers must not take it for one that it has."""
    await gateway.until(lambda: gateway.state == "up")
    p = publisher(gateway)
    gateway.engine.go.clear()
    for n in range(3):
        p.publish("plant/a", b"%d" % n)
    await gateway.until(lambda: gateway.driver.view(0)["in_flight"] == 3)
    gateway.engine.fall()
    await gateway.until(lambda: gateway.state == "down")
    router = gateway.broker.router
    assert router.discard(ENGINE_ID, gateway.broker.now) == 3
    writer = router.core.sessions[ENGINE_ID]
    writer.next_id = 0  # as after 65,535 more
    gateway.engine.up = True
    await gateway.until(lambda: gateway.state == "up")
    p.publish("plant/a", b"3")
    await gateway.until(lambda: gateway.engine.log)
    assert [record.payload for record in gateway.engine.log] == [b"3"]
    assert gateway.engine.numbers == [4]


async def test_what_a_crash_would_repeat_is_bounded_however_slow_the_disk_here(
    gateway: EngineGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "REPEATS_MAX", 20)
    monkeypatch.setattr(driver, "HELD_S", 3600)
    await gateway.until(lambda: gateway.state == "up")
    gateway.engine.up = False
    gateway.engine.fall()
    await gateway.until(lambda: gateway.state == "down")
    p = publisher(gateway)
    for n in range(90):
        p.publish("plant/a", b"%d" % n)
    assert len(p.pids(mqtt.PUBACK)) == 90
    gateway.broker.hold()
    gateway.engine.up = True
    await gateway.until(lambda: len(gateway.engine.log) >= 20)
    for _ in range(50):
        gateway.broker.advance(1)
        gateway.driver.run()
        await asyncio.sleep(0)
    assert len(gateway.engine.log) == 20
    gateway.broker.release()

    def all_there() -> bool:
        gateway.broker.advance(1)
        return len(gateway.engine.log) == 90

    await gateway.until(all_there)
    assert [record.payload for record in gateway.engine.log] == [b"%d" % n for n in range(90)]
