import asyncio
import io
import socket
from collections.abc import AsyncIterator

import pytest

from gateway.core.limits import Limits
from gateway.core.router import Router
from gateway.log import Log
from gateway.net.connection import Turn
from gateway.net.listeners import Listener, ListenError, address_text, bind, is_loopback


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
    for _ in range(500):
        if rig.turn.open_connections == connections:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{rig.turn.open_connections} connections instead of {connections}")


async def test_more_than_max_connections_are_closed(rig: Rig) -> None:
    writers = [(await asyncio.open_connection("127.0.0.1", rig.listener.port))[1] for _ in range(2)]
    await reached(rig, 2)
    reader, third = await asyncio.open_connection("127.0.0.1", rig.listener.port)
    async with asyncio.timeout(5):
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
