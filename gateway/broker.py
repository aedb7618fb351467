"""The wiring: builds the parts, carries the router's output to disk and sockets, ticks, reloads, shuts down."""

import asyncio
import contextlib
import faulthandler
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

from gateway import __version__, process
from gateway.access import AccessError
from gateway.appliance.facts import why_forgotten
from gateway.auth import AuthError
from gateway.boards import NONE
from gateway.boards import board as board_of
from gateway.bridge.bridge import Bridge
from gateway.commands import Commands
from gateway.companion import StatusPage
from gateway.core.nodes import ALIVE_KEY
from gateway.core.router import Router
from gateway.engine.late import LateEngine
from gateway.entrance import Entrance
from gateway.log import Log, LogHandler
from gateway.machine import disk_of
from gateway.net.connection import Turn
from gateway.net.control import CommandError, ControlServer
from gateway.net.listeners import ListenError
from gateway.net.tls import TlsError
from gateway.recovery import Recovery
from gateway.settings.table import TABLE, Settings, SettingsError, Sources, load
from gateway.status import Reporter, compiled
from gateway.store.backup import DATABASE
from gateway.store.clock import boottime_ms, read_clocks
from gateway.store.errors import StoreError
from gateway.store.frozen import FrozenStore, why_frozen
from gateway.store.pump import StorePump
from gateway.store.sqlite import Store
from gateway.systemd import Systemd
from gateway.uplink.late import LateUplinks
from gateway.wear import Wear

DRAIN_S: Final = 8.0  # for peers and disk, after SIGTERM
STORE_CLOSE_S: Final = 1.0
TICK_MS_MIN: Final = 10  # what is due but waits for the disk must not spin the loop
PACE_MS_MIN: Final = 2  # while a queue is drained at a rate
WATERMARK_BYTES_MAX: Final = 262_144
NEXT_START: Final = (
    *("listen", "listeners_tls", "listeners_mtls", "listeners_ws", "listeners_wss", "listeners_unix"),
    *("listeners_unix_mode", "data_dir", "durability", "password_file", "store_min_free_bytes"),
    *("store_cache_bytes", "board", "safe_mode_crashes", "safe_mode_within"),
    *(
        field
        for entry in TABLE.values()
        if (field := entry.field).startswith(("application_log_nats", "application_log_kafka"))
    ),
    *("application_log_engine", "application_log_capture", "application_log_engine_timeout"),
)


FROZEN_LOOK_MS: Final = 10_000  # between two looks whether the disk can be written again
AGAIN: Final = 75  # exit status: start anew


