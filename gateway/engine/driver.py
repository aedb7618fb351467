"""The engine at work: what the core has for it is appended in order, and it is told what the engine has kept.

While the engine is not there the core has no connection to it, and keeps everything in the store here.
"""

import asyncio
import contextlib
import random
from collections import deque
from typing import Any, Final, final

from gateway.core.engine import EngineEvent
from gateway.engine.application import Application
from gateway.engine.making import make
from gateway.log import Log
from gateway.mqtt.packets import Publish
from gateway.net.connection import Turn
from gateway.settings.table import Settings
from gateway.store.clock import read_clocks
from gateway.store.engine import CursorTaken, EngineDown, EngineRefused, Record

WINDOW: Final = 16_384  # messages that the engine may have to acknowledge
BATCH: Final = 2048
REPEATS_MAX: Final = 1024  # messages of the store here that a crash may give the engine again
HELD_S: Final = 1.0  # between two looks at whether the disk here, which is waited for, has failed
RETRY_S_MAX: Final = 5.0
REFUSED_S: Final = 30.0
AGAIN_S: Final = 5.0  # an application whose place in the log was refused
LOOK_S: Final = 10.0  # between two looks at what the engine holds
STOP_S: Final = 3.0

CONNECTING: Final = "connecting"
UP: Final = "up"
DOWN: Final = "down"
REFUSED: Final = "refused"


