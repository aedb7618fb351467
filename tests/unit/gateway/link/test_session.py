"""gmqtt with our hand on its wire."""

import asyncio

from gateway.client import Client
from tests.scripted import PUBLISH, WAIT_S, Peer, Scripted

QOS_1 = "32 07 00 01 74 00 01 00 78"


async def test_gmqtt_gets_a_long_connack_whole() -> None:
    async def script(peer: Peer) -> None:
        text = b"\x1f\x00\x96" + b"r" * 150 + b"\x13\x00\x09" + b"\x21\x00\x05"
        peer_properties = bytes((0x80 | len(text) & 0x7F, len(text) >> 7)) + text
        body = b"\x00\x00" + peer_properties
        await peer.greet((b"\x20" + bytes((0x80 | len(body) & 0x7F, len(body) >> 7)) + body).hex())
        await peer.over()

    async with Scripted(script) as broker:
        client = Client("127.0.0.1", broker.port, keepalive_s=60)
        await client.open()
        assert client.peer.receive_maximum == 5
        assert client._session._connection.keepalive == 9, "the server's own [MQTT-3.1.2-21]"
        await client.close()


async def test_gmqtt_does_not_connect_by_itself() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.until(PUBLISH)

    async with Scripted(script, script) as broker:
        client = Client("127.0.0.1", broker.port)
        await client.open()
        await client.send("t", b"x")
        async with asyncio.timeout(WAIT_S):
            await client.lost.wait()
        await client._session.reconnect()
        await asyncio.sleep(0.05)
        assert len(broker.peers) == 1
