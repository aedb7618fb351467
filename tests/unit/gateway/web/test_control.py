"""The asking side of the control socket on an event loop, against a real socket."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.net.control import CommandError, ControlProtocol, ControlServer
from gateway.web.control import Control, NoBrokerError, RefusedError
from tests.unit.gateway.web.reports import part


class Answering:
    """A broker's side; counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def __call__(self, command: dict[str, Any], peer: ControlProtocol) -> Any:
        self.asked.append(command)
        if command["cmd"] == "bad":
            raise CommandError("no")
        return command.get("echo")


async def test_answers_come_to_who_asked(tmp_path: Path) -> None:
    server = await ControlServer.start(tmp_path / "s", Answering())
    control = Control(tmp_path / "s")
    answers = await asyncio.gather(*(control.ask({"cmd": "x", "echo": number}) for number in range(50)))
    assert answers == list(range(50))
    await part(control, server)


async def test_a_long_answer(tmp_path: Path) -> None:
    server = await ControlServer.start(tmp_path / "s", lambda command, peer: "x" * 3_000_000)
    control = Control(tmp_path / "s")
    assert len(await control.ask({"cmd": "x"})) == 3_000_000
    await part(control, server)


async def test_a_refusal_is_told_and_the_next_question_is_answered(tmp_path: Path) -> None:
    server = await ControlServer.start(tmp_path / "s", Answering())
    control = Control(tmp_path / "s")
    with pytest.raises(RefusedError, match=r"^no$"):
        await control.ask({"cmd": "bad"})
    assert await control.ask({"cmd": "x", "echo": 1}) == 1
    await part(control, server)


async def test_nobody_there_and_then_somebody(tmp_path: Path) -> None:
    control = Control(tmp_path / "s")
    with pytest.raises(NoBrokerError, match="does not answer: No such file"):
        await control.ask({"cmd": "x"})
    server = await ControlServer.start(tmp_path / "s", Answering())
    assert await control.ask({"cmd": "x", "echo": 1}) == 1
    await part(control, server)


async def test_a_broker_that_was_started_anew_answers_as_if_nothing_was(tmp_path: Path) -> None:
    links: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        links.append(writer)
        while await reader.readline():
            writer.write(b'{"ok": true, "result": %d}\n' % len(links))

    server = await asyncio.start_unix_server(serve, tmp_path / "s")
    control = Control(tmp_path / "s")
    assert await control.ask({"cmd": "x"}) == 1
    links[0].close()
    await links[0].wait_closed()
    assert await control.ask({"cmd": "x"}) == 2
    await part(control)
    links[1].close()
    server.close()
    await server.wait_closed()


async def test_half_an_answer_is_none(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b'{"ok": tr')
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "s")
    with pytest.raises(NoBrokerError, match="closed the connection"):
        await Control(tmp_path / "s").ask({"cmd": "x"})
    server.close()


async def test_an_answer_may_take_long_as_long_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.web.control.ANSWER_S", 4.0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        for piece in (b'{"ok": true,', *[b" "] * 7, b'"result": 1}\n'):
            await asyncio.sleep(0.6)
            writer.write(piece)
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "s")
    control = Control(tmp_path / "s")
    assert await control.ask({"cmd": "x"}) == 1
    await part(control)
    server.close()
    await server.wait_closed()


async def test_the_answer_to_a_question_that_was_given_up_is_not_taken_for_the_next(tmp_path: Path) -> None:
    first = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if b"slow" in line:
            await first.wait()
        writer.write(b'{"ok": true, "result": "%s"}\n' % (b"slow" if b"slow" in line else b"quick"))
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "s")
    control = Control(tmp_path / "s")
    slow = asyncio.create_task(control.ask({"cmd": "slow"}))
    await asyncio.sleep(0.05)
    slow.cancel()
    first.set()
    assert await control.ask({"cmd": "quick"}) == "quick"
    await part(control)
    server.close()
    await server.wait_closed()
