"""What is asked for over the control socket, and what it does to the broker."""

import asyncio
from collections.abc import Callable
from typing import Any, cast, final

from gateway.bridge.bridge import Bridge, BridgeError
from gateway.core.discard import NO_QUEUE, PRESENT
from gateway.entrance import Entrance
from gateway.log import Log
from gateway.net.connection import Connection, Turn
from gateway.net.control import CommandError, ControlProtocol
from gateway.net.probes import Probes
from gateway.settings.table import Settings, as_toml
from gateway.status import Reporter
from gateway.uplink.late import LateUplinks


@final
class Commands:
    """``answer`` is the handler of the control socket; it runs on the event loop. ``settings`` are those in force.

    ``reload``, ``reload_users`` and ``leave_safe_mode`` do what their names say and raise CommandError, then everything
    stays as it was.
    """

    def __init__(
        self, turn: Turn, bridge: Bridge, uplinks: LateUplinks, reporter: Reporter, entrance: Entrance, log: Log,
        settings: Settings, reload: Callable[[], list[str]], reload_users: Callable[[], None],
        leave_safe_mode: Callable[[], None],
    ) -> None:  # fmt: skip
        self.settings = settings
        self._turn = turn
        self._router = turn.router
        self._bridge = bridge
        self._uplinks = uplinks
        self._reporter = reporter
        self._entrance = entrance
        self._log = log
        self._reload = reload
        self._reload_users = reload_users
        self._leave_safe_mode = leave_safe_mode
        self._probes = Probes(turn)

    def close(self) -> None:
        """What was done to clients for as long as somebody looks is undone."""
        self._probes.undo_all()

    def answer(self, command: dict[str, Any], peer: ControlProtocol) -> Any:
        """What JSON can hold. Raises CommandError."""
        name, now = command.get("cmd"), self._turn.now()
        if name in ("probe", "probe_do", "probe_events"):
            return self._probes.command(command, peer)
        if name == "mqtt":
            return peer.become(cast(asyncio.Protocol, Connection(self._turn, "control socket", True)))
        lists = {
            "status": self._reporter.status, "sessions": self._router.sessions, "uplinks": self._uplinks.rows,
            "bans": self._entrance.bans,
        }  # fmt: skip
        if isinstance(name, str) and name in lists:
            return lists[name](now)
        if name in ("uplink_pause", "uplink_resume"):
            return self._uplinks.command(str(name), command.get("name"))
        if name == "report":
            return self._report(command, now)
        if name == "settings":
            return dict(line.split(" = ", 1) for line in as_toml(self.settings))
        if name == "reload":
            return self._reload()
        if name == "reload_users":
            self._reload_users()
            return True
        if name == "safe_mode_leave":
            self._leave_safe_mode()
            return True
        if name == "doctor":
            return self._doctor(now)
        if name in ("sparkplug_nodes", "sparkplug_rebirth", "sparkplug_values", "sparkplug_write"):
            return self._on_sparkplug(str(name), command, now)
        if name in ("session", "remove", "discard", "unban"):
            return self._on_session(str(name), command.get("client_id"), now)
        raise CommandError(f"no such command: {name}")

    def _on_session(self, name: str, client_id: object, now: int) -> Any:
        if not isinstance(client_id, str):
            raise CommandError(f"{name} needs a client_id")
        if name == "session":
            session = self._router.session(client_id, now)
            if session is not None:
                return session
        elif name == "unban":
            return self._entrance.lift(client_id, now)
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

    def _on_sparkplug(self, name: str, command: dict[str, Any], now: int) -> Any:
        if not self.settings.bridge_enabled:
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

    def _doctor(self, now: int) -> Any:
        from gateway.doctor.telling import told

        nodes = self._bridge.nodes() if self.settings.bridge_enabled else ()
        return told(self._router.facts(now), self._reporter.status(now), self.settings, nodes)
