"""The engine of a broker, of which most is imported only where one is configured: RAM is short on small boards."""

from typing import TYPE_CHECKING, Any, Final, final

from gateway.log import Log
from gateway.net.connection import Turn
from gateway.settings.table import Settings
from gateway.store.engine import EngineRefused

if TYPE_CHECKING:
    from gateway.engine.driver import Driver

HERE: Final = "sqlite"


@final
class LateEngine:
    """Stands for ``Driver``, there or not. ``held``: it is not dialled before ``release()``, all waits in the store."""

    def __init__(self, turn: Turn, log: Log, settings: Settings, held: bool = False) -> None:
        on = settings.application_log_engine != HERE
        self._name = settings.application_log_engine
        self._turn, self._log, self._settings = turn, log, settings
        self._driver: Driver | None = None
        self._refused = ""
        turn.router.engine.configure(on, settings.application_log_capture, turn.now())
        if not held:
            self.release()

    def release(self) -> None:
        """It may be dialled; what happened to applications until now is told then.

        Where it cannot be made all goes on waiting in the store: a package that is missing is no reason not to serve.
        """
        if self._name != HERE and self._driver is None:
            try:
                self._driver = _driver(self._settings, self._turn, self._log)
            except EngineRefused as e:
                self._refused = str(e)
                self._log.error(self._refused)

    def run(self) -> None:
        """Behind each turn."""
        if self._driver is not None:
            self._driver.run()

    async def stop(self) -> None:
        """Nothing more is appended or read."""
        if self._driver is not None:
            await self._driver.stop()

    def view(self, now: int) -> dict[str, Any]:
        """What ``forebay status`` shows."""
        if self._driver is not None:
            return self._driver.view(now)
        if self._name == HERE:
            return {"name": HERE}
        return idle(self._name, self._turn.router.engine.row(now) or {}, self._refused)


def idle(name: str, row: dict[str, Any], refused: str) -> dict[str, Any]:
    """What is shown of one that is not dialled."""
    return {
        "name": name,
        "state": "refused" if refused else "down",
        "since_s": 0,
        "error": refused or "safe mode, or a disk that cannot be written",
        "waiting": row.get("queue_messages", 0),
        "waiting_bytes": row.get("queue_bytes", 0),
        "in_flight": row.get("inflight", 0),
        "log": {},
        "applications": [],
    }


def _driver(settings: Settings, turn: Turn, log: Log) -> "Driver":
    from gateway.engine.driver import Driver

    driver = Driver(settings, turn, log)
    driver.start()
    return driver
