"""A connection that was dialled, over a real socket."""

import asyncio

import pytest

from gateway.core.limits import Limits
from gateway.core.router import Router
from gateway.core.uplink import CONNECTED, LOST, OUT, Rule, Uplink
from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import encode
from gateway.mqtt.packets import Connack, Connect
from gateway.net.connection import Turn
from gateway.uplink.link import attach
from tests.uplink_rig import login


class Transport(asyncio.Transport):
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def turn() -> Turn:
    loop = asyncio.get_running_loop()
    router = Router(Limits(), None, 1000, 1)
    faults: list[Exception] = []
    return Turn(router, lambda: 2000, loop.call_soon, lambda now: None, lambda peer, error: faults.append(error))


async def test_connect_leaves_when_the_transport_is_there() -> None:
    made = turn()
    port = made.router.uplinks
    port.configure([Uplink("up", [Rule(OUT, "#")])], "g1", 8, 2000)
    came: asyncio.Queue[Connect] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = Decoder(0)
        while (packet := decoder.next()) is None:
            decoder.feed(await reader.read(1000))
        assert isinstance(packet, Connect)
        writer.write(encode(Connack(True, 0), 5))
        came.put_nowait(packet)
        await asyncio.sleep(0.05)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, number = server.sockets[0].getsockname()
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: attach(made, login(), "there"), host, number)  # type: ignore[type-var]
    assert (await asyncio.wait_for(came.get(), 60)).client_id == "gateway-up"
    found: list[str] = []
    async with asyncio.timeout(60):
        while LOST not in found:
            await asyncio.sleep(0.01)
            found += [event.kind for event in port.take_events()]
    assert found == [CONNECTED, LOST]
    assert made.open_connections == 0
    server.close()


async def test_an_uplink_that_is_not_configured() -> None:
    with pytest.raises(KeyError):
        attach(turn(), login(), "there").connection_made(Transport())
