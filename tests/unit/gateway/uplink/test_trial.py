"""A trial tells what works and stops at what does not."""

import pytest

from gateway.settings.uplink import parsed
from gateway.uplink.dial import DialError
from gateway.uplink.trial import trial
from tests.harness import free_port
from tests.remote import FakeRemote


async def tried(remote: FakeRemote, **keys: object) -> list[str]:
    rules = [{"direction": "out", "filter": "#"}]
    row = parsed({"name": "u", "addresses": [f"mqtt://127.0.0.1:{remote.port}"], "rules": rules, **keys}, "")
    steps: list[str] = []
    try:
        await trial(row, row.addresses[0], "me-test", lambda step, what: steps.append(step))
    except DialError as error:
        steps.append(f"{error.step} failed: {error.why}")
    return steps


@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_all_of_it(version: str) -> None:
    async with FakeRemote() as remote:
        steps = await tried(remote, version=version, user="u", password="p")
        assert steps == ["DNS", "TCP", "CONNECT", "SUBSCRIBE", "PUBLISH", "heartbeat"]
        (connect,) = remote.connects
        assert (connect.client_id, connect.username, connect.password) == ("me-test", "u", b"p")
        assert connect.clean_start


async def test_a_websocket_is_a_step_of_its_own() -> None:
    async with FakeRemote(websocket=True) as remote:
        steps = await tried(remote, addresses=[f"ws://127.0.0.1:{remote.port}"])
        assert steps == ["DNS", "TCP", "WebSocket", "CONNECT", "SUBSCRIBE", "PUBLISH", "heartbeat"]


async def test_each_failure_has_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.uplink.trial.WAIT_S", 0.2)
    async with FakeRemote() as remote:
        remote.connack = 0x86
        assert (await tried(remote))[-1] == "CONNECT failed: bad user name or password (0x86)"
        remote.connack, remote.silent = 0, True
        assert (await tried(remote))[-1] == "CONNECT failed: no answer within 0.2 s"
        remote.silent, remote.forwards = False, False
        assert (await tried(remote))[-1] == "heartbeat failed: no answer within 0.2 s"
        remote.denies = {"h"}
        assert (await tried(remote, heartbeat_topic="h"))[-1] == "SUBSCRIBE failed: h: not authorized (0x87)"
    remote.port = free_port()
    assert (await tried(remote))[-1] == f"TCP failed: 127.0.0.1 port {remote.port}: Connection refused"
