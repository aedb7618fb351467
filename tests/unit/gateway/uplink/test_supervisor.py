"""An uplink at work on loopback: dials, fails over, notices a stall, renews its certificate, is paused."""

import asyncio
import io
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.core.limits import Limits
from gateway.core.router import Router
from gateway.log import Log
from gateway.mqtt.packets import Publish
from gateway.net.connection import Turn
from gateway.settings.uplink import parsed
from gateway.uplink import course
from gateway.uplink.login import uplink_of
from gateway.uplink.remembered import FILE, Remembered
from gateway.uplink.supervisor import Site, Supervisor
from tests.harness import free_port
from tests.remote import FakeRemote
from tests.unit.gateway.uplink.conftest import server_tls

WAIT_S = 60


class Gateway:
    """The part of a broker that an uplink needs; what would go to disk is on it at once."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.text = io.StringIO()
        self.log = Log(self.text, "debug")
        self.faults: list[Exception] = []
        self.router = Router(Limits(), None, self.now(), 1)
        self.turn = Turn(self.router, self.now, loop.call_soon, self.after, lambda _, e: self.faults.append(e))
        self.site: Site
        self.supervisor: Supervisor | None = None

    def now(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000) + 1

    def commit(self, now: int) -> None:
        while (batch := self.router.take_batch(now)) is not None:
            self.router.on_committed(batch.number, now)
            self.turn.touch()

    def after(self, now: int) -> None:
        self.commit(now)
        for event in self.router.uplinks.take_events():
            assert self.supervisor is not None
            self.supervisor.on_event(event)

    def begin(self, addresses: list[str], paused: bool = False, **keys: Any) -> Supervisor:
        rules = [{"direction": "out", "filter": "t/#"}]
        row = parsed({"name": "u", "addresses": addresses, "rules": rules, "status_topics": "local", **keys}, "")
        self.router.uplinks.configure([uplink_of(row)], "gw", 8, self.now())
        self.supervisor = Supervisor(row, self.site, paused)
        self.supervisor.start()
        return self.supervisor

    def state(self) -> str:
        assert self.supervisor is not None
        return str(self.supervisor.view(self.now())["state"])

    async def until(self, true: Callable[[], object], what: str) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                while not true():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{what} did not come\n{self.text.getvalue()}") from None
        assert not self.faults

    async def is_in(self, state: str) -> None:
        await self.until(lambda: self.state() == state, state)

    def retained(self, topic: str) -> bytes | None:
        found = self.router.core.retained.get(topic)
        return None if found is None else found.payload


@asynccontextmanager
async def gateway() -> AsyncIterator[Gateway]:
    with tempfile.TemporaryDirectory() as folder:
        made = Gateway()
        (Path(folder) / FILE).write_text('{"id": "gw", "paused": []}')
        made.site = Site(made.turn, made.log, Remembered(Path(folder)))
        try:
            yield made
        finally:
            if made.supervisor is not None:
                made.supervisor.stop()
            await made.until(lambda: not made.turn.open_connections, "the end of the connection")


async def test_it_connects_and_shows_that_the_broker_forwards() -> None:
    async with FakeRemote() as remote, gateway() as here:
        here.begin([f"mqtt://127.0.0.1:{remote.port}"])
        await here.is_in(course.FORWARDING)
        view = here.supervisor.view(here.now()) if here.supervisor else {}
        assert view["address"] == f"mqtt://127.0.0.1:{remote.port}"
        assert view["error"] is None
        assert view["remote_client_id"] == "forebay-gw-u" == remote.connects[0].client_id
        assert here.retained("$SYS/broker/connection/forebay-gw-u/state") == b"1"
    assert here.retained("$SYS/broker/connection/forebay-gw-u/state") == b"0"


async def test_a_broken_link_is_made_anew() -> None:
    async with FakeRemote() as remote, gateway() as here:
        here.begin([f"mqtt://127.0.0.1:{remote.port}"])
        for times in range(1, 4):
            await here.until(lambda: here.state() == course.FORWARDING and remote.dials == times, "the link")  # noqa: B023
            remote.cut()
            await here.until(lambda: here.state() != course.FORWARDING, "its end")
        await here.is_in(course.FORWARDING)


async def test_nobody_there_then_somebody() -> None:
    port = free_port()
    async with gateway() as here:
        here.begin([f"mqtt://127.0.0.1:{port}"])
        await here.until(lambda: "Connection refused" in here.text.getvalue(), "the reason")
        async with FakeRemote(port=port):
            await here.is_in(course.FORWARDING)
            assert here.text.getvalue().count("Connection refused") == 1


async def test_the_next_address_and_back_to_the_first() -> None:
    first, port = FakeRemote(), free_port()
    first.port = port
    async with FakeRemote() as second, gateway() as here:
        here.begin([f"mqtt://127.0.0.1:{port}", f"mqtt://127.0.0.1:{second.port}"], hold_off="1s")
        await here.is_in(course.FORWARDING)
        assert second.links
        async with first:
            await here.until(lambda: first.links and not second.links, "the return to the first")
            await here.is_in(course.FORWARDING)


async def test_a_refusal_is_named_and_not_hammered() -> None:
    async with FakeRemote() as remote, gateway() as here:
        remote.connack = 0x87
        here.begin([f"mqtt://127.0.0.1:{remote.port}"])
        await here.is_in(course.REFUSED)
        assert f"mqtt://127.0.0.1:{remote.port}: CONNECT: not authorized (0x87)" in here.text.getvalue()
        await asyncio.sleep(0.3)
        assert remote.dials == 1


async def test_who_acknowledges_and_does_not_forward_is_left_for_the_next() -> None:
    async with FakeRemote() as first, FakeRemote() as second, gateway() as here:
        first.forwards = False
        addresses = [f"mqtt://127.0.0.1:{one.port}" for one in (first, second)]
        here.begin(addresses, heartbeat="200ms")
        await here.until(lambda: second.links, "the other address")
        await here.is_in(course.FORWARDING)
        assert f"WARNING uplink u: {addresses[0]} takes but does not forward: heartbeat 1" in here.text.getvalue()


async def test_a_stall_of_the_only_address_ends_when_it_forwards_again() -> None:
    async with FakeRemote() as remote, gateway() as here:
        here.begin([f"mqtt://127.0.0.1:{remote.port}"], heartbeat="200ms")
        await here.is_in(course.FORWARDING)
        remote.forwards = False
        await here.is_in(course.STALLED)
        remote.forwards = True
        await here.is_in(course.FORWARDING)
        assert remote.dials == 1


async def test_a_heartbeat_that_is_not_allowed_is_no_stall() -> None:
    async with FakeRemote() as remote, gateway() as here:
        remote.denies = {"forebay/heartbeat/forebay-gw-u"}
        supervisor = here.begin([f"mqtt://127.0.0.1:{remote.port}"], heartbeat="100ms")
        await here.until(lambda: supervisor.denied, "the refusal")
        await asyncio.sleep(0.5)
        view = supervisor.view(here.now())
        assert view["state"] == course.CONNECTED
        assert "no heartbeat" in view["error"]
        assert supervisor.denied == {"forebay/heartbeat/forebay-gw-u": 0x87}


async def test_paused_and_resumed() -> None:
    async with FakeRemote() as remote, gateway() as here:
        supervisor = here.begin([f"mqtt://127.0.0.1:{remote.port}"], paused=True)
        await asyncio.sleep(0.2)
        assert (here.state(), remote.dials) == (course.PAUSED, 0)
        supervisor.resume()
        await here.is_in(course.FORWARDING)
        supervisor.pause()
        await here.until(lambda: not remote.links, "the end of the link")
        assert (here.state(), remote.dials) == (course.PAUSED, 1)
        supervisor.resume()
        await here.is_in(course.FORWARDING)


async def test_a_renewed_certificate_is_used_at_once(
    ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.uplink.supervisor.LOOK_MS", 100)
    context = server_tls(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    ca.configure_trust(context)

    def issue(name: str) -> None:
        mine = ca.issue_cert(name, common_name=name)
        for part, pem in (("cert", mine.cert_chain_pems[0]), ("key", mine.private_key_pem)):
            pem.write_to_path(str(tmp_path / "fresh"))
            (tmp_path / "fresh").replace(tmp_path / f"{part}.pem")

    def seen() -> str:
        transport = remote.links[-1].transport if remote.links else None
        peer = transport.get_extra_info("peercert") if transport is not None else None
        return "" if peer is None else dict(pair[0] for pair in peer["subject"])["commonName"]

    issue("first")
    files: dict[str, Any] = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    async with FakeRemote(context) as remote, gateway() as here:
        here.begin([f"mqtts://localhost:{remote.port}"], **files)
        await here.is_in(course.FORWARDING)
        assert seen() == "first"
        issue("second")
        await here.until(lambda: seen() == "second", "the new certificate")
        await here.is_in(course.FORWARDING)
        dials = remote.dials
        (tmp_path / "cert.pem").write_text("half of it")
        await here.until(lambda: "cannot take over" in here.text.getvalue(), "what is wrong with the file")
        assert (here.state(), remote.dials) == (course.FORWARDING, dials)


async def test_no_answer_to_the_connect_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.uplink.course.HANDSHAKE_MS", 100)
    async with FakeRemote() as remote, gateway() as here:
        remote.silent = True
        here.begin([f"mqtt://127.0.0.1:{remote.port}"])
        await here.until(lambda: "no answer" in here.text.getvalue(), "the end of patience")
        remote.silent = False
        await here.is_in(course.FORWARDING)


async def test_messages_go_out() -> None:
    async with FakeRemote() as remote, gateway() as here:
        here.begin([f"mqtt://127.0.0.1:{remote.port}"], heartbeat=0)
        await here.is_in(course.CONNECTED)
        here.router.bridge.publish("t/1", b"x", 1, False, here.now())
        here.turn.touch()
        await here.until(lambda: remote.publishes, "the message")
        packet = remote.publishes[0]
        assert isinstance(packet, Publish)
        assert (packet.topic, packet.payload, packet.qos) == (b"t/1", b"x", 1)


@pytest.mark.parametrize("secure", [False, True])
async def test_over_a_websocket(ca: trustme.CA, tmp_path: Path, secure: bool) -> None:
    async with FakeRemote(server_tls(ca) if secure else None, websocket=True) as remote, gateway() as here:
        scheme = "wss" if secure else "ws"
        keys: dict[str, Any] = {"ca": str(tmp_path / "ca.pem")} if secure else {}
        here.begin([f"{scheme}://localhost:{remote.port}/mqtt"], **keys)
        await here.is_in(course.FORWARDING)
        here.router.bridge.publish("t/1", b"x" * 100_000, 1, False, here.now())
        here.turn.touch()
        await here.until(lambda: remote.publishes[-1].topic == b"t/1", "the message")
        remote.cut()
        await here.until(lambda: remote.dials == 2, "the next link")
        await here.is_in(course.FORWARDING)


async def test_a_server_that_speaks_no_websocket_is_named() -> None:
    async with FakeRemote() as remote, gateway() as here:
        here.begin([f"ws://127.0.0.1:{remote.port}"])
        await here.until(lambda: "WebSocket: no WebSocket" in here.text.getvalue(), "the reason")
