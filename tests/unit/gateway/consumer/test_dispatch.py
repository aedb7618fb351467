"""Whose a delivery is, what is held, and the end."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.consumer.declaration import Registration, subscriptions
from gateway.consumer.dispatch import Dispatcher
from gateway.consumer.message import Message
from gateway.consumer.outcome import Outcome, let_go, retry
from gateway.consumer.settlement import RETRY_COUNT
from gateway.consumer.source import DeclarationError, MqttFilter, MqttTopic
from tests.unit.gateway.consumer.rig import Given, Peer, said
from tests.waiting import until


class Bench:
    def __init__(self, path: Path, registrations: Sequence[Registration], version: int = 5) -> None:
        self.peer = Peer()
        self.wanted = subscriptions(registrations, version)
        self.dispatcher = Dispatcher(self.wanted, self.peer, path / "j", RETRY_COUNT, version)
        self.ids = {one.wire_filter: one.identifier for one in self.wanted}

    async def start(self, session_present: bool = False, identifiers: bool = True) -> None:
        await self.dispatcher.start()
        self.dispatcher.on_connected(session_present, identifiers, False)

    async def deliver(self, topic: str, *filters: str, qos: int = 1) -> Given:
        given = Given(topic, b"", qos, identifiers=tuple(self.ids.get(name, 99) for name in filters), log=[])
        self.dispatcher.deliver(given)
        await until(lambda: not self.dispatcher.busy)
        return given


class Reader:
    """A handler that notes what it got."""

    def __init__(self, answer: Outcome | None = None) -> None:
        self.got: list[str] = []
        self.answer = answer

    async def __call__(self, message: Message[Any]) -> Outcome | None:
        self.got.append(message.topic)
        return self.answer


async def test_identifiers_tell_overlapping_filters_apart(tmp_path: Path) -> None:
    wide, narrow = Reader(), Reader()
    bench = Bench(tmp_path, [Registration(wide, MqttFilter("press/#")), Registration(narrow, MqttTopic("press/7"))])
    await bench.start()
    await bench.deliver("press/7", "press/#")
    assert (wide.got, narrow.got) == (["press/7"], [])
    await bench.deliver("press/7", "press/7")
    assert (wide.got, narrow.got) == (["press/7"], ["press/7"])
    await bench.dispatcher.finish(1)


@pytest.mark.parametrize(("answer", "expected"), [(None, "ack"), (let_go(), "left")])
async def test_one_delivery_for_several_filters_waits_for_all_handlers(
    tmp_path: Path, answer: Outcome | None, expected: str
) -> None:
    wide, narrow = Reader(answer), Reader()
    bench = Bench(tmp_path, [Registration(wide, MqttFilter("press/#")), Registration(narrow, MqttTopic("press/7"))])
    await bench.start()
    given = await bench.deliver("press/7", "press/#", "press/7")
    assert (wide.got, narrow.got) == (["press/7"], ["press/7"])
    assert given.answer == expected
    assert given.log == [{"ack": "ack press/7", "left": "leave press/7"}[expected]]
    await bench.dispatcher.finish(1)


async def test_handlers_of_one_filter_take_turns(tmp_path: Path) -> None:
    readers = [Reader(), Reader()]
    bench = Bench(tmp_path, [Registration(reader, MqttTopic("t")) for reader in readers])
    await bench.start()
    for _ in range(4):
        await bench.deliver("t", "t")
    assert [len(reader.got) for reader in readers] == [2, 2]
    await bench.dispatcher.finish(1)


async def test_an_unknown_identifier_is_found_by_topic(tmp_path: Path) -> None:
    reader = Reader()
    bench = Bench(tmp_path, [Registration(reader, MqttFilter("press/#"))])
    await bench.start()
    given = await bench.deliver("press/7", "of an earlier run")
    assert (reader.got, given.answer) == (["press/7"], "ack")
    await bench.dispatcher.finish(1)


async def test_what_no_handler_reads_is_acknowledged_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(tmp_path, [Registration(Reader(), MqttTopic("a"))])
    await bench.start()
    for _ in range(2):
        assert (await bench.deliver("b", "of an earlier run")).answer == "ack"
    assert len([line for line in said(caplog.records) if "b is read by no handler" in line]) == 1
    assert bench.dispatcher.stats().unrouted == 2
    await bench.dispatcher.finish(1)


@pytest.mark.parametrize(("version", "why"), [(4, "MQTT 3.1.1 has none"), (5, "this broker has none")])
async def test_without_identifiers_overlaps_do_not_start(tmp_path: Path, version: int, why: str) -> None:
    bench = Bench(
        tmp_path, [Registration(Reader(), MqttFilter("press/#")), Registration(Reader(), MqttTopic("press/7"))], version
    )
    with pytest.raises(
        DeclarationError, match="overlap, and " + why.replace("has none", "has no subscription identifiers")
    ):
        await bench.start(identifiers=False)
    await bench.dispatcher.finish(1)


async def test_without_identifiers_the_topic_tells(tmp_path: Path) -> None:
    first, second = Reader(), Reader()
    bench = Bench(tmp_path, [Registration(first, MqttFilter("a/#")), Registration(second, MqttFilter("b/#"))], 4)
    await bench.start(identifiers=False)
    for topic in ("a/1", "b/1", "a/2", "a/1"):
        await bench.deliver(topic)
    assert (first.got, second.got) == (["a/1", "a/2", "a/1"], ["b/1"])
    await bench.dispatcher.finish(1)


async def test_a_window_that_fills_up_is_told_before_it_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path, [Registration(Reader(let_go()), MqttTopic("t"))])
    await bench.start()
    levels = []
    for left in range(1, 9):
        bench.peer.left = left
        await bench.deliver("t", "t")
        levels.append([record.levelname for record in caplog.records])
    assert levels[4] == []
    assert levels[5:] == [["WARNING"], ["WARNING"], ["WARNING", "ERROR"]]
    assert said(caplog.records)[0] == "6 of 8 slots of the Receive Maximum are held by unsettled deliveries"
    assert bench.dispatcher.stats().handlers["Reader"].left == 8
    bench.dispatcher.on_connected(True, True, False)
    await bench.deliver("t", "t")
    assert caplog.records[-1].levelno == logging.ERROR
    assert len(caplog.records) == 3
    await bench.dispatcher.finish(1)


async def test_a_failure_ends_all_handlers_and_the_first_is_told(tmp_path: Path) -> None:
    async def fails(message: Message[Any]) -> None:
        raise KeyError(message.topic)

    reader = Reader()
    bench = Bench(tmp_path, [Registration(fails, MqttTopic("a")), Registration(reader, MqttTopic("b"))])
    await bench.start()
    bench.dispatcher.deliver(Given("a", identifiers=(bench.ids["a"],)))
    await until(bench.dispatcher.stopped.is_set)
    bench.dispatcher.deliver(Given("b", identifiers=(bench.ids["b"],)))
    await bench.dispatcher.finish(1)
    assert str(bench.dispatcher.failure) == "fails: the handler failed: 'a'"
    assert reader.got == []


async def test_the_end_waits_for_copies(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [Registration(Reader(retry()), MqttTopic("t"), max_attempts=2)])
    await bench.start()
    bench.peer.open.clear()
    given = Given("t", identifiers=(bench.ids["t"],))
    bench.dispatcher.deliver(given)
    await until(lambda: bench.dispatcher.stats().copies)
    finishing = asyncio.ensure_future(bench.dispatcher.finish(30))
    await asyncio.sleep(0)
    assert not finishing.done()
    bench.peer.open.set()
    await finishing
    assert given.answer == "ack"
    assert [message.topic for message in bench.peer.published] == ["t"]


async def test_the_end_does_not_wait_for_a_broker_that_is_gone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [Registration(Reader(retry()), MqttTopic("t"), max_attempts=2)])
    await bench.start()
    bench.peer.open.clear()
    given = Given("t", identifiers=(bench.ids["t"],))
    bench.dispatcher.deliver(given)
    await until(lambda: bench.dispatcher.stats().copies)
    await bench.dispatcher.finish(None, reachable=False)
    assert given.answer == "left"


async def test_two_handlers_of_one_name_are_two_in_the_stats(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [Registration(Reader(), MqttTopic("a")), Registration(Reader(), MqttTopic("b"))])
    assert list(bench.dispatcher.stats().handlers) == ["Reader", "Reader'"]