class StartError(Exception):
    """The broker cannot serve; the text is one line."""


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT.

    Returns the exit status: 0, or 1 with one line on stderr when the broker
    cannot start (address, data directory, database, certificate, users).
    """
    os.umask(0o077)  # messages are nobody else's to read
    log = Log(sys.stderr, settings.log_level, settings.log_format)
    logging.getLogger().addHandler(LogHandler(log))
    try:
        with (
            contextlib.closing(Systemd(os.environ)) as systemd,
            asyncio.Runner(loop_factory=process.loop_factory()) as runner,
        ):
            return runner.run(Broker(settings, log, systemd).serve())
    except (StartError, StoreError, ListenError, AuthError, AccessError) as e:
        log.error(str(e))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def main(told: str) -> int:
    """``python -m gateway.broker``: serve with the sources that ``forebay run`` was given, as JSON."""
    faulthandler.enable()  # the watchdog's SIGABRT tells where every thread stood
    config, sets, options = json.loads(told)
    sources = Sources(Path(config) if config else None, tuple(sets), tuple((name, value) for name, value in options))
    try:
        settings = load(sources)
    except SettingsError as e:
        print(f"forebay: {e}", file=sys.stderr)
        return 2
    status = run(settings)
    if status == AGAIN and "LISTEN_FDS" not in os.environ:  # else who handed the sockets over starts it
        os.execv(sys.executable, sys.orig_argv)
    return status


@final
class Broker:
    """One serving broker. Everything in it runs on the event loop."""

    def __init__(self, settings: Settings, log: Log, systemd: Systemd) -> None:
        self._recovery = Recovery(settings, log)
        settings = self._recovery.settings
        self._settings = settings
        self._log = log
        self._systemd = systemd
        self._frozen = ""  # why nothing can be written
        self._frozen_at = 0  # gateway ms of the next look at that
        self._thawed = False
        self._entrance = Entrance(log)
        self._stopping = asyncio.Event()
        board = None if settings.on_board == NONE else board_of(settings.on_board)
        self._wear = Wear(disk_of(settings.data_dir), board)
        self._pump = StorePump(self.now, log, self._wear.rows)
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0  # gateway ms of the next tick
        self._clock_at = 0  # gateway ms of the next look at the wall clock
        self._page = StatusPage(log)

    def now(self) -> int:
        """Gateway time, ms."""
        return boottime_ms() + self._pump.offset_ms

    async def serve(self) -> int:
        """Start, serve until told to stop, shut down; returns the exit status."""
        for note in self._settings.notes:
            self._log.warning(note)
        process.raise_descriptor_limit()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_loop_exception)
        control = await self._start()
        process.settle()
        self._entrance.listeners.start()
        listening = f"listening on {', '.join(map(str, self._entrance.listeners.all))}"
        kind = "compiled" if compiled() else "interpreted"
        self._log.info(f"forebay {__version__} {listening} ({kind}), data in {self._settings.data_dir}")
        self._systemd.ready(listening)
        self._systemd.beat(self._store.call)
        self._page.configure(self._settings)
        await self._stopping.wait()
        await self._drain()
        await self._page.stop()
        control.close()
        self._close_store()
        if self._thawed:
            return AGAIN
        if self._pump.fatal:
            self._log.error(f"{self._pump.fatal}: the next start goes on with what can be read")
            return 1
        self._recovery.ended()
        return 0

    async def _start(self) -> ControlServer:
        """Everything up to accepting; what can fail for want of a right or a port comes before the long load."""
        settings = self._settings
        self._entrance.listeners.bind(settings, self._systemd.handed)
        try:
            self._frozen = why_forgotten() or why_frozen(settings.data_dir)
        except OSError as e:
            raise StartError(f"data directory {settings.data_dir}: {e.strerror}") from e
        self._entrance.read(settings)
        self._recovery.begun()
        try:
            self._load()
        except StoreError:
            self._recovery.withdrawn()
            raise
        self._turn = Turn(self._router, self.now, self._loop.call_soon, self._after_turn, self._on_fault)
        self._pump.start(self._store, self._router, self._turn.touch)
        quiet = self._recovery.safe or bool(self._frozen)
        self._uplinks = LateUplinks(self._turn, self._log, settings.data_dir, quiet)
        self._engine = LateEngine(self._turn, self._log, settings, quiet)
        self._entrance.open(self._turn, settings)
        self._apply(settings)
        reporter = Reporter(
            self._router, self._bridge, self._store, self._pump, self._log,
            lambda: [str(listener) for listener in self._entrance.listeners.all], self._uplinks.rows, self._engine.view,
            self._wear.report, self._recovery.report, settings.on_board, self._frozen, self.now(),
        )  # fmt: skip
        self._commands = Commands(
            self._turn, self._bridge, self._uplinks, reporter, self._entrance, self._log, settings,
            self._reload, self._reload_users, self._leave_safe_mode,
        )  # fmt: skip
        try:
            control = await ControlServer.start(settings.control_socket, self._commands.answer)
        except OSError as e:
            raise StartError(f"{settings.control_socket}: {e.strerror or e}") from e
        for number, action in ((signal.SIGTERM, self._on_stop), (signal.SIGINT, self._on_stop)):
            self._loop.add_signal_handler(number, action)
        self._loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        self._tick()
        return control

    def _load(self) -> None:
        """Open the store and give the router what it held."""
        settings = self._settings
        path, on_done, on_read = settings.data_dir / DATABASE, self._pump.on_done, self._pump.on_read
        self._store: Store | FrozenStore
        if self._frozen:
            self._store = FrozenStore(path, self._frozen, on_done, on_read)
        else:
            self._store = Store(
                path, durability=settings.durability, cache_bytes=settings.store_cache_bytes,
                min_free_bytes=settings.store_min_free_bytes, on_done=on_done, on_read=on_read,
            )  # fmt: skip
        snapshot = self._store.open()
        self._pump.restore(snapshot.meta)
        now, clocks = self.now(), read_clocks()
        self._wear.restore(snapshot.meta, clocks.boot_id, now)
        self._router = Router(
            self._entrance.limits(settings), snapshot, now, process.chance(), __version__, clocks.wall_ms, clocks.synced
        )
        self._router.finish_load(self._store.read_now(self._router.needed_segments()), now)
        alive = snapshot.meta.get(ALIVE_KEY)
        self._bridge = Bridge(self._router.bridge, snapshot.bridge, alive if isinstance(alive, int) else 0)
        for note in self._bridge.notes:
            self._log.warning(note)

    def _apply(self, settings: Settings) -> None:
        """What may change while serving, besides the router's limits."""
        self._settings = settings
        self._bridge.configure(settings, self.now())
        self._pump.interval_ms = settings.store_commit_interval_ms
        self._log.level, self._log.form = settings.log_level, settings.log_format
        self._turn.high_water_bytes = min(WATERMARK_BYTES_MAX, max(settings.limits().out_high_bytes // 2, 4096))
        self._uplinks.configure(settings.uplink, self.now())

    def _after_turn(self, now: int) -> None:
        self._bridge.run(now)
        self._pump.run(now)
        self._entrance.run()
        self._uplinks.run()
        self._engine.run()
        if self._pump.fatal:
            self._stopping.set()
        wake = self._router.wake_at()
        if wake and wake < self._due:
            self._arm(wake, self.now())
        for line in self._router.take_alarms():
            self._log.warning(line)
        for line in self._router.take_log():
            self._log.noise(_kind(line), line)

    def _tick(self) -> None:
        now = self.now()
        if now >= self._clock_at:
            clocks = read_clocks()
            self._router.bridge.set_utc(clocks.wall_ms, clocks.synced, now)
            self._clock_at = now + 1000
        due = now + 1000
        try:
            due = self._router.on_tick(now)
        finally:  # a defect in one tick must not be the end of all ticks
            self._arm(due, now)
        self._turn.sweep(now)
        self._bridge.tick(now)
        self._pump.tick(now)
        self._entrance.look(now)
        self._log.sweep()
        self._recover(now)
        self._after_turn(now)
        self._turn.touch()

    def _recover(self, now: int) -> None:
        """What ends by itself: safe mode, and a disk that could not be written."""
        if self._recovery.lasted() and self._recovery.safe:
            with contextlib.suppress(CommandError):  # it is in the log
                self._leave_safe_mode()
        if self._frozen and now >= self._frozen_at:
            self._frozen_at = now + FROZEN_LOOK_MS
            with contextlib.suppress(OSError):
                if not why_forgotten() and not why_frozen(self._settings.data_dir):
                    self._log.info("the disk can be written again: starting anew")
                    self._thawed = True
                    self._stopping.set()

    def _leave_safe_mode(self) -> None:
        """The settings as they are, and uplinks. Raises CommandError when these are wrong: then it goes on."""
        if not self._recovery.safe:
            raise CommandError("this is not safe mode")
        try:
            self._reload()
        except CommandError as e:
            self._recovery.stays(str(e))
            raise
        self._recovery.left()
        self._uplinks.release()
        self._engine.release()
        self._turn.touch()

    def _arm(self, due: int, now: int) -> None:
        """The next tick."""
        if self._timer is not None:
            self._timer.cancel()
        least = PACE_MS_MIN if self._router.paced() else TICK_MS_MIN
        wait_ms = min(max(due - now, least), 1000)
        self._due = now + wait_ms
        self._timer = self._loop.call_later(wait_ms / 1000, self._tick)

    def _on_hangup(self) -> None:
        """SIGHUP."""
        with contextlib.suppress(CommandError):  # it is in the log
            self._reload()

    def _reload(self) -> list[str]:
        """Take over what the sources of the settings say now; the settings that count from the next start only.

        Raises CommandError with one line when something is wrong; everything stays as it was then.
        """
        old = self._settings
        self._systemd.reloading()
        try:
            new = old.reload()
            contexts = self._entrance.prepare(new)
        except (SettingsError, TlsError, AuthError, AccessError) as e:
            self._log.error(f"reload: {e}; everything stays as it was")
            self._systemd.ready(f"not reloaded: {e}")
            raise CommandError(f"{e}; everything stays as it was") from e
        later = []
        for entry in TABLE.values():
            name = entry.field
            if name in NEXT_START and getattr(new, name) != getattr(old, name):
                self._log.warning(f"reload: a new {entry.name} counts from the next start")
                setattr(new, name, getattr(old, name))
                later.append(entry.name)
        self._router.reload(self._entrance.limits(new), self.now())
        self._entrance.apply(new, contexts)
        self._apply(new)
        self._recovery.reloaded(new)
        self._commands.settings = new
        self._turn.touch()
        self._log.info("reloaded: settings, users, certificates")
        self._systemd.ready("reloaded")
        self._page.configure(new)
        return later

    def _reload_users(self) -> None:
        """Users, roles, rules and bans were changed by a command."""
        try:
            self._entrance.reread()
        except (AuthError, AccessError) as e:
            raise CommandError(f"{e}; everything stays as it was") from e
        self._router.reload(self._entrance.limits(self._settings), self.now())
        self._entrance.let_in(self._settings)

    def _on_stop(self) -> None:
        if self._stopping.is_set():
            self._log.warning("second signal: quitting at once")
            process.leave(1)
        self._stopping.set()

    async def _drain(self) -> None:
        """Say goodbye, let peers and disk finish, but wait for nobody longer than DRAIN_S."""
        self._log.info("stopping")
        self._systemd.stopping(self._pump.fatal or "stopping")
        end = self._loop.time() + DRAIN_S
        self._entrance.close()
        self._commands.close()
        self._uplinks.stop()
        await asyncio.sleep(0.01)  # for those that were accepted just now
        self._bridge.leave(self.now())
        self._router.shutdown(self.now())
        await self._engine.stop()
        if await self._until(lambda: self._pump.idle and not self._turn.open_connections, end):
            self._bridge.stop(self.now())
            self._pump.finish()
            await self._until(lambda: self._pump.idle, end)
        if not self._pump.idle or self._turn.open_connections:
            left = "" if self._pump.idle else ", the last commit not on disk"
            self._log.warning(f"stopped with {self._turn.open_connections} connections open{left}")
        if self._timer is not None:
            self._timer.cancel()

    async def _until(self, true: Callable[[], bool], end: float) -> bool:
        """Run turns until this is true, or the loop's time is ``end``."""
        while True:
            self._turn.sweep(self.now())
            self._turn.run()
            self._after_turn(self.now())
            if true():
                return True
            if self._loop.time() >= end:
                return False
            await asyncio.sleep(0.02)

    def _close_store(self) -> None:
        """A disk that hangs takes the store's thread with it: then leave without it."""
        self._log.flush()
        closing = threading.Thread(target=self._store.close, daemon=True)
        closing.start()
        closing.join(STORE_CLOSE_S)
        if closing.is_alive():
            process.leave(0)

    def _on_fault(self, peer: str, error: Exception) -> None:
        self._log.defect(f"{peer} closed", error)

    def _on_loop_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError):  # of one peer's socket
            self._log.noise("socket error", f"socket error: {error}")
        elif isinstance(error, Exception):
            self._log.defect(str(context.get("message")), error)
        else:
            self._log.noise("event loop", f"event loop: {context.get('message')}")


def _kind(line: str) -> str:
    """The first plain word: what lines that differ in a peer, a client or a number have in common."""
    return next((word for word in line.split() if word.isalpha()), "core")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
