import asyncio
import io
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.core.limits import Limits
from gateway.core.meter import Bucket
from gateway.core.router import Router
from gateway.log import Log
from gateway.net.connection import Turn
from gateway.net.listeners import TLS, UNIX, WS, Listener, ListenError, address_text, bind, bind_unix, is_loopback
from gateway.net.websocket import dial
from tests import wire_format as mqtt


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.1", False),
        ("gateway.example", False),
        ("", False),
    ],
)
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert address_text("::1", 1883) == "[::1]:1883"
    assert address_text("127.0.0.1", 1883) == "127.0.0.1:1883"


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            bind("127.0.0.1", port)


def test_a_name_that_is_none_is_named() -> None:
    with pytest.raises(ListenError, match=r"no\.such\.invalid:1883"):
        bind("no.such.invalid", 1883)


def test_accepted_sockets_do_not_delay() -> None:
    (sock,) = bind("127.0.0.1", 0)
    sock.listen()
    sock.setblocking(True)
    with sock, socket.create_connection(sock.getsockname()):
        accepted, _ = sock.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)


class Rig:
    def __init__(self) -> None:
        limits = Limits()
        limits.max_connections = 2
        loop = asyncio.get_running_loop()
        self.router = Router(limits, None, 0, 1)
        self.turn = Turn(self.router, lambda: 0, loop.call_soon, lambda now: None, lambda peer, error: None)
        self.text = io.StringIO()
        (sock,) = bind("127.0.0.1", 0)
        self.listener = Listener(sock, self.turn, Log(self.text))
        self.listener.start()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    made.listener.close()


async def reached(rig: Rig, connections: int) -> None:
    for _ in range(6000):
        if rig.turn.open_connections == connections:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{rig.turn.open_connections} connections instead of {connections}")


async def test_more_than_max_connections_are_closed(rig: Rig) -> None:
    writers = [(await asyncio.open_connection("127.0.0.1", rig.listener.port))[1] for _ in range(2)]
    await reached(rig, 2)
    reader, third = await asyncio.open_connection("127.0.0.1", rig.listener.port)
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    assert "max_connections reached" in rig.text.getvalue()
    writers[0].close()
    await reached(rig, 1)
    fourth = (await asyncio.open_connection("127.0.0.1", rig.listener.port))[1]
    await reached(rig, 2)
    for writer in (*writers, third, fourth):
        writer.close()
    await reached(rig, 0)


async def test_after_close_nobody_gets_in_and_connections_stay(rig: Rig) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", rig.listener.port)
    await reached(rig, 1)
    rig.listener.close()
    rig.listener.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", rig.listener.port)
    assert rig.turn.open_connections == 1
    writer.close()
    await reached(rig, 0)


async def test_more_connections_than_the_rate_allows_wait(rig: Rig) -> None:
    times = iter(range(0, 10_000_000))
    rig.turn.now = lambda: next(times)  # a millisecond at each look
    rig.listener.bucket = Bucket(1, 1, 0)
    first = (await asyncio.open_connection("127.0.0.1", rig.listener.port))[1]
    second = (await asyncio.open_connection("127.0.0.1", rig.listener.port))[1]
    await reached(rig, 1)
    await asyncio.sleep(0.05)
    assert rig.turn.open_connections == 1
    times = iter(range(1_000_000, 10_000_000))
    await reached(rig, 2)
    for writer in (first, second):
        writer.close()
    await reached(rig, 0)


async def test_who_is_not_welcome_is_closed_and_told_of(rig: Rig) -> None:
    hosts: list[str] = []

    def refuses(host: str) -> str:
        hosts.append(host)
        return "banned"

    rig.listener.refuses = refuses
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.listener.port)
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    writer.close()
    assert hosts == ["127.0.0.1"]
    assert "refused: banned" in rig.text.getvalue()


async def test_a_tls_listener_without_a_certificate_admits_nobody(rig: Rig) -> None:
    (sock,) = bind("127.0.0.1", 0)
    listener = Listener(sock, rig.turn, Log(rig.text), TLS)
    listener.start()
    assert str(listener).endswith(" (TLS)")
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    writer.close()
    assert "there is no usable certificate" in rig.text.getvalue()
    listener.close()


@pytest.mark.parametrize("mode", ["600", "660", "666"])
async def test_a_unix_socket(rig: Rig, tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("x" * 120) / "m.sock"  # longer than a socket's address may be
    path.parent.mkdir()
    listener = Listener(bind_unix(path, mode), rig.turn, Log(rig.text), UNIX, path)
    listener.start()
    assert f"{stat.S_IMODE(path.stat().st_mode):o}" == mode
    assert str(listener) == str(path)
    assert listener.local
    with pytest.raises(ListenError, match="Address already in use"):
        bind_unix(path, mode)
    folder = os.open(path.parent, os.O_RDONLY)
    _, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/m.sock")
    await reached(rig, 1)
    (client,) = rig.router.core.clients
    assert client.peer == f"unix:pid={os.getpid()},uid={os.getuid()}"
    writer.close()
    await reached(rig, 0)
    listener.close()
    os.close(folder)
    assert not path.exists()


async def test_a_socket_that_nobody_serves_is_replaced_and_a_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "m.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    bind_unix(path, "600").close()
    path.unlink()
    path.write_text("precious")
    with pytest.raises(ListenError, match=r"m\.sock: Address already in use"):
        bind_unix(path, "600")
    assert path.read_text() == "precious"


class Heard(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


async def test_a_websocket_leads_to_the_same_connection(rig: Rig) -> None:
    (sock,) = bind("127.0.0.1", 0)
    listener = Listener(sock, rig.turn, Log(rig.text), WS)
    listener.start()
    heard = Heard()
    stream = await dial(heard, "127.0.0.1", listener.port)
    await reached(rig, 1)
    stream.write(mqtt.connect("", 9))  # of no version
    for _ in range(6000):
        if heard.data:
            break
        await asyncio.sleep(0.01)
    assert heard.data[0] == 0x20
    await reached(rig, 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(60):
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()
    assert "did not get through" in rig.text.getvalue()
    listener.close()
