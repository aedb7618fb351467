"""Asking the broker for all pages together."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.net.control import ControlProtocol, ControlServer
from gateway.web import poll as module
from gateway.web.control import Control, NoBrokerError
from gateway.web.poll import Poll
from tests.unit.gateway.web.reports import part, report


class Broker:
    """Gives the report that it is told to give."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer = report()

    def __call__(self, command: dict[str, Any], peer: ControlProtocol) -> Any:
        self.asked.append(command)
        return self.answer | {"log": [line for line in self.answer["log"] if line[0] > command["log_after"]]}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_S", 0.02)
    monkeypatch.setattr(module, "SHARE", 0)


async def test_many_who_look_are_one_who_asks(tmp_path: Path, quick: None) -> None:
    broker = Broker()
    server = await ControlServer.start(tmp_path / "s", broker)
    control = Control(tmp_path / "s")
    poll = Poll(control)
    running = asyncio.create_task(poll.run())
    for _ in range(20):
        poll.look()
    numbers = await asyncio.wait_for(asyncio.gather(*(poll.next(3) for _ in range(20))), 60)
    assert min(numbers) > 3
    assert len(broker.asked) <= max(numbers)
    running.cancel()
    await part(control, server)


async def test_nobody_looks_and_it_asks_seldom_until_somebody_does(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_S", 3600.0)
    server = await ControlServer.start(tmp_path / "s", Broker())
    control = Control(tmp_path / "s")
    poll = Poll(control)
    running = asyncio.create_task(poll.run())
    assert await asyncio.wait_for(poll.next(0), 60) == 1
    await asyncio.sleep(0.1)
    assert poll.number == 1
    poll.look()
    await asyncio.wait_for(poll.next(2), 60)
    poll.leave()
    running.cancel()
    await part(control, server)


async def test_a_fresh_report_is_not_asked_for_twice_in_a_second(tmp_path: Path) -> None:
    broker = Broker()
    server = await ControlServer.start(tmp_path / "s", broker)
    control = Control(tmp_path / "s")
    poll = Poll(control)
    assert await poll.fresh() == await poll.fresh()
    assert len(broker.asked) == 1
    await part(control, server)


async def test_no_broker_is_told_and_forgotten_when_there_is_one(tmp_path: Path) -> None:
    control = Control(tmp_path / "s")
    poll = Poll(control)
    with pytest.raises(NoBrokerError):
        await poll.fresh()
    assert "does not answer" in poll.error
    server = await ControlServer.start(tmp_path / "s", Broker())
    await poll.ask()
    assert (poll.error, poll.report is None) == ("", False)
    await part(control, server)


async def test_log_lines_are_fetched_once_and_a_new_process_begins_anew(tmp_path: Path) -> None:
    broker = Broker()
    server = await ControlServer.start(tmp_path / "s", broker)
    control = Control(tmp_path / "s")
    poll = Poll(control)
    await poll.ask()
    await poll.ask()
    assert [line[0] for line in poll.log] == [1]
    broker.answer = report(log=[[2, 0, "info", "two"]])
    await poll.ask()
    assert [line[0] for line in poll.log] == [1, 2]
    assert broker.asked[-1]["log_after"] == 1
    broker.answer = report(pid=77, log=[[3, 0, "info", "after"]])
    await poll.ask()
    broker.answer = report(pid=77, log=[[1, 0, "info", "one"]])
    await poll.ask()
    assert broker.asked[-1]["log_after"] == 0
    assert [line[3] for line in poll.log] == ["one"]
    await part(control, server)
