"""Probes over the control socket, with real sockets between the device and the broker's connections."""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.core.limits import Limits
from gateway.core.router import Router
from gateway.net.admission import Admission
from gateway.net.connection import Connection, Turn
from gateway.net.control import CommandError, ControlProtocol, ControlServer
from gateway.net.probes import Probes
from tests import wire_format as mqtt

WILL = mqtt.Will("spBv1.0/g/NDEATH/e", b"\x01\x02", 1)
PING = b"\xc0\0"


class Device:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def get(self, size: int) -> bytes:
        async with asyncio.timeout(60):
            return await self.reader.readexactly(size)

    async def ended(self) -> bool:
        async with asyncio.timeout(60):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass


class Rig:
    def __init__(self, folder: Path) -> None:
        loop = asyncio.get_running_loop()
        self.faults: list[Exception] = []
        self.router = Router(Limits(), None, 0, 1)
        self.turn = Turn(self.router, lambda: 0, loop.call_soon, self.after, lambda _, e: self.faults.append(e))
        self.admission = Admission(self.turn)
        self.probes = Probes(self.turn)
        self.path = folder / "control.sock"
        self.devices: list[Device] = []

    def after(self, now: int) -> None:
        """A store that is done at once."""
        self.admission.run()
        batch = self.router.take_batch(now)
        if batch is not None:
            self.router.on_committed(batch.number, now)
            self.turn.touch()

    async def device(self, client_id: str = "press", will: mqtt.Will | None = WILL) -> Device:
        """A connection with its CONNECT sent."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        connection = Connection(self.turn, "peer", True)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: cast(asyncio.Protocol, connection), theirs)
        device = Device(*await asyncio.open_connection(sock=ours))
        self.devices.append(device)
        device.send(mqtt.connect(client_id, will=will))
        return device

    async def connected(self, client_id: str = "press", will: mqtt.Will | None = WILL) -> Device:
        device = await self.device(client_id, will)
        assert await device.get(4) == b"\x20\x02\0\0"
        return device

    def command(self, command: dict[str, Any], peer: ControlProtocol) -> Any:
        return self.probes.command(command, peer)


class Asker:
    """Who sits at the control socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, **command: Any) -> Any:

        self.writer.write(json.dumps(command).encode() + b"\n")
        async with asyncio.timeout(60):
            answer = json.loads(await self.reader.readline())
        if not answer["ok"]:
            raise CommandError(answer["error"])
        return answer["result"]

    async def do(self, action: str) -> None:
        assert await self.ask(cmd="probe_do", action=action) is True

    async def events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = (await self.ask(cmd="probe_events"))["events"]
        return events

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """Events up to the first of this kind."""
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(60):
            while not any(event["kind"] == kind for event in found):
                found += await self.events()
        return found


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path)
    server = await ControlServer.start(made.path, made.command)
    yield made
    server.close()
    made.admission.close()
    for device in made.devices:
        await device.close()
    assert made.faults == []


@pytest.fixture
async def asker(rig: Rig) -> AsyncIterator[Asker]:
    made = Asker(*await asyncio.open_unix_connection(rig.path))
    yield made
    made.writer.close()


async def test_a_node_is_found_by_its_will_and_seen(rig: Rig, asker: Asker) -> None:
    device = await rig.connected()
    opened = await asker.ask(cmd="probe", node="g/e")
    assert opened["client_id"] == "press"
    device.send(mqtt.publish("spBv1.0/g/NDATA/e", b"\0\xff", 1, False, True, 7, 4))
    assert await device.get(4) == b"\x40\x02\0\x07"
    connected, published = await asker.until("published")
    assert connected == {
        "kind": "connected", "at": 0, "connection": 1, "client_id": "press", "version": 4, "clean": True,
        "keep_alive_s": 60, "will_qos": 1, "will": base64.b64encode(b"\x01\x02").decode(),
    }  # fmt: skip
    assert published == {
        "kind": "published", "at": 0, "connection": 1, "topic": "spBv1.0/g/NDATA/e", "qos": 1, "dup": True,
        "payload": base64.b64encode(b"\0\xff").decode(),
    }  # fmt: skip


async def test_withhold_cut_and_a_new_connection(rig: Rig, asker: Asker) -> None:
    device = await rig.connected()
    await asker.ask(cmd="probe", node="g/e")
    await asker.do("withhold")
    device.send(mqtt.publish("spBv1.0/g/NDATA/e", b"1", 1, False, False, 7, 4) + PING)
    assert await device.get(2) == b"\xd0\0", "only the PINGRESP comes"
    await asker.do("cut")
    assert await device.ended()
    await asker.until("closed")
    with pytest.raises(CommandError, match="not connected"):
        await asker.do("withhold")
    device = await rig.connected()
    device.send(mqtt.publish("spBv1.0/g/NDATA/e", b"1", 1, False, True, 7, 4))
    assert await device.get(4) == b"\x40\x02\0\x07"


