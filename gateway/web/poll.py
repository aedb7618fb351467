"""What the broker last said of itself: asked for once a second while somebody looks, however many they are."""

import asyncio
from typing import Any, Final, final

from gateway.log import RECENT_LINES
from gateway.web.control import Control, NoBrokerError, RefusedError
from gateway.web.history import History

BUSY_S: Final = 1.0  # between two questions while somebody looks
IDLE_S: Final = 5.0  # else: the charts go on
SHARE: Final = 50  # the broker's answer takes at most a fiftieth of its time
SESSIONS: Final = 100

Report = dict[str, Any]


@final
class Poll:
    """The reports of a broker. ``lookers`` counts who wants to be told each second."""

    def __init__(self, control: Control, sessions: int = SESSIONS) -> None:
        self.report: Report | None = None
        self.error = "not asked yet"  # why there is no answer; empty while there is one
        self.number = 0  # of answers, good or bad
        self.history = History()
        self.log: list[list[Any]] = []  # [number, wall ms, level, text]
        self._control = control
        self._sessions = sessions
        self._lookers = 0
        self._pid = 0
        self._asked = 0.0
        self._took = 0.0
        self._told = asyncio.Condition()
        self._wanted = asyncio.Event()
        self._asking = asyncio.Lock()

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            await self.ask()
            pause = max(BUSY_S if self._lookers else IDLE_S, SHARE * self._took)
            self._wanted.clear()
            try:
                await asyncio.wait_for(self._wanted.wait(), pause)
                await asyncio.sleep(max(0.0, self._asked + max(BUSY_S, SHARE * self._took) - _now()))
            except TimeoutError:
                pass

    async def ask(self) -> None:
        """Ask now; raises nothing."""
        async with self._asking:
            began = _now()
            after = self.log[-1][0] if self.log else 0
            try:
                report = await self._control.ask({"cmd": "report", "sessions": self._sessions, "log_after": after})
            except (NoBrokerError, RefusedError) as error:
                self.report, self.error = None, str(error)
            else:
                self._take(report, began, after)
            self._asked = began
            self._took = min(_now() - began, 1.0)
        async with self._told:
            self.number += 1
            self._told.notify_all()

    async def fresh(self) -> Report:
        """A report that is not older than a second. Raises NoBrokerError."""
        if self.report is None or _now() - self._asked >= BUSY_S:
            await self.ask()
        if self.report is None:
            raise NoBrokerError(self.error)
        return self.report

    async def next(self, number: int) -> int:
        """Wait until there is an answer after that number; its number."""
        async with self._told:
            await self._told.wait_for(lambda: self.number > number)
            return self.number

    def look(self) -> None:
        """One more looks."""
        self._lookers += 1
        self._wanted.set()

    def leave(self) -> None:
        """One less."""
        self._lookers -= 1

    @property
    def lookers(self) -> int:
        return self._lookers

    def _take(self, report: Report, at: float, after: int) -> None:
        if report["pid"] != self._pid:  # its lines are numbered anew
            self.log, self._pid = [], report["pid"]
            if after:  # of these some may be missing, the next answer has them all
                report["log"] = []
        self.log = [*self.log, *report["log"]][-RECENT_LINES:]
        self.report, self.error = report, ""
        self.history.take(report, at)


def _now() -> float:
    return asyncio.get_running_loop().time()
