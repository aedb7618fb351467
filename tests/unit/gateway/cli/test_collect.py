"""``forebay collect`` as a process, against our broker."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.client import Client
from tests.command import Forebay
from tests.harness import Broker, free_port

WAIT_S = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data") as running:
        yield running


def started(*arguments: object) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "gateway", "collect", *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=WAIT_S)
    return process.returncode, out, err


def ran(*arguments: object) -> tuple[int, str, str]:
    return finished(started(*arguments))


def payloads(path: Path) -> list[bytes]:
    if path.suffix == ".jsonl":
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["payload"].encode() for line in lines if line.endswith("}")]
    if not path.exists():
        return []
    database = sqlite3.connect(path)
    try:
        return [row[0] for row in database.execute("SELECT payload FROM messages ORDER BY number")]
    except sqlite3.OperationalError:  # the table is not made yet
        return []
    finally:
        database.close()


async def publish(port: int, first: int, last: int, topic: str = "t/a") -> None:
    client = Client("127.0.0.1", port)
    await client.open()
    for future in [await client.send(topic, b"%d" % number) for number in range(first, last)]:
        assert await future in (0, 0x10)
    await client.close()


def told(process: subprocess.Popen[str], what: str) -> str:
    """The line of its progress that says this."""
    assert process.stderr is not None
    return next(line for line in process.stderr if what in line)


async def until(true: Callable[[], object]) -> None:
    for _ in range(1500):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen")


async def until_somebody_listens(client: Client, topic: str) -> None:
    for _ in range(600):
        if await client.publish(topic, b"first") == 0:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("nobody subscribed")


@pytest.mark.parametrize("name", ["m.db", "m.jsonl"])
async def test_what_comes_while_it_is_away_is_there_when_it_comes_back(
    broker: Broker, name: str, tmp_path: Path
) -> None:
    path, port = tmp_path / name, broker.port
    assert (await asyncio.to_thread(ran, "t/#", "-o", path, "-p", port, "-n", 0))[0] == 0
    await publish(port, 0, 250)
    code, out, err = await asyncio.to_thread(ran, "t/#", "-o", path, "-p", port, "-n", 100, "--json", "--batch", 30)
    assert (code, json.loads(out), err) == (0, {"stored": 100, "repeated": 0}, "")
    assert payloads(path) == [b"%d" % number for number in range(100)]
    process = started("t/#", "-o", path, "-p", port, "--progress", "0.2")
    await until(lambda: len(payloads(path)) == 250)
    assert "/s" in await asyncio.to_thread(told, process, "150 messages, ")
    process.send_signal(signal.SIGINT)
    code, out, err = await asyncio.to_thread(finished, process)
    assert (code, out) == (0, ""), err
    assert payloads(path) == [b"%d" % number for number in range(250)]


async def test_a_gateways_lag_and_what_it_named(broker: Broker, tmp_path: Path) -> None:
    path, port = tmp_path / "m.jsonl", broker.port
    assert (await asyncio.to_thread(ran, "spBv1.0/#", "-o", path, "-p", port, "-n", 0))[0] == 0
    await publish(port, 0, 3, "spBv1.0/g/NDATA/e")
    process = started("spBv1.0/#", "-o", path, "-p", port, "--progress", "0.2")
    await until(lambda: len(payloads(path)) == 3)
    await asyncio.to_thread(told, process, ", lag ")
    process.terminate()
    code, _, err = await asyncio.to_thread(finished, process)
    assert code == 0, err
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({row["ingest"] for row in rows}) == 3
    assert all(["forebay-qos", "1"] in row["properties"]["user"] for row in rows)


async def test_it_waits_for_a_broker_that_is_not_there_yet(tmp_path: Path) -> None:
    port = free_port()
    process = started("t/#", "-o", tmp_path / "m.db", "-p", port, "--progress", 0)
    broker = Broker(tmp_path / "data", port=port)
    try:
        assert "cannot connect" in await asyncio.to_thread(told, process, f"127.0.0.1:{port}")
        broker.start()
        client = Client("127.0.0.1", port)
        await client.open()
        await until_somebody_listens(client, "t/a")
        await client.close()
        await until(lambda: payloads(tmp_path / "m.db") == [b"first"])
        process.terminate()
        code, _, err = await asyncio.to_thread(finished, process)
        assert code == 0, err
    finally:
        process.kill()
        broker.kill9()


async def test_a_stop_without_a_broker_is_no_failure(tmp_path: Path) -> None:
    process = started("t/#", "-o", tmp_path / "m.db", "-p", free_port())
    line = await asyncio.to_thread(lambda: process.stderr.readline())  # type: ignore[union-attr]
    assert "cannot connect" in line
    process.send_signal(signal.SIGINT)
    assert (await asyncio.to_thread(finished, process))[0] == 0


def test_a_session_that_the_broker_does_not_keep_is_said(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data", {"mqtt.max_session_expiry_interval": "1m"}) as broker:
        to = ("collect", "t/#", "-o", "m.db", "-p", str(broker.port), "-n", "0")
        code, _, err = forebay(*to, "--expiry", "1h")
        assert code == 0 and err == "forebay: the broker keeps what comes while this is away for 60 s only\n"
        assert forebay(*to, "--expiry", "1m") == (0, "", "")
    with Broker(tmp_path / "other") as broker:
        code, _, err = forebay("collect", "t/#", "-o", "m.db", "-p", str(broker.port), "-n", "0")
        assert code == 0 and err.startswith("forebay: the broker knows no session of ours")


def test_mistakes_are_named(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text("no json\n")
    for arguments, text in (
        (["-o", "m.txt"], "m.txt: expected a name that ends in .db"),
        (["-o", "m.jsonl"], "m.jsonl: expected JSON objects"),
        (["-o", "no/m.db"], "no/m.db.id: cannot be written"),
        (["-o", "m.db", "--expiry", "soon"], '--expiry "soon": expected'),
        ([], "Missing option '--into'"),
    ):
        code, out, err = forebay("collect", "t/#", *arguments)
        assert (code, out) == (2, "") and text in err and err.count("\n") == 1, err


def test_a_refusal_is_named(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data", {"allow_anonymous": "false"}) as broker:
        code, out, err = forebay("collect", "t/#", "-o", "m.db", "-p", str(broker.port))
        assert (code, out) == (1, "") and "connection refused (not authorized" in err
