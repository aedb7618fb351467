"""The connection to a broker, with a scripted one at the other end."""

import asyncio
import logging
from pathlib import Path

import pytest

from gateway.client import Client
from gateway.consumer.connection import OFFER, BrokerTransport, first
from gateway.consumer.declaration import Registration, subscriptions
from gateway.consumer.dispatch import Dispatcher
from gateway.consumer.message import Message, Outgoing
from gateway.consumer.settlement import RETRY_COUNT
from gateway.consumer.source import MqttFilter, MqttTopic
from gateway.mqtt import packets
from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import encode
from gateway.mqtt.packets import Ack, Connack, Properties, Suback, Subscribe
from tests.unit.gateway.consumer.rig import said
from tests.waiting import until


class Scripted:
    """A broker that answers with what it is told to."""

    def __init__(self) -> None:
        self.properties = Properties()
        self.granted = 1
        self.code = 0
        self.subscribed: list[Subscribe] = []
        self.published: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = Decoder(0)
        while data := await reader.read(65_536):
            decoder.feed(data)
            while (packet := decoder.next()) is not None:
                self.answer(packet, writer)
        writer.close()

    def answer(self, packet: packets.Packet, writer: asyncio.StreamWriter) -> None:
        if isinstance(packet, packets.Connect):
            writer.write(encode(Connack(False, 0, self.properties), 5))
        elif isinstance(packet, Subscribe):
            self.subscribed.append(packet)
            writer.write(encode(Suback(packet.packet_id, [self.granted] * len(packet.filters)), 5))
        elif isinstance(packet, packets.Publish):
            self.published.append(packet.topic.decode())
            writer.write(encode(Ack(packets.PUBACK, packet.packet_id, self.code), 5))


async def handler(message: Message[bytes]) -> None:
    pass


class Bench:
    def __init__(self, path: Path, *sources: MqttTopic | MqttFilter) -> None:
        self.script = Scripted()
        self.wanted = subscriptions([Registration(handler, source) for source in sources], 5)
        self.transport = BrokerTransport(20, 3600)
        self.dispatcher = Dispatcher(self.wanted, self.transport, path / "j", RETRY_COUNT, 5)

    async def __aenter__(self) -> "Bench":
        self.server = await asyncio.start_server(self.script.serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.client = Client(
            "127.0.0.1", port, client_id="c", deliver=self.dispatcher.deliver,
            on_connected=self.transport.on_connected, on_lost=self.transport.on_lost,
        )  # fmt: skip
        self.transport.attach(self.client, self.dispatcher)
        await self.dispatcher.start()
        await self.client.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.dispatcher.finish(1)
        await self.client.close()
        self.server.close()


async def test_subscriptions_carry_their_identifiers(tmp_path: Path) -> None:
    async with Bench(tmp_path, MqttTopic("a"), MqttFilter("b/#")) as bench:
        states = [bench.transport.connected]
        await bench.transport.subscribe(bench.wanted)
        assert [*states, bench.transport.connected] == [False, True]
        found = {}
        for packet in bench.script.subscribed:
            assert packet.properties is not None
            for filter in packet.filters:
                found[filter.filter] = packet.properties.subscription_identifiers
                assert filter.retain_handling == 1  # a resumed session gets no retained messages again
        assert found == {one.wire_filter: [one.identifier] for one in bench.wanted}


async def test_none_where_the_broker_has_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MqttTopic("a"))
    bench.script.properties.subscription_identifier_available = 0
    async with bench:
        await bench.transport.subscribe(bench.wanted)
        properties = bench.script.subscribed[0].properties
        assert properties is None or properties.subscription_identifiers == []


async def test_overlaps_end_it_where_the_broker_has_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MqttTopic("b/1"), MqttFilter("b/#"))
    bench.script.properties.subscription_identifier_available = 0
    async with bench:
        assert bench.dispatcher.stopped.is_set()
        assert "this broker has no subscription identifiers" in str(bench.dispatcher.failure)
        assert bench.script.subscribed == []


@pytest.mark.parametrize("offers", [False, True])
async def test_a_broker_that_delays_says_so(tmp_path: Path, offers: bool) -> None:
    bench = Bench(tmp_path, MqttTopic("a"))
    bench.script.properties.user_properties = [("x", "y"), *([OFFER] if offers else [])]
    async with bench:
        assert bench.dispatcher.copies.through_broker is offers


async def test_a_lower_qos_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(tmp_path, MqttTopic("a"))
    bench.script.granted = 0
    async with bench:
        await bench.transport.subscribe(bench.wanted)
        assert said(caplog.records) == ["a: the broker grants QoS 0 instead of 1"]


@pytest.mark.parametrize("code", [0, 0x10, 0x87, 0x97])
async def test_a_publish_ends_with_the_code_of_the_broker(tmp_path: Path, code: int) -> None:
    bench = Bench(tmp_path, MqttTopic("a"))
    bench.script.code = code
    async with bench:
        assert await bench.transport.publish(Outgoing("t", b"x", 1, Properties())) == code
        assert bench.script.published == ["t"]


async def test_a_message_that_the_broker_cannot_take_is_a_code_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MqttTopic("a"))
    bench.script.properties.maximum_packet_size = 50
    async with bench:
        assert await bench.transport.publish(Outgoing("t", bytes(100), 1, Properties())) == 0x95


async def test_connections_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with Bench(tmp_path, MqttTopic("a")) as bench:
            assert said(caplog.records)[-1] == f"connected to {bench.client.where}"
            bench.server.close()


async def test_what_a_session_cannot_keep_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(tmp_path, MqttTopic("a"))
    bench.script.properties.session_expiry_interval = 60
    async with bench:
        assert said(caplog.records) == ["the broker keeps the session 60 s instead of 3600 s"]
        await bench.transport.subscribe(bench.wanted)
        bench.script.properties.session_expiry_interval = -1
        await bench.client.close()
        await bench.client.open()
        assert said(caplog.records)[1:] == ["the broker has forgotten the session, and what it kept for it"]


async def test_the_first_of_several_ends_the_wait() -> None:
    event, forever = asyncio.Event(), asyncio.Event()
    task = asyncio.ensure_future(forever.wait())
    waiting = asyncio.ensure_future(first(task, event, forever))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    event.set()
    await waiting
    assert not task.done()
    task.cancel()
    await until(task.cancelled)
