"""Without an engine nothing of one is imported."""

import asyncio
import io
import subprocess
import sys

import pytest

from gateway.core.limits import Limits
from gateway.core.router import Router
from gateway.engine import driver
from gateway.engine.late import LateEngine
from gateway.log import Log
from gateway.net.connection import Turn
from gateway.settings.table import Sources, load
from gateway.store.engine import EngineRefused
from tests.memory import MemoryBroker
from tests.memory_engine import MemoryEngine
from tests.station import Station


async def test_the_log_here_is_no_engine() -> None:
    router = Router(Limits(), None, 1, 1)
    turn = Turn(router, lambda: 1, lambda f: f(), lambda now: None, lambda peer, e: None)
    engine = LateEngine(turn, Log(sys.stderr), load(Sources(), {}), False)
    engine.run()
    await engine.stop()
    assert engine.view(1) == {"name": "sqlite"}
    assert not router.core.engine.on


async def test_one_that_is_held_is_not_dialled_and_all_waits_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """In safe mode, or on a disk that cannot be written."""
    engine = MemoryEngine()
    monkeypatch.setattr(driver, "make", lambda settings, lost: engine)
    broker = MemoryBroker({"client_type": "app-*=application"})
    turn = Turn(broker.router, lambda: broker.now, lambda run: None, lambda now: None, lambda peer, e: None)
    late = LateEngine(turn, Log(sys.stderr), load(Sources(sets=("application_log.engine=kafka",)), {}), True)
    Station(broker, "p", persistent=False).publish("plant/a", b"1")
    late.run()
    view = late.view(broker.now)
    assert (view["name"], view["state"], view["waiting"]) == ("kafka", "down", 1)
    late.release()
    async with asyncio.timeout(60):
        while not engine.log:
            broker.pump()
            late.run()
            await asyncio.sleep(0.001)
    assert [record.payload for record in engine.log] == [b"1"]
    await late.stop()


@pytest.mark.parametrize("held", [False, True])
async def test_one_that_cannot_be_made_is_told_and_all_waits_here(monkeypatch: pytest.MonkeyPatch, held: bool) -> None:
    def refused(*_: object) -> MemoryEngine:
        raise EngineRefused("another package is needed")

    monkeypatch.setattr(driver, "make", refused)
    broker, text = MemoryBroker({"client_type": "app-*=application"}), io.StringIO()
    turn = Turn(broker.router, lambda: broker.now, lambda run: None, lambda now: None, lambda peer, e: None)
    late = LateEngine(turn, Log(text, "info"), load(Sources(sets=("application_log.engine=kafka",)), {}), held)
    late.release()
    assert "another package is needed" in text.getvalue()
    Station(broker, "p", persistent=False).publish("plant/a", b"1")
    late.run()
    view = late.view(broker.now)
    assert (view["state"], view["error"], view["waiting"]) == ("refused", "another package is needed", 1)
    await late.stop()


def test_nothing_of_an_engine_is_imported_by_the_broker() -> None:
    late = "m in ('nats', 'aiokafka') or m.startswith('gateway.engine.')"
    code = f"import gateway.broker, sys; print([m for m in sys.modules if {late}])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "['gateway.engine.late']"
