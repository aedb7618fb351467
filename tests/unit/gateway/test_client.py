"""The client against brokers that are played by hand: what gmqtt alone would get wrong, byte by byte."""

import asyncio
import itertools
import logging
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import trustme

from gateway import client as module
from gateway.client import Client, Delivery, LostError, Properties, RefusedError, Subscription, Will
from tests.scripted import (
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    RESUMED,
    SUBSCRIBE,
    UNSUBSCRIBE,
    WAIT_S,
    Peer,
    Scripted,
)

QOS_1 = "32 07 00 01 74 00 {:02x} 00 78"
QOS_2 = "34 07 00 01 74 00 {:02x} 00 78"


def ours(port: int, **settings: Any) -> Client:
    return Client("127.0.0.1", port, **{"client_id": "me", **settings})


async def soon(true: Callable[[], object]) -> None:
    for _ in range(30_000):
        if true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not happen")


async def opened_and_lost(client: Client) -> None:
    """A connection that may be over before it is used."""
    try:
        await client.open()
    except LostError:
        pass
    async with asyncio.timeout(WAIT_S):
        await client.lost.wait()


# Deliveries


@pytest.mark.parametrize(("qos", "kind"), [(1, PUBACK), (2, PUBREC)])
@pytest.mark.parametrize("version", [5, 4])
async def test_nothing_is_acknowledged_before_it_is_settled(version: int, qos: int, kind: int) -> None:
    got: list[Delivery] = []
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.greet()
        publish = (QOS_1 if qos == 1 else QOS_2).format(5)
        peer.send(publish if version == 5 else publish.replace(" 00 78", " 78").replace("07", "06", 1))
        await soon(lambda: got)
        await peer.nothing()
        go.set()
        assert await peer.packet() == bytes((kind << 4, 2, 0, 5))

    async with Scripted(script, version=version) as broker:
        client = ours(broker.port, version=version, deliver=got.append)
        await client.open()
        await go.wait()
        assert (got[0].topic, got[0].payload, got[0].qos, got[0].packet_id) == ("t", b"x", qos, 5)
        assert got[0].ack()
        await broker.played()
        await client.close()


@pytest.mark.parametrize("qos", [1, 2])
async def test_the_first_of_three_is_slow(qos: int) -> None:
    """Handlers are tasks of their own; the answers leave in order of receipt [MQTT-4.6.0-2] [MQTT-4.6.0-3]."""
    done = asyncio.Event()
    finished: list[int] = []

    async def handle(one: Delivery) -> None:
        if one.packet_id == 1:
            await done.wait()
        finished.append(one.packet_id)
        one.ack()

    tasks: list[asyncio.Task[None]] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        for packet_id in (1, 2, 3):
            peer.send((QOS_1 if qos == 1 else QOS_2).format(packet_id))
        await soon(lambda: finished == [2, 3])
        await peer.nothing()
        done.set()
        assert [(await peer.packet())[3] for _ in range(3)] == [1, 2, 3]

    async with Scripted(script) as broker:
        client = ours(broker.port, deliver=lambda one: tasks.append(asyncio.ensure_future(handle(one))))
        await client.open()
        await broker.played()
        assert finished == [2, 3, 1]
        await client.close()


async def test_one_that_is_left_holds_nobody_up_and_comes_with_the_next_connection() -> None:
    got: list[Delivery] = []

    def deliver(one: Delivery) -> None:
        got.append(one)
        if one.packet_id == 1 and not one.dup:
            one.leave()
        else:
            one.ack()

    async def first(peer: Peer) -> None:
        await peer.greet()
        peer.send(QOS_1.format(1), QOS_1.format(2))
        assert await peer.packet() == bytes.fromhex("40020002")
        await peer.nothing()
        assert (client.left, client.unsettled) == (1, 0)
        peer.cut()

    async def second(peer: Peer) -> None:
        await peer.greet(RESUMED)
        peer.send(QOS_1.format(1).replace("32", "3a"))
        assert await peer.packet() == bytes.fromhex("40020001")

    async with Scripted(first, second) as broker:
        client = ours(broker.port, clean=False, expiry_s=60, deliver=deliver)
        await client.open()
        await client.lost.wait()
        await client.reopen(WAIT_S)
        await broker.played()
        await client.close()
    assert [(one.packet_id, one.dup) for one in got] == [(1, False), (2, False), (1, True)]


