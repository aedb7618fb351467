"""The wiring: builds the parts, carries the router's output to disk and sockets, ticks, reloads, shuts down."""

import asyncio
import contextlib
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
from gateway.auth import AuthError
from gateway.bridge.bridge import Bridge, BridgeError
from gateway.companion import StatusPage
from gateway.core.discard import NO_QUEUE, PRESENT
from gateway.core.nodes import ALIVE_KEY
from gateway.core.router import Router
from gateway.entrance import Entrance
from gateway.log import Log, LogHandler
from gateway.net.connection import Turn
from gateway.net.control import CommandError, ControlProtocol, ControlServer
from gateway.net.listeners import ListenError
from gateway.net.probes import Probes
from gateway.net.tls import TlsError
from gateway.settings import TABLE, Settings, SettingsError, Sources, as_toml, load
from gateway.status import Reporter, compiled
from gateway.store.clock import boottime_ms, read_clocks
from gateway.store.errors import StoreError
from gateway.store.pump import StorePump
from gateway.store.sqlite import Store
from gateway.uplink.late import LateUplinks

DRAIN_S: Final = 8.0  # for peers and disk, after SIGTERM
STORE_CLOSE_S: Final = 1.0
TICK_MS_MIN: Final = 10  # what is due but waits for the disk must not spin the loop
PACE_MS_MIN: Final = 2  # while a queue is drained at a rate
WATERMARK_BYTES_MAX: Final = 262_144
NEXT_START: Final = (
    *("listen", "listeners_tls", "listeners_mtls", "listeners_ws", "listeners_wss", "listeners_unix"),
    *("listeners_unix_mode", "data_dir", "durability", "password_file", "store_min_free_bytes"),
)


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
        with asyncio.Runner(loop_factory=process.loop_factory()) as runner:
            return runner.run(Broker(settings, log).serve())
    except (StartError, StoreError, ListenError, AuthError, AccessError) as e:
        log.error(str(e))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def main(told: str) -> int:
    """``python -m gateway.broker``: serve with the sources that ``forebay run`` was given, as JSON."""
    config, sets, options = json.loads(told)
    sources = Sources(Path(config) if config else None, tuple(sets), tuple((name, value) for name, value in options))
    try:
        settings = load(sources)
    except SettingsError as e:
        print(f"forebay: {e}", file=sys.stderr)
        return 2
    return run(settings)


