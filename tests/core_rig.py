"""What the unit tests of the core share: a broker in memory, and clients that come in with one call."""

from typing import Any

from gateway.core.model import Backlog, Session
from gateway.core.state import Core
from tests.conformance.client import Client
from tests.memory import MemoryBroker


def broker(**limits: Any) -> MemoryBroker:
    """Without delivery before the commit, so that each message goes through the log; ``limits`` by field name."""
    made = MemoryBroker({})
    made.limits.commit_window_ms = 0
    for name, value in limits.items():
        assert hasattr(made.limits, name), name
        setattr(made.limits, name, value)
    return made


def connect(
    b: MemoryBroker, name: str, version: int = 5, clean: bool = False, expiry: int | None = 1000, **options: Any
) -> Client:
    client = Client(b.open(), version)
    if version == 5:
        options["expiry"] = expiry
    client.send_connect(name, clean=clean, **options)
    client.connack = client.expect("CONNACK", reason=0)
    return client


def core_of(b: MemoryBroker) -> Core:
    return b.router.core


def session_of(b: MemoryBroker, name: str) -> Session:
    return b.router.core.sessions[name]


def backlog_of(b: MemoryBroker, name: str) -> Backlog:
    found = session_of(b, name).backlog
    assert found is not None
    return found


def fill(b: MemoryBroker, topic: str, count: int, qos: int = 1, start: int = 0) -> None:
    """``count`` messages with their numbers as payloads, published to the end of their handshakes."""
    publisher = connect(b, "filler", clean=True, expiry=0)
    for number in range(start, start + count):
        publisher.put(topic, str(number).encode(), qos)
    publisher.disconnect()
