"""Metrics and health, asked as a program would ask."""

import time
from pathlib import Path
from typing import Any

import pytest

from gateway.auth import Passwords
from gateway.net.control import ControlProtocol, ControlServer
from gateway.settings import Sources, load
from gateway.web.access import Access
from gateway.web.app import application
from gateway.web.control import Control
from gateway.web.health import not_ready
from gateway.web.poll import Poll
from tests.asgi import Said, called
from tests.page import basic
from tests.unit.gateway.web.reports import part, report

FAR = {"client": "10.0.0.5", "server": "10.0.0.1"}


class Rig:
    """The application before a broker that gives ``answer``, or is not there."""

    def __init__(self, folder: Path, *sets: str, broker: bool = True) -> None:
        self.folder, self.broker = folder, broker
        settings = load(Sources(sets=(f"data_dir={folder}", *sets)), {})
        self.passwords = Passwords(settings.passwords)
        self.answer = report()
        access = Access(self.passwords, lambda user: True, b"k" * 32, settings.http_login == "always", time.monotonic)
        self.path = settings.control_socket
        self.control = Control(self.path)
        self.app = application(settings, access, Poll(self.control))

    async def get(self, path: str, **more: Any) -> Said:
        server = None
        if self.broker:
            server = await ControlServer.start(self.path, self.command)
        said = await called(self.app, path, **more)
        await part(self.control, server)
        return said

    def command(self, command: dict[str, Any], peer: ControlProtocol) -> Any:
        return self.answer


async def test_metrics_near_need_no_login(tmp_path: Path) -> None:
    said = await Rig(tmp_path).get("/metrics")
    assert said.status == 200
    assert said.headers["content-type"].startswith("text/plain; version=")
    assert 'forebay_messages_received_total{qos="1"} 100.0' in said.text


async def test_metrics_afar_need_a_user(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.passwords.add("monitor", b"right")
    refused = await rig.get("/metrics", **FAR)
    assert refused.status == 401
    assert refused.headers["www-authenticate"].startswith("Basic")
    assert (await rig.get("/metrics", headers=basic("monitor", "wrong"), **FAR)).status == 401
    assert (await rig.get("/metrics", headers=basic("monitor", "right"), **FAR)).status == 200


async def test_guessing_is_slowed_down(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.passwords.add("monitor", b"right")
    answers = [(await rig.get("/metrics", headers=basic("monitor", "wrong"), **FAR)) for _ in range(6)]
    assert [said.status for said in answers] == [401] * 5 + [429]
    assert int(answers[-1].headers["retry-after"]) > 1


async def test_metrics_may_be_open(tmp_path: Path) -> None:
    assert (await Rig(tmp_path, "http.metrics_open=true").get("/metrics", **FAR)).status == 200


async def test_as_many_sessions_as_are_set(tmp_path: Path) -> None:
    said = await Rig(tmp_path, "http.session_metrics=0").get("/metrics")
    assert 'client_id="' not in said.text


async def test_health_says_that_the_broker_answers(tmp_path: Path) -> None:
    assert (await Rig(tmp_path).get("/healthz", **FAR)).status == 200
    down = await Rig(tmp_path, broker=False).get("/healthz", **FAR)
    assert down.status == 503
    assert "does not answer" in down.text
    assert (await Rig(tmp_path, broker=False).get("/metrics")).status == 503
    assert (await Rig(tmp_path, broker=False).get("/readyz")).status == 503


@pytest.mark.parametrize(
    ("store", "why"),
    [({}, ""), ({"error": "No space left on device"}, "No space left"), ({"full": True}, "budget is used up")],
)
async def test_readiness_says_that_messages_are_kept(tmp_path: Path, store: dict[str, Any], why: str) -> None:
    rig = Rig(tmp_path)
    rig.answer["status"]["store"] |= store
    said = await rig.get("/readyz", **FAR)
    assert said.status == (503 if why else 200)
    assert why in said.text
    assert len(not_ready(rig.answer)) == bool(why)
