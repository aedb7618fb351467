"""An engine in memory, which a test makes slow, full, absent or another gateway's."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, final

from gateway.store.engine import CursorTaken, EngineDown, EngineRefused, Entry, Record, wanted


@final
class MemoryEngine:
    """The protocol ``store.engine.Engine``. ``up`` and ``refusal`` say how connect() goes; ``go`` lets append() on."""

    name = "memory"

    def __init__(self, lost: Callable[[], None] = lambda: None) -> None:
        self.largest = 0
        self.up, self.refusal = True, ""
        self.go = asyncio.Event()
        self.go.set()
        self.lost = lost
        self.log: list[Record] = []
        self.numbers: list[int] = []
        self.cursors: dict[str, MemoryCursor] = {}
        self.calls: list[tuple[object, ...]] = []
        self.came = asyncio.Event()
        self.accepts: int | None = None  # so many more, then it is down

    async def connect(self) -> None:
        if self.refusal:
            raise EngineRefused(self.refusal)
        if not self.up:
            raise EngineDown("nobody there")

    def fall(self) -> None:
        self.up = False
        self.go.set()
        for cursor in self.cursors.values():
            cursor.broken = True
        self.came.set()
        self.lost()

    async def append(self, number: int, records: Sequence[Record], kept: Callable[[int], None]) -> None:
        for at, record in enumerate(records):
            await self.go.wait()
            if not self.up or self.accepts == 0:
                raise EngineDown("it is full" if self.up else "lost")
            if self.accepts is not None:
                self.accepts -= 1
            self.log.append(record)
            self.numbers.append(number + at)
            self.came.set()
            kept(at + 1)

    async def declare(self, application: str, filters: Sequence[str], earliest: bool) -> None:
        self.calls.append(("declare", application, tuple(filters)))

    async def open(self, application: str, filters: Sequence[str], earliest: bool, fresh: bool) -> "MemoryCursor":
        if not self.up:
            raise EngineDown("lost")
        self.calls.append(("open", application, tuple(filters), fresh))
        old = self.cursors.get(application)
        cursor = MemoryCursor(self, filters)
        if old is not None and not fresh:
            cursor.settled = old.settled
            cursor.before = old.filters
        self.cursors[application] = cursor
        return cursor

    async def forget(self, application: str, wherever: bool) -> None:
        self.calls.append(("forget", application, wherever))
        self.cursors.pop(application, None)

    async def trim(self) -> None:
        pass

    async def stats(self) -> dict[str, Any]:
        return {"messages": len(self.log)}

    async def close(self) -> None:
        self.calls.append(("close",))


@final
class MemoryCursor:
    def __init__(self, engine: MemoryEngine, filters: Sequence[str]) -> None:
        self.before: Sequence[str] = ()
        self.filters = list(filters)
        self.settled: set[int] = set()
        self.at = 0
        self.broken = self.taken = False
        self.committed_n = 0
        self._engine = engine

    async def read(self, most: int, wait_s: float) -> list[Entry]:
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    self._check()
                    found = self._next(most)
                    if found:
                        return found
                    self._engine.came.clear()
                    await self._engine.came.wait()
        except TimeoutError:
            return []

    def _check(self) -> None:
        if self.broken:
            raise EngineDown("lost")
        if self.taken:
            raise CursorTaken("reads elsewhere")

    def _next(self, most: int) -> list[Entry]:
        found: list[Entry] = []
        while self.at < len(self._engine.log) and len(found) < most:
            self.at += 1
            record = self._engine.log[self.at - 1]
            if self.at not in self.settled and wanted(self.filters, record.topic):
                found.append(Entry(self.at, record))
        return found

    def ack(self, position: int) -> None:
        self.settled.add(position)

    async def committed(self) -> None:
        self._check()
        self.committed_n = len(self.settled)

    async def narrow(self, filters: Sequence[str]) -> None:
        self._check()
        self.filters, self.before = list(filters), ()

    async def resume(self) -> None:
        if not self._engine.up:
            raise EngineDown("lost")
        if self.taken:
            raise CursorTaken("reads elsewhere")
        self.broken = False

    async def lag(self) -> int:
        return len(self._engine.log) - self.at

    async def close(self) -> None:
        pass
