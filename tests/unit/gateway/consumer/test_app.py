"""The consumer itself: what it refuses, and one run from the beginning to the end."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.consumer.app import (
    Consumer,
    DeclarationError,
    HandlerError,
    Message,
    MqttFilter,
    RefusedError,
)
from gateway.consumer.message import Outgoing
from tests.harness import Broker
from tests.waiting import until
from tests.wire import Wire


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"client_id": ""}, "client_id"),
        ({"receive_maximum": 0}, "receive_maximum=0"),
        ({"receive_maximum": 65_536}, "expected 1 to 65535"),
        ({"version": "3.1"}, r'expected "5\.0" or'),
        ({"session_expiry": -1}, "session_expiry"),
        ({"session_expiry": 2**32}, "session_expiry"),
        ({"url": "http://x"}, "expected"),
    ],
)
def test_what_is_refused(said: dict[str, Any], why: str) -> None:
    given = {"url": "mqtt://nowhere", "client_id": "c", **said}
    with pytest.raises(DeclarationError, match=why):
        Consumer(given.pop("url"), **given)


def test_a_registration_is_checked_where_it_stands() -> None:
    app = Consumer("mqtt://nowhere", client_id="c", version="3.1.1")
    with pytest.raises(DeclarationError, match=r"max_attempts needs MQTT 5\.0"):
        app.subscribe("t", max_attempts=2)(print)
    with pytest.raises(DeclarationError, match="a wildcard needs MqttFilter"):
        app.subscribe("t/#")


def test_the_journal_is_named_after_the_client() -> None:
    assert Consumer("mqtt://nowhere", client_id="press/7 ü").journal == Path("press_7__.copies.db")
    assert Consumer("mqtt://nowhere", client_id="c", journal="/x/y").journal == Path("/x/y")


def test_the_decorator_gives_the_handler_back() -> None:
    app = Consumer("mqtt://nowhere", client_id="c")

    def handler(message: Message[bytes]) -> int:
        return 5

    assert app.subscribe("t")(handler) is handler
    assert [one.name for one in app.registrations] == ["handler"]
    assert app.stats.connected is False
    app.stop()  # nothing runs


async def test_nothing_to_do_is_refused() -> None:
    with pytest.raises(DeclarationError, match="nothing is subscribed to"):
        await Consumer("mqtt://nowhere", client_id="c").run()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker") / "data") as started:
        yield started


def consumer(broker: Broker, path: Path, name: str, **said: Any) -> Consumer:
    return Consumer(f"mqtt://127.0.0.1:{broker.port}", client_id=name, journal=path / "j", **said)


async def test_a_run(broker: Broker, tmp_path: Path) -> None:
    app = consumer(broker, tmp_path, "run")
    got: list[bytes] = []

    @app.subscribe(MqttFilter("run/#"))
    async def handler(message: Message[bytes]) -> None:
        got.append(message.payload)

    running = asyncio.ensure_future(app.run())
    await until(lambda: app.stats.connected)
    with Wire.connect(broker.port, "pub") as wire:
        wire.publish_done("run/1", b"a")
        await until(lambda: got == [b"a"])
        assert app.stats.handlers["handler"].acked == 1
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert app.stats.connected is False
        assert app.stats.handlers["handler"].received == 1
        wire.publish_done("run/1", b"b")
    running = asyncio.ensure_future(app.run(signals=False))
    await until(lambda: got == [b"a", b"b"])
    with pytest.raises(RuntimeError, match="runs already"):
        await app.run()
    app.stop()
    await running


async def test_a_failure_is_raised_and_the_message_comes_again(broker: Broker, tmp_path: Path) -> None:
    app = consumer(broker, tmp_path, "fails")
    got: list[bool] = []

    @app.subscribe("fails/t")
    async def handler(message: Message[bytes]) -> None:
        got.append(message.dup)
        if len(got) == 1:
            raise ZeroDivisionError("first")

    running = asyncio.ensure_future(app.run())
    await until(lambda: app.stats.connected)
    with Wire.connect(broker.port, "pub") as wire:
        wire.publish_done("fails/t")
    with pytest.raises(HandlerError, match="first"):
        await running
    running = asyncio.ensure_future(app.run())
    await until(lambda: len(got) > 1)
    assert got[:2] == [False, True]
    app.stop()
    await running


async def test_a_session_that_another_takes_ends_the_run(broker: Broker, tmp_path: Path) -> None:
    app = consumer(broker, tmp_path, "taken")
    app.subscribe("taken/t")(print)
    running = asyncio.ensure_future(app.run())
    await until(lambda: app.stats.connected)
    with Wire.connect(broker.port, "taken", version=5):
        with pytest.raises(RefusedError) as raised:
            await running
    assert raised.value.code == 0x8E


async def test_a_broker_that_is_not_there_yet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    late = Broker(tmp_path / "data")
    app = consumer(late, tmp_path, "early")
    app.subscribe("t")(print)
    running = asyncio.ensure_future(app.run())
    await until(lambda: any("cannot connect" in record.getMessage() for record in caplog.records))
    with late:
        await until(lambda: app.stats.connected)
        app.stop()
        await running


def test_outgoing_is_what_it_says() -> None:
    assert Outgoing("t", b"", 1) == ("t", b"", 1, None)


@pytest.mark.parametrize("seconds", [-1, 65_536])
def test_a_keep_alive_that_no_packet_holds_is_refused(seconds: int) -> None:
    with pytest.raises(DeclarationError, match=f"keepalive={seconds}: expected 0 to 65535 seconds"):
        Consumer("mqtt://nowhere", client_id="c", keepalive=seconds)
