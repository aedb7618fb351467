"""What systemd does for a unit of ``Type=notify`` with sockets and a watchdog, done to real processes by real means."""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self, final

from tests.harness import START_TIMEOUT_S

# the descriptors from 3 on, and the pid that they are for: known only in the process itself
_START: Final = """
import fcntl, os, sys
given = [int(text) for text in sys.argv[1].split(",") if text]
aside = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in given]
for number, fd in enumerate(aside):
    os.dup2(fd, 3 + number)
os.environ.update(LISTEN_PID=str(os.getpid()), WATCHDOG_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
_ABORT_S: Final = 8.0  # TimeoutAbortSec: from SIGABRT to SIGKILL


@final
class Supervisor:
    """Starts ``command`` with the sockets of ``listen`` (name, address), and again whenever it ends (Restart=always).

    ``command`` is asked at each start, so that an upgrade can change it. Usable from one thread; close at the end.
    """

    def __init__(
        self, folder: Path, command: Callable[[], Sequence[str]], listen: Sequence[tuple[str, tuple[str, int]]] = (),
        env: Mapping[str, str] | None = None, watchdog_s: float = 0.0,
    ) -> None:  # fmt: skip
        self.log_file = folder / "service.log"
        self.messages: list[str] = []
        self.starts = 0
        self.endings: list[int] = []  # as Popen.returncode has them
        self.process: subprocess.Popen[bytes] | None = None
        self.sockets = [(name, socket.create_server(address, backlog=4096)) for name, address in listen]
        self._command, self._env, self._watchdog_s = command, dict(env or {}), watchdog_s
        self._address = str(folder / "notify")
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._notify.bind(self._address)
        self._notify.settimeout(0.05)
        self._fed = 0.0  # when the watchdog was; 0 = it does not run
        self._ready = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._spawn()
        self._thread.start()
        self.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._notify.close()
        for _name, sock in self.sockets:
            sock.close()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def wait_ready(self) -> None:
        assert self._ready.wait(START_TIMEOUT_S), f"never ready:\n{self.log()[-4000:]}"

    def wait_for(self, true: Callable[[], object], what: str, timeout: float = START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout
        while not true():
            assert time.monotonic() < deadline, f"{what}; said: {self.messages[-5:]}; log:\n{self.log()[-4000:]}"
            time.sleep(0.02)

    def restart(self) -> None:
        """``systemctl restart``: SIGTERM, and when it is over a new start, until that is ready."""
        before = self.starts
        self._ready.clear()
        self._fed = 0.0
        os.kill(self.pid, signal.SIGTERM)
        self.wait_for(lambda: self.starts > before, "does not end")
        self.wait_ready()

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def _spawn(self) -> None:
        env = {**os.environ, **self._env, "NOTIFY_SOCKET": self._address}
        if self._watchdog_s:
            env["WATCHDOG_USEC"] = str(int(self._watchdog_s * 1e6))
        if self.sockets:
            env["LISTEN_FDS"] = str(len(self.sockets))
            env["LISTEN_FDNAMES"] = ":".join(name for name, _ in self.sockets)
        fds = [sock.fileno() for _, sock in self.sockets]
        line = [sys.executable, "-S", "-c", _START, ",".join(map(str, fds)), *self._command()]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, pass_fds=fds, cwd=self.log_file.parent
            )
        self.starts += 1

    def _watch(self) -> None:
        while not self._over:
            self._hear()
            assert self.process is not None
            if self._fed and time.monotonic() - self._fed > self._watchdog_s:
                self._put_down()
            if self.process.poll() is not None:
                self.endings.append(self.process.returncode)
                self._fed = 0.0
                self._ready.clear()
                self._spawn()

    def _hear(self) -> None:
        size = struct.calcsize("3i")
        try:
            text, ancillary, _, _ = self._notify.recvmsg(4096, socket.CMSG_SPACE(size))
        except TimeoutError:
            return
        ((_, _, credentials),) = ancillary
        if struct.unpack("3i", credentials)[0] != self.pid:  # NotifyAccess=main
            self.messages.append(f"not from the main process: {text!r}")
            return
        lines = text.decode().splitlines()
        self.messages += lines
        if "READY=1" in lines:
            self._ready.set()
        if self._watchdog_s and ("READY=1" in lines or "WATCHDOG=1" in lines):
            self._fed = time.monotonic()
        if "STOPPING=1" in lines:
            self._fed = 0.0

    def _put_down(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGABRT)
        try:
            self.process.wait(_ABORT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
