"""The client against real brokers: Debian's mosquitto, and ours."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.client import Client, Delivery, LostError, Properties, RefusedError, Subscription
from gateway.link.outbox import SqliteOutbox
from tests.harness import Broker, Mosquitto, Server

WAIT_S = 60.0


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    if shutil.which("mosquitto") is None:
        pytest.skip("mosquitto is not installed")
    with Mosquitto(tmp_path / "data", {"persistence": True}) as running:
        yield running


@pytest.fixture(params=["mosquitto", "forebay"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "mosquitto" and shutil.which("mosquitto") is None:
        pytest.skip("mosquitto is not installed")
    data = tmp_path / "data"
    with Mosquitto(data, {"persistence": True}) if request.param == "mosquitto" else Broker(data) as running:
        yield running


async def soon(true: Callable[[], object]) -> None:
    for _ in range(30_000):
        if true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not happen")


async def collected(port: int, count: int, qos: int = 1, version: int = 5) -> list[bytes]:
    """Take so many, leave what comes then."""
    got: list[bytes] = []
    ended = asyncio.Event()

    def deliver(one: Delivery) -> None:
        if len(got) == count:
            return
        got.append(one.payload)
        one.ack()
        if len(got) == count:
            ended.set()

    client = Client(
        "127.0.0.1", port, client_id="col", version=version, clean=False, expiry_s=600, deliver=deliver
    )  # fmt: skip
    await client.open()
    await client.subscribe([Subscription("t/#", qos)])
    if count:
        async with asyncio.timeout(WAIT_S):
            await ended.wait()
    await client.close()
    return got


@pytest.mark.parametrize("version", [5, 4])
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_is_not_taken_stays_with_the_broker_in_order(server: Server, qos: int, version: int) -> None:
    assert await collected(server.port, 0, qos, version) == []
    client = Client("127.0.0.1", server.port, version=version)
    await client.open()
    for future in [await client.send("t/a", b"%d" % i, qos) for i in range(300)]:
        assert await future in (0, 0x10)
    await client.close(end_session=True)
    assert await collected(server.port, 3, qos, version) == [b"0", b"1", b"2"]
    assert await collected(server.port, 297, qos, version) == [b"%d" % i for i in range(3, 300)]


@pytest.mark.parametrize("qos", [1, 2])
async def test_nothing_is_lost_over_a_restart_of_the_broker(server: Server, qos: int) -> None:
    await collected(server.port, 0, qos)
    client = Client("127.0.0.1", server.port, clean=qos < 2, expiry_s=60 if qos == 2 else 0)
    await client.open()
    futures = [await client.send("t", b"%d" % i, qos) for i in range(20)]
    assert server.sigterm() == 0
    async with asyncio.timeout(WAIT_S):
        await client.lost.wait()
    with pytest.raises(LostError, match="cannot connect"):
        await client.reopen(0.2)
    sending = asyncio.ensure_future(client.send("t", b"20", qos))
    server.start()
    await client.reopen(WAIT_S)
    async with asyncio.timeout(WAIT_S):
        for future in [*futures, await sending]:
            assert await future in (0, 0x10)
    await client.close(end_session=True)
    got = await collected(server.port, 21, qos)
    assert set(got) == {b"%d" % i for i in range(21)}


async def test_it_stays_connected_over_kills_and_loses_nothing(server: Server) -> None:
    """Publisher, consumer and broker; the consumer settles from tasks of its own, the first of each dozen late."""
    got: set[bytes] = set()
    tasks: set[asyncio.Task[None]] = set()

    async def handle(one: Delivery) -> None:
        if int(one.payload) % 12 == 0:
            await asyncio.sleep(0.02)
        got.add(one.payload)
        one.ack()

    def deliver(one: Delivery) -> None:
        task = asyncio.ensure_future(handle(one))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    consumer = Client(
        "127.0.0.1", server.port, client_id="col", clean=False, expiry_s=600, receive_maximum=20, deliver=deliver
    )  # fmt: skip
    producer = Client("127.0.0.1", server.port, client_id="pro", clean=False, expiry_s=600)
    await consumer.subscribe([Subscription("t/#")])
    running = [asyncio.ensure_future(one.run()) for one in (consumer, producer)]
    async with asyncio.timeout(WAIT_S):
        await consumer.connected.wait()
    acknowledged: list[int] = []

    async def produce() -> None:
        for number in range(600):
            future = await producer.send("t/a", b"%d" % number)
            future.add_done_callback(lambda done, number=number: acknowledged.append(number))  # type: ignore[misc]
            await asyncio.sleep(0.002)

    producing = asyncio.ensure_future(produce())
    for at in (150, 350):
        await soon(lambda at=at: len(acknowledged) >= at)  # type: ignore[misc]
        if isinstance(server, Broker):
            server.kill9()
        else:
            server.sigterm()  # mosquitto loses what it acknowledged when it is killed
        server.start()
    async with asyncio.timeout(WAIT_S):
        await producing
    await soon(lambda: len(acknowledged) == 600 and len(got) == 600)
    for client in (producer, consumer):
        await client.close()
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*running)
    assert consumer.connections >= 3


async def test_what_the_outbox_holds_is_sent_by_the_next_run(server: Server, tmp_path: Path) -> None:
    await collected(server.port, 0)
    path = tmp_path / "out.db"
    first = Client("127.0.0.1", server.port, client_id="me", outbox=SqliteOutbox(path, "me"))
    for number in range(5):
        await first.send("t/a", b"%d" % number, 1 + number % 2)
    await first.close()
    second = Client("127.0.0.1", server.port, client_id="me", outbox=SqliteOutbox(path, "me"))
    assert second.under_way == 5
    await second.open()
    assert await second.publish("t/a", b"5") == 0
    await soon(lambda: second.under_way == 0)
    await second.close()
    assert SqliteOutbox(path, "me").load() == []
    assert sorted(await collected(server.port, 6)) == [b"%d" % number for number in range(6)]


async def test_a_message_keeps_what_it_carries_and_says_which_subscription_it_came_for(server: Server) -> None:
    got: list[Delivery] = []
    client = Client("127.0.0.1", server.port, deliver=got.append)
    await client.open()
    await client.subscribe([Subscription("t/#", identifier=3), Subscription("t/a", identifier=70_000)])
    said = Properties()
    said.content_type, said.response_topic, said.correlation_data = "a/b", "r", b"\0c"
    said.user_properties = [("k", "1"), ("a", "2"), ("k", "3")]
    said.message_expiry_interval = 600
    assert await client.publish("t/a", b"x", 1, False, said) == 0
    await soon(lambda: {id for one in got for id in one.subscription_identifiers} == {3, 70_000})
    one = got[0]
    assert one.user_properties == said.user_properties
    assert (one.properties.content_type, one.properties.response_topic) == ("a/b", "r")
    assert one.properties.correlation_data == b"\0c"
    assert 590 <= one.expiry_s <= 600
    await client.close()


async def test_the_broker_keeps_to_our_receive_maximum(server: Server) -> None:
    got: list[Delivery] = []
    client = Client("127.0.0.1", server.port, receive_maximum=5, deliver=got.append)
    await client.open()
    await client.subscribe([Subscription("t")])
    for number in range(12):
        await client.publish("t", b"%d" % number)
    await client.passed()
    assert len(got) == 5
    for one in got[:4]:
        one.leave()
    for number in range(4, 12):
        await soon(lambda number=number: len(got) == number + 1)  # type: ignore[misc]
        await client.passed()
        assert (len(got), client.left, client.unsettled) == (number + 1, 4, 1)
        got[number].ack()
    await client.close()


async def test_refusals(tmp_path: Path, mosquitto: Mosquitto) -> None:
    (tmp_path / "acl").write_text("topic read r/#\n")
    settings = {"acl_file": tmp_path / "acl", "allow_anonymous": "true"}
    with Mosquitto(tmp_path / "strict", settings) as strict:
        client = Client("127.0.0.1", strict.port)
        await client.open()
        assert await (await client.send("w", b"x")) == 0x87
        await client.close()
    with (
        Mosquitto(tmp_path / "closed", {"allow_anonymous": "false"}) as closed,
        pytest.raises(RefusedError, match="not authorized"),
    ):
        await Client("127.0.0.1", closed.port).open()


async def test_an_answer_acknowledges_on_its_own_connection_and_on_no_other(server: Server) -> None:
    got: list[Delivery] = []
    client = Client("127.0.0.1", server.port, client_id="col", clean=False, expiry_s=600, deliver=got.append)
    await client.open()
    await client.subscribe([Subscription("t/#")])
    other = Client("127.0.0.1", server.port)
    await other.open()
    assert await other.publish("t/a", b"1") == 0
    await other.close()
    await soon(lambda: got)
    assert await collected(server.port, 0) == []  # takes the session over
    async with asyncio.timeout(WAIT_S):
        await client.lost.wait()
    await client.reopen(WAIT_S)
    await soon(lambda: len(got) == 2)
    assert not got[0].ack()
    await client.passed()
    await client.close()
    await client.reopen(WAIT_S)
    await soon(lambda: len(got) == 3)
    assert got[2].ack()
    await client.close()
    await client.reopen(WAIT_S)
    await client.passed()
    assert len(got) == 3
    await client.close()


async def test_a_ping_is_answered_after_what_was_sent_before_it(server: Server) -> None:
    got: list[bytes] = []
    client = Client("127.0.0.1", server.port, deliver=lambda one: got.append(one.payload))
    await client.open()
    await client.subscribe([Subscription("t/#", 0)])
    for number in range(50):
        await client.send("t/a", b"%d" % number, 0)
    await client.passed()
    assert got == [b"%d" % number for number in range(50)]
    server.kill9()
    with pytest.raises(LostError, match="connection lost"):
        await client.passed()
