"""The pump between a real core and a real store."""

import asyncio
import io
from collections.abc import Callable
from pathlib import Path

from gateway.core.limits import Limits
from gateway.core.model import Client
from gateway.core.router import Router
from gateway.log import Log
from gateway.mqtt import packets
from gateway.mqtt.decode import Decoder
from gateway.store.clock import KEY_BOOT_ID, KEY_GATEWAY_MS, boottime_ms
from gateway.store.pump import STAMP_ALONE, STAMP_MS, StorePump
from gateway.store.sqlite import Store
from tests import wire_format as mqtt


class Rig:
    """A core on a store; ``later_ms`` moves the clock."""

    def __init__(self, folder: Path, limits: Limits | None = None, min_free_bytes: int = 0) -> None:
        self.later_ms = 0
        self.text = io.StringIO()
        self.pump = StorePump(self.now, Log(self.text))
        self.store = Store(
            folder / "test.db",
            min_free_bytes=min_free_bytes,
            on_done=self.pump.on_done,
            on_read=self.pump.on_read,
        )
        snapshot = self.store.open()
        self.meta = snapshot.meta
        self.pump.restore(snapshot.meta)
        self.router = Router(limits or Limits(), snapshot, self.now(), 1)
        self.router.finish_load(self.store.read_now(self.router.needed_segments()), self.now())
        self.pump.start(self.store, self.router, self.answered)

    def now(self) -> int:
        return boottime_ms() + self.pump.offset_ms + self.later_ms

    def answered(self) -> None:
        asyncio.get_running_loop().call_soon(lambda: self.pump.run(self.now()))

    async def until(self, true: Callable[[], bool]) -> None:
        for _ in range(6000):
            if true():
                return
            self.router.on_tick(self.now())
            self.pump.run(self.now())
            await asyncio.sleep(0.01)
        raise AssertionError("in vain")

    async def close(self, crash: bool = False) -> None:
        await self.until(lambda: self.pump.idle)
        if not crash:
            self.pump.finish()
            await self.until(lambda: self.pump.idle)
        await asyncio.to_thread(self.store.close)


def decoded(frame: bytes) -> packets.Packet:
    decoder = Decoder(0, packets.V311)
    decoder.feed(frame)
    packet = decoder.next()
    assert packet is not None
    return packet


def persistent_client(rig: Rig, client_id: str) -> Client:
    client = rig.router.open(object(), "peer", rig.now())
    rig.router.on_packet(client, packets.Connect(4, client_id, False, 0), rig.now())
    for asking in rig.router.take_auth():
        rig.router.on_authenticated(asking, True, rig.now())
    return client


async def test_commits_keep_their_distance_and_nothing_is_forgotten(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.pump.interval_ms = 600_000
    client = persistent_client(rig, "one")
    await rig.until(lambda: client.connected)
    other = persistent_client(rig, "two")
    for _ in range(20):
        rig.pump.run(rig.now())
        await asyncio.sleep(0.005)
    assert rig.store.stats().commits == 1
    assert not other.connected
    rig.later_ms = 600_000
    await rig.until(lambda: other.connected)
    assert rig.store.stats().commits == 2
    persistent_client(rig, "three")
    await rig.close()  # does not wait for the next one's time
    again = Rig(tmp_path)
    assert {row["client_id"] for row in again.router.sessions(again.now())} == {"one", "two", "three"}
    await again.close()


async def test_a_commit_that_is_due_comes_by_itself(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.pump.interval_ms = 50
    first = persistent_client(rig, "one")
    await rig.until(lambda: first.connected)
    second = persistent_client(rig, "two")
    rig.pump.run(rig.now())
    for _ in range(3000):  # nobody calls run() but the pump's own timer
        if second.connected:
            break
        await asyncio.sleep(0.01)
    assert second.connected
    await rig.close()


async def test_what_the_core_commits_is_there_after_a_restart(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    persistent_client(rig, "kept")
    await rig.until(lambda: rig.store.stats().commits > 0 and rig.pump.idle)
    await rig.close()
    again = Rig(tmp_path)
    assert again.router.session("kept", again.now()) is not None
    await again.close()


async def test_the_clock_is_stamped_even_when_nothing_happens(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.until(lambda: rig.store.stats().commits > 0 and rig.pump.idle)
    commits = rig.store.stats().commits
    rig.pump.run(rig.now())
    assert rig.pump.idle
    rig.later_ms = STAMP_MS
    await rig.until(lambda: rig.store.stats().commits > commits)
    await rig.close()
    again = Rig(tmp_path)
    assert again.meta[KEY_BOOT_ID]
    assert boottime_ms() - 10_000 < int(again.meta[KEY_GATEWAY_MS]) <= boottime_ms()
    await again.close()


async def test_after_a_crash_the_counters_stay_marked(tmp_path: Path) -> None:
    for crash, exact in ((False, True), (True, True), (False, False), (False, False)):
        rig = Rig(tmp_path)
        assert rig.pump.exact is exact
        await rig.until(lambda: rig.store.stats().commits > 0)  # noqa: B023
        await rig.close(crash)


async def test_a_store_in_trouble_is_told_once_and_tried_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path, min_free_bytes=2**62)  # no batch with messages fits
    client = persistent_client(rig, "kept")
    await rig.until(lambda: client.connected)
    rig.router.on_packet(client, packets.Subscribe(1, [packets.Filter("t", 1)]), rig.now())
    rig.router.on_packet(client, decoded(mqtt.publish("t", b"x", 1, pid=2)), rig.now())
    await rig.until(lambda: rig.store.stats().failed_commits >= 3)
    assert "disk full" in str(rig.router.status(rig.now())["store"])
    assert rig.store._writer is not None
    rig.store._writer._min_free_bytes = 0
    await rig.until(lambda: rig.router.core.segments != {} and rig.pump.idle)
    assert rig.router.take_alarms()[0].startswith("the store fails: disk full")
    await rig.close()


async def test_a_damaged_database_is_the_end_of_this_run(tmp_path: Path) -> None:
    """Trying again is in vain; the next start salvages."""
    rig = Rig(tmp_path)
    await rig.until(lambda: rig.store.stats().commits > 0 and rig.pump.idle)
    rig.pump._done(STAMP_ALONE, "disk full: database or disk is full")
    assert rig.pump.fatal == ""
    rig.pump._done(STAMP_ALONE, "database damaged: database disk image is malformed")
    assert rig.pump.fatal.startswith("database damaged")
    await rig.close()
