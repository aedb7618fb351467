"""The client on gmqtt, against Debian's mosquitto: what gmqtt alone would get wrong."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.client import Link, LostError, RefusedError
from tests.harness import Mosquitto


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Mosquitto]:
    if shutil.which("mosquitto") is None:
        pytest.skip("mosquitto is not installed")
    with Mosquitto(tmp_path / "data", {"persistence": True}) as running:
        yield running


async def collected(port: int, count: int, qos: int = 1) -> list[bytes]:
    got: list[bytes] = []
    ended = asyncio.Event()

    def deliver(topic: str, payload: bytes, retained: bool) -> bool:
        if len(got) == count:
            return False
        got.append(payload)
        if len(got) == count:
            ended.set()
        return True

    link = Link("127.0.0.1", port, client_id="col", clean=False, expiry_s=600, deliver=deliver)
    await link.open()
    await link.subscribe(["t/#"], qos)
    if count:
        async with asyncio.timeout(10):
            await ended.wait()
    await link.close()
    return got


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_is_not_taken_stays_with_the_broker_in_order(server: Mosquitto, qos: int) -> None:
    assert await collected(server.port, 0, qos) == []
    link = Link("127.0.0.1", server.port)
    await link.open()
    for future in [await link.publish("t/a", b"%d" % i, qos, False) for i in range(300)]:
        assert await future in (0, 16)
    await link.close(end_session=True)
    assert await collected(server.port, 3, qos) == [b"0", b"1", b"2"]
    assert await collected(server.port, 297, qos) == [b"%d" % i for i in range(3, 300)]


@pytest.mark.parametrize("qos", [1, 2])
async def test_nothing_is_lost_over_a_restart_of_the_broker(server: Mosquitto, qos: int) -> None:
    await collected(server.port, 0, qos)
    link = Link("127.0.0.1", server.port, clean=qos < 2, expiry_s=60 if qos == 2 else 0)
    await link.open()
    futures = [await link.publish("t", b"%d" % i, qos, False) for i in range(20)]
    assert server.sigterm() == 0
    async with asyncio.timeout(5):
        await link.lost.wait()
    with pytest.raises(LostError, match="cannot connect"):
        await link.reopen(0.2)
    publishing = asyncio.ensure_future(link.publish("t", b"20", qos, False))
    server.start()
    await link.reopen(10)
    for future in [*futures, await publishing]:
        async with asyncio.timeout(5):
            await future
    await link.close(end_session=True)
    got = await collected(server.port, 21, qos)
    assert set(got) == {b"%d" % i for i in range(21)}


async def test_a_window_that_waits(server: Mosquitto) -> None:
    """gmqtt alone raises OverflowError once the broker's Receive Maximum (20 here) is reached."""
    link = Link("127.0.0.1", server.port)
    await link.open()
    for future in [await link.publish("t", b"x", 1, False) for _ in range(100)]:
        await future
    await link.close()


async def test_refusals(server: Mosquitto, tmp_path: Path) -> None:
    (tmp_path / "acl").write_text("topic read r/#\n")
    settings = {"acl_file": tmp_path / "acl", "allow_anonymous": "true"}
    with Mosquitto(tmp_path / "strict", settings) as strict:
        link = Link("127.0.0.1", strict.port)
        await link.open()
        assert await (await link.publish("w", b"x", 1, False)) == 0x87
        await link.close()
    with (
        Mosquitto(tmp_path / "closed", {"allow_anonymous": "false"}) as closed,
        pytest.raises(RefusedError, match="code 135"),
    ):
        await Link("127.0.0.1", closed.port).open()