async def test_a_handler_that_raises_is_nobody_elses_trouble(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))

    class Handler:
        def __call__(self, one: Delivery) -> object:
            if one.packet_id == 1:
                raise RuntimeError("mine")
            return one.ack()

    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.send(QOS_1.format(1), QOS_1.format(2))
        assert await peer.packet() == bytes.fromhex("40020002")
        await peer.nothing()

    async with Scripted(script) as broker:
        client = ours(broker.port, deliver=Handler())
        with caplog.at_level(logging.ERROR):
            await client.open()
            await broker.played()
        await client.close()
    assert "was not taken" in caplog.text
    assert heard == []


async def test_a_message_can_be_refused_by_5_0_only() -> None:
    got: list[Delivery] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.send(QOS_1.format(7))
        assert await peer.packet() == bytes.fromhex("4003000780")

    async with Scripted(script) as broker:
        client = ours(broker.port, deliver=got.append)
        await client.open()
        await soon(lambda: got)
        got[0].ack(0x80)
        await broker.played()
        await client.close()

    async def old(peer: Peer) -> None:
        await peer.greet()
        peer.send("32 07 00 01 74 00 08 78 79")
        await soon(lambda: len(got) == 2)
        await peer.nothing()

    async with Scripted(old, version=4) as broker:
        client = ours(broker.port, version=4, deliver=got.append)
        await client.open()
        await broker.played()
        with pytest.raises(ValueError, match="no answer that refuses"):
            got[1].ack(0x80)
        assert not got[1].settled
        await client.close()


async def test_qos_2_is_delivered_once_however_often_it_comes() -> None:
    got: list[Delivery] = []

    def deliver(one: Delivery) -> None:
        got.append(one)
        one.ack()

    async def first(peer: Peer) -> None:
        await peer.greet()
        peer.send(QOS_2.format(5))
        await peer.until(PUBREC)
        peer.send(QOS_2.format(5).replace("34", "3c"))
        await peer.until(PUBREC)
        peer.cut()

    async def second(peer: Peer) -> None:
        await peer.greet(RESUMED)
        peer.send(QOS_2.format(5).replace("34", "3c"))
        await peer.until(PUBREC)
        peer.send("62 02 00 05")
        await peer.until(PUBCOMP)
        assert len(got) == 1
        peer.send(QOS_2.format(5))
        await peer.until(PUBREC)
        peer.send("62 02 00 05")
        await peer.until(PUBCOMP)

    async with Scripted(first, second) as broker:
        client = ours(broker.port, clean=False, expiry_s=60, deliver=deliver)
        await client.open()
        await client.lost.wait()
        await client.reopen(WAIT_S)
        await broker.played()
        await client.close()
    assert len(got) == 2, "a packet id that was released is a new message"


async def test_a_broker_that_exceeds_our_receive_maximum_or_speaks_badly_is_told() -> None:
    async def many(peer: Peer) -> None:
        assert b"\x21\x00\x02" in await peer.greet()
        for packet_id in range(1, 22):
            peer.send(QOS_1.format(packet_id))
        assert await peer.until(DISCONNECT) == bytes.fromhex("e00193")

    async def bad(peer: Peer) -> None:
        await peer.greet()
        peer.send("36 07 00 01 74 00 01 00 78")
        assert await peer.until(DISCONNECT) == bytes.fromhex("e00181")

    async def large(peer: Peer) -> None:
        assert b"\x27\x00\x00\x00\x10" in await peer.greet()
        peer.send("32 20 00 01 74")
        assert await peer.until(DISCONNECT) == bytes.fromhex("e00195")

    async with Scripted(many, bad, large) as broker:
        got: list[Delivery] = []
        for settings in ({"receive_maximum": 2}, {}, {"packet_bytes_max": 16}):
            client = ours(broker.port, deliver=got.append, **settings)
            await opened_and_lost(client)
            assert "reason code 0x" in client.lost_reason()
        await broker.played()
    assert len(got) == 20


