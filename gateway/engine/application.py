"""One APPLICATION and its cursor: what the engine has for it goes to the core, what is settled goes back."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final, final

from gateway.core.engine import CLOSED, ENDED, OPENED, Arrived, EngineEvent
from gateway.log import Log
from gateway.net.connection import Turn
from gateway.store.clock import read_clocks
from gateway.store.engine import Cursor, CursorTaken, Engine, EngineDown, EngineError, Entry

UNSETTLED_MAX: Final = 1000  # messages of one application in memory here
READ_S: Final = 1.0
COMMIT_S: Final = 0.05  # what is settled is told so late at most
REJOIN_S: Final = 2.0  # one that comes to another gateway has subscribed again by then
RETRY_S: Final = 0.2


@final
class Application:
    """Runs on the event loop. ``up`` is set while the engine is connected."""

    def __init__(self, client_id: str, engine: Engine, turn: Turn, log: Log, up: asyncio.Event) -> None:
        self.client_id = client_id
        self.dirty = True  # the engine does not know yet what has changed
        self.lag: int | None = None
        self._engine = engine
        self._turn = turn
        self._port = turn.router.engine
        self._log = log
        self._up = up
        self._filters: list[str] = []
        self._connected = False
        self._fresh = False
        self._forget: bool | None = None
        self._cursor: Cursor | None = None
        self._retired: list[Cursor] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._room = asyncio.Event()
        self._told = asyncio.Event()  # of other filters
        self._acked = asyncio.Event()

    @property
    def over(self) -> bool:
        """Nothing is left of it."""
        return not (self.dirty or self._filters or self._connected or self._retired)

    def on_event(self, event: EngineEvent) -> None:
        self.dirty = True
        if event.kind == CLOSED:
            self._connected = False
            self._retire()
        elif event.kind == ENDED:
            self._retire()
            self._connected, self._filters, self._fresh = False, [], False
            self._forget = bool(self._forget) or event.fresh
        else:
            self._filters = event.filters
            if event.kind == OPENED:
                self._connected, self._fresh = True, event.fresh
        self._room.set()
        self._told.set()

    def settled(self, position: int) -> None:
        """The core is done with this message."""
        cursor = self._cursor
        if cursor is None and self._retired:
            cursor = self._retired[-1]
        if cursor is not None:
            cursor.ack(position)
            self._acked.set()
            self._room.set()

    def _retire(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        if self._cursor is not None:
            self._retired.append(self._cursor)
            self._cursor = None

    async def settle(self) -> None:
        """Tell the engine what has changed. Raises EngineDown; then it is told again."""
        for cursor in self._retired:
            with contextlib.suppress(EngineDown):
                await cursor.committed()
            await cursor.close()
        self._retired = []
        if self._forget is not None:
            await self._engine.forget(self.client_id, self._forget)
            self._forget = None
        self.dirty = False
        try:
            await self._tell()
        except BaseException:
            self.dirty = True
            raise

    async def _tell(self) -> None:
        filters, cursor = self._filters, self._cursor
        earliest = self._port.earliest(self.client_id)
        if not self._connected:
            if filters:
                await self._engine.declare(self.client_id, filters, earliest)
        elif cursor is None:
            if filters:
                cursor = await self._engine.open(self.client_id, filters, earliest, self._fresh)
                if not self._there():
                    self._retired.append(cursor)
                    self.dirty = True
                    return
                self._fresh = False
                self._cursor = cursor
                self._tasks = [asyncio.create_task(self._read(cursor)), asyncio.create_task(self._commit(cursor))]
        elif not filters:
            self._retire()
            self._forget = True
            self.dirty = True
        elif not self._missing(cursor.before):
            await cursor.narrow(filters)

    def _there(self) -> bool:
        """A call, since it may have left meanwhile."""
        return self._connected

    def _missing(self, before: Sequence[str]) -> bool:
        """Whether it has not subscribed again to all that it had elsewhere."""
        return any(one not in self._filters for one in before)

    async def close(self) -> None:
        """The gateway stops; what the engine does not hear now comes again."""
        self._retire()
        for cursor in self._retired:
            with contextlib.suppress(EngineDown, TimeoutError):
                async with asyncio.timeout(1):
                    await cursor.committed()
            await cursor.close()
        self._retired = []

    # reading

    async def _read(self, cursor: Cursor) -> None:
        broken = False
        while True:
            try:
                if broken:
                    await cursor.resume()
                    broken = False
                await self._rejoin(cursor)
                await self._turn_of(cursor)
            except CursorTaken as e:
                self._log.info(f"{self.client_id}: {e}")
                self._port.taken(self.client_id, self._turn.now())
                self._turn.touch()
                return
            except EngineError as e:
                if not isinstance(e, EngineDown):
                    self._log.noise(f"engine {self.client_id}", f"{self.client_id}: {e}", "warning")
                broken = True
                await asyncio.sleep(RETRY_S)
                await self._up.wait()
            except Exception as e:
                self._log.defect(f"engine, {self.client_id}", e)
                broken = True
                await asyncio.sleep(RETRY_S)
                await self._up.wait()

    async def _rejoin(self, cursor: Cursor) -> None:
        """It read elsewhere before: what it had subscribed to there is not passed over before it had time to here."""
        if not cursor.before:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + REJOIN_S
        while self._missing(cursor.before) and loop.time() < end:
            self._told.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    await self._told.wait()
        await cursor.narrow(self._filters)

    async def _turn_of(self, cursor: Cursor) -> None:
        room = self._port.room(self.client_id, UNSETTLED_MAX)
        if room <= 0:
            self._room.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READ_S):
                    await self._room.wait()
            return
        rate = self._port.drain_rate(self.client_id)
        entries = await cursor.read(min(room, max(1, rate // 50)) if rate else room, READ_S)
        if not entries:
            return
        self._port.bring(self.client_id, self._arrived(entries), self._turn.now())
        self._turn.touch()
        if rate:
            await asyncio.sleep(len(entries) / rate)

    def _arrived(self, entries: Sequence[Entry]) -> list[Arrived]:
        now, utc = self._turn.now(), read_clocks().wall_ms
        out: list[Arrived] = []
        for position, (topic, payload, qos, retain, props, expires_ms) in entries:
            deadline = max(1, now + expires_ms - utc) if expires_ms else 0
            out.append(Arrived(position, topic.encode(), payload, qos, retain, props, deadline))
        return out

    async def _commit(self, cursor: Cursor) -> None:
        while True:
            await self._acked.wait()
            await asyncio.sleep(COMMIT_S)
            self._acked.clear()
            try:
                await cursor.committed()
            except EngineError:
                self._acked.set()  # once more, whether something is settled meanwhile or not
                await asyncio.sleep(RETRY_S)

    # what is shown

    async def measure(self) -> None:
        """How far behind it is. Raises EngineDown."""
        cursor = self._cursor
        self.lag = None if cursor is None else await cursor.lag()

    def view(self) -> dict[str, Any]:
        return {
            "client_id": self.client_id,
            "connected": self._connected,
            "reads": self._cursor is not None,
            "lag": self.lag,
        }
