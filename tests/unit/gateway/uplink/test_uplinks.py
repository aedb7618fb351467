"""All uplinks together: configured anew only where something changed, and paused over a restart."""

from pathlib import Path
from typing import Any

import pytest

from gateway.mqtt.packets import Unsubscribe
from gateway.net.control import CommandError
from gateway.settings.uplink import UplinkRow, parsed
from gateway.uplink.remembered import Remembered
from gateway.uplink.uplinks import Uplinks
from tests.remote import FakeRemote
from tests.unit.gateway.uplink.test_supervisor import Gateway


def row(remote: FakeRemote, name: str, **keys: Any) -> UplinkRow:
    rules = [{"direction": "out", "filter": "t/#"}]
    address = f"mqtt://127.0.0.1:{remote.port}"
    return parsed({"name": name, "addresses": [address], **{"rules": rules, **keys}}, "")


class Site(Gateway):
    """A gateway with all that the broker has of uplinks."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.uplinks = Uplinks(self.turn, self.log, folder)

    def after(self, now: int) -> None:
        self.commit(now)
        self.uplinks.run()

    def states(self) -> dict[str, str]:
        return {one["name"]: one["state"] for one in self.uplinks.rows(self.now())}

    async def forwarding(self, *names: str) -> None:
        await self.until(lambda: self.states() == dict.fromkeys(names, "forwarding"), "forwarding")

    async def stop(self) -> None:
        self.uplinks.stop()
        await self.until(lambda: not self.turn.open_connections, "the end of the connections")


async def test_what_did_not_change_goes_on_undisturbed(tmp_path: Path) -> None:
    async with FakeRemote() as remote:
        here = Site(tmp_path)
        one, two = row(remote, "one"), row(remote, "two")
        here.uplinks.configure([one, two], here.now())
        await here.forwarding("one", "two")
        here.uplinks.configure([one, row(remote, "two", keep_alive="10s"), row(remote, "three")], here.now())
        await here.forwarding("one", "two", "three")
        names = [connect.client_id.rpartition("-")[2] for connect in remote.connects]
        assert sorted(names) == ["one", "three", "two", "two"]
        here.uplinks.configure([one], here.now())
        await here.until(lambda: len(remote.links) == 1, "the end of the others")
        await here.forwarding("one")
        await here.stop()


async def test_a_pause_is_remembered(tmp_path: Path) -> None:
    async with FakeRemote() as remote:
        here = Site(tmp_path)
        here.uplinks.configure([row(remote, "one")], here.now())
        await here.forwarding("one")
        assert here.uplinks.command("uplink_pause", "one")["state"] == "paused"
        await here.stop()
        again = Site(tmp_path)
        again.uplinks.configure([row(remote, "one")], again.now())
        assert again.states() == {"one": "paused"}
        again.uplinks.command("uplink_resume", "one")
        await again.forwarding("one")
        first, second = remote.connects
        assert first.client_id == second.client_id
        await again.stop()


async def test_a_name_that_is_none(tmp_path: Path) -> None:
    here = Site(tmp_path)
    for name in ("x", None, 5):
        with pytest.raises(CommandError, match=f"no uplink {name}: expected one of none"):
            here.uplinks.command("uplink_pause", name)


async def test_whoever_takes_any_certificate_is_warned(tmp_path: Path) -> None:
    here = Site(tmp_path)
    rules = [{"direction": "out", "filter": "t/#"}]
    here.uplinks.configure(
        [parsed({"name": "u", "addresses": ["mqtts://127.0.0.1:1"], "rules": rules, "insecure": True}, "")], here.now()
    )
    assert "insecure = true" in here.text.getvalue()
    await here.stop()


async def test_what_no_rule_asks_for_any_more_is_unsubscribed_over_a_restart(tmp_path: Path) -> None:
    def rules(*filters: str) -> dict[str, Any]:
        return {"rules": [{"direction": "in", "filter": name} for name in filters], "heartbeat": 0}

    def ended() -> list[list[str]]:
        return [packet.filters for packet in remote.packets if isinstance(packet, Unsubscribe)]

    async with FakeRemote() as remote:
        here = Site(tmp_path)
        here.uplinks.configure([row(remote, "one", **rules("a/#", "b/#", "c/#"))], here.now())
        await here.until(lambda: remote.links and remote.links[0].filters, "the subscriptions")
        assert ended() == []
        await here.stop()
        remote.present, remote.forgets = True, False
        here = Site(tmp_path)  # another process
        here.uplinks.configure([row(remote, "one", **rules("a/#"))], here.now())
        await here.until(lambda: ended() == [["b/#", "c/#"]], "the UNSUBSCRIBE")
        await here.stop()
        remote.forgets = True
        here = Site(tmp_path)
        here.uplinks.configure([row(remote, "one", **rules("c/#"))], here.now())
        await here.until(lambda: ended()[1:] == [["a/#", "b/#"]], "what was not answered is asked for again")
        await here.until(lambda: Remembered(tmp_path).asked("one", f"127.0.0.1:{remote.port}") == {"c/#"}, "an answer")
        here.uplinks.configure([row(remote, "one", **rules("c/#", "d/#"))], here.now())
        await here.until(lambda: remote.dials == 4 and remote.links[-1].filters == ["c/#", "d/#"], "a new rule")
        assert len(ended()) == 2
        await here.stop()


async def test_a_broker_that_knows_nothing_has_nothing_to_forget(tmp_path: Path) -> None:
    async with FakeRemote() as remote:
        for filter in ("a/#", "b/#"):
            here = Site(tmp_path)
            rules = [{"direction": "in", "filter": filter}]
            here.uplinks.configure([row(remote, "one", rules=rules, heartbeat=0)], here.now())
            await here.until(lambda: remote.links and remote.links[0].filters, "the subscription")
            await here.stop()
        assert not any(isinstance(packet, Unsubscribe) for packet in remote.packets)
        assert Remembered(tmp_path).asked("one", f"127.0.0.1:{remote.port}") == {"b/#"}