# Publishing


@pytest.mark.parametrize("maximum", [1, 3])
async def test_the_brokers_receive_maximum_is_kept_and_subscribing_goes_on(maximum: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet(f"20 06 00 00 03 21 00 {maximum:02x}")
        flight = [await peer.until(PUBLISH) for _ in range(maximum)]
        await peer.nothing()
        subscribing.set()
        frame = await peer.until(SUBSCRIBE)
        peer.send(b"\x90\x04" + frame[2:4] + b"\x00\x01")
        for left in reversed(range(8)):
            peer.send(b"\x40\x02" + flight.pop(0)[5:7])
            if left >= maximum:
                flight.append(await peer.until(PUBLISH))

    subscribing = asyncio.Event()
    async with Scripted(script) as broker:
        client = ours(broker.port)
        await client.open()
        assert client.peer.receive_maximum == maximum
        tasks = [asyncio.ensure_future(client.publish("t", b"%d" % number)) for number in range(8)]
        await subscribing.wait()
        assert await client.subscribe([Subscription("s")]) == [1]
        assert await asyncio.gather(*tasks) == [0] * 8
        await broker.played()
        await client.close()
    sent = [packet for packet in broker.peers[0].seen if packet[0] >> 4 == PUBLISH]
    assert [packet[-1:] for packet in sent] == [b"%d" % number for number in range(8)]


@pytest.mark.parametrize(
    ("answer", "qos", "code"),
    [
        ("40 02 00 01", 1, 0),
        ("40 03 00 01 10", 1, 0x10),
        ("40 04 00 01 10 00", 1, 0x10),
        ("40 03 00 01 87", 1, 0x87),
        ("50 03 00 01 97", 2, 0x97),
    ],
)
async def test_the_brokers_reason_code_is_the_result(answer: str, qos: int, code: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.until(PUBLISH)
        peer.send(answer)
        await peer.nothing()

    async with Scripted(script) as broker:
        client = ours(broker.port)
        await client.open()
        if code < 0x80:
            assert await client.publish("t", b"x", qos) == code
        else:
            with pytest.raises(RefusedError, match=f"message to t refused .*0x{code:02x}") as caught:
                await client.publish("t", b"x", qos)
            assert caught.value.code == code
        await broker.played()
        await client.close()


async def test_a_resumed_session_gets_its_packets_again_with_dup_and_opening_does_not_wait_for_it() -> None:
    go = asyncio.Event()

    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.until(PUBLISH)
        await peer.until(PUBLISH)
        peer.send("50 02 00 02")
        await peer.until(PUBREL)

    async def second(peer: Peer) -> None:
        await peer.greet(RESUMED)
        await go.wait()
        frames = [await peer.packet(), await peer.packet()]
        assert frames[0] == bytes.fromhex("62 02 00 02")
        assert frames[1] == bytes.fromhex("3a 07 00 01 74 00 01 00 78")
        peer.send("40 02 00 01 70 02 00 02")

    async with Scripted(first, second) as broker:
        client = ours(broker.port, clean=False, expiry_s=60)
        await client.open()
        tasks = [await client.send("t", b"x", 1), await client.send("t", b"x", 2)]
        await client.lost.wait()
        await client.reopen(WAIT_S)
        assert client.session_present and client.connected.is_set()
        go.set()
        assert [await task for task in tasks] == [0, 0]
        await broker.played()
        await client.close()


async def test_a_forgotten_session_gets_what_it_lost_as_new_and_the_subscriptions() -> None:
    async def first(peer: Peer) -> None:
        await peer.greet()
        frame = await peer.until(SUBSCRIBE)
        peer.send(b"\x90\x05" + frame[2:4] + b"\x00\x01\x00")
        await peer.until(PUBLISH)

    async def second(peer: Peer) -> None:
        await peer.greet()
        assert await peer.until(PUBLISH) == bytes.fromhex("32 07 00 01 74 00 02 00 78")
        peer.send("40 02 00 02")

    async def subscribed_again(peer: Peer) -> None:
        await second(peer)
        seen = [packet for packet in peer.seen if packet[0] >> 4 == SUBSCRIBE]
        frame = seen[0] if seen else await peer.until(SUBSCRIBE)
        assert frame[4:] == broker.peers[0].seen[1][4:]
        peer.send(b"\x90\x05" + frame[2:4] + b"\x00\x01\x00")

    async with Scripted(first, subscribed_again) as broker:
        client = ours(broker.port, clean=False, expiry_s=60)
        await client.open()
        assert await client.subscribe([Subscription("a", 1), Subscription("b/#", 0)]) == [1, 0]
        done = await client.send("t", b"x")
        await client.lost.wait()
        await client.reopen(WAIT_S)
        assert await done == 0
        await broker.played()
        await client.close()


async def test_publishing_before_the_first_connection_and_between_two() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        frame = await peer.until(PUBLISH)
        peer.send(b"\x40\x02" + frame[5:7])

    async with Scripted(script, script) as broker:
        client = ours(broker.port)
        for payload in (b"1", b"2"):
            done = await client.send("t", payload)
            await client.open()
            assert await done == 0
            await client.lost.wait()
    assert [peer.seen[1][-1:] for peer in broker.peers] == [b"1", b"2"]


async def test_what_the_broker_does_not_take_is_not_sent() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet("20 09 00 00 06 24 01 25 00 28 00")
        assert await peer.until(PINGREQ)
        peer.send("d0 00")

    async with Scripted(script) as broker:
        client = ours(broker.port)
        await client.open()
        assert (client.peer.maximum_qos, client.peer.retain, client.peer.wildcards) == (1, False, False)
        for qos, retain, code in ((2, False, 0x9B), (1, True, 0x9A)):
            with pytest.raises(RefusedError) as caught:
                await client.publish("t", b"x", qos, retain)
            assert caught.value.code == code
        with pytest.raises(RefusedError, match="subscription to a/# refused"):
            await client.subscribe([Subscription("a/#")])
        await client.passed()
        assert [packet[0] >> 4 for packet in broker.peers[0].seen] == [CONNECT, PINGREQ]
        await client.close()


# Connections


async def test_what_we_say_of_ourselves() -> None:
    async def script(peer: Peer) -> None:
        frame = await peer.greet()
        flags, properties = frame[9], frame[12 : 13 + frame[12]]
        assert frame[2:9] == b"\0\4MQTT\5" and flags == 0b11101110
        assert frame[10:12] == b"\0\7"
        assert properties[1:] == bytes.fromhex("1100000258 2100c8 260001610001 31")
        assert frame[13 + frame[12] :] == b"\0\3n\xc3\xa4" + b"\0" + b"\0\1w\0\1W" + b"\0\3\xc3\xbcu" + b"\0\2\0p"
        assert await peer.until(DISCONNECT) == bytes.fromhex("e0 02 00 00")

    async with Scripted(script) as broker:
        client = ours(
            broker.port, client_id="nä", expiry_s=600, receive_maximum=200, keepalive_s=7, username="üu",
            password=b"\0p", will=Will("w", b"W", 1, True), user_properties=[("a", "1")],
        )  # fmt: skip
        await client.open()
        await client.close()
        await broker.played()


async def test_a_clean_session_is_clean_each_time_and_one_that_is_kept_only_at_first() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()

    for settings, flags in (({}, [2, 2]), ({"expiry_s": 9}, [2, 0]), ({"expiry_s": 9, "clean": False}, [0, 0])):
        async with Scripted(script, script) as broker:
            client = ours(broker.port, **settings)
            for _ in range(2):
                await opened_and_lost(client)
            assert [peer.seen[0][9] for peer in broker.peers] == flags, settings


@pytest.mark.parametrize(
    ("connack", "version", "text"),
    [
        ("20 03 00 87 00", 5, r"connection refused \(not authorized, reason code 0x87\)"),
        ("20 09 00 8a 06 1f 00 03 61 62 63", 5, r"connection refused \(banned, reason code 0x8a: abc\)"),
        ("20 02 00 01", 5, "unsupported protocol version"),
        ("20 02 00 05", 4, "not authorized"),
        ("20 02 00 04", 4, "bad user name or password"),
    ],
)
async def test_refusals_that_last_are_named(connack: str, version: int, text: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet(connack)

    async with Scripted(script, version=version) as broker:
        client = ours(broker.port, version=version)
        with pytest.raises(RefusedError, match=text) as caught:
            async with asyncio.timeout(WAIT_S):
                await client.run()
        assert caught.value.permanent
        assert len(broker.peers) == 1


@pytest.mark.parametrize(("connack", "version"), [("20 03 00 89 00", 5), ("20 02 00 03", 4), ("30", 5)])
async def test_a_refusal_for_a_time_is_tried_again(connack: str, version: int) -> None:
    async def busy(peer: Peer) -> None:
        await peer.greet(connack)

    async def free(peer: Peer) -> None:
        await peer.greet()
        await peer.over()

    async with Scripted(busy, busy, free, version=version) as broker:
        client = ours(broker.port, version=version)
        running = asyncio.ensure_future(client.run())
        async with asyncio.timeout(WAIT_S):
            await client.connected.wait()
        assert len(broker.peers) == 3
        await client.close()
        await running


async def test_a_listener_that_shuts_the_door_at_once() -> None:
    async with Scripted() as broker:
        with pytest.raises(LostError, match="no answer to CONNECT"):
            await ours(broker.port).open()


async def test_a_listener_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWER_TIMEOUT_S", 0.2)

    async def mute(peer: Peer) -> None:
        await peer.over()

    async with Scripted(mute) as broker:
        with pytest.raises(LostError, match="no answer to CONNECT"):
            await ours(broker.port).open()
        await broker.played()


async def test_it_stays_connected_and_says_so() -> None:
    said: list[object] = []

    async def dies(peer: Peer) -> None:
        await peer.greet()
        peer.send("e0 01 8b")

    async def stays(peer: Peer) -> None:
        await peer.greet(RESUMED)
        peer.send(QOS_1.format(1))
        await peer.over()

    async with Scripted(dies, dies, stays) as broker:
        client = ours(
            broker.port, on_connected=said.append, on_lost=said.append, deliver=lambda one: said.append(one.topic)
        )
        running = asyncio.ensure_future(client.run())
        await soon(lambda: "t" in said)
        assert client.connections == 3
        await client.close()
        await running
    lost = f"127.0.0.1:{broker.port}: connection lost (server shutting down, reason code 0x8b)"
    assert said == [False, lost, False, lost, True, "t"]


async def test_a_ping_that_a_lost_connection_left_open_is_not_answered_by_the_next() -> None:
    async def dies(peer: Peer) -> None:
        await peer.greet()
        await peer.until(PINGREQ)

    async def stays(peer: Peer) -> None:
        await peer.greet()
        await peer.over()

    async with Scripted(dies, stays) as broker:
        client = ours(broker.port)
        running = asyncio.ensure_future(client.run())
        async with asyncio.timeout(WAIT_S):
            await client.connected.wait()
            with pytest.raises(LostError):
                await client.passed()
            await client.connected.wait()
        await client.close()
        await running


async def test_a_session_that_another_took_over_is_not_taken_back() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.send("e0 01 8e")

    async with Scripted(script) as broker:
        client = ours(broker.port)
        with pytest.raises(RefusedError, match="session taken over") as caught:
            async with asyncio.timeout(WAIT_S):
                await client.run()
        assert caught.value.code == 0x8E


async def test_a_close_ends_a_pause() -> None:
    async with Scripted() as broker:
        client = ours(broker.port)
        running = asyncio.ensure_future(client.run())
        await asyncio.sleep(0.3)
        await client.close()
        async with asyncio.timeout(WAIT_S):
            await running


async def test_a_silent_broker_is_left_after_one_and_a_half_keep_alive_intervals() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.until(PINGREQ)
        await peer.over()

    async with Scripted(script) as broker:
        client = ours(broker.port, keepalive_s=1)
        await client.open()
        async with asyncio.timeout(WAIT_S):
            await client.lost.wait()
        assert "keep alive timeout" in client.lost_reason()
        await broker.played()


async def test_a_dead_link_is_left_though_much_waits_to_be_written() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        peer._writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(WAIT_S)

    async with Scripted(script) as broker:
        client = ours(broker.port, keepalive_s=1)
        await client.open()
        for _ in range(8):
            await client.send("t", b"x" * 1_000_000)
        async with asyncio.timeout(WAIT_S / 2):
            await client.lost.wait()
        assert "keep alive timeout" in client.lost_reason()
        await client.close()


async def test_while_it_does_not_read_the_broker_may_be_silent() -> None:
    got: list[Delivery] = []
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.greet()
        for _ in range(3):
            await peer.until(PINGREQ)
        peer.send("d0 00" + QOS_1.format(1))
        for _ in range(2):
            await peer.until(PINGREQ)
        assert got == []
        go.set()
        await peer.over()

    async with Scripted(script) as broker:
        client = ours(broker.port, keepalive_s=1, deliver=got.append)
        await client.open()
        client.hold(True)
        async with asyncio.timeout(WAIT_S):
            await go.wait()
            client.hold(False)
            await soon(lambda: got)
        await client.close()


@pytest.mark.parametrize(("version", "bye"), [(5, "e0 02 04 00"), (4, "")])
async def test_a_will_that_is_wanted_all_the_same(version: int, bye: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.over()
        assert peer.seen[1:] == ([bytes.fromhex(bye)] if bye else [])

    async with Scripted(script, version=version) as broker:
        client = ours(broker.port, version=version, will=Will("w", b"x"))
        await client.open()
        await client.close(with_will=True)
        await broker.played()


async def test_a_close_waits_for_the_end_of_qos_2_and_for_what_was_settled() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.send(QOS_2.format(1), QOS_1.format(2))
        await peer.until(PINGREQ)
        peer.send("62 02 00 01")
        peer.send("d0 00")
        await peer.until(PUBCOMP)
        await peer.over()

    async with Scripted(script) as broker:
        client = ours(broker.port, deliver=lambda one: one.ack())
        await client.open()
        await soon(lambda: client.received == 2)
        await client.close()
        await broker.played()
    kinds = [packet[0] >> 4 for packet in broker.peers[0].seen if packet[0] >> 4 != PINGREQ]
    assert kinds == [CONNECT, PUBREC, PUBACK, PUBCOMP, DISCONNECT]


async def test_a_close_does_not_wait_for_a_dead_link() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        peer._writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(WAIT_S)

    async with Scripted(script) as broker:
        client = ours(broker.port)
        await client.open()
        open_ones = [await client.send("t", b"x" * 1_000_000) for _ in range(8)]
        async with asyncio.timeout(WAIT_S / 2):
            await client.close()
        for one in open_ones:
            with pytest.raises(LostError, match="closed before"):
                await one


async def test_packet_ids_never_run_out() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet("20 06 00 00 03 21 00 02")
        try:
            for _ in itertools.count():
                frame = await peer.packet()
                if frame[0] >> 4 == PUBLISH:
                    seen.append(int.from_bytes(frame[5:7], "big"))
                    peer.send(b"\x40\x02" + frame[5:7])
        except asyncio.IncompleteReadError:
            pass

    seen: list[int] = []
    async with Scripted(script) as broker:
        client = ours(broker.port)
        client._session._package_handler.id_generator._last_used_id = 65530
        await client.open()
        for _ in range(20):
            await client.publish("t", b"x")
        await client.close()
        await broker.played()
    assert seen == [*range(65531, 65536), *range(1, 16)]


async def test_properties_go_out() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        assert await peer.until(PUBLISH) == bytes.fromhex(
            "32 14 00 01 74 00 01 0d 02 00 00 00 09 26 00 01 6b 00 02 76 31 78"
        )
        peer.send("40 02 00 01")

    said = Properties()
    said.message_expiry_interval, said.user_properties = 9, [("k", "v1")]
    async with Scripted(script) as broker:
        client = ours(broker.port)
        await client.open()
        assert await client.publish("t", b"x", 1, False, said) == 0
        await client.close()


async def test_tls_and_a_certificate_that_nobody_knows() -> None:
    ca = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(server)
    trusting = ssl.create_default_context()
    ca.configure_trust(trusting)

    async def script(peer: Peer) -> None:
        await peer.greet()
        frame = await peer.until(PUBLISH)
        peer.send(b"\x40\x02" + frame[5:7])
        await peer.over()

    async with Scripted(script, tls=server) as broker:
        client = ours(broker.port, tls=trusting)
        await client.open()
        assert await client.publish("t", b"x") == 0
        await client.close()
        with pytest.raises(LostError, match=r"cannot connect: .*certificate verify failed"):
            await ours(broker.port, tls=ssl.create_default_context()).open()


async def test_a_message_that_the_broker_ends_connections_over_is_not_sent_for_ever() -> None:
    """Too large for a broker that did not say so: the others arrive, and its sender is told."""
    took: list[bytes] = []

    async def first(peer: Peer) -> None:
        await peer.greet()
        for _ in range(3):
            await peer.until(PUBLISH)
        peer.send("e0 02 95 00")
        await peer.over()

    async def next(peer: Peer) -> None:
        await peer.greet(RESUMED)
        while True:
            frame = await peer.until(PUBLISH)
            if frame.endswith(b"bad"):
                peer.send("e0 02 95 00")
                await peer.over()
                return
            took.append(frame[-1:])
            peer.send(b"\x40\x02" + frame[5:7])
            if len(took) == 2:
                await peer.over()
                return

    async with Scripted(first, next, next) as broker:
        client = ours(broker.port, expiry_s=600)
        running = asyncio.ensure_future(client.run())
        sent = [await client.send("t", payload) for payload in (b"1", b"bad", b"2")]
        assert [await one for one in sent] == [0, 0x95, 0]
        assert took == [b"1", b"2"]
        await client.close()
        await running


async def test_subscriptions_come_in_packets_that_the_broker_takes() -> None:
    """Maximum Packet Size 60 in its CONNACK, for SUBSCRIBE and UNSUBSCRIBE."""
    names = [f"topic/{number:02}/#" for number in range(20)]
    asked: list[bytes] = []

    async def play(peer: Peer) -> None:
        await peer.greet("20 08 00 00 05 27 00 00 00 3c")
        for kind, answer in ((SUBSCRIBE, b"\x90"), (UNSUBSCRIBE, b"\xb0")):
            while sum(frame.count(b"topic/") for frame in asked if frame[0] >> 4 == kind) < len(names):
                frame = await peer.until(kind)
                asked.append(frame)
                count = frame.count(b"topic/")
                peer.send(answer + bytes([3 + count]) + frame[2:4] + bytes(1 + count))
        await peer.over()

    async with Scripted(play) as broker:
        client = ours(broker.port)
        await client.open()
        assert await client.subscribe([Subscription(name, 0, identifier=7) for name in names]) == [0] * 20
        with pytest.raises(RefusedError, match=f"{'x' * 60} refused .packet too large") as refused:
            await client.subscribe([Subscription("x" * 60)])
        assert refused.value.code == 0x95
        await client.unsubscribe(names)
        await client.close()
    assert max(map(len, asked)) <= 60
    assert len(asked) < 16, "and not one for each"
