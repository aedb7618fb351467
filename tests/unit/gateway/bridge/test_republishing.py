"""The runner between two servers of mosquitto: what it acknowledges, and when."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.bridge.republish_state import StateFileError, load
from gateway.bridge.republishing import Place, Republishing
from gateway.client import Client, Delivery, Subscription
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import decode, encode
from sparkplug.republish import Republisher
from sparkplug.topic import NodeId
from tests.harness import Mosquitto, free_port
from tests.sparkplug_rig import T0, data, nbirth

OWN = NodeId("G", "E")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Mosquitto, Mosquitto]]:
    if shutil.which("mosquitto") is None:
        pytest.skip("mosquitto is not installed")
    with Mosquitto(tmp_path / "here", {"persistence": True}) as here, Mosquitto(tmp_path / "there") as there:
        yield here, there


class Ears:
    """What comes at the destination: type and device."""

    def __init__(self, port: int) -> None:
        self.said: list[tuple[str, bytes]] = []
        self.came = asyncio.Event()
        self.link = Client("127.0.0.1", port, deliver=self.deliver)

    def deliver(self, one: Delivery) -> None:
        topic = one.topic.split("/")
        self.said.append(("/".join([topic[2], *topic[4:]]), one.payload))
        self.came.set()
        one.ack()

    async def until(self, type: str, count: int = 1) -> bytes:
        async with asyncio.timeout(60):
            while [name for name, _ in self.said].count(type) < count:
                self.came.clear()
                await self.came.wait()
        return [payload for name, payload in self.said if name == type][-1]


@asynccontextmanager
async def listening(port: int) -> AsyncIterator[Ears]:
    ears = Ears(port)
    await ears.link.open()
    await ears.link.subscribe([Subscription("spBv1.0/#")])
    yield ears
    await ears.link.close()


@asynccontextmanager
async def running(here: int, there: int, state: Path, *, commands: bool = False) -> AsyncIterator[Republishing]:
    machine = Republisher(OWN, bd_seq=load(state).bd_seq, commands=commands)
    machine.restore(load(state).births, T0)
    source, destination = Place("127.0.0.1", here, "take"), Place("127.0.0.1", there, "give")
    runner = Republishing(
        machine, source, destination, filters=["spBv1.0/#"], state=state, expiry_s=600, retry_s=20
    )  # fmt: skip
    task = asyncio.ensure_future(runner.run())
    try:
        yield runner
    finally:
        runner.stop()
        await task


async def publish(port: int, *messages: tuple[str, bytes]) -> None:
    link = Client("127.0.0.1", port)
    await link.open()
    for topic, payload in messages:
        assert await link.publish(topic, payload) == 0
    await link.close()


async def test_what_sources_say_is_said_by_our_node_which_leaves_with_its_death(
    servers: tuple[Mosquitto, Mosquitto], tmp_path: Path
) -> None:
    here, there = servers
    async with listening(there.port) as ears:
        async with running(here.port, there.port, tmp_path / "state") as runner:
            await ears.until("NBIRTH")
            await publish(here.port, nbirth(), data(T0 + 1, 1, 11))
            said = decode(await ears.until("DDATA/g:e"))
            assert [(one.value, one.timestamp, one.is_historical) for one in said.metrics] == [(11, T0 + 1, False)]
        await ears.until("NDEATH")
        assert runner.totals.taken == 2
        assert load(tmp_path / "state").bd_seq == 0
        assert [one.topic for one in load(tmp_path / "state").births] == ["spBv1.0/g/NBIRTH/e"]


async def test_what_the_destination_has_not_read_stays_with_the_sources_broker(
    servers: tuple[Mosquitto, Mosquitto], tmp_path: Path
) -> None:
    here, there = servers
    async with listening(there.port) as ears, running(here.port, there.port, tmp_path / "state"):
        await ears.until("NBIRTH")
        await publish(here.port, nbirth())
        await ears.until("DBIRTH/g:e")
    nobody = free_port()
    async with running(here.port, nobody, tmp_path / "state") as runner:
        await publish(here.port, *(data(T0 + n, n, n) for n in range(1, 6)))
        for _ in range(1000):
            await asyncio.sleep(0.01 if runner.totals.taken < 6 else 0)
        assert runner.totals.taken == 6  # and what it asked of the source at its start
    async with listening(there.port) as ears, running(here.port, there.port, tmp_path / "state"):
        await ears.until("DDATA/g:e", 5)
        values = [decode(payload).metrics[0].value for name, payload in ears.said if name == "DDATA/g:e"]
        assert values == [1, 2, 3, 4, 5]


async def test_a_lost_destination_gets_a_new_session_with_the_next_bd_seq(
    servers: tuple[Mosquitto, Mosquitto], tmp_path: Path
) -> None:
    here, there = servers
    async with running(here.port, there.port, tmp_path / "state") as runner:
        async with listening(there.port) as ears:
            await ears.until("NBIRTH")
            await publish(here.port, nbirth())
            await ears.until("DBIRTH/g:e")
        there.restart()
        async with listening(there.port) as ears:
            link = Client("127.0.0.1", there.port, client_id="give")  # take it over, so that it comes again
            await link.open()
            await ears.until("NBIRTH")
            await ears.until("DBIRTH/g:e")
            await link.close()
    assert runner.totals.lost >= 1
    assert load(tmp_path / "state").bd_seq == runner.totals.sessions - 1


async def test_a_birth_that_cannot_be_written_down_ends_it_and_is_not_acknowledged(
    servers: tuple[Mosquitto, Mosquitto], tmp_path: Path
) -> None:
    here, there = servers
    folder = tmp_path / "folder"
    folder.mkdir()

    async def until_it_ends(ears: Ears) -> None:
        async with running(here.port, there.port, folder / "state") as runner:
            await ears.until("NBIRTH")
            shutil.rmtree(folder)
            await publish(here.port, nbirth())
            for _ in range(1000):
                await asyncio.sleep(0 if runner.totals.taken else 0.01)
            assert runner.totals.taken

    async with listening(there.port) as ears:
        with pytest.raises(StateFileError, match="folder/state: cannot be written"):
            await until_it_ends(ears)
        ears.said.clear()
        folder.mkdir()
        async with running(here.port, there.port, folder / "state"):
            await ears.until("DBIRTH/g:e")


async def test_commands_go_back_to_the_source(servers: tuple[Mosquitto, Mosquitto], tmp_path: Path) -> None:
    here, there = servers
    async with (
        listening(there.port) as ears,
        listening(here.port) as sources,
        running(here.port, there.port, tmp_path / "state", commands=True) as runner,
    ):
        await ears.until("NBIRTH")
        await publish(here.port, nbirth())
        await ears.until("DBIRTH/g:e")
        command = encode(Payload(T0, [Metric("speed", None, T0, DataType.Int32, 5)]))
        await publish(there.port, ("spBv1.0/G/DCMD/E/g:e", command))
        (said,) = decode(await sources.until("NCMD")).metrics
        assert (said.alias, said.value) == (1, 5)
        assert runner.totals.commands == 1