class Scripted:
    """A broker that follows a script: for each connection a list of (bytes to wait for, bytes to send, then close)."""

    CONNACK = bytes.fromhex("20 03 00 00 00")
    RESUMED = bytes.fromhex("20 03 01 00 00")

    def __init__(self, *scripts: list[tuple[int, bytes]]) -> None:
        self.scripts = list(scripts)
        self.seen: list[bytes] = []

    async def __aenter__(self) -> int:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port: int = self.server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Each step waits for one packet of a type (0: none) and then sends."""
        for kind, answer in self.scripts.pop(0):
            while kind:
                head = await reader.readexactly(2)
                self.seen.append(head + await reader.readexactly(head[1]))
                if head[0] >> 4 == kind:
                    break
            writer.write(answer)
            await writer.drain()
        writer.close()


CONNECT, PUBLISH, PUBREC, PUBREL, PUBCOMP, DISCONNECT = 1, 3, 5, 6, 7, 14


async def test_a_refused_qos_2_message() -> None:
    script = [(CONNECT, Scripted.CONNACK), (PUBLISH, bytes.fromhex("50 03 00 01 97")), (DISCONNECT, b"")]
    async with Scripted(script) as port:
        link = Link("127.0.0.1", port)
        await link.open()
        assert await (await link.publish("t", b"x", 2, False)) == 0x97
        await link.close()


async def test_a_resumed_session_gets_its_packets_again_with_dup() -> None:
    scripted = Scripted(
        [(CONNECT, Scripted.CONNACK), (PUBLISH, b"")],
        [(CONNECT, Scripted.RESUMED), (PUBLISH, bytes.fromhex("40 02 00 01")), (DISCONNECT, b"")],
    )
    async with scripted as port:
        link = Link("127.0.0.1", port, clean=False, expiry_s=60)
        await link.open()
        done = await link.publish("t", b"x", 1, False)
        await link.lost.wait()
        await link.reopen(5)
        assert await done == 0
        await link.close()
    first, second = [packet for packet in scripted.seen if packet[0] >> 4 == PUBLISH]
    assert (first[0], second[0]) == (0x32, 0x3A)
    assert first[1:] == second[1:]


async def test_a_forgotten_session_gets_what_it_lost_as_new() -> None:
    scripted = Scripted(
        [(CONNECT, Scripted.CONNACK), (PUBLISH, b"")],
        [(CONNECT, Scripted.CONNACK), (PUBLISH, bytes.fromhex("40 02 00 02")), (DISCONNECT, b"")],
    )
    async with scripted as port:
        link = Link("127.0.0.1", port)
        await link.open()
        done = await link.publish("t", b"x", 1, False)
        await link.lost.wait()
        await link.reopen(5)
        assert await done == 0
        await link.close()
    assert [packet[0] for packet in scripted.seen if packet[0] >> 4 == PUBLISH] == [0x32, 0x32]


async def test_qos_2_is_delivered_once_however_often_it_comes() -> None:
    publish, again = bytes.fromhex("34 07 00 01 74 00 05 00 78"), bytes.fromhex("3c 07 00 01 74 00 05 00 78")
    release = bytes.fromhex("62 02 00 05")
    scripted = Scripted(
        [
            (CONNECT, Scripted.CONNACK),
            (0, publish),
            (PUBREC, again),
            (PUBREC, release),
            (PUBCOMP, publish),
            (PUBREC, release),
            (PUBCOMP, b""),
        ]
    )
    got: list[bytes] = []

    def deliver(topic: str, payload: bytes, retained: bool) -> bool:
        got.append(payload)
        return True

    async with scripted as port:
        link = Link("127.0.0.1", port, deliver=deliver)
        await link.open()
        async with asyncio.timeout(5):
            await link.lost.wait()
    assert got == [b"x", b"x"], "a packet id that was released is a new message"


async def test_a_listener_that_shuts_the_door_at_once() -> None:
    async with Scripted([]) as port:
        with pytest.raises(LostError, match="no answer to CONNECT"):
            await Link("127.0.0.1", port).open()


async def test_a_future_acknowledges_on_its_own_connection_and_on_no_other(server: Mosquitto) -> None:
    taken: list[asyncio.Future[None]] = []
    came = asyncio.Event()

    def deliver(topic: str, payload: bytes, retained: bool) -> "asyncio.Future[None]":
        taken.append(asyncio.get_running_loop().create_future())
        came.set()
        return taken[-1]

    link = Link("127.0.0.1", server.port, client_id="col", clean=False, expiry_s=600, deliver=deliver)
    for count in (1, 2):
        await link.reopen(20)
        if count == 1:
            await link.subscribe(["t/#"], 1)
            other = Link("127.0.0.1", server.port)
            await other.open()
            await (await other.publish("t/a", b"1", 1, False))
            await other.close()
        async with asyncio.timeout(10):
            while len(taken) < count:
                came.clear()
                await came.wait()
        if count == 1:
            assert await collected(server.port, 0) == []  # takes the session over
            async with asyncio.timeout(10):
                await link.lost.wait()
    taken[0].set_result(None)
    await link.passed()
    await link.close()
    await link.reopen(20)
    async with asyncio.timeout(10):
        while len(taken) < 3:
            came.clear()
            await came.wait()
    taken[2].set_result(None)
    await link.close()
    await link.reopen(20)
    await link.passed()
    assert len(taken) == 3
    await link.close()


async def test_a_ping_is_answered_after_what_was_sent_before_it(server: Mosquitto) -> None:
    got: list[bytes] = []

    def deliver(topic: str, payload: bytes, retained: bool) -> bool:
        got.append(payload)
        return True

    link = Link("127.0.0.1", server.port, deliver=deliver)
    await link.open()
    await link.subscribe(["t/#"], 0)
    for number in range(50):
        await link.publish("t/a", b"%d" % number, 0, False)
    await link.passed()
    assert got == [b"%d" % number for number in range(50)]
    server.kill9()
    with pytest.raises(LostError, match="connection lost"):
        await link.passed()
