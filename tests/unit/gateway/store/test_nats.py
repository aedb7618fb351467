"""NATS as the engine, against a real server: what is kept, in which order, and what is refused by name."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.store.engine import EngineDown, EngineRefused, Record
from gateway.store.login import Files
from gateway.store.nats import NatsEngine, NatsOptions, describe, described
from tests.engines import NatsServer, nats_binary, nats_version, old_nats_binary
from tests.nats_keys import ACCOUNT, OPERATOR, Key, credentials, server_lines

WAIT_S = 60


def record(n: int, topic: str = "plant/a") -> Record:
    return Record(topic, b"%d" % n, 1, False, b"", 0)


def options(server: NatsServer, **more: object) -> NatsOptions:
    given: dict[str, object] = {
        "servers": [server.url], "identity": secrets.token_hex(4), "stream": "LOG", "replicas": 1, "max_bytes": 0,
        "monitors": [], "timeout_s": 5.0,
    }  # fmt: skip
    return NatsOptions(**{**given, **more})  # type: ignore[arg-type]


@pytest.fixture
def server(tmp_path: Path) -> NatsServer:
    binary, why = nats_binary()
    if not binary:
        pytest.skip(why)
    return NatsServer(tmp_path / "nats", binary=binary)


@asynccontextmanager
async def connected(server: NatsServer, **more: object) -> AsyncIterator[NatsEngine]:
    engine = NatsEngine(options(server, **more), lambda: None)
    await engine.connect()
    try:
        yield engine
    finally:
        await engine.close()


async def read_all(engine: NatsEngine, count: int, filters: list[str], application: str = "a") -> list[Record]:
    cursor = await engine.open(application, filters, True, False)
    found: list[Record] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            found += [entry.record for entry in await cursor.read(1000, 1)]
    await cursor.close()
    return found


async def test_what_is_appended_is_kept_in_order_as_it_was(server: NatsServer) -> None:
    long = "x/" + "é" * 2000
    records = [
        record(1), Record("$a/./ x", b"", 0, True, b"\x26\x00\x01a\x00\x01b", 1_900_000_000_000),
        Record(long, b"long", 1, False, b"", 0), *(record(n, f"plant/{n % 7}") for n in range(1200)),
    ]  # fmt: skip
    with server:
        async with connected(server) as engine:
            kept: list[int] = []
            await engine.append(1, records, kept.append)
            assert kept[-1] == len(records)
            assert kept == sorted(kept)
            assert await read_all(engine, len(records), ["#", "$a/#"]) == records


async def test_what_is_given_again_is_not_stored_twice(server: NatsServer) -> None:
    with server:
        async with connected(server) as engine:
            await engine.append(1, [record(n) for n in range(5)], lambda n: None)
            await engine.append(1, [record(n) for n in range(8)], lambda n: None)
            assert (await engine.stats())["messages"] == 8


async def test_two_gateways_append_at_once_each_in_its_order(server: NatsServer) -> None:
    with server:
        async with connected(server) as one, connected(server) as other:
            await asyncio.gather(
                one.append(1, [record(n, "one") for n in range(600)], lambda n: None),
                other.append(1, [record(n, "other") for n in range(600)], lambda n: None),
            )
            found = await read_all(one, 1200, ["#"])
    for name in ("one", "other"):
        assert [int(r.payload) for r in found if r.topic == name] == list(range(600))


async def test_a_full_stream_takes_nothing_and_what_it_took_is_told(server: NatsServer) -> None:
    with server:
        async with connected(server, max_bytes=20_000) as engine:
            kept: list[int] = []
            with pytest.raises(EngineDown, match="maximum bytes"):
                await engine.append(1, [Record("a", b"x" * 1000, 1, False, b"", 0)] * 50, kept.append)
            assert 0 < kept[-1] < 50
            assert (await engine.stats())["messages"] == kept[-1]


async def test_what_every_application_has_is_deleted(server: NatsServer) -> None:
    with server:
        async with connected(server) as engine:
            await engine.declare("slow", ["#"], False)
            await engine.append(1, [record(n) for n in range(10)], lambda n: None)
            cursor = await engine.open("quick", ["#"], True, False)
            entries = await cursor.read(100, WAIT_S)
            for entry in entries:
                cursor.ack(entry.position)
            await cursor.committed()
            await engine.trim()
            assert (await engine.stats())["messages"] == 10
            await engine.forget("slow", True)
            await engine.trim()
            assert (await engine.stats())["messages"] == 10 - len(entries)


async def test_the_end_of_the_connection_is_told_and_connect_makes_another(server: NatsServer) -> None:
    ended = asyncio.Event()
    with server:
        engine = NatsEngine(options(server), ended.set)
        await engine.connect()
        server.kill9()
        async with asyncio.timeout(WAIT_S):
            await ended.wait()
        with pytest.raises(EngineDown):
            await engine.append(1, [record(1)], lambda n: None)
        with pytest.raises(EngineDown):
            await engine.connect()
        server.start()
        await engine.connect()
        await engine.append(1, [record(1)], lambda n: None)
        await engine.close()


async def test_a_stream_that_is_another_is_refused(server: NatsServer) -> None:
    with server:
        async with connected(server) as engine:
            await engine._api(
                "STREAM.CREATE.OTHER", {"name": "OTHER", "subjects": ["OTHER.>"], "retention": "interest"}
            )
        with pytest.raises(EngineRefused, match="stream OTHER: retention is 'interest': expected 'limits'"):
            await NatsEngine(options(server, stream="OTHER"), lambda: None).connect()


async def test_more_replicas_than_there_are_servers_are_refused(server: NatsServer) -> None:
    with server, pytest.raises((EngineRefused, EngineDown), match="stream LOG"):
        await NatsEngine(options(server, replicas=3), lambda: None).connect()


async def test_a_server_that_is_too_old_is_refused_by_name(tmp_path: Path) -> None:
    binary, why = old_nats_binary(tmp_path)
    if not binary:
        pytest.skip(why)
    version = await asyncio.to_thread(nats_version, binary)
    with NatsServer(tmp_path / "nats", binary=binary, sync="") as server:
        with pytest.raises(EngineRefused, match=f"nats-server {version} is too old: expected 2.10 or newer"):
            await NatsEngine(options(server), lambda: None).connect()


async def test_a_credentials_file_lets_in_and_is_read_at_each_connection(tmp_path: Path) -> None:
    binary, why = nats_binary()
    if not binary:
        pytest.skip(why)
    operator, account, stranger = Key(OPERATOR), Key(ACCOUNT), Key(ACCOUNT)
    creds = tmp_path / "gateway.creds"
    with NatsServer(tmp_path / "nats", binary=binary, lines=server_lines(operator, account)) as server:
        engine = NatsEngine(options(server, login=Files(creds=creds)), lambda: None)
        for text, said in (("", "no NATS USER JWT"), (credentials(stranger), "(?i)authorization")):
            creds.write_text(text)
            with pytest.raises((EngineRefused, EngineDown), match=said):
                await engine.connect()
        creds.write_text(credentials(account))
        await engine.connect()
        await engine.append(1, [record(1)], lambda n: None)
        assert await read_all(engine, 1, ["plant/#"]) == [record(1)]
        await engine.close()


@pytest.mark.parametrize(
    "one",
    [
        Record("t", b"p", 1, False, b"", 0),
        Record("t", b"p", 0, True, b"\x01\x01", 0),
        Record("t", b"", 1, True, b"", 7),
    ],
)
def test_what_goes_along_comes_back(one: Record) -> None:
    assert described("t", one.payload, describe(one)) == one


def test_what_another_program_has_published_is_a_plain_message() -> None:
    assert described("t", b"p", "q=x;e=soon;p=###;z") == Record("t", b"p", 0, False, b"", 0)
    assert described("t", b"p", "") == Record("t", b"p", 1, False, b"", 0)
