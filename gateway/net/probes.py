"""Probes of a device's behaviour, asked for over the control socket: each lives as long as who asked is connected.

A probe sees what one client does, keeps back its acknowledgements, cuts it, refuses it, or lets its connection go
dead: nothing is read or written any more, and nothing is closed.
"""

import asyncio
import base64
from typing import Any, Final, final

from gateway.core import probing
from gateway.core.watch import CLOSED, CONNECTED, PUBLISHED, REFUSED, Seen, Watch
from gateway.mqtt.packets import Connect
from gateway.net.connection import Connection, Turn
from gateway.net.control import CommandError, ControlProtocol

KINDS: Final = {CONNECTED: "connected", PUBLISHED: "published", CLOSED: "closed", REFUSED: "refused"}
ACTIONS: Final = ("withhold", "release", "cut", "refuse", "admit", "deaden", "revive")


@final
class DeadLink(asyncio.Transport):
    """Takes the place of a transport: what is written is gone, and closing does nothing the peer could see."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False


@final
class Probe:
    """One client under watch; all that is done to it can be taken back."""

    def __init__(self, turn: Turn, watch: Watch) -> None:
        self.watch = watch
        self._turn = turn
        self._dead: list[tuple[Connection, asyncio.Transport]] = []

    def do(self, action: str) -> None:
        """Raises CommandError when it needs a connection and there is none."""
        if action == "refuse" or action == "admit":
            self.watch.refuse = action == "refuse"
        elif action == "revive":
            self._revive()
        else:
            self._to_the_client(action)
        self._turn.touch()

    def _to_the_client(self, action: str) -> None:
        client = self.watch.client
        if client is None:
            raise CommandError(f"{action}: the client is not connected")
        connection = client.link
        assert isinstance(connection, Connection)
        if action == "withhold":
            probing.withhold(client)
        elif action == "release":
            probing.release(self._turn.router.core, client)
        elif action == "cut":
            connection.abort()
        else:
            transport = connection.replace_transport(DeadLink())
            if transport is not None:
                transport.pause_reading()
                self._dead.append((connection, transport))

    def _revive(self) -> None:
        """A dead link does not come back to life: it is closed, so that both sides know."""
        for connection, transport in self._dead:
            connection.replace_transport(transport)
            transport.abort()
        self._dead.clear()

    def undo(self) -> None:
        probing.unwatch(self._turn.router.core, self.watch)
        self._revive()
        self._turn.touch()


@final
class Probes:
    """The probes of a broker, by who asked."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._probes: dict[ControlProtocol, Probe] = {}

    def command(self, command: dict[str, Any], peer: ControlProtocol) -> Any:
        """``probe`` opens one, ``probe_do`` acts, ``probe_events`` asks what was seen. Raises CommandError."""
        if command["cmd"] == "probe":
            return self._open(command, peer)
        probe = self._probes.get(peer)
        if probe is None:
            raise CommandError("no probe was opened on this connection")
        if command["cmd"] == "probe_do":
            action = command.get("action")
            if action not in ACTIONS:
                raise CommandError(f"no such action: expected one of {', '.join(ACTIONS)}")
            probe.do(action)
            return True
        watch = probe.watch
        return {
            "now": self._turn.now(),
            "connected": watch.client is not None,
            "missed": watch.missed,
            "events": [_event(seen) for seen in watch.take()],
        }

    def undo_all(self) -> None:
        """The broker stops."""
        for peer in list(self._probes):
            self._end(peer)

    def _open(self, command: dict[str, Any], peer: ControlProtocol) -> dict[str, Any]:
        node, client_id = command.get("node"), command.get("client_id") or ""
        if not isinstance(node, str) or node.count("/") != 1 or not isinstance(client_id, str):
            raise CommandError("probe needs a node: expected GROUP/NODE, and perhaps a client_id")
        group, _, edge = node.partition("/")
        will = f"spBv1.0/{group}/NDEATH/{edge}".encode()
        core = self._turn.router.core
        watch = Watch(client_id, will)
        if peer in self._probes or any(_same(watch, other) for other in core.watches):
            raise CommandError(f"{node} is being probed already")
        probing.watch(core, watch, self._turn.now())
        client = watch.client
        if client is None or client.session is None:
            probing.unwatch(core, watch)
            raise CommandError(f"{node}: no client with the id or with a will on {will.decode()} is connected")
        self._probes[peer] = Probe(self._turn, watch)
        peer.at_end = lambda: self._end(peer)
        return {"client_id": client.session.client_id, "peer": client.peer, "now": self._turn.now()}

    def _end(self, peer: ControlProtocol) -> None:
        probe = self._probes.pop(peer, None)
        if probe is not None:
            probe.undo()


def _same(watch: Watch, other: Watch) -> bool:
    """Whether both are of one client, by name or by what is connected now."""
    if watch.will_topic == other.will_topic:
        return True
    c = other.client
    return (
        c is not None and c.session is not None and c.connect is not None and watch.fits(c.session.client_id, c.connect)
    )


def _event(seen: Seen) -> dict[str, Any]:
    event: dict[str, Any] = {"kind": KINDS[seen.kind], "at": seen.at, "connection": seen.connection}
    if seen.connect is not None:
        event |= _connect(seen.connect)
    publish = seen.publish
    if publish is not None:
        event["topic"] = seen.topic.decode(errors="replace")
        event["qos"] = publish.qos
        event["dup"] = publish.dup
        event["payload"] = base64.b64encode(publish.payload).decode()
    return event


def _connect(connect: Connect) -> dict[str, Any]:
    will, properties = connect.will, connect.properties
    expiry = 0 if properties is None else max(properties.session_expiry_interval, 0)
    return {
        "client_id": connect.client_id,
        "version": connect.version,
        "clean": connect.clean_start and (connect.version < 5 or expiry == 0),
        "keep_alive_s": connect.keep_alive,
        "will_qos": None if will is None else will.qos,
        "will": None if will is None else base64.b64encode(will.payload).decode(),
    }
