"""The broker as the tests see it, once in memory and once as a process behind TCP, with one face."""

import contextlib
import json
import os
import socket
import time
from typing import Any, Protocol, final

import pytest

from tests.conformance.client import Client, Link
from tests.harness import Broker, Mosquitto
from tests.memory import MemoryBroker


class Host(Protocol):
    """Where the broker runs."""

    kind: str

    def open(self) -> Link: ...

    def advance(self, seconds: float) -> None: ...

    def restart(self) -> None: ...

    def check(self) -> None:
        """After a test: nothing is wrong behind the scenes."""

    def status(self) -> dict[str, Any]: ...

    def session(self, client_id: str) -> dict[str, Any]: ...


@final
class TcpLink:
    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), 5)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self.sock.settimeout(30)
        self.sock.sendall(data)

    def receive(self, wait_s: float) -> bytes | None:
        self.sock.settimeout(wait_s)
        try:
            return self.sock.recv(262_144)
        except TimeoutError:
            return None
        except ConnectionError:
            return b""

    def stall(self) -> None:
        pass  # a socket that nobody reads is stalled once its buffers are full

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()


@final
class TcpHost:
    """A process that the tests with the same settings share; ``restart`` is kill -9 and a start on the same data."""

    kind = "tcp"

    def __init__(self, server: Broker | Mosquitto) -> None:
        self.server = server
        self.read = 0

    def open(self) -> Link:
        return TcpLink(self.server.port)

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def restart(self) -> None:
        if isinstance(self.server, Mosquitto):
            pytest.skip("mosquitto keeps nothing over a kill -9")
        self.server.restart()

    def check(self) -> None:
        """The process lives and has printed no traceback since the last test."""
        log = self.server.log()
        fresh, self.read = log[self.read :], len(log)
        if not self.server.running():
            self.server.start()
            raise AssertionError(f"the broker has ended:\n{fresh[-4000:]}")
        assert "Traceback" not in fresh, fresh[-4000:]

    def status(self) -> dict[str, Any]:
        return self._ask({"cmd": "status"})

    def session(self, client_id: str) -> dict[str, Any]:
        return self._ask({"cmd": "session", "client_id": client_id})

    def _ask(self, command: dict[str, str]) -> dict[str, Any]:
        """One line of JSON to the control socket, one back."""
        folder = os.open(self.server.data_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(30)
                sock.connect(f"/proc/self/fd/{folder}/control.sock")  # its own path may be too long for a socket
                sock.sendall(json.dumps(command).encode() + b"\n")
                answer: dict[str, Any] = json.loads(sock.makefile().readline())
        finally:
            os.close(folder)
        assert answer["ok"], answer
        result: dict[str, Any] = answer["result"]
        return result


@final
class MemoryHost:
    """Router, decoder and a store of dictionaries in this process; time is a number."""

    kind = "memory"

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.crashed = False

    def open(self) -> Link:
        return self.broker.open()

    def advance(self, seconds: float) -> None:
        self.broker.advance(round(seconds * 1000))

    def restart(self) -> None:
        self.crashed = True
        self.broker.crash()

    def status(self) -> dict[str, Any]:
        return self.broker.router.status(self.broker.now)

    def check(self) -> None:
        """matched = acknowledged + in flight + queued + dropped, for every session of a broker that never crashed."""
        for row in self.broker.router.sessions(self.broker.now) if not self.crashed else ():
            if row["kind"] == "session":
                book: dict[str, Any] = row
                parts = [book["acknowledged"], book["inflight"], book["queue_messages"], sum(book["drops"].values())]
                assert book["matched"] == sum(parts), f"matched, but acknowledged, in flight, queued, dropped: {row}"

    def session(self, client_id: str) -> dict[str, Any]:
        row = self.broker.router.session(client_id, self.broker.now)
        assert row is not None, f"no session {client_id}"
        return row


@final
class Peer:
    """One test's view: ``topic`` and the client ids are its own, so that tests may share a broker."""

    def __init__(self, host: Host, prefix: str) -> None:
        self.host, self.prefix = host, prefix
        self.kind = host.kind
        self.topic = f"{prefix}/t"
        self.clients: list[Client] = []

    def open(self, version: int = 5) -> Client:
        """A connection on which nothing was sent yet."""
        client = Client(self.host.open(), version)
        self.clients.append(client)
        return client

    def connect(self, name: str, **options: Any) -> Client:
        """A client of the id ``prefix-name`` that was accepted; its CONNACK is ``client.connack``."""
        return self.connect_raw(f"{self.prefix}-{name}", **options)

    def connect_raw(self, client_id: str, *, version: int = 5, **options: Any) -> Client:
        """As ``connect``, with the client id as it is."""
        client = self.open(version)
        if version != 5:
            options = {name: value for name, value in options.items() if name in _OLD}
        client.send_connect(client_id, **options)
        client.connack = client.expect("CONNACK", reason=0)
        return client

    def advance(self, seconds: float, *, tcp: float | None = None) -> None:
        """Let time pass; over TCP really, there ``tcp`` seconds where given."""
        self.host.advance(seconds if self.kind == "memory" or tcp is None else tcp)

    def settle(self) -> None:
        """Over TCP a moment, so that what was done on one connection has come through before another goes on."""
        if self.kind == "tcp":
            time.sleep(0.05)

    def restart(self) -> None:
        """The broker is killed and started again on what it had committed; every connection is gone."""
        self.host.restart()
        self.close()

    def status(self) -> dict[str, Any]:
        return self.host.status()

    def session(self, name: str) -> dict[str, Any]:
        """What the broker says of the session ``prefix-name``."""
        return self.host.session(f"{self.prefix}-{name}")

    def close(self) -> None:
        for client in self.clients:
            client.link.close()
        self.clients.clear()


_OLD = ("clean", "keep_alive", "will", "username", "password")
