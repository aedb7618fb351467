import asyncio
import json
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.cli.control import ask as command_of
from gateway.net.control import (
    LINE_BYTES_MAX,
    SLICE_S,
    CommandError,
    ControlProtocol,
    ControlServer,
    ShortPath,
    elsewhere,
)
from tests.waiting import until


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
    await writer.wait_closed()
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
    await writer.wait_closed()
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
    async with asyncio.timeout(60):
        await told.wait()
        assert ended == ["second"]
        told.clear()
        writer.transport.abort()
        await told.wait()
    assert ended == ["second", "first"]
    server.close()


async def test_rows_are_made_some_at_a_time_and_the_answers_keep_their_order(tmp_path: Path) -> None:
    made = 0

    def slow_rows() -> Iterator[dict[str, int]]:
        nonlocal made
        for made in range(1, 21):
            time.sleep(SLICE_S)
            yield {"row": made}

    def answer(command: dict[str, Any], _peer: ControlProtocol) -> Any:
        rows = {"list": slow_rows(), "mixed": {"n": 1, "rows": slow_rows(), "none": iter(()), "end": {"a": [2]}}}
        return rows.get(command["cmd"], made)

    server = await ControlServer.start(tmp_path / "control.sock", answer)
    reader, writer = await asyncio.open_unix_connection(tmp_path / "control.sock")
    writer.write(b'{"cmd":"list"}\n{"cmd":"now"}\n{"cmd":"mixed"}\n')
    await asyncio.sleep(0)
    seen = set()
    while made < 20:
        seen.add(made)
        await asyncio.sleep(0)
    assert len(seen) > 5  # this loop went on in between
    rows = [{"row": number} for number in range(1, 21)]
    answers = [json.loads(await reader.readline())["result"] for _ in range(3)]
    assert answers == [rows, 20, {"n": 1, "rows": rows, "none": [], "end": {"a": [2]}}]
    writer.close()
    await writer.wait_closed()
    server.close()


async def test_rows_for_who_does_not_read_wait_and_end_with_the_connection(tmp_path: Path) -> None:
    made, ended = 0, asyncio.Event()

    def rows() -> Iterator[str]:
        nonlocal made
        try:
            while True:
                made += 1
                yield "x" * 10_000
        finally:
            ended.set()

    server = await ControlServer.start(tmp_path / "control.sock", lambda _command, _peer: rows())
    reader, writer = await asyncio.open_unix_connection(tmp_path / "control.sock", limit=1 << 16)
    writer.write(b"{}\n")
    before = -1
    async with asyncio.timeout(60):
        while before != made or not made:
            before = made
            await asyncio.sleep(0.1)
    await reader.readexactly(5_000_000)
    assert before < 500 <= made  # of a little more than 10,000 bytes each
    writer.transport.abort()
    await asyncio.wait_for(ended.wait(), 60)
    server.close()


async def test_half_an_answer_is_no_answer(tmp_path: Path) -> None:
    def rows() -> Iterator[int]:
        yield 1
        time.sleep(2 * SLICE_S)
        yield 2
        raise ValueError

    server = await ControlServer.start(tmp_path / "control.sock", lambda _command, _peer: rows())
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    reader, writer = await asyncio.open_unix_connection(tmp_path / "control.sock")
    writer.write(b"{}\n")
    got = b""
    try:
        while data := await asyncio.wait_for(reader.read(100), 60):
            got += data
    except ConnectionError:
        pass
    assert got.endswith(b"[1, 2")
    assert [type(fault["exception"]) for fault in faults] == [ValueError]
    writer.close()
    await writer.wait_closed()
    server.close()


async def test_a_command_may_turn_the_connection_over_to_another_protocol(tmp_path: Path) -> None:
    got: list[bytes] = []

    class Other(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            cast(asyncio.Transport, transport).write(b"hello from the other one")

        def data_received(self, data: bytes) -> None:
            got.append(data)

    server = await ControlServer.start(tmp_path / "control.sock", lambda _, peer: peer.become(Other()))
    reader, writer = await asyncio.open_unix_connection(tmp_path / "control.sock")
    writer.write(b'{"cmd": "mqtt"}\nwhat came with it')
    assert json.loads(await reader.readline()) == {"ok": True, "result": True}
    assert await reader.readexactly(24) == b"hello from the other one"
    writer.write(b'{"cmd": "add"}\n')
    await until(lambda: b"".join(got) == b'what came with it{"cmd": "add"}\n')
    writer.close()
    await writer.wait_closed()
    server.close()


async def test_where_the_folder_cannot_be_written_the_socket_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{tmp_path}:/other")
    path = tmp_path / "not there" / "control.sock"
    assert elsewhere(path).parent == tmp_path
    assert elsewhere(path) != elsewhere(tmp_path / "another" / "control.sock")
    server = await ControlServer.start(path, answer)
    assert (await ask(elsewhere(path), b'{"cmd":"add","a":1,"b":1}\n'))[0]["result"] == 2
    assert await asyncio.to_thread(command_of, path, {"cmd": "add", "a": 2, "b": 2}) == 4
    server.close()
    assert not elsewhere(path).exists()


async def test_a_socket_file_that_cannot_be_taken_away_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    server = await ControlServer.start(folder / "sock", lambda command, peer: None)
    folder.rename(tmp_path / "aside")
    folder.touch()  # now it is below a file, which is an error as any other
    server.close()
