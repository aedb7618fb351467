"""Without an uplink nothing of them is imported, and what is asked is answered all the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.net.control import CommandError
from gateway.settings.uplink import parsed
from gateway.uplink.late import LateUplinks
from tests.remote import FakeRemote
from tests.unit.gateway.uplink.test_supervisor import Gateway


async def test_without_one(tmp_path: Path) -> None:
    here = Gateway()
    uplinks = LateUplinks(here.turn, here.log, tmp_path)
    uplinks.configure([], here.now())
    uplinks.run()
    uplinks.stop()
    assert uplinks.rows(here.now()) == []
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240
    with pytest.raises(CommandError, match="no uplink is configured"):
        uplinks.command("uplink_pause", "x")


async def test_once_there_is_one(tmp_path: Path) -> None:
    async with FakeRemote() as remote:
        here = Gateway()
        uplinks = LateUplinks(here.turn, here.log, tmp_path)
        rules = [{"direction": "out", "filter": "#"}]
        row = parsed({"name": "u", "addresses": [f"mqtt://127.0.0.1:{remote.port}"], "rules": rules}, "")
        uplinks.configure([row], here.now())
        assert uplinks.command("uplink_pause", "u")["state"] == "paused"
        assert [one["name"] for one in uplinks.rows(here.now())] == ["u"]
        uplinks.configure([], here.now())
        assert uplinks.rows(here.now()) == []


def test_the_import_is_late() -> None:
    code = "import sys, gateway.broker; print([name for name in sys.modules if name in ('tenacity', 'wsproto')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
