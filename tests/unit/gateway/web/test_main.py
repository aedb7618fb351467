"""The process of the page, beside a broker."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from gateway.web.main import NICENESS
from tests.harness import free_port, gateway_root
from tests.page import Page, broker_with_page, wait_for


def start(*sets: str) -> "subprocess.Popen[str]":
    line = [sys.executable, "-P", "-m", "gateway.web.main", json.dumps([None, sets, []])]
    environment = {**os.environ, "PYTHONPATH": str(gateway_root())}
    return subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_it_ends_when_its_standard_input_does(tmp_path: Path) -> None:
    port = free_port()
    with start(f"data_dir={tmp_path}", f"http.listen=127.0.0.1:{port}") as process:
        assert process.stdin is not None
        wait_for(lambda: process.poll() is not None or _listens(port), "does not listen")
        process.stdin.close()
        assert process.wait(60) == 0


def test_bad_settings_are_2_and_bad_files_1(tmp_path: Path) -> None:
    for sets, status, told in (
        (("http.listen=nowhere",), 2, "http.listen"),
        ((f"data_dir={tmp_path / 'none'}", "http.listen=127.0.0.1:0"), 1, "web.key"),
    ):
        with start(*sets) as process:
            _, err = process.communicate(timeout=60)
        assert process.returncode == status
        assert told in err
        assert err.count("\n") == 1


def test_the_page_comes_and_goes_with_the_broker_and_harms_nobody_when_it_is_killed(tmp_path: Path) -> None:
    broker, page = broker_with_page(tmp_path / "data")
    with broker:
        page.wait()
        first = page_pid(page)
        assert os.getpriority(os.PRIO_PROCESS, first) == min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, 19)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: "status page ended with -9" in broker.log(), "nobody noticed")
        page.wait()
        assert page_pid(page) != first
        assert page_pid(page) != broker.pid
        assert broker.sigterm() == 0
        assert not _listens(page.port)
        broker.start()
        page.wait()
        second = page_pid(page)
        broker.kill9()
        wait_for(lambda: not Path(f"/proc/{second}").exists(), "the page outlives its broker")


def page_pid(page: Page) -> int:
    """Who listens at its port."""
    mine = {f"socket:[{inode}]" for inode in _inodes(page.port)}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            if any(os.readlink(entry) in mine for entry in folder.iterdir()):
                return int(folder.parent.name)
        except OSError:
            continue
    raise AssertionError("nobody listens")


def _inodes(port: int) -> list[str]:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[9] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
