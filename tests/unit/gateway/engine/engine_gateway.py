"""A broker with a driver and an engine in memory; connections are those of the core, without sockets."""

import asyncio
import io
from collections.abc import Callable

import pytest

from gateway.engine import driver
from gateway.engine.driver import Driver
from gateway.log import Log
from gateway.net.connection import Turn
from gateway.settings.table import Sources, load
from tests.memory import MemoryBroker
from tests.memory_engine import MemoryEngine

WAIT_S = 60


class EngineGateway:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
        self.broker = MemoryBroker({"client_type": "app-*=application", **settings})
        self.text = io.StringIO()
        self.log = Log(self.text, "debug")
        self.faults: list[Exception] = []
        self.turn = Turn(  # until() carries out what it would
            self.broker.router, lambda: self.broker.now, lambda run: None, lambda now: None,
            lambda peer, e: self.faults.append(e),
        )  # fmt: skip
        self.engine = MemoryEngine()

        def made(_: object, lost: Callable[[], None]) -> MemoryEngine:
            self.engine.lost = lost
            return self.engine

        monkeypatch.setattr(driver, "make", made)
        self.broker.router.engine.configure(True, ["plant/#"], self.broker.now)
        self.driver = Driver(load(Sources(), {}), self.turn, self.log)
        self.broker.pump()

    async def until(self, true: Callable[[], object]) -> None:
        """Turns, until this is true."""
        async with asyncio.timeout(WAIT_S):
            while not true():
                self.broker.pump()
                self.driver.run()
                await asyncio.sleep(0.001)

    @property
    def state(self) -> object:
        return self.driver.view(self.broker.now)["state"]
