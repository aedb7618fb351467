"""Processes beside the broker."""

import io
import os
import signal
import sys
from pathlib import Path

import pytest

from gateway import companion
from gateway.companion import Companion, StatusPage
from gateway.log import Log
from gateway.settings.table import Sources, load
from tests.page import until

WAITS = "import sys; sys.stdin.read()"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_it_runs_until_it_is_stopped() -> None:
    one = Companion("helper", [sys.executable, "-c", WAITS], Log(io.StringIO()))
    one.start()
    await until(lambda: one.pid, "no process")
    pid = one.pid
    assert pid is not None
    await one.stop()
    assert one.pid is None
    assert not alive(pid)


async def test_one_that_is_killed_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion, "AGAIN_S", 0.01)
    text = io.StringIO()
    one = Companion("helper", [sys.executable, "-c", WAITS], Log(text))
    one.start()
    await until(lambda: one.pid, "no process")
    first = one.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: one.pid not in (None, first), "not started again")
    assert "helper ended with -9" in text.getvalue()
    await one.stop()


async def test_one_that_cannot_be_started_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion, "AGAIN_S", 0.01)
    text = io.StringIO()
    one = Companion("helper", ["/nothing/there"], Log(text))
    one.start()
    await until(lambda: text.getvalue().count("cannot be started") > 1, "not tried again")
    await one.stop()


async def test_one_that_does_not_leave_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(companion, "STOP_S", 0.1)
    ready = tmp_path / "ready"
    stubborn = (
        "import pathlib, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "pathlib.Path(sys.argv[1]).touch(); time.sleep(60)"
    )
    one = Companion("helper", [sys.executable, "-c", stubborn, str(ready)], Log(io.StringIO()))
    one.start()
    await until(ready.exists, "not ready")
    pid = one.pid
    assert pid is not None
    await one.stop()
    assert not alive(pid)


async def test_without_a_listener_there_is_no_page() -> None:
    page = StatusPage(Log(io.StringIO()))
    page.configure(load(Sources(), {}))
    assert page._companion is None
    await page.stop()


async def test_a_listener_that_comes_with_a_reload_starts_it_and_one_that_goes_ends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(companion, "ANSWERS_S", 0.01)
    data = f"data_dir={tmp_path}"
    page = StatusPage(Log(io.StringIO()))
    without, listening = load(Sources(sets=(data,)), {}), load(Sources(sets=(data, "http.listen=127.0.0.1:0")), {})
    page.configure(without)
    page.configure(listening)
    await until(lambda: page._companion and page._companion.pid, "not started")
    assert page._companion is not None
    pid = page._companion.pid
    assert pid is not None
    page.configure(without)
    await until(lambda: page._companion is None, "still there")
    assert not alive(pid)
    await page.stop()
