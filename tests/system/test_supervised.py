"""The broker under a supervisor that does what systemd does: readiness, watchdog, sockets that outlive it."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.harness import REPO, build_c, free_port, gateway_root
from tests.supervisor import Supervisor
from tests.wire import Wire

FOREVER = [(mqtt.SESSION_EXPIRY, 0xFFFFFFFF)]
WATCHDOG_S = 8.0  # longer than a busy machine keeps a process that is alive from saying so


def supervised(
    folder: Path, port: int, *more: str, watchdog_s: float = 0.0, env: dict[str, str] | None = None
) -> Supervisor:
    line = [sys.executable, "-m", "gateway", "run", "--listen", f"127.0.0.1:{port}", *more]
    line += ["--data-dir", str(folder / "data")]
    path = {"PYTHONPATH": os.pathsep.join([str(gateway_root()), str(REPO)]), **(env or {})}
    handed = [("forebay.socket", ("127.0.0.1", port))]
    return Supervisor(folder, lambda: line, handed, path, watchdog_s)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def queue(port: int) -> "Queue":
    return Queue(port)


class Queue:
    """A session that is away while messages come for it; ``check`` reads all that was acknowledged, in order."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._kept: list[bytes] = []

    def open(self) -> None:
        with Wire.connect(self._port, "reader", 5, props=FOREVER) as wire:
            assert wire.subscribe("kept", qos=1) == [1]

    def publish(self, text: bytes) -> None:
        with Wire.connect(self._port, "writer", 5) as wire:
            wire.publish_done("kept", text)
        self._kept.append(text)

    def check(self) -> None:
        with Wire.connect(self._port, "reader", 5, clean=False, props=FOREVER, present=1) as wire:
            assert [packet["payload"] for packet in wire.take(len(self._kept))] == self._kept


def test_it_says_ready_when_it_serves_and_stopping_when_it_goes(tmp_path: Path, port: int) -> None:
    with supervised(tmp_path, port) as unit:
        Wire.connect(port).close()
        assert unit.messages == ["READY=1", f"STATUS=listening on 127.0.0.1:{port}"]
        unit.restart()
        assert unit.messages[2:] == ["STOPPING=1", "STATUS=stopping", *unit.messages[:2]]
        assert unit.endings == [0]


def test_a_reload_is_announced_and_ends_with_ready(tmp_path: Path, port: int) -> None:
    config = tmp_path / "forebay.toml"
    config.write_text("")
    with supervised(tmp_path, port, "--config", str(config)) as unit:
        for text, said in (("", "STATUS=reloaded"), ("listen = 5", "STATUS=not reloaded: ")):
            config.write_text(text)
            unit.messages.clear()
            os.kill(unit.pid, signal.SIGHUP)
            unit.wait_for(lambda: len(unit.messages) == 4, "says nothing of the reload")
            assert unit.messages[0] == "RELOADING=1"
            assert unit.messages[1].startswith("MONOTONIC_USEC=")
            assert unit.messages[2] == "READY=1"
            assert unit.messages[3].startswith(said)
        Wire.connect(port).close()


def test_the_status_page_answers_for_nobody(tmp_path: Path, port: int) -> None:
    page = free_port()
    with supervised(tmp_path, port, "--set", f"http.listen=127.0.0.1:{page}", watchdog_s=WATCHDOG_S) as unit:
        unit.wait_for(lambda: served(page), "no status page")
        unit.wait_for(lambda: unit.messages.count("WATCHDOG=1") >= 3, "nobody feeds the watchdog")
        assert not [message for message in unit.messages if message.startswith("not from")]


