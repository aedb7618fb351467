"""Processes beside the broker, which may end at any time and harm nobody by it: they are started again."""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from typing import Final, final

from gateway.log import Log
from gateway.settings.table import Settings

AGAIN_S: Final = 1.0  # before it is started again; twice as long each time
AGAIN_S_MAX: Final = 60.0
LASTED_S: Final = 60.0  # who ran so long has started well
STOP_S: Final = 2.0
ANSWERS_S: Final = 0.5  # a change of settings may have come from the page, which still has to say so
OF_THE_PAGE: Final = (
    "http_listen", "http_listen_tls", "http_login", "http_metrics_open", "http_session_metrics", "tls_cert", "tls_key",
    "tls_min_version", "password_file", "log_level", "log_format",
)  # fmt: skip


@final
class Companion:
    """Runs ``command`` until stopped; all methods run on the event loop.

    The process should end when its standard input does: then it does not outlive a broker that was killed.
    """

    def __init__(self, name: str, command: list[str], log: Log) -> None:
        self.name = name
        self._command = command
        self._log = log
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep())

    @property
    def pid(self) -> int | None:
        """None while it does not run."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def stop(self) -> None:
        """End it, kindly for STOP_S."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._task = None
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        again_s = AGAIN_S
        while True:
            began = loop.time()
            try:
                self._process = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE)
                status = await self._process.wait()
                why = f"ended with {status}"
            except OSError as e:
                why = f"cannot be started: {e.strerror or e}"
            if loop.time() - began >= LASTED_S:
                again_s = AGAIN_S
            self._log.noise(self.name, f"{self.name} {why}; again in {again_s:.0f} s", "warning")
            await asyncio.sleep(again_s)
            again_s = min(2 * again_s, AGAIN_S_MAX)


@final
class StatusPage:
    """The process that serves metrics and the status page, where the settings have a listener for it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._settings: Settings | None = None
        self._companion: Companion | None = None
        self._changing: asyncio.Task[None] | None = None

    def configure(self, settings: Settings) -> None:
        """Start, end or renew it as these settings say."""
        old, self._settings = self._settings, settings
        if old is None:
            self._start(settings)
        elif any(getattr(settings, name) != getattr(old, name) for name in OF_THE_PAGE) and self._changing is None:
            self._changing = asyncio.get_running_loop().create_task(self._renew())

    async def stop(self) -> None:
        """End it for good."""
        if self._changing is not None:
            self._changing.cancel()
        if self._companion is not None:
            await self._companion.stop()

    async def _renew(self) -> None:
        await asyncio.sleep(ANSWERS_S)
        if self._companion is not None:
            await self._companion.stop()
        self._companion, self._changing = None, None
        assert self._settings is not None
        self._start(self._settings)

    def _start(self, settings: Settings) -> None:
        if not settings.http_listen and not settings.http_listen_tls:
            return
        sources = settings.sources
        told = json.dumps([str(sources.config) if sources.config else None, sources.sets, sources.options])
        path = ["-P"] if sys.flags.safe_path else []
        line = [sys.executable, *path, "-m", "gateway.web.main", told]
        self._companion = Companion("status page", line, self._log)
        self._companion.start()
