"""What the actions do, in their order."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from gateway.consumer.copies import Copies
from gateway.consumer.declaration import Registration
from gateway.consumer.message import Message
from gateway.consumer.outcome import Outcome, ack, drop, let_go, retry, retry_after
from gateway.consumer.settlement import RETRY_COUNT
from gateway.consumer.settling import Settler
from gateway.consumer.source import MqttFilter, MqttTopic, Source
from gateway.consumer.stats import HandlerStats
from gateway.mqtt.packets import Properties
from tests.unit.gateway.consumer.rig import Given, Peer, said
from tests.waiting import until


async def handler(message: object) -> None:
    pass


class Bench:
    """A settler with its surroundings; ``log`` is what went over the wire."""

    def __init__(self, path: Path, source: Source | None = None, version: int = 5, **declared: Any) -> None:
        self.log: list[str] = []
        self.peer = Peer(self.log)
        self.copies = Copies(self.peer.publish, path / "j")
        self.stats = HandlerStats()
        self.left = 0
        registration = Registration(handler, source or MqttTopic("t"), **declared)
        self.settler = Settler(registration, self.copies, self.stats, RETRY_COUNT, version, self._count)

    def _count(self) -> None:
        self.left += 1

    def given(self, topic: str = "t", qos: int = 1, count: str | None = None, expiry_s: int = -1) -> Given:
        properties = Properties()
        properties.user_properties = [("a", "1")] if count is None else [(RETRY_COUNT, count), ("a", "1")]
        properties.content_type, properties.correlation_data, properties.response_topic = "text", b"c", "r"
        properties.payload_format_indicator, properties.message_expiry_interval = 1, expiry_s
        properties.subscription_identifiers = [7]
        return Given(topic, b"x", qos, properties, identifiers=(7,), log=self.log)

    async def settle(self, given: Given, outcome: Outcome) -> list[str]:
        self.settler.settle(given, outcome)
        await until(lambda: not self.settler.tasks)
        return self.log


@pytest.mark.parametrize("qos", [1, 2])
async def test_the_copy_is_safe_before_the_acknowledgement(tmp_path: Path, qos: int) -> None:
    bench = Bench(tmp_path, max_attempts=3)
    bench.peer.open.clear()
    bench.settler.settle(bench.given(qos=qos), retry())
    await until(lambda: bench.log)
    assert bench.log == ["publish t"]
    bench.peer.open.set()
    await until(lambda: not bench.settler.tasks)
    assert bench.log == ["publish t", "puback t 0x00", "ack t"]
    assert bench.peer.published[0].qos == 1


async def test_a_copy_has_all_the_message_had_and_its_count(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.copies.through_broker = True
    await bench.settle(bench.given(count="1", expiry_s=60), retry_after(5))
    message = bench.peer.published[0]
    properties = message.properties
    assert properties is not None
    assert (message.topic, message.payload) == ("$delayed/5/t", b"x")
    assert properties.user_properties == [("a", "1"), (RETRY_COUNT, "2")]
    assert (properties.content_type, properties.correlation_data, properties.response_topic) == ("text", b"c", "r")
    assert (properties.payload_format_indicator, properties.message_expiry_interval) == (1, 60)
    assert properties.subscription_identifiers == []  # a client must not send them
    assert bench.stats.delayed == 1


async def test_a_dead_letter_is_unchanged(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_attempts=2, dead_letter="dead")
    assert await bench.settle(bench.given(count="1"), retry()) == ["publish dead", "puback dead 0x00", "ack t"]
    properties = bench.peer.published[0].properties
    assert properties is not None
    assert properties.user_properties == [(RETRY_COUNT, "1"), ("a", "1")]
    assert bench.stats.dead_lettered == 1


async def test_a_copy_of_qos_0_is_acknowledged_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_attempts=2)
    assert await bench.settle(bench.given(qos=0), retry()) == ["publish t", "puback t 0x00"]
    assert bench.peer.published[0].qos == 1


async def test_on_3_1_1_a_copy_has_no_properties(tmp_path: Path) -> None:
    bench = Bench(tmp_path, version=4, dead_letter="dead")
    await bench.settle(bench.given(), retry())
    assert bench.peer.published[0].properties is None


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_nobody_takes_is_not_acknowledged(tmp_path: Path, qos: int) -> None:
    bench = Bench(tmp_path, max_attempts=2)
    bench.peer.codes = [0x87]
    log = await bench.settle(bench.given(qos=qos), retry())
    assert log == ["publish t", "puback t 0x87", "leave t"][: 2 + qos]
    assert (bench.stats.copies_refused, bench.stats.left, bench.left) == (1, qos, qos)


async def test_a_copy_that_is_under_way_at_the_end_leaves_its_original(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_attempts=2)
    bench.peer.open.clear()
    bench.settler.settle(bench.given(), retry())
    await until(lambda: bench.log)
    tasks = list(bench.settler.tasks)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert bench.log == ["publish t", "leave t"]


async def test_what_expires_before_its_copy_is_due_needs_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert await bench.settle(bench.given(expiry_s=5), retry_after(5)) == ["ack t"]
    assert bench.stats.expired == 1
    await bench.settle(bench.given(expiry_s=6), retry_after(5))
    assert bench.copies.journaled == 1
    await bench.copies.close()


async def test_a_topic_made_for_each_delivery(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def again(message: Message[Any]) -> str:
        if message.topic == "press/0":
            raise KeyError("press")
        return f"again/{message.topic}" if message.topic != "press/1" else "again/#"

    bench = Bench(tmp_path, MqttFilter("press/#", retry_to=again), max_attempts=3)
    assert (await bench.settle(bench.given("press/7"), retry()))[0] == "publish again/press/7"
    for topic in ("press/0", "press/1"):
        bench.log.clear()
        assert await bench.settle(bench.given(topic), retry()) == [f"leave {topic}"]
    assert [line for line in said(caplog.records) if "no topic for a copy" in line] != []


@pytest.mark.parametrize("outcome", [ack(), drop()])
async def test_at_qos_0_an_acknowledgement_is_unsupported(
    tmp_path: Path, outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path)
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            assert await bench.settle(bench.given(qos=0), outcome) == []
    assert [record.levelname for record in caplog.records if "AckError" in record.getMessage()] == [
        "WARNING", "DEBUG", "DEBUG",
    ]  # fmt: skip
    assert caplog.records[0].__dict__["ack_error"] == "unsupported"
    assert caplog.records[0].__dict__["topic"] == "t"
    assert bench.stats.unsupported == 3


async def test_a_retry_with_nothing_declared_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(tmp_path, MqttFilter("t", retry_to=lambda message: 1 / 0))  # type: ignore[arg-type]
    for _ in range(2):
        bench.log.clear()
        assert await bench.settle(bench.given(), retry()) == ["leave t"]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert all("AckError unsupported" in line for line in said(caplog.records))
    assert (bench.stats.left, bench.left, bench.stats.unsupported) == (2, 2, 2)


async def test_a_dead_letter_needs_no_topic_for_copies(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def never(message: Message[Any]) -> str:
        raise AssertionError("asked for a topic")

    bench = Bench(tmp_path, MqttFilter("t", retry_to=never), max_attempts=2, dead_letter="dead")
    await bench.settle(bench.given(count="1"), retry_after(5))
    assert (bench.log, caplog.records) == (["publish dead", "puback dead 0x00", "ack t"], [])


async def test_let_go_says_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_attempts=2, dead_letter="dead")
    assert await bench.settle(bench.given(), let_go()) == ["leave t"]
    assert bench.stats.unsupported == 0


async def test_what_does_not_decode(tmp_path: Path) -> None:
    bench = Bench(tmp_path, dead_letter="dead")
    bench.settler.undecoded(bench.given())
    await until(lambda: not bench.settler.tasks)
    assert bench.log == ["publish dead", "puback dead 0x00", "ack t"]
    bench = Bench(tmp_path)
    bench.settler.undecoded(bench.given())
    assert bench.log == ["ack t"]
    assert bench.stats.dropped == 1
