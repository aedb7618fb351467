"""What a machine does to the service, done to one that runs: on it, as root, with nothing but Python.

    python3 -m tests.faults restart kill freeze full clock  each heals by itself; nothing acknowledged is lost
    python3 -m tests.faults remount                         as these; on a machine that has its kernel for itself
    python3 -m tests.faults readonly                        degrades; prints what was acknowledged, as JSON
    python3 -m tests.faults check --expect JSON             after a repair or a reboot: all of it is delivered

``--port`` of a listener, ``--user`` and ``--password`` where it takes no anonymous clients; ``--data`` the data folder,
a file system of its own.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from tests import wire_format as mqtt
from tests.wire import Wire

UNIT: Final = "forebay.service"
FOREVER: Final = [(mqtt.SESSION_EXPIRY, 0xFFFFFFFF)]
HOUR: Final = [(mqtt.MESSAGE_EXPIRY, 3600)]
HEALS_S: Final = 180.0
ANSWERS_S: Final = 120.0  # who is not refused waits until the gateway has started again, however slow the machine
UNANSWERED_S: Final = 5.0
TEN_YEARS_S: Final = 10 * 365 * 86400


@final
class Gateway:
    """The service on this machine and a session of it that is away while messages come."""

    def __init__(self, port: int, data: Path, user: str | None, password: str | None) -> None:
        self.port, self.data, self.user, self.password = port, data, user, password
        self.kept: list[str] = []  # acknowledged
        with self.connect("faults-reader") as wire:
            assert wire.subscribe("faults/kept", qos=1) == [1]

    def connect(self, client_id: str, present: int | None = None) -> Wire:
        """Without a second try: a connection that is refused is a fault."""
        return Wire.connect(
            self.port, client_id, 5, clean=present is None and client_id == "", props=FOREVER if client_id else (),
            timeout=ANSWERS_S, present=present, username=self.user, password=self.password,
        )  # fmt: skip

    def publish(self, text: str) -> None:
        with self.connect("") as wire:
            wire.publish_done("faults/kept", text.encode(), props=HOUR)
        self.kept.append(text)

    def check(self) -> None:
        """Everything acknowledged is delivered, in order; what was not may be among it."""
        with self.connect("faults-reader", present=1) as wire:
            got: list[str] = []
            while [text for text in got if text in self.kept] != self.kept:
                packet = wire.wait_for(mqtt.PUBLISH, ANSWERS_S)
                wire.settle(packet)
                got.append(packet["payload"].decode())
        self.kept.clear()


def shown(name: str) -> str:
    line = ["systemctl", "show", UNIT, "-P", name]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()


def main_pid() -> int:
    return int(shown("MainPID"))


def until(true: Callable[[], object], what: str, timeout: float = HEALS_S) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def started_again(pid: int) -> bool:
    return shown("ActiveState") == "active" and main_pid() not in (0, pid)


def restart(gateway: Gateway) -> None:
    """By its owner: nobody is refused meanwhile."""
    pid = main_pid()
    gateway.publish("before the restart")
    subprocess.run(["systemctl", "restart", "--no-block", UNIT], check=True)
    deadline = time.monotonic() + HEALS_S
    while not started_again(pid):
        socket.create_connection(("127.0.0.1", gateway.port), ANSWERS_S).close()
        assert time.monotonic() < deadline, "is not started again"
        time.sleep(0.02)
    gateway.publish("after the restart")
    gateway.check()


def kill(gateway: Gateway) -> None:
    """SIGKILL: started again, and no connection is refused meanwhile."""
    pid = main_pid()
    gateway.publish("before the kill")
    os.kill(pid, signal.SIGKILL)
    gateway.publish("right after the kill")
    until(lambda: started_again(pid), "is not started again")
    gateway.check()


def freeze(gateway: Gateway) -> None:
    """SIGSTOP: the watchdog finds out."""
    pid = main_pid()
    gateway.publish("before the freeze")
    os.kill(pid, signal.SIGSTOP)
    until(lambda: started_again(pid), "is left frozen")
    gateway.publish("after the freeze")
    gateway.check()


def full(gateway: Gateway) -> None:
    """Somebody else takes all the room: messages wait, all else goes on, and room makes them acknowledged."""
    assert gateway.data.is_mount(), f"{gateway.data} is no file system of its own: this would fill the machine's"
    pid = main_pid()
    gateway.publish("before the disk was full")
    filler = gateway.data / "filler"
    with gateway.connect("") as wire:
        with filler.open("wb", buffering=0) as out, contextlib.suppress(OSError):
            while True:
                out.write(bytes(1 << 16))
        wire.publish("faults/kept", b"while the disk was full", 1, props=HOUR)
        unanswered(wire)
        with gateway.connect("") as other:
            other.send(mqtt.frame(0xC0, b""))
            other.wait_for(mqtt.PINGRESP)
        filler.unlink()
        wire.wait_for(mqtt.PUBACK, ANSWERS_S)
    gateway.kept.append("while the disk was full")
    gateway.check()
    assert main_pid() == pid, "it was started again for a full disk"


def unanswered(wire: Wire) -> None:
    try:
        packet = wire.wait_for(mqtt.PUBACK, UNANSWERED_S)
    except (mqtt.WireError, TimeoutError, AssertionError):
        return
    assert packet.fields.get("code", 0) >= 0x80, "acknowledged without a disk"


def clock(gateway: Gateway) -> None:
    """The first synchronisation moves the clock by ten years: nothing expires by it, nobody is cut off."""
    pid = main_pid()
    gateway.publish("before the clock was set")
    with gateway.connect("faults-online") as wire:
        subprocess.run(["timedatectl", "set-ntp", "false"], capture_output=True, check=False)
        time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + TEN_YEARS_S)
        stamp = Path("/run/systemd/timesync/synchronized")
        stamp.parent.mkdir(exist_ok=True)
        stamp.touch()
        time.sleep(3)  # a few ticks
        wire.send(mqtt.frame(0xC0, b""))
        wire.wait_for(mqtt.PINGRESP)
    gateway.publish("after the clock was set")
    assert main_pid() == pid, "it was started again for a clock"
    subprocess.run(["systemctl", "restart", UNIT], check=True)
    gateway.check()


def remount(gateway: Gateway) -> None:
    """Read-only by force, then writable again: what waited is acknowledged, and nothing is started again."""
    pid = main_pid()
    gateway.publish("before the remount")
    Path("/proc/sysrq-trigger").write_text("u")  # all that is on disks
    until(lambda: os.statvfs(gateway.data).f_flag & os.ST_RDONLY, "is not read-only")
    with gateway.connect("") as wire:
        wire.publish("faults/kept", b"while it was read-only", 1, props=HOUR)
        unanswered(wire)
        with gateway.connect("") as other:
            other.send(mqtt.frame(0xC0, b""))
            other.wait_for(mqtt.PINGRESP)
        subprocess.run(["mount", "-o", "remount,rw", str(gateway.data)], check=True)
        wire.wait_for(mqtt.PUBACK, ANSWERS_S)
    gateway.kept.append("while it was read-only")
    gateway.check()
    assert main_pid() == pid, "it was started again for a disk that took nothing"


def readonly(gateway: Gateway) -> None:
    """The file system finds itself damaged (ext4): messages wait unacknowledged, all else goes on."""
    pid = main_pid()
    gateway.publish("before the damage")
    number = gateway.data.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name
    subprocess.run(["mount", "-o", "remount,errors=remount-ro", str(gateway.data)], check=True)
    (Path("/sys/fs/ext4") / device / "trigger_fs_error").write_text("1")
    with gateway.connect("") as wire:
        assert wire.subscribe("faults/live") == [0]
        wire.publish("faults/kept", b"after the damage", 1)
        unanswered(wire)
        with gateway.connect("") as other:
            other.publish("faults/live", b"still here")
            other.send(mqtt.frame(0xC0, b""))
            other.wait_for(mqtt.PINGRESP)
    assert main_pid() == pid, "it was started again for a disk that takes nothing"
    print(json.dumps(gateway.kept), flush=True)


FAULTS: Final = {
    "restart": restart, "kill": kill, "freeze": freeze, "full": full, "clock": clock, "remount": remount,
    "readonly": readonly,
}  # fmt: skip


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("faults", nargs="+", choices=[*FAULTS, "check"])
    asked.add_argument("--port", type=int, default=1883)
    asked.add_argument("--data", type=Path, default=Path("/var/lib/forebay"))
    asked.add_argument("--user")
    asked.add_argument("--password")
    asked.add_argument("--expect", default="[]")
    options = asked.parse_args()
    gateway = Gateway(options.port, options.data, options.user, options.password)
    for name in options.faults:
        begun = time.monotonic()
        if name == "check":
            gateway.kept = json.loads(options.expect)
            gateway.check()
        else:
            FAULTS[name](gateway)
        print(f"ok {name} ({time.monotonic() - begun:.1f} s)", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