def served(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def test_a_frozen_process_is_put_down_and_nothing_acknowledged_is_lost(tmp_path: Path, port: int, queue: Queue) -> None:
    with supervised(tmp_path, port, watchdog_s=WATCHDOG_S) as unit:
        queue.open()
        queue.publish(b"before")
        os.kill(unit.pid, signal.SIGSTOP)
        unit.wait_for(lambda: unit.starts == 2, "is left frozen")
        unit.wait_ready()
        queue.publish(b"after")
        queue.check()
        assert unit.endings == [-signal.SIGKILL]  # a stopped process does not take the SIGABRT


def test_a_busy_event_loop_is_put_down(tmp_path: Path, port: int) -> None:
    """The process runs and its store's thread answers, but the loop never comes round."""
    (tmp_path / "spin").mkdir()
    (tmp_path / "spin" / "sitecustomize.py").write_text(SPIN)
    flag = tmp_path / "flag"
    path = os.pathsep.join([str(tmp_path / "spin"), str(gateway_root()), str(REPO)])
    with supervised(tmp_path, port, watchdog_s=WATCHDOG_S, env={"PYTHONPATH": path, "SPIN": str(flag)}) as unit:
        flag.touch()
        os.kill(unit.pid, signal.SIGHUP)
        unit.wait_for(lambda: unit.starts == 2, "is left spinning")
        unit.wait_ready()
        assert unit.endings == [-signal.SIGABRT]
        assert "in spin" in unit.log(), "the stacks are not in the log"


SPIN = """
import os, pathlib
import gateway.settings.table
def spin(self, reload=gateway.settings.table.Settings.reload):
    flag = pathlib.Path(os.environ["SPIN"])
    if flag.exists():
        flag.unlink()
        while True:
            pass
    return reload(self)
gateway.settings.table.Settings.reload = spin
"""


def test_a_disk_that_hangs_is_no_life(tmp_path: Path, port: int, queue: Queue) -> None:
    """The event loop goes on, the thread that commits does not."""
    library = build_c(REPO / "tests/system/hang.c", tmp_path / "hang.so", "-shared", "-fPIC")
    flag = tmp_path / "hangs"
    env = {"LD_PRELOAD": str(library), "HANG": str(flag)}
    with supervised(tmp_path, port, watchdog_s=WATCHDOG_S, env=env) as unit:
        queue.open()
        queue.publish(b"before")
        with Wire.connect(port, "stuck", 5) as wire:
            flag.touch()
            wire.publish("kept", b"never acknowledged", 1)
            wire.send(mqtt.frame(0xC0, b""))
            wire.expect(mqtt.PINGRESP)  # the loop is alive
            unit.wait_for(lambda: unit.endings, "is left with its hanging disk")
        flag.unlink()
        unit.wait_ready()
        assert unit.endings[0] == -signal.SIGABRT
        with Wire.connect(port, "reader", 5, clean=False, props=FOREVER, present=1) as wire:
            assert wire.expect(mqtt.PUBLISH)["payload"] == b"before"


class Knocking(threading.Thread):
    """Comes in again and again; each must get its CONNACK, however long it takes."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.came_in = 0
        self.refused: list[str] = []
        self.cut: list[str] = []
        self.longest_s = 0.0
        self._port = port
        self._ended = threading.Event()

    def __enter__(self) -> "Knocking":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.is_set():
            begun = time.monotonic()
            try:
                sock = socket.create_connection(("127.0.0.1", self._port), 30)
            except OSError as error:
                self.refused.append(str(error))
                continue
            with Wire(sock, 5, 30) as wire:
                try:
                    wire.send(mqtt.connect("", 5))
                    wire.expect(mqtt.CONNACK, code=0)
                    self.came_in += 1
                except (OSError, AssertionError) as error:  # the broker that had accepted it went away
                    self.cut.append(str(error))
            self.longest_s = max(self.longest_s, time.monotonic() - begun)


def test_no_restart_and_no_crash_refuses_a_connection(tmp_path: Path, port: int, queue: Queue) -> None:
    with supervised(tmp_path, port) as unit:
        queue.open()
        with Knocking(port) as knocking:
            for turn in range(3):
                queue.publish(b"%d" % turn)
                unit.restart()
                os.kill(unit.pid, signal.SIGKILL)
                unit.wait_for(lambda turn=turn: unit.starts == 2 * turn + 3, "is not started again")  # type: ignore[misc]
                unit.wait_ready()
            came_in = knocking.came_in
            unit.wait_for(lambda: knocking.came_in > came_in, "nobody comes in any more")
        assert knocking.refused == []
        assert len(knocking.cut) <= 6, knocking.cut  # one for each end: who had just been let in
        queue.check()


def test_sockets_go_by_address_and_by_name(tmp_path: Path, port: int) -> None:
    by_name, nobodys = free_port(), free_port()
    line = [sys.executable, "-m", "gateway", "run", "--listen", f"127.0.0.1:{port}", "--data-dir", str(tmp_path / "d")]
    handed = [(name, ("127.0.0.1", at)) for name, at in (("x", port), ("tcp", by_name), ("y", nobodys))]
    path = {"PYTHONPATH": os.pathsep.join([str(gateway_root()), str(REPO)])}
    with Supervisor(tmp_path, lambda: line, handed, path) as unit:
        for at in (port, by_name):
            Wire.connect(at).close()
        assert f"127.0.0.1:{nobodys} was opened by systemd and nobody serves it" in unit.log()