async def test_release_lets_the_acknowledgements_go(rig: Rig, asker: Asker) -> None:
    device = await rig.connected()
    await asker.ask(cmd="probe", node="g/e")
    await asker.do("withhold")
    device.send(mqtt.publish("a", b"1", 1, False, False, 7, 4))
    await asker.until("published")
    await asker.do("release")
    assert await device.get(4) == b"\x40\x02\0\x07"


async def test_a_refused_device_is_turned_away_until_it_is_admitted(rig: Rig, asker: Asker) -> None:
    device = await rig.connected()
    await asker.ask(cmd="probe", node="g/e")
    await asker.do("refuse")
    await asker.do("cut")
    assert await device.ended()
    assert await (await rig.device("press")).ended()
    assert await (await rig.device("with another id")).ended()
    assert [event["kind"] for event in await asker.until("refused")].count("connected") == 1
    await asker.do("admit")
    await rig.connected()


async def test_a_dead_link_takes_all_and_answers_nothing(rig: Rig, asker: Asker) -> None:
    device = await rig.connected()
    device.send(mqtt.subscribe([("cmd", 0)], 1))
    assert await device.get(5) == b"\x90\x03\0\x01\0"
    await asker.ask(cmd="probe", node="g/e")
    await asker.do("deaden")
    host = await rig.connected("host", None)
    host.send(mqtt.publish("cmd", b"lost too", 0, False, False, 0, 4) + PING)
    assert await host.get(2) == b"\xd0\0"
    device.send(mqtt.publish("a", b"lost", 1, False, False, 7, 4) + PING)
    again = await rig.connected()  # which takes the session over
    again.send(PING)
    assert await again.get(2) == b"\xd0\0"
    assert [event["kind"] for event in await asker.events()] == ["connected", "connected"], "nothing was read"
    assert not device.reader.at_eof()
    await asker.do("revive")
    assert await device.ended(), "and not a byte came before"


async def test_a_dead_link_that_the_core_closes_stays_silent(rig: Rig, asker: Asker) -> None:
    device = await rig.connected()
    await asker.ask(cmd="probe", node="g/e")
    await asker.do("deaden")
    assert rig.router.remove_session("press", 0)
    rig.turn.touch()
    await asker.until("closed")
    rig.turn.sweep(1 << 40)
    again = await rig.connected()
    again.send(PING)
    assert await again.get(2) == b"\xd0\0"
    assert not device.reader.at_eof()
    await asker.do("revive")
    assert await device.ended()


async def test_the_end_of_the_asker_undoes_all(rig: Rig) -> None:
    asker = Asker(*await asyncio.open_unix_connection(rig.path))
    dead, device = await rig.connected("dead"), None
    await asker.ask(cmd="probe", node="g/e")
    await asker.do("deaden")
    device = await rig.connected("press")
    await asker.do("withhold")
    await asker.do("refuse")
    device.send(mqtt.publish("a", b"1", 1, False, False, 7, 4))
    await asker.until("published")
    asker.writer.transport.abort()
    assert await device.get(4) == b"\x40\x02\0\x07"
    assert await dead.ended()
    assert rig.router.core.watches == []
    await rig.connected("another")


async def test_when_the_broker_stops_all_is_undone(rig: Rig, asker: Asker) -> None:
    device = await rig.connected()
    await asker.ask(cmd="probe", node="g/e")
    await asker.do("deaden")
    rig.probes.undo_all()
    assert await device.ended()
    with pytest.raises(CommandError, match="no probe"):
        await asker.do("admit")


async def test_what_cannot_be_done_is_said(rig: Rig, asker: Asker) -> None:
    await rig.connected()
    for command, said in (
        ({"cmd": "probe_do", "action": "cut"}, "no probe was opened"),
        ({"cmd": "probe", "node": "g"}, "expected GROUP/NODE"),
        ({"cmd": "probe", "node": 1}, "expected GROUP/NODE"),
        ({"cmd": "probe", "node": "g/f"}, "g/f: no client with the id or with a will on spBv1.0/g/NDEATH/f"),
    ):
        with pytest.raises(CommandError, match=said):
            await asker.ask(**command)
    await asker.ask(cmd="probe", node="g/other", client_id="press")
    with pytest.raises(CommandError, match="expected one of withhold"):
        await asker.do("explode")
    other = Asker(*await asyncio.open_unix_connection(rig.path))
    for command in ({"node": "g/other"}, {"node": "g/e"}):  # the same node, and another name of the same client
        with pytest.raises(CommandError, match="is being probed already"):
            await other.ask(cmd="probe", **command)
    other.writer.close()
