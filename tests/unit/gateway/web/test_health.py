"""Metrics and health, asked as a program would ask."""

from pathlib import Path
from typing import Any

import pytest

from gateway.web.health import not_ready
from tests.page import basic
from tests.unit.gateway.web.rig import FAR, Rig


async def test_metrics_near_need_no_login(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        said = await rig.get("/metrics")
    assert said.status == 200
    assert said.headers["content-type"].startswith("text/plain; version=")
    assert 'forebay_messages_received_total{qos="1"} 100.0' in said.text


async def test_metrics_afar_need_a_user(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        rig.passwords.add("monitor", b"right")
        refused = await rig.get("/metrics", **FAR)
        assert refused.status == 401
        assert refused.headers["www-authenticate"].startswith("Basic")
        assert (await rig.get("/metrics", headers=basic("monitor", "wrong"), **FAR)).status == 401
        assert (await rig.get("/metrics", headers=basic("monitor", "right"), **FAR)).status == 200


async def test_guessing_is_slowed_down(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        rig.passwords.add("monitor", b"right")
        answers = [await rig.get("/metrics", headers=basic("monitor", "wrong"), **FAR) for _ in range(6)]
    assert [said.status for said in answers] == [401] * 5 + [429]
    assert int(answers[-1].headers["retry-after"]) > 1


async def test_metrics_may_be_open(tmp_path: Path) -> None:
    async with Rig(tmp_path, "http.metrics_open=true") as rig:
        assert (await rig.get("/metrics", **FAR)).status == 200


async def test_as_many_sessions_as_are_set(tmp_path: Path) -> None:
    async with Rig(tmp_path, "http.session_metrics=0") as rig:
        assert 'client_id="' not in (await rig.get("/metrics")).text


async def test_health_says_that_the_broker_answers(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        assert (await rig.get("/healthz", **FAR)).status == 200
    async with Rig(tmp_path, broker=False) as rig:
        down = await rig.get("/healthz", **FAR)
        assert down.status == 503
        assert "does not answer" in down.text
        assert (await rig.get("/metrics")).status == 503
        assert (await rig.get("/readyz")).status == 503


@pytest.mark.parametrize(
    ("store", "why"),
    [({}, ""), ({"error": "No space left on device"}, "No space left"), ({"full": True}, "budget is used up")],
)
async def test_readiness_says_that_messages_are_kept(tmp_path: Path, store: dict[str, Any], why: str) -> None:
    async with Rig(tmp_path) as rig:
        rig.answers["report"]["status"]["store"] |= store
        said = await rig.get("/readyz", **FAR)
        assert said.status == (503 if why else 200)
        assert why in said.text
        assert len(not_ready(rig.answers["report"])) == bool(why)
