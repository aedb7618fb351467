"""Real MQTT clients as processes: started, followed by what they print, stopped.

Each prints one line an event: ``C present code`` connected, ``READY`` subscribed, ``S n`` submitted, ``A n``
acknowledged by the broker, ``R name n`` received (``D``: marked as a duplicate), ``DONE`` everything acknowledged,
``E n why`` the client gave it up.
They reconnect by themselves, and subscribe only when the broker held no session for them.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import final

HERE = Path(__file__).resolve().parent
NODE = HERE / "node"
KINDS = ("paho", "gmqtt", "mqttjs", "mosquitto")


def command(kind: str) -> list[str]:
    if kind == "mqttjs":
        return ["node", str(HERE / "clients" / "mqttjs_client.mjs")]
    return [sys.executable, str(HERE / "clients" / f"{kind}_client.py")]


def missing(kind: str) -> str:
    """Why this kind of client cannot run here, empty when it can."""
    if kind == "mosquitto":
        return "" if shutil.which("mosquitto_pub") and shutil.which("stdbuf") else "mosquitto-clients is not installed"
    if kind == "mqttjs":
        return install_npm("mqtt")
    return ""


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """While something is installed there: tests run in several processes."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def install_npm(package: str) -> str:
    """Install what package.json names, where this package of it is not there yet; returns why not, or nothing."""
    with alone(NODE):
        return _install_npm(package)


def _install_npm(package: str) -> str:
    if (NODE / "node_modules" / package).is_dir():
        return ""
    if not shutil.which("node") or not shutil.which("npm"):
        return "node and npm are not installed"
    line = ["npm", "--prefix", str(NODE), "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=150)
    except subprocess.TimeoutExpired:
        return "npm install takes too long"
    return "" if done.returncode == 0 else f"npm install failed: {done.stderr.strip()[-200:]}"


@final
class Driver:
    """One client process and what it said."""

    def __init__(
        self, mode: str, kind: str, port: int, topic: str, qos: int, directory: Path, rate: float = 200
    ) -> None:
        self.mode, self.kind, self.qos = mode, kind, qos
        self.name = f"{mode}-{kind}-{qos}"
        self.stop_file = directory / f"{self.name}.stop"
        self.errors = directory / f"{self.name}.err"
        self.lines: list[str] = []
        self.submitted: dict[int, int] = {}  # number -> how often
        self.acknowledged: list[int] = []
        self.refused: list[str] = []
        self.received: list[tuple[str, int]] = []  # (publisher, number), in order
        self.repeated: list[tuple[str, int]] = []  # with DUP, told apart only where the client does not do so itself
        self.present: list[int] = []  # session present of each CONNACK
        line = [*command(kind), mode, port, self.name, topic, qos, self.stop_file, rate]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [str(item) for item in line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # mosquitto_sub says it in its own words
            line = "READY\n" if "received SUBACK" in line else line
            words = line.split()
            self.lines.append(line)
            if words[0] == "S":
                self.submitted[int(words[1])] = self.submitted.get(int(words[1]), 0) + 1
            elif words[0] == "A":
                self.acknowledged.append(int(words[1]))
            elif words[0] == "E":
                self.refused.append(line)
            elif words[0] in ("R", "D"):
                (self.received if words[0] == "R" else self.repeated).append((words[1], int(words[2])))
            elif words[0] == "C":
                self.present.append(int(words[1]))

    def wait(self, what: str, until: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not until():
            assert time.monotonic() < deadline, f"{self.name}: {what} not within {timeout} s\n{self.tail()}"
            time.sleep(0.02)

    def has_started(self) -> bool:
        return bool(self.acknowledged or self.received)

    def wait_line(self, start: str, timeout: float = 60) -> None:
        self.wait(start, lambda: any(line.startswith(start) for line in list(self.lines)), timeout)

    def wait_done(self, timeout: float = 60) -> None:
        """A publisher: submit no more, and see the rest acknowledged."""
        self.stop_file.touch()
        self.wait_line("DONE", timeout)

    def tail(self) -> str:
        return "".join(self.lines[-15:]) + self.errors.read_text(errors="replace")[-2000:]

    def close(self) -> None:
        self.stop_file.touch()
        if self.kind == "mosquitto" and self.mode == "sub":
            self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.thread.join(20)
        if self.process.stdout is not None:
            self.process.stdout.close()
