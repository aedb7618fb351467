import asyncio
import json
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from gateway.net.control import LINE_BYTES_MAX, CommandError, ControlProtocol, ControlServer, ShortPath


def answer(command: dict[str, Any], _peer: ControlProtocol) -> Any:
    if command.get("cmd") == "add":
        return command["a"] + command["b"]
    raise CommandError("no such command")


async def ask(path: Path, *lines: bytes) -> list[Any]:
    with ShortPath(path) as short:
        reader, writer = await asyncio.open_unix_connection(short)
    answers = []
    for line in lines:
        writer.write(line)
        answers.append(json.loads(await reader.readline()))
    writer.close()
    await writer.wait_closed()
    return answers


async def test_nonsense_is_answered_however_deep(tmp_path: Path) -> None:
    server = await ControlServer.start(tmp_path / "control.sock", answer)
    answers = await ask(tmp_path / "control.sock", b"[" * 60_000 + b"\n", b"\xff\n", b'{"cmd":"add","a":1,"b":2}\n')
    assert [one["ok"] for one in answers] == [False, False, True]
    server.close()


async def test_who_does_not_read_the_answers_is_asked_no_further(tmp_path: Path) -> None:
    asked = 0

    def long_answer(_: dict[str, Any], _peer: ControlProtocol) -> str:
        nonlocal asked
        asked += 1
        return "x" * 10_000

    server = await ControlServer.start(tmp_path / "control.sock", long_answer)
    reader, writer = await asyncio.open_unix_connection(tmp_path / "control.sock", limit=1 << 20)
    count = 20_000
    writer.write(b"{}\n" * count)
    await asyncio.sleep(0.2)
    assert 0 < asked < 500
    for _ in range(count):
        assert len(await reader.readline()) > 10_000
    assert asked == count
    writer.close()
    server.close()


async def test_each_line_gets_its_answer(tmp_path: Path) -> None:
    server = await ControlServer.start(tmp_path / "control.sock", answer)
    answers = await ask(
        tmp_path / "control.sock",
        b'{"cmd":"add","a":1,"b":2}\n',
        b'{"cmd":"what"}\n',
        b"garbage\n",
        b"[1]\n",
        b'{"cmd":"add","a":"x","b":"y"}\n',
    )
    server.close()
    assert answers[0] == {"ok": True, "result": 3}
    assert answers[1] == {"ok": False, "error": "no such command"}
    assert answers[2]["error"].startswith("not JSON")
    assert answers[3] == {"ok": False, "error": "a command is a JSON object"}
    assert answers[4] == {"ok": True, "result": "xy"}


async def test_only_the_owner_may_open_it_and_closing_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    server = await ControlServer.start(path, answer)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    server.close()
    assert not path.exists()


async def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    server = await ControlServer.start(path, answer)
    assert (await ask(path, b'{"cmd":"add","a":1,"b":1}\n'))[0]["result"] == 2
    server.close()


async def test_a_file_of_that_name_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    path.write_text("not ours")
    with pytest.raises(OSError, match="in use"):
        await ControlServer.start(path, answer)
    assert path.read_text() == "not ours"


async def test_a_path_too_long_for_a_socket_is_served(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    server = await ControlServer.start(folder / "control.sock", answer)
    assert (await ask(folder / "control.sock", b'{"cmd":"add","a":1,"b":1}\n'))[0]["result"] == 2
    server.close()
    assert not (folder / "control.sock").exists()


async def test_a_line_without_end_is_cut_off(tmp_path: Path) -> None:
    server = await ControlServer.start(tmp_path / "control.sock", answer)
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "control.sock"))
    writer.write(b"x" * (LINE_BYTES_MAX + 1))
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    server.close()


async def test_the_end_of_a_connection_is_told_to_who_asked_for_it(tmp_path: Path) -> None:
    ended: list[str] = []
    told = asyncio.Event()

    def note(command: dict[str, Any], peer: ControlProtocol) -> bool:
        def at_end() -> None:
            ended.append(command["name"])
            told.set()

        peer.at_end = at_end
        return True

    server = await ControlServer.start(tmp_path / "control.sock", note)
    reader, writer = await asyncio.open_unix_connection(tmp_path / "control.sock")
    writer.write(b'{"name":"first"}\n')
    await reader.readline()
    assert ended == []
    await ask(tmp_path / "control.sock", b'{"name":"second"}\n')
    async with asyncio.timeout(5):
        await told.wait()
        assert ended == ["second"]
        told.clear()
        writer.transport.abort()
        await told.wait()
    assert ended == ["second", "first"]
    server.close()