@final
class Driver:
    """Runs on the event loop from ``start`` to ``stop``."""

    def __init__(self, settings: Settings, turn: Turn, log: Log) -> None:
        self._turn = turn
        self._log = log
        self._port = turn.router.engine
        self._engine = make(settings, self._lost)
        self._up = asyncio.Event()
        self._wake = asyncio.Event()
        self._queue: deque[tuple[int, int, Record]] = deque()  # number, packet id, record
        self._bytes = 0
        self._number = 0
        self._numbers: dict[int, int] = {}  # packet id -> number of what the engine has not said to have
        self._batch: list[tuple[int, int, Record]] = []
        self._kept = 0  # of that
        self._applications: dict[str, Application] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._state = CONNECTING
        self._since = turn.now()
        self._error = ""
        self._tries = 0
        self._stats: dict[str, Any] = {}

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._look())]

    async def stop(self) -> None:
        """What is not appended goes to the store here; what was settled is still told."""
        self.run()
        for task in self._tasks:
            task.cancel()
        self._down()
        try:
            async with asyncio.timeout(STOP_S):
                await asyncio.gather(*(one.close() for one in self._applications.values()), return_exceptions=True)
                await self._engine.close()
        except TimeoutError:
            pass

    # from the core

    def run(self) -> None:
        """Behind each turn."""
        port = self._port
        for event in port.take_events():
            self._on_event(event)
        for client_id, position in port.take_settled():
            application = self._applications.get(client_id)
            if application is not None:
                application.settled(position)
        taken = port.take()
        if taken:
            utc = read_clocks().wall_ms
            for p in taken:
                self._enqueue(p, utc)
            self._wake.set()
            port.unsent(self._bytes, self._turn.now())
        if port.take_news():
            self._wake.set()

    def _enqueue(self, p: Publish, utc: int) -> None:
        number = self._numbers.get(p.packet_id, 0) if p.dup else 0  # else the id is another message's by now
        if not number:
            self._number += 1
            number = self._number
            if p.packet_id:
                self._numbers[p.packet_id] = number
        expires_ms = utc + 1000 * p.expiry if p.expiry >= 0 else 0
        record = Record(p.topic.decode(), p.payload, min(p.qos, 1), p.retain, p.props, expires_ms)
        self._queue.append((number, p.packet_id, record))
        self._bytes += _size(record)

    def _on_event(self, event: EngineEvent) -> None:
        application = self._applications.get(event.client_id)
        if application is None:
            application = Application(event.client_id, self._engine, self._turn, self._log, self._up)
            self._applications[event.client_id] = application
        application.on_event(event)
        self._wake.set()

    # to the engine

    async def _run(self) -> None:
        while True:
            try:
                self._set(CONNECTING, "")
                await self._engine.connect()
                await self._settle()
                await self._work()
            except EngineRefused as e:
                self._fail(REFUSED, str(e))
                await asyncio.sleep(REFUSED_S)
            except EngineDown as e:
                self._fail(DOWN, str(e))
                self._tries += 1
                await asyncio.sleep(self._pause_s())
            except Exception as e:
                self._log.defect(f"engine {self._engine.name}", e)
                self._fail(DOWN, str(e))
                await asyncio.sleep(RETRY_S_MAX)

    async def _work(self) -> None:
        """As long as it goes well. Raises EngineDown."""
        self._attach()
        while True:
            await self._settle()
            if not self._port.attached:
                self._numbers.clear()
                self._down()
                self._attach()
                continue
            room = REPEATS_MAX - self._port.repeats()
            if not self._queue or room <= 0:
                self._wake.clear()
                if not self._up.is_set():
                    raise EngineDown("the connection was lost")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HELD_S if self._queue else None):
                        await self._wake.wait()
                continue
            batch = self._batch = self._next(min(BATCH, room))
            self._kept = 0
            await self._engine.append(batch[0][0], [record for _, _, record in batch], self._on_kept)
            self._tries = 0

    def _attach(self) -> None:
        self._up.set()
        self._set(UP, "")
        self._log.info(f"engine {self._engine.name}: up")
        self._port.attach(self, self._engine.name, WINDOW, self._engine.largest, self._turn.now())
        self._turn.touch()
        self.run()

    def _next(self, most: int) -> list[tuple[int, int, Record]]:
        """The next in a row: an engine may go by their numbers."""
        queue = self._queue
        batch = [queue.popleft()]
        while queue and len(batch) < most and queue[0][0] == batch[-1][0] + 1:
            batch.append(queue.popleft())
        return batch

    def _on_kept(self, n: int) -> None:
        done = self._batch[self._kept : n]
        self._kept = n
        ids = [packet_id for _, packet_id, _ in done if packet_id]
        for packet_id in ids:
            self._numbers.pop(packet_id, 0)
        self._bytes -= sum(_size(record) for _, _, record in done)
        now = self._turn.now()
        self._port.kept(ids, now)
        self._port.unsent(self._bytes, now)
        self._turn.touch()

    async def _settle(self) -> None:
        """The engine knows who wants what is to be appended next: nothing may be awaited between this and that."""
        while dirty := [one for one in self._applications.values() if one.dirty]:
            for application in dirty:
                try:
                    await application.settle()
                except (EngineRefused, CursorTaken) as e:
                    self._log.noise("engine", f"engine {self._engine.name}: {application.client_id}: {e}", "warning")
                    application.dirty = False
                    asyncio.get_running_loop().call_later(AGAIN_S, self._again, application)
        self._applications = {key: one for key, one in self._applications.items() if not one.over}

    def _again(self, application: Application) -> None:
        application.dirty = True
        self._wake.set()

    def _lost(self) -> None:
        self._up.clear()
        self._wake.set()

    def _down(self) -> None:
        self._up.clear()
        self._queue.clear()
        self._batch = []
        self._bytes = 0
        self._port.detach(self._turn.now())
        self._turn.touch()

    def _fail(self, state: str, error: str) -> None:
        self._down()
        if error != self._error:
            self._log.warning(f"engine {self._engine.name}: {state}: {error}")
        self._set(state, error)

    def _set(self, state: str, error: str) -> None:
        if state != self._state:
            self._state, self._since = state, self._turn.now()
        if error or state == UP:
            self._error = error

    def _pause_s(self) -> float:
        return min(0.1 * 2.0 ** min(self._tries - 1, 16), RETRY_S_MAX) * random.uniform(0.5, 1)

    # what is shown

    async def _look(self) -> None:
        while True:
            await self._up.wait()
            try:
                await self._engine.trim()
                self._stats = await self._engine.stats()
                for application in list(self._applications.values()):
                    await application.measure()
            except EngineDown as e:
                self._log.noise("engine", f"engine {self._engine.name}: {e}")
            except Exception as e:
                self._log.defect(f"engine {self._engine.name}", e)
            await asyncio.sleep(LOOK_S)

    def view(self, now: int) -> dict[str, Any]:
        """For ``forebay status``."""
        row = self._port.row(now) or {}
        return {
            "name": self._engine.name,
            "state": self._state,
            "since_s": max(0, now - self._since) // 1000,
            "error": self._error or None,
            "waiting": row.get("queue_messages", 0),
            "waiting_bytes": row.get("queue_bytes", 0),
            "in_flight": row.get("inflight", 0),
            "log": self._stats,
            "applications": [one.view() for one in self._applications.values()],
        }


def _size(record: Record) -> int:
    return len(record.topic) + len(record.payload) + len(record.props)
