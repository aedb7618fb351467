"""Real broker processes for the tests: start, wait until they serve, end them kindly or not, start them again."""

import contextlib
import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, final

START_TIMEOUT_S = 120.0
FAKETIME_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/arm-linux-gnueabihf/faketime/libfaketime.so.1",
)
REPO = Path(__file__).resolve().parent.parent
_given: set[int] = set()


def free_port() -> int:
    """A port of loopback that nobody has, from below those that the kernel gives to connections.

    A connection could take one of those before the server does for whom it is meant; and so could another test, so each
    process of a run has a range of its own and gives none twice. Not from ``random``, whose seed they may share.
    """
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    room = 20_000 // count
    if len(_given) > room // 2:
        _given.clear()
    while True:
        port = 10_000 + own * room + secrets.randbelow(room)
        if port in _given:
            continue
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            _given.add(port)
            return port


def gateway_root() -> Path:
    """The directory from which this interpreter imports ``gateway``: compiled or not, the broker must be the same."""
    spec = importlib.util.find_spec("gateway")
    assert spec is not None and spec.submodule_search_locations, "gateway cannot be imported"
    return Path(next(iter(spec.submodule_search_locations))).resolve().parent


def beside_env() -> dict[str, str]:
    """The environment of a process that runs a module of these tests with the gateway of this process."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(gateway_root()), str(REPO)])}


def process_cpu_s(pid: int) -> float:
    """CPU seconds, user and system, that a process and its threads have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    """One server process on a fixed loopback port; subclasses say how it is started."""

    def __init__(self, data_dir: Path, port: int | None = None, env: Mapping[str, str] | None = None) -> None:
        self.data_dir = Path(data_dir)
        self.port = port or free_port()
        self.env = dict(env or {})
        self.log_file = self.data_dir.with_name(self.data_dir.name + ".log")
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.env}

    def start(self, wait: bool = True) -> Self:
        """Start the process; with ``wait`` return once it accepts connections (RuntimeError with its log if not)."""
        assert self.process is None or self.process.poll() is not None, "already running"
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.environment(), cwd=self.log_file.parent,
            )  # fmt: skip
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout: float = START_TIMEOUT_S) -> None:
        assert self.process is not None
        deadline = time.monotonic() + timeout
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                pass
            status = self.process.poll()
            if status is not None:
                raise RuntimeError(f"ended with {status} at the start:\n{self.log()[-4000:]}")
            if time.monotonic() > deadline:
                self.kill9()
                raise RuntimeError(f"does not listen after {timeout} s:\n{self.log()[-4000:]}")
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log(self) -> str:
        """What it has printed so far, over all its starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def kill9(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()

    def sigterm(self, timeout: float = 60.0) -> int:
        """SIGTERM, and the exit status; a process that outlives ``timeout`` seconds is killed and fails the test."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"still there {timeout} s after SIGTERM:\n{self.log()[-4000:]}") from None

    def hangup(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    def restart(self) -> Self:
        """Start again on the same data and port; a process that still runs is killed first."""
        self.kill9()
        return self.start()

    def cpu_s(self) -> float:
        return process_cpu_s(self.pid)

    def rss_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> Self:
        return self if self.running() else self.start()

    def __exit__(self, *_: object) -> None:
        self.kill9()


@final
class Broker(Server):
    """The gateway itself.

    ``settings`` become ``--set key=value``; ``preload`` are libraries for LD_PRELOAD; ``entry`` replaces ``-m gateway``
    by a script of the tests; ``root`` is the directory that ``gateway`` comes from instead; ``faketime`` (``+14d``,
    ``-1y``, ``+0``) runs it under libfaketime with a true monotonic clock, and ``set_faketime`` moves the wall clock
    while it runs.
    """

    def __init__(
        self, data_dir: Path, settings: Mapping[str, object] | None = None, env: Mapping[str, str] | None = None,
        preload: Sequence[str | Path] = (), python: str = sys.executable, faketime: str | None = None,
        port: int | None = None, entry: Sequence[str] = ("-m", "gateway"), arguments: Sequence[str] = (),
        root: Path | None = None,
    ) -> None:  # fmt: skip
        super().__init__(data_dir, port, env)
        self.settings = {"board": "none", "safe_mode.crashes": "never", **(settings or {})}  # whatever the tests run on
        self.preload = [str(path) for path in preload]
        self.root = root or gateway_root()
        self.python, self.entry, self.arguments = python, list(entry), list(arguments)
        self.faketime_file = self.data_dir.with_name(self.data_dir.name + ".faketime")
        self.faketime = faketime
        if faketime is not None:
            self.set_faketime(faketime)

    def set_faketime(self, offset: str) -> None:
        assert self.faketime is not None, "started without faketime"
        self.faketime_file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.faketime_file.with_suffix(".new")
        fresh.write_text(offset + "\n")
        fresh.rename(self.faketime_file)

    def command(self) -> list[str]:
        line = [self.python, *self.entry, "run", "--listen", f"127.0.0.1:{self.port}"]
        line += ["--data-dir", str(self.data_dir)]
        for key, value in self.settings.items():
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            line += ["--set", f"{key}={shown}"]
        return line + self.arguments

    def environment(self) -> dict[str, str]:
        env = super().environment()
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(self.root), str(REPO), env.get("PYTHONPATH", "")]))
        env["PYTHONUNBUFFERED"] = "1"
        preload = list(self.preload)
        if self.faketime is not None:
            library = next((path for path in FAKETIME_LIBRARIES if Path(path).exists()), None)
            assert library is not None, "libfaketime is not installed"
            preload.append(library)
            env["FAKETIME_TIMESTAMP_FILE"] = str(self.faketime_file)
            env["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
            env["FAKETIME_CACHE_DURATION"] = "1"
        if preload:
            env["LD_PRELOAD"] = ":".join(preload)
        return env


@final
class Mosquitto(Server):
    """Debian's mosquitto with the same face, to test the tests and to measure against.

    ``settings`` are lines of its configuration; anonymous clients are let in, acknowledgements are not delayed.
    """

    def __init__(
        self, data_dir: Path, settings: Mapping[str, object] | None = None, env: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(data_dir, port, env)
        self.settings = dict(settings or {})

    def command(self) -> list[str]:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        lines: dict[str, object] = {
            "listener": f"{self.port} 127.0.0.1", "allow_anonymous": "true", "user": "root",
            "set_tcp_nodelay": "true", "max_queued_messages": 0, "persistence": "false",
            "persistence_location": f"{self.data_dir}/",
        }  # fmt: skip
        for key, value in self.settings.items():
            lines[key] = str(value).lower() if isinstance(value, bool) else value
        config = self.data_dir / "mosquitto.conf"
        config.write_text("".join(f"{key} {value}\n" for key, value in lines.items()))
        return ["mosquitto", "-c", str(config)]


def mosquitto_version() -> str:
    """As in ``2.0.11``."""
    shown = subprocess.run(["mosquitto", "-h"], capture_output=True, text=True, check=False).stdout
    return shown.split("version", 1)[1].split()[0]


def build_c(source: Path, output: Path, *flags: str) -> Path:
    """Compile one C file of the tests (cc must be there)."""
    made = subprocess.run(
        ["cc", "-O2", "-Wall", "-Wextra", "-o", str(output), str(source), *flags],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return output
