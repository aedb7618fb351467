"""Handlers: workers, batches, failures and the end."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.consumer.copies import Copies
from gateway.consumer.declaration import Handler, Registration
from gateway.consumer.handling import QOS0_MAX, HandlerError, Handling
from gateway.consumer.message import Message
from gateway.consumer.outcome import Outcome, ack, drop, let_go, retry, retry_after
from gateway.consumer.settlement import RETRY_COUNT
from gateway.consumer.settling import Settler
from gateway.consumer.source import MqttTopic
from gateway.consumer.stats import HandlerStats
from tests.unit.gateway.consumer.rig import Given, Peer, said
from tests.waiting import until


class Bench:
    def __init__(self, path: Path, handler: Handler, **declared: Any) -> None:
        self.log: list[str] = []
        self.peer = Peer(self.log)
        self.stats = HandlerStats()
        self.failures: list[HandlerError] = []
        registration = Registration(handler, MqttTopic("t"), **declared)
        copies = Copies(self.peer.publish, path / "j")
        settler = Settler(registration, copies, self.stats, RETRY_COUNT, 5, lambda: None)
        self.handling = Handling(registration, settler, self.stats, RETRY_COUNT, self._failed)
        self.handling.start()

    def _failed(self, error: HandlerError) -> None:
        self.failures.append(error)
        self.handling.stop_taking()

    def put(self, payload: bytes = b"", qos: int = 1, topic: str = "") -> Given:
        given = Given(topic or payload.decode() or "t", payload, qos, log=self.log)
        self.handling.put(given, qos)
        return given

    async def over(self) -> list[str]:
        await until(self.is_over)
        return self.log

    def is_over(self) -> bool:
        return not (self.handling.waiting or self.handling.running or self.handling.settler.tasks)

    async def end(self) -> None:
        self.handling.stop_taking()
        await self.handling.finish(5)


@pytest.mark.parametrize(
    ("makes", "answer"), [(lambda: None, "ack"), (ack, "ack"), (drop, "ack"), (retry, "left"), (let_go, "left")]
)
@pytest.mark.parametrize("raises", [False, True])
async def test_outcomes_are_returned_or_raised(
    tmp_path: Path, makes: Callable[[], Outcome | None], answer: str, raises: bool
) -> None:
    async def handler(message: Message[bytes]) -> Outcome | None:
        made = makes()
        if raises and made is not None:
            raise made
        return made

    bench = Bench(tmp_path, handler)
    given = bench.put()
    await bench.over()
    assert given.answer == answer
    await bench.end()


async def test_one_worker_keeps_the_order_and_several_overlap(tmp_path: Path) -> None:
    order: list[str] = []

    async def handler(message: Message[bytes]) -> None:
        order.append("+" + message.topic)
        await asyncio.sleep(0.01)
        order.append("-" + message.topic)

    for workers, expected in ((1, ["+a", "-a", "+b", "-b"]), (2, ["+a", "+b", "-a", "-b"])):
        order.clear()
        bench = Bench(tmp_path, handler, max_workers=workers)
        bench.put(b"a")
        bench.put(b"b")
        await bench.over()
        assert order == expected
        await bench.end()


async def test_a_plain_function_runs_in_a_thread(tmp_path: Path) -> None:
    seen: list[str] = []

    def handler(message: Message[bytes]) -> Outcome:
        seen.append(threading.current_thread().name)
        return drop()

    bench = Bench(tmp_path, handler)
    given = bench.put()
    await bench.over()
    assert seen[0].startswith("handler")
    assert given.answer == "ack"
    assert bench.stats.dropped == 1
    await bench.end()


# Failures


@pytest.mark.parametrize(
    ("policy", "log"),
    [("drop", ["ack t"]), ("retry", ["publish t", "puback t 0x00", "ack t"]), (let_go(), ["leave t"]),
     (retry_after(0), ["publish t", "puback t 0x00", "ack t"])],
)  # fmt: skip
async def test_on_error(tmp_path: Path, policy: Any, log: list[str], caplog: pytest.LogCaptureFixture) -> None:
    async def handler(message: Message[bytes]) -> None:
        raise ZeroDivisionError("a")

    bench = Bench(tmp_path, handler, on_error=policy, max_attempts=2)
    bench.put()
    assert await bench.over() == log
    assert bench.stats.handler_errors == 1
    assert bench.failures == []
    assert said(caplog.records) == ["handler failed"]
    await bench.end()


async def test_on_error_stop_leaves_the_message_and_takes_no_other(tmp_path: Path) -> None:
    async def handler(message: Message[bytes]) -> None:
        raise ZeroDivisionError("a")

    bench = Bench(tmp_path, handler)
    given, later = bench.put(b"a"), bench.put(b"b")
    await until(lambda: bench.failures)
    assert str(bench.failures[0]) == "handler: the handler failed: a"
    assert isinstance(bench.failures[0].__cause__, ZeroDivisionError)
    assert await bench.handling.finish(5)
    assert (given.answer, later.answer) == ("left", "left")
    assert bench.put(b"c").answer == ""
    assert bench.handling.waiting == 0


@pytest.mark.parametrize("returned", [5, "ack", True, ack])
async def test_an_answer_that_is_none_is_a_failure(tmp_path: Path, returned: object) -> None:
    async def handler(message: Message[bytes]) -> object:
        return returned

    bench = Bench(tmp_path, handler, on_error="drop")
    given = bench.put()
    await bench.over()
    assert given.answer == "ack"
    assert (bench.stats.handler_errors, bench.stats.dropped) == (1, 1)
    await bench.end()


async def test_a_handler_that_cancels_itself_lets_go(tmp_path: Path) -> None:
    async def handler(message: Message[bytes]) -> None:
        if message.topic == "a":
            raise asyncio.CancelledError

    bench = Bench(tmp_path, handler)
    first, second = bench.put(b"a"), bench.put(b"b")
    await bench.over()
    assert (first.answer, second.answer) == ("left", "ack")
    await bench.end()


@pytest.mark.parametrize(
    ("policy", "dead_letter", "log"),
    [("dead_letter", "dead", ["publish dead", "puback dead 0x00", "ack x"]), ("dead_letter", None, ["ack x"]),
     ("drop", "dead", ["ack x"]), ("retry", None, ["leave x"]),
     (retry_after(0), None, ["publish t", "puback t 0x00", "ack x"]),
     ("stop", "dead", ["leave x"])],
)  # fmt: skip
async def test_on_decode_error(
    tmp_path: Path, policy: Any, dead_letter: str | None, log: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    called = False

    async def handler(message: Message[Any]) -> None:
        nonlocal called
        called = True

    bench = Bench(tmp_path, handler, decode="json", on_decode_error=policy, dead_letter=dead_letter)
    bench.put(b"x")
    await until(lambda: bench.log and bench.is_over())
    assert bench.log == log
    assert not called
    assert bench.stats.decode_errors == 1
    assert "does not decode: not JSON" in said(caplog.records)[0]
    assert len(bench.failures) == (policy == "stop")
    await bench.end()


# Batches


async def test_a_batch_closes_at_n(tmp_path: Path) -> None:
    sizes: list[int] = []

    async def handler(batch: list[Message[bytes]]) -> None:
        sizes.append(len(batch))

    bench = Bench(tmp_path, handler, batch=3)
    for _ in range(7):
        bench.put()
    await until(lambda: len(sizes) >= 2)
    assert sizes == [3, 3]
    await until(lambda: sizes == [3, 3, 1])  # 20 ms later
    await bench.over()
    assert bench.log == ["ack t"] * 7
    await bench.end()


async def test_a_batch_closes_20_ms_after_its_first(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    closed: list[float] = []

    async def handler(batch: list[Message[bytes]]) -> None:
        closed.append(loop.time())

    bench = Bench(tmp_path, handler, batch=100)
    for _ in range(2):
        began = loop.time()
        bench.put()
        await until(lambda: closed)
        assert closed.pop() - began >= 0.02
    await bench.end()


@pytest.mark.parametrize(
    ("returned", "log"),
    [
        (None, ["ack a", "ack b", "ack c"]),
        (drop(), ["ack a", "ack b", "ack c"]),
        (let_go(), ["leave a", "leave b", "leave c"]),
        ([ack(), let_go(), None], ["ack a", "leave b", "ack c"]),
        ((drop(), ack(), ack()), ["ack a", "ack b", "ack c"]),
        ([ack()], ["ack a", "leave b", "leave c"]),  # the rest is retried, with nothing declared
        ([], ["leave a", "leave b", "leave c"]),
        ([ack(), ack(), ack(), drop()], ["ack a", "ack b", "ack c"]),
    ],
)
async def test_outcomes_of_a_batch(
    tmp_path: Path, returned: Any, log: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(batch: list[Message[bytes]]) -> Any:
        return returned

    bench = Bench(tmp_path, handler, batch=3)
    for name in (b"a", b"b", b"c"):
        bench.put(name)
    assert await bench.over() == log
    told = any("outcomes for a batch of 3" in line for line in said(caplog.records))
    assert told == (isinstance(returned, list | tuple) and len(returned) != 3)
    await bench.end()


async def test_the_rest_of_a_short_list_is_retried_under_a_cap(tmp_path: Path) -> None:
    async def handler(batch: list[Message[bytes]]) -> list[Outcome]:
        return [ack()]

    bench = Bench(tmp_path, handler, batch=2, max_attempts=3)
    bench.put(b"a")
    bench.put(b"b")
    assert await bench.over() == ["ack a", "publish t", "puback t 0x00", "ack b"]
    await bench.end()


async def test_one_wrong_answer_in_a_batch_is_one_failure(tmp_path: Path) -> None:
    async def handler(batch: list[Message[bytes]]) -> list[object]:
        return [ack(), 5]

    bench = Bench(tmp_path, handler, batch=2, on_error=let_go())
    bench.put(b"a")
    bench.put(b"b")
    assert await bench.over() == ["ack a", "leave b"]
    await bench.end()


async def test_what_does_not_decode_is_not_in_the_batch(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def handler(batch: list[Message[Any]]) -> None:
        seen.append([message.value for message in batch])

    bench = Bench(tmp_path, handler, batch=3, decode="json")
    for payload in (b"1", b"x", b"3"):
        bench.put(payload)
    await bench.over()
    assert seen == [[1, 3]]
    assert sorted(bench.log) == ["ack 1", "ack 3", "ack x"]
    await bench.end()


# Between connections, and the end


async def test_what_waits_of_qos_1_is_forgotten_when_it_comes_again(tmp_path: Path) -> None:
    seen: list[str] = []
    going = asyncio.Event()

    async def handler(message: Message[bytes]) -> None:
        seen.append(message.topic)
        await going.wait()

    bench = Bench(tmp_path, handler)
    for qos, name in ((1, b"a"), (0, b"b"), (1, b"c"), (2, b"d")):
        bench.put(name, qos)
    await until(lambda: seen)
    bench.handling.forget()
    going.set()
    await bench.over()
    assert seen == ["a", "b", "d"]
    await bench.end()


async def test_deliveries_of_qos_0_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def handler(message: Message[bytes]) -> None:
        await asyncio.Event().wait()

    bench = Bench(tmp_path, handler)
    bench.put(qos=0)
    await until(lambda: bench.handling.running)
    for _ in range(QOS0_MAX + 3):
        bench.put(qos=0)
    bench.put(qos=1)
    assert bench.handling.waiting == QOS0_MAX + 1
    assert bench.stats.overflowed == 3
    assert len([line for line in said(caplog.records) if "too slow" in line]) == 1
    bench.handling.stop_taking()
    assert not await bench.handling.finish(0.01)


async def test_handlers_finish_and_what_waits_stays(tmp_path: Path) -> None:
    going = asyncio.Event()

    async def handler(message: Message[bytes]) -> None:
        await going.wait()

    bench = Bench(tmp_path, handler)
    first, second = bench.put(b"a"), bench.put(b"b")
    await until(lambda: bench.handling.running)
    bench.handling.stop_taking()
    finishing = asyncio.ensure_future(bench.handling.finish(30))
    going.set()
    assert await finishing
    assert (first.answer, second.answer) == ("ack", "left")


@pytest.mark.parametrize("batch", [None, 2])
async def test_a_handler_that_does_not_finish_lets_go(tmp_path: Path, batch: int | None) -> None:
    async def handler(message: object) -> None:
        await asyncio.Event().wait()

    bench = Bench(tmp_path, handler, batch=batch, max_attempts=2)
    bench.put(b"a")
    bench.put(b"b")
    await until(lambda: bench.handling.running)
    bench.handling.stop_taking()
    assert not await bench.handling.finish(0.01)
    assert sorted(bench.log) == ["leave a", "leave b"]


class Unshown:
    def __repr__(self) -> str:
        raise LookupError("nothing to show")


@pytest.mark.parametrize("batch", [None, 1])
async def test_a_worker_that_dies_ends_the_consumer(tmp_path: Path, batch: int | None) -> None:
    """Else nobody would take what comes, and nobody would know."""

    async def handler(message: Any) -> object:
        return Unshown()

    bench = Bench(tmp_path, handler, batch=batch)
    given = bench.put()
    await until(lambda: bench.failures)
    assert "nothing to show" in str(bench.failures[0])
    assert given.answer != "ack"
    await bench.end()


async def test_what_waits_at_the_end_holds_back_no_answer(tmp_path: Path) -> None:
    async def handler(message: Message[bytes]) -> None:
        bench.handling.stop_taking()

    bench = Bench(tmp_path, handler)
    first, second = bench.put(b"a"), bench.put(b"b")
    await until(lambda: first.answer)
    await bench.end()
    assert (first.answer, second.answer) == ("ack", "left")
