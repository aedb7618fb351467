"""The bytes of one connection."""

import asyncio

import pytest

from gateway.client import Client, Delivery, LostError, Subscription
from tests.scripted import CONNACK, CONNECT, DISCONNECT, PUBACK, PUBLISH, SUBSCRIBE, WAIT_S, Peer, Scripted

QOS_1 = "32 07 00 01 74 00 01 00 78"


async def test_bytes_come_one_by_one() -> None:
    got: list[Delivery] = []

    async def script(peer: Peer) -> None:
        await peer.until(CONNECT)
        for byte in bytes.fromhex(CONNACK + QOS_1):
            peer.send(bytes((byte,)))
            await asyncio.sleep(0.002)
        await peer.until(PUBACK)

    def deliver(one: Delivery) -> None:
        got.append(one)
        one.ack()

    async with Scripted(script) as broker:
        client = Client("127.0.0.1", broker.port, deliver=deliver)
        await client.open()
        await broker.played()
        await client.close()
    assert [one.payload for one in got] == [b"x"]


async def test_what_was_put_leaves_before_what_gmqtt_writes() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        frame = await peer.until(SUBSCRIBE)
        peer.send(b"\x90\x04" + frame[2:4] + b"\x00\x00")
        await peer.over()

    async with Scripted(script) as broker:
        client = Client("127.0.0.1", broker.port)
        await client.open()
        await client.send("t", b"x", 0)
        await client.subscribe([Subscription("a", 0)])
        await client.close()
        await broker.played()
    assert [packet[0] >> 4 for packet in broker.peers[0].seen] == [CONNECT, 3, SUBSCRIBE, DISCONNECT]


@pytest.mark.parametrize("packet", [CONNACK, "c0 00", "82 06 00 01 00 00 00 00", "f0 00"])
async def test_what_a_broker_must_not_say_ends_the_connection(packet: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.until(PUBLISH)
        peer.send(packet)
        assert (await peer.until(DISCONNECT))[2] in (0x81, 0x82, 0x8F)

    async with Scripted(script) as broker:
        client = Client("127.0.0.1", broker.port)
        await client.open()
        await client.send("t", b"x")
        async with asyncio.timeout(WAIT_S):
            await client.lost.wait()
        await broker.played()
        await client.close()


async def test_nothing_is_delivered_after_a_disconnect() -> None:
    got: list[Delivery] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.send("e0 01 8b" + "30 05 00 01 74 00 78" + QOS_1)

    async with Scripted(script) as broker:
        client = Client("127.0.0.1", broker.port, deliver=got.append)
        with pytest.raises(LostError, match="server shutting down"):
            await client.open()
    assert got == []
