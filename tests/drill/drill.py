"""An outage of the collector, with everything else going wrong too: what happens, and the verdict on it.

Edge nodes with devices publish at QoS 0. One collector is there, another is away for hours of their time: the time in
the payloads runs as fast as the gateway takes the messages. Meanwhile the gateway is killed twice in the middle of a
burst, the link of one node goes dead without a close, and messages go missing on their way: a few of one node first,
then some of every node at once, for more rebirths than the budget has. Then the collector comes back while the nodes
go on.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from gateway.cli.control import NoBrokerError, ask
from tests.drill.node import Node, utc_ms
from tests.drill.record import RECORD, first, read
from tests.drill.verdict import Told
from tests.harness import Broker, beside_env

HOUR_MS: Final = 3_600_000
WAIT_S: Final = 120.0
RUN_S: Final = 0.05  # between two looks
QUIET_S, LONG_QUIET_S = 1.0, 10.0  # until nothing more is expected
DOWN_S: Final = 0.2  # between two rounds while the gateway starts
BURST: Final = 10  # rebirths that the gateway asks for at once
PER_MINUTE: Final = 60
SETTINGS: Final = {"bridge.rebirths_per_minute": PER_MINUTE, "bridge.reorder_timeout": "0.5s"}


@dataclass(frozen=True, slots=True)
class Plan:
    """``hours``: how long the collector is away, in the time of the nodes, which goes by ``interval_s`` a round.

    A round takes at least ``pace_s`` of real time. Each ``keeps_every``-th node keeps what it cannot send.
    """

    nodes: int = 20
    devices: int = 5
    metrics: int = 30
    hours: float = 10.0
    interval_s: float = 10.0
    after_hours: float = 0.25  # with the collector back
    pace_s: float = 0.0
    keep_alive_s: int = 4
    keeps_every: int = 4


@final
class Collecting:
    """A collector's process and its file."""

    def __init__(self, name: str, port: int, folder: Path) -> None:
        self.file = folder / f"{name}.records"
        self.file.touch()
        line = [sys.executable, "-m", "tests.drill.collector", str(port), name, str(self.file)]
        self._process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=beside_env()
        )

    def ready(self) -> None:
        """It has subscribed."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "READY\n", "the collector has ended"

    @property
    def count(self) -> int:
        return self.file.stat().st_size // RECORD.size

    def stop(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def returncode(self) -> int | None:
        return self._process.returncode


@final
class Drill:
    """One run. ``told`` has all there is to judge by, ``figures`` what is worth knowing besides."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None]) -> None:
        assert plan.nodes >= 3
        self.plan, self.folder = plan, folder
        self.say = say
        self.figures: dict[str, float] = {}
        self.started_ms = utc_ms()
        self._broker = Broker(folder / "data", SETTINGS)
        self._nodes: list[Node] = []
        self._round = 0
        self._due = 0.0
        self._collectors: list[Collecting] = []

    @property
    def hours(self) -> float:
        """How long it lasts, in the time of the nodes."""
        return self._round * self.plan.interval_s / 3600

    async def run(self) -> Told:
        """From the first birth to the last death. Raises AssertionError when it does not get that far."""
        plan, running = self.plan, []
        with self._broker as broker:
            self._nodes = [
                Node(
                    i, broker.port, plan.devices, plan.metrics, plan.keep_alive_s if i == 2 else 0,
                    i % plan.keeps_every == 0,
                )
                for i in range(1, plan.nodes + 1)
            ]  # fmt: skip
            try:
                away, there = self._collecting("away"), self._collecting("there")
                for one in (away, there):
                    await asyncio.to_thread(one.ready)
                away.stop()
                running = [asyncio.ensure_future(node.run()) for node in self._nodes]
                return await self._story(there)
            finally:
                for one in self._collectors:
                    one.stop()
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)

    def _collecting(self, name: str) -> Collecting:
        self._collectors.append(Collecting(name, self._broker.port, self.folder))
        return self._collectors[-1]

    async def _story(self, there: Collecting) -> Told:
        start = time.monotonic()
        await self._until(self._all_born, "the first births")
        await self._go_on(0.15)
        await self._lose_on_the_way(self._nodes[:1])
        await self._go_on(0.3)
        await self._kill()
        await self._go_on(0.45)
        await self._half_open(self._nodes[1])
        await self._go_on(0.65)
        await self._kill(self._nodes[2])
        await self._go_on(0.8)
        await self._lose_on_the_way(self._nodes)
        await self._go_on(1.0)
        self.figures["seconds away"] = time.monotonic() - start
        at_return, queued = await self._waiting(there)
        self.say(f"hour {self.hours:.1f}: the collector comes back, {queued} messages wait")
        back_at = time.monotonic_ns()
        back = self._collecting("away")
        await self._come_to_an_end()
        await self._settled(back, await self._settled(there))
        await self._settled(there, back.count)
        facts = {row["node"]: row for row in await self._ask("sparkplug_nodes")}
        for one in (there, back):
            one.stop()
            assert one.returncode == 0, "a collector ended with an error"
        self.figures["seconds"] = time.monotonic() - start
        away = read(back.file)
        if len(away) >= at_return:
            self.figures["drained per second"] = at_return / ((away[at_return - 1].at - back_at) / 1e9)
        return Told(
            [node.sent for node in self._nodes], first(read(there.file)), away, at_return,
            queued, facts, PER_MINUTE, BURST,
        )  # fmt: skip

    # What happens

    async def _go_on(self, share: float) -> None:
        """Rounds until this share of the hours is over."""
        while self.hours < self.plan.hours * share:
            await self._step()

    async def _step(self) -> None:
        """A round: every device of every node changes."""
        self._round += 1
        now = self.started_ms + int(self._round * self.plan.interval_s * 1000)
        for node in self._nodes:
            node.step(self._round, now)
        for node in self._nodes:
            await node.room()
        self._due = max(self._due + self.plan.pace_s, time.monotonic())
        await asyncio.sleep(self._due - time.monotonic())

    async def _kill(self, losing: Node | None = None) -> None:
        """kill -9 in the middle of a burst; the nodes go on while it is away.

        ``losing``: right before, messages of it go missing, and the gateway still waits for them when it is killed.
        """
        if losing is not None:
            losing.skip = 2
            while losing.skip or not (await self._facts(losing))["missing"]:
                await self._step()
        for _ in range(3):
            self._round += 1
            now = self.started_ms + int(self._round * self.plan.interval_s * 1000)
            for node in self._nodes:
                node.step(self._round, now)
        self.say(f"hour {self.hours:.1f}: the gateway is killed")
        assert self._broker.process is not None
        self._broker.process.kill()
        for node in self._nodes:
            node.gateway_run += 1
        restarting = asyncio.ensure_future(asyncio.to_thread(self._broker.restart))
        while not restarting.done():
            await self._step()
            await asyncio.sleep(DOWN_S)
        await restarting
        await self._until(self._all_born, "all births after the kill")

    async def _half_open(self, node: Node) -> None:
        """Its link takes all and delivers nothing, until the gateway has given it up; then the node notices too."""
        self.say(f"hour {self.hours:.1f}: the link of {node.sent.name} goes dead")
        node.dead = True
        while (await self._facts(node))["connected"]:
            await self._step()
            await asyncio.sleep(RUN_S)
        self.say(f"hour {self.hours:.1f}: the gateway has given it up")
        for _ in range(10):
            await self._step()
        node.notice()
        await self._until(self._all_born, "its birth")

    async def _lose_on_the_way(self, nodes: Sequence[Node]) -> None:
        """Some of their messages are never sent; go on until each was asked for a rebirth, however long that takes."""
        self.say(f"hour {self.hours:.1f}: messages of {len(nodes)} node{'s' * (len(nodes) > 1)} go missing")
        before, end = [node.sent.requests for node in nodes], time.monotonic() + WAIT_S
        for i, node in enumerate(nodes):
            node.skip = 3 + i % 5
        while any(node.sent.requests == asked for node, asked in zip(nodes, before, strict=True)):
            assert time.monotonic() < end, "not all were asked for a rebirth"
            await self._step()
            await asyncio.sleep(RUN_S)

    async def _come_to_an_end(self) -> None:
        """The nodes go on for a while, send what they have kept, and say goodbye."""
        end = self.hours + self.plan.after_hours
        while self.hours < end or any(node.machine.backlog for node in self._nodes if node.keeps):
            await self._step()
        await asyncio.gather(*(node.leave() for node in self._nodes))

    # Looking

    def _all_born(self) -> bool:
        return all(node.born for node in self._nodes)

    async def _settled(self, one: Collecting, wanted: int = 0) -> int:
        """Nothing more comes to it, which takes longer to believe before it has what is wanted; how much it has."""
        count, different, since = -1, 0, time.monotonic()
        while time.monotonic() < since + (QUIET_S if different >= wanted else LONG_QUIET_S):
            if one.count != count:
                count, since = one.count, time.monotonic()
                different = (
                    count if count < wanted or not wanted else len(first(await asyncio.to_thread(read, one.file)))
                )
            await asyncio.sleep(RUN_S)
        return len(first(await asyncio.to_thread(read, one.file)))

    async def _waiting(self, there: Collecting) -> tuple[int, int]:
        """How much was ingested and how much waits; these are the same, at the latest when all is quiet."""
        end = time.monotonic() + LONG_QUIET_S
        while True:
            ingested = await self._settled(there)
            row = next(row for row in await self._ask("sessions") if row["client_id"] == "away")
            queued = int(row["queue_messages"])
            if queued == ingested or time.monotonic() > end:
                return ingested, queued

    async def _until(self, true: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + WAIT_S
        while not true():
            assert time.monotonic() < end, f"waited for {what}"
            await asyncio.sleep(RUN_S)

    async def _ask(self, command: str) -> Any:
        return await asyncio.to_thread(ask, self.folder / "data" / "control.sock", {"cmd": command})

    async def _facts(self, node: Node) -> dict[str, Any]:
        try:
            rows = await self._ask("sparkplug_nodes")
        except NoBrokerError:
            raise AssertionError(self._broker.log()[-3000:]) from None
        return next(row for row in rows if row["node"] == node.sent.name)
