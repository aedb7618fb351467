"""A small real file system for a data directory, and how to fill it."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.control import ask
from tests import wire_format as mqtt
from tests.harness import Broker
from tests.settled import PATIENCE_S, until_settled
from tests.wire import Wire
from tests.wire_format import Packet

MIB = 1_048_576
FOREVER = [(mqtt.SESSION_EXPIRY, 0xFFFFFFFF)]


@contextlib.contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A tmpfs of that size at ``folder``; the test is skipped where the machine lets nobody mount one."""
    folder.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    made = subprocess.run(line, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"a full disk needs the right to mount a tmpfs: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path, leave_bytes: int = 0) -> None:
    """Write a file there until no more than ``leave_bytes`` of its file system are free."""
    with path.open("ab", buffering=0) as file:
        size = 65_536
        while size and (left := free_bytes(path.parent)) > leave_bytes:
            try:
                file.write(bytes(min(size, left - leave_bytes)))
            except OSError:  # full: what is left is less than this
                size //= 16


def free_bytes(folder: Path) -> int:
    figures = os.statvfs(folder)
    return figures.f_bavail * figures.f_frsize


def until(true: Callable[[], object], what: str, timeout: float = 30.0) -> None:
    """Wait until this is so."""
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def status(broker: Broker) -> dict[str, Any]:
    """What ``forebay status --json`` prints."""
    answer: dict[str, Any] = ask(broker.data_dir / "control.sock", {"cmd": "status"})
    return answer


def session_drops(broker: Broker, client_id: str) -> dict[str, int]:
    """Drops of one session by reason."""
    answer = ask(broker.data_dir / "control.sock", {"cmd": "session", "client_id": client_id})
    drops: dict[str, int] = answer["drops"]
    return drops


def sys_value(broker: Broker, topic: str) -> str:
    """The retained value of ``$SYS/broker/<topic>``, empty when there is none."""
    with Wire.connect(broker.port) as wire:
        wire.subscribe("$SYS/broker/" + topic)
        found = [packet["payload"].decode() for packet in wire.quiet(0.3) if packet.type == mqtt.PUBLISH]
    return found[-1] if found else ""


def collector(broker: Broker, present: int | None = None, name: str = "collector") -> Wire:
    """The persistent session for which messages are kept."""
    return Wire.connect(broker.port, name, 5, clean=False, props=FOREVER, present=present)


def leave_behind(broker: Broker, filter: str = "t/#", name: str = "collector") -> None:
    """A persistent session with a subscription at QoS 1 and nobody there."""
    with collector(broker, name=name) as wire:
        wire.subscribe(filter, qos=1)
        wire.disconnect()


def drain(broker: Broker, wire: Wire, name: str = "collector") -> list[bytes]:
    """Take and acknowledge whatever comes, until the broker has nothing left for it."""
    taken = []
    for packet in until_settled(broker, wire, name):
        assert packet.type == mqtt.PUBLISH, packet
        taken.append(packet["payload"])
        wire.settle(packet)
    return taken


def publish_until_stuck(broker: Broker, wire: Wire, payload_bytes: int, first: int = 0) -> int:
    """Publish one at a time until one is not acknowledged for want of room; its number, which is still pending."""
    for number in range(first, first + 10_000):
        pid = wire.publish("t/q", numbered(number, payload_bytes), 1)
        packet = answer_or_full(broker, wire)
        if packet is None:
            return number
        assert packet.type == mqtt.PUBACK and packet["pid"] == pid, packet
        assert packet.fields.get("code", 0) < 0x80, packet
    raise AssertionError("it never got full")


def answer_or_full(broker: Broker, wire: Wire) -> Packet | None:
    """The next packet, or None when none comes because the store is full."""
    give_up = time.monotonic() + PATIENCE_S
    was_full = False
    while True:
        try:
            packet = wire.read_packet(0.5)
        except TimeoutError:
            shown = status(broker)
            is_full = bool(shown["store"]["error"] or (shown["store"]["full"] and shown["parked"]))
            if is_full and was_full:  # nor did it come after the first time that it was so
                return None
            was_full = is_full
            assert time.monotonic() < give_up, wire.failure("neither an answer nor full")
        else:
            assert packet is not None, wire.failure("closed")
            return packet


def numbered(number: int, size: int) -> bytes:
    return b"%08d" % number + b"." * (size - 8)


def number_of(payload: bytes) -> int:
    return int(payload[:8])
