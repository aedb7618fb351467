"""Views, made once for everybody."""

import asyncio
import dataclasses
from pathlib import Path

import pytest

from gateway.doctor.snapshot import Gateway
from gateway.net.control import CommandError
from gateway.web.site import LOOKED_AT_MAX, VIEWS
from tests.unit.gateway.web.reports import session
from tests.unit.gateway.web.rig import Rig
from tests.unit.gateway.web.test_nodes import row

TOLD = {
    "gateway": {**dataclasses.asdict(Gateway(durability="os")), "collectors": []}, "clients": [], "keepers": [],
    "flows": [], "flows_left_out": 0, "nodes": [], "host_id": "", "uplinks": [],
}  # fmt: skip


def all_answers(rig: Rig) -> None:
    rig.answers |= {
        "session": session("s", subscriptions=[{"filter": "t", "qos": 1}]),
        "sparkplug_nodes": [row("g/e")],
        "sparkplug_values": {"fresh": True, "number": 1, "said": []},
        "doctor": TOLD,
    }


@pytest.mark.parametrize("name", sorted(VIEWS))
async def test_every_view_can_be_made(tmp_path: Path, name: str) -> None:
    async with Rig(tmp_path) as rig:
        all_answers(rig)
        made = await rig.site.view(name, "g/e")
        assert "Nothing to show" not in made
        assert len(made) > 100


@pytest.mark.parametrize("name", ["flows", "session", "sparkplug", "node"])
async def test_what_the_broker_cannot_say_is_said(tmp_path: Path, name: str) -> None:
    async with Rig(tmp_path) as rig:
        rig.answers |= dict.fromkeys(("session", "sparkplug_nodes", "doctor"), CommandError("not that one"))
        assert "not that one" in await rig.site.view(name, "x")


async def test_a_view_is_made_once_for_each_report(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        all_answers(rig)
        await rig.site.poll.ask()
        await asyncio.gather(*(rig.site.view("node", "g/e") for _ in range(10)))
        first = await rig.site.view("node", "g/e")
        values = [one for one in rig.asked if one["cmd"] == "sparkplug_values"]
        assert await rig.site.view("node", "g/e") is first
        assert len([one for one in rig.asked if one["cmd"] == "sparkplug_values"]) == len(values)
        await rig.site.poll.ask()
        await rig.site.view("node", "g/e")
        assert [one["after"] for one in rig.asked if one["cmd"] == "sparkplug_values"][-1] == 1


async def test_a_node_that_nobody_heard_of_is_told(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        all_answers(rig)
        assert "g/nobody was never heard of" in await rig.site.view("node", "g/nobody")


async def test_large_answers_are_not_asked_for_by_each_page(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        all_answers(rig)
        for _ in range(5):
            await rig.site.ask({"cmd": "sparkplug_nodes"})
        assert len([one for one in rig.asked if one["cmd"] == "sparkplug_nodes"]) == 1


async def test_only_so_many_nodes_are_followed(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        all_answers(rig)
        for number in range(LOOKED_AT_MAX + 5):
            await rig.site.values_of(f"g/{number}")
        await rig.site.values_of("g/20")
        assert len(rig.site._values) == LOOKED_AT_MAX


async def test_the_doctor_judges_here_what_the_broker_knows(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        all_answers(rig)
        assert "durability" in await rig.site.view("flows")
        rig.site.poll.number += 1
        assert "durability" in await rig.site.view("flows")
    assert len([one for one in rig.asked if one["cmd"] == "doctor"]) == 1
