"""Subscriptions, byte by byte."""

import pytest

from gateway.client import LostError, RefusedError, Subscription
from tests.scripted import PUBLISH, RESUMED, SUBSCRIBE, WAIT_S, Peer, Scripted
from tests.unit.gateway.test_client import ours


async def test_subscriptions_as_they_are_asked_for() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        first = await peer.until(SUBSCRIBE)
        second = await peer.until(SUBSCRIBE)
        assert first[4:] == bytes.fromhex("02 0b 07") + b"\0\3a/#" + b"\x2e" + b"\0\2\xc3\xa4" + b"\x01"
        assert second[4:] == bytes.fromhex("00") + b"\0\1c" + b"\x00"
        peer.send(b"\x90\x04" + second[2:4] + b"\x00\x00", b"\x90\x05" + first[2:4] + b"\x00\x02\x01")
        frame = await peer.until(10)
        assert frame[4:] == b"\0\0\2\xc3\xa4"
        peer.send(b"\xb0\x04" + frame[2:4] + b"\x00\x00")

    async with Scripted(script) as broker:
        client = ours(broker.port)
        await client.open()
        asked = [
            Subscription("a/#", 2, identifier=7, no_local=True, retain_as_published=True, retain_handling=2),
            Subscription("c", 0),
            Subscription("ä", 1, identifier=7),
        ]
        assert await client.subscribe(asked) == [2, 0, 1]
        await client.unsubscribe(["ä"])
        await broker.played()
        await client.close()


async def test_3_1_1_has_no_options() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        frame = await peer.until(SUBSCRIBE)
        assert frame[4:] == b"\0\1a\x02"
        peer.send(b"\x90\x03" + frame[2:4] + b"\x02")

    async with Scripted(script, version=4) as broker:
        client = ours(broker.port, version=4)
        await client.open()
        assert await client.subscribe([Subscription("a", 2, no_local=True, retain_handling=2)]) == [2]
        with pytest.raises(RefusedError, match="0xa1"):
            await client.subscribe([Subscription("b", identifier=4)])
        await client.close()


async def test_a_refused_subscription_names_its_filter_and_is_not_asked_for_again() -> None:
    async def first(peer: Peer) -> None:
        await peer.greet()
        frame = await peer.until(SUBSCRIBE)
        peer.send(b"\x90\x05" + frame[2:4] + b"\x00\x01\x87")
        await peer.until(PUBLISH)

    async def second(peer: Peer) -> None:
        await peer.greet()
        frame = await peer.until(SUBSCRIBE)
        assert frame[4:] == b"\0\0\1a\x01"
        peer.send(b"\x90\x04" + frame[2:4] + b"\x00\x01")

    async with Scripted(first, second) as broker:
        client = ours(broker.port)
        await client.open()
        with pytest.raises(RefusedError, match=r"subscription to b refused \(not authorized") as caught:
            await client.subscribe([Subscription("a"), Subscription("b")])
        assert caught.value.code == 0x87
        await client.send("t", b"x")
        await client.lost.wait()
        await client.reopen(WAIT_S)
        await broker.played()
        await client.close()


async def test_a_subscription_that_a_broken_connection_left_open_is_made_with_the_next() -> None:
    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.until(SUBSCRIBE)

    async def second(peer: Peer) -> None:
        await peer.greet(RESUMED)
        frame = await peer.until(SUBSCRIBE)
        peer.send(b"\x90\x04" + frame[2:4] + b"\x00\x01")

    async with Scripted(first, second) as broker:
        client = ours(broker.port)
        await client.open()
        with pytest.raises(LostError, match="no answer to SUBSCRIBE"):
            await client.subscribe([Subscription("a")])
        await client.lost.wait()
        await client.open()
        await broker.played()
        await client.close()