@final
class Broker:
    """One serving broker. Everything in it runs on the event loop."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._entrance = Entrance(log)
        self._stopping = asyncio.Event()
        self._pump = StorePump(self.now, log)
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
        self._log.info(
            f"forebay {__version__} listening on {', '.join(map(str, self._entrance.listeners.all))} "
            f"({'compiled' if compiled() else 'interpreted'}), data in {self._settings.data_dir}"
        )
        self._page.configure(self._settings)
        await self._stopping.wait()
        await self._drain()
        await self._page.stop()
        control.close()
        self._close_store()
        if self._pump.fatal:
            self._log.error(f"{self._pump.fatal}: the next start goes on with what can be read")
            return 1
        return 0

    async def _start(self) -> ControlServer:
        """Everything up to accepting; what can fail for want of a right or a port comes before the long load."""
        settings = self._settings
        self._entrance.listeners.bind(settings)
        _writable(settings.data_dir)
        self._entrance.read(settings)
        self._load()
        self._turn = Turn(self._router, self.now, self._loop.call_soon, self._after_turn, self._on_fault)
        self._pump.start(self._store, self._router, self._turn.touch)
        self._probes = Probes(self._turn)
        self._uplinks = LateUplinks(self._turn, self._log, settings.data_dir)
        self._entrance.open(self._turn, settings)
        self._apply(settings)
        self._reporter = Reporter(
            self._router, self._bridge, self._store, self._pump, self._log,
            lambda: [str(listener) for listener in self._entrance.listeners.all], self._uplinks.rows, self.now(),
        )  # fmt: skip
        try:
            control = await ControlServer.start(settings.control_socket, self._on_command)
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
        self._store = Store(
            settings.data_dir / "forebay.db",
            durability=settings.durability,
            min_free_bytes=settings.store_min_free_bytes,
            on_done=self._pump.on_done,
            on_read=self._pump.on_read,
        )
        snapshot = self._store.open()
        self._pump.restore(snapshot.meta)
        now, clocks = self.now(), read_clocks()
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
        self._log.level, self._log.form = settings.log_level, settings.log_format
        self._turn.high_water_bytes = min(WATERMARK_BYTES_MAX, max(settings.limits().out_high_bytes // 2, 4096))
        self._uplinks.configure(settings.uplink, self.now())

    def _after_turn(self, now: int) -> None:
        self._bridge.run(now)
        self._pump.run(now)
        self._entrance.run()
        self._uplinks.run()
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
        self._after_turn(now)
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
        try:
            new = old.reload()
            contexts = self._entrance.prepare(new)
        except (SettingsError, TlsError, AuthError, AccessError) as e:
            self._log.error(f"reload: {e}; everything stays as it was")
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
        self._turn.touch()
        self._log.info("reloaded: settings, users, certificates")
        self._page.configure(new)
        return later

    def _on_stop(self) -> None:
        if self._stopping.is_set():
            self._log.warning("second signal: quitting at once")
            process.leave(1)
        self._stopping.set()

    async def _drain(self) -> None:
        """Say goodbye, let peers and disk finish, but wait for nobody longer than DRAIN_S."""
        self._log.info("stopping")
        end = self._loop.time() + DRAIN_S
        self._entrance.close()
        self._probes.undo_all()
        self._uplinks.stop()
        await asyncio.sleep(0.01)  # for those that were accepted just now
        self._bridge.leave(self.now())
        self._router.shutdown(self.now())
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

    def _on_command(self, command: dict[str, Any], peer: ControlProtocol) -> Any:
        name, client_id, now = command.get("cmd"), command.get("client_id"), self.now()
        if name in ("probe", "probe_do", "probe_events"):
            return self._probes.command(command, peer)
        lists = {"status": self._reporter.status, "sessions": self._router.sessions, "uplinks": self._uplinks.rows}
        if isinstance(name, str) and name in lists:
            return lists[name](now)
        if name in ("uplink_pause", "uplink_resume"):
            return self._uplinks.command(str(name), command.get("name"))
        if name == "report":
            return self._report(command, now)
        if name == "settings":
            return dict(line.split(" = ", 1) for line in as_toml(self._settings))
        if name in ("reload", "reload_users"):
            return self._reload() if name == "reload" else self._reload_users()
        if name == "doctor":
            return self._doctor(command, now)
        if name in ("sparkplug_nodes", "sparkplug_rebirth", "sparkplug_values", "sparkplug_write"):
            return self._on_sparkplug(str(name), command, now)
        if name not in ("session", "remove", "discard"):
            raise CommandError(f"no such command: {name}")
        if not isinstance(client_id, str):
            raise CommandError(f"{name} needs a client_id")
        if name == "session":
            session = self._router.session(client_id, now)
            if session is not None:
                return session
        elif name == "discard":
            return self._discard(client_id, now)
        elif self._router.remove_session(client_id, now):
            self._turn.touch()
            return True
        raise CommandError(f"no session of {client_id}")

    def _discard(self, client_id: str, now: int) -> int:
        dropped = self._router.discard(client_id, now)
        if dropped == NO_QUEUE:
            raise CommandError(f"no session of {client_id} that has a queue on disk")
        if dropped == PRESENT:
            raise CommandError(f"{client_id} is connected: what it gets now cannot be taken back; stop it first")
        self._log.warning(f"the queue of {client_id} was dropped: {dropped} messages")
        self._turn.touch()
        return dropped

    def _report(self, command: dict[str, Any], now: int) -> Any:
        numbers = command.get("sessions", 0), command.get("log_after", 0)
        if any(type(number) is not int or number < 0 for number in numbers):
            raise CommandError("report: expected sessions and log_after as whole numbers")
        return self._reporter.report(now, *numbers)

    def _reload_users(self) -> bool:
        """Users, roles, rules and bans were changed by a command."""
        try:
            self._entrance.reread()
        except (AuthError, AccessError) as e:
            raise CommandError(f"{e}; everything stays as it was") from e
        self._router.reload(self._entrance.limits(self._settings), self.now())
        self._entrance.let_in(self._settings)
        return True

    def _on_sparkplug(self, name: str, command: dict[str, Any], now: int) -> Any:
        if not self._settings.bridge_enabled:
            raise CommandError("the Sparkplug bridge is switched off: bridge.enabled = false")
        if name == "sparkplug_nodes":
            return self._bridge.nodes()
        node = command.get("node")
        if not isinstance(node, str):
            raise CommandError(f"{name} needs a node")
        try:
            if name == "sparkplug_values":
                after = command.get("after", 0)
                return self._bridge.values(node, after if type(after) is int else 0, now)
            if name == "sparkplug_rebirth":
                self._bridge.rebirth(node, now)
            else:
                self._bridge.write(node, command.get("metric"), command.get("datatype"), command.get("value"), now)
        except BridgeError as e:
            raise CommandError(str(e)) from e
        self._turn.touch()
        return True

    def _doctor(self, command: dict[str, Any], now: int) -> Any:
        from gateway.doctor.answer import answer

        nodes = self._bridge.nodes() if self._settings.bridge_enabled else []
        facts, status = self._router.facts(now), self._reporter.status(now)
        try:
            return answer(command, facts, status, self._settings, nodes, uplinks=status["uplinks"])
        except ValueError as e:
            raise CommandError(str(e)) from e

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


def _writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as e:
        raise StartError(f"data directory {folder}: {e.strerror}") from e


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
