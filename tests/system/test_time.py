"""A wall clock that jumps by two weeks and by a year: nothing that runs on gateway time may notice.

A real broker under libfaketime, which moves the wall clock alone; jumps while it serves, and while it is away.
"""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.cli.control import RefusedError, ask
from tests import wire_format as mqtt
from tests.harness import FAKETIME_LIBRARIES, Broker
from tests.wire import Wire

JUMPS = ["+14d", "-1y"]
SHORT_S = 10  # expiry of what ends during a test
TAKEN_OVER_S = 1.2  # libfaketime looks at its file once a second
SLACK_S = 1.5  # of a loaded machine; the core looks at its clients once a second
PROBE = "import time; print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic())"
AWAY = [(mqtt.SESSION_EXPIRY, 3600)]

pytestmark = pytest.mark.skipif(
    not any(Path(path).exists() for path in FAKETIME_LIBRARIES), reason="libfaketime is not installed"
)


def wall_clock(broker: Broker) -> float:
    """What a process in the broker's environment takes for the time, less what it is; the other clocks are true."""
    shown = subprocess.run(
        [sys.executable, "-c", PROBE], env=broker.environment(), capture_output=True, text=True, check=True
    ).stdout
    wall, boottime, monotonic = map(float, shown.split())
    assert abs(boottime - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60, "this libfaketime moves CLOCK_BOOTTIME too"
    assert abs(monotonic - time.monotonic()) < 60, "this libfaketime moves CLOCK_MONOTONIC too"
    return wall - time.clock_gettime(time.CLOCK_REALTIME)


def jump(broker: Broker, offset: str) -> None:
    """The wall clock of the broker jumps; returns once it has seen it."""
    broker.set_faketime(offset)
    time.sleep(TAKEN_OVER_S)
    assert abs(wall_clock(broker)) > 13 * 86_400


def has_session(broker: Broker, client_id: str) -> bool:
    with contextlib.suppress(RefusedError):
        ask(broker.data_dir / "control.sock", {"cmd": "session", "client_id": client_id})
        return True
    return False


def wait_until_gone(broker: Broker, client_id: str) -> float:
    """The moment at which the session has expired."""
    give_up = time.monotonic() + 20
    while has_session(broker, client_id):
        assert time.monotonic() < give_up, "the session does not expire"
        time.sleep(0.05)
    return time.monotonic()


class Queued:
    """A session that ends soon, and two that are away with a message that expires as soon and one of an hour."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        for name in ("soon", "late"):
            with Wire.connect(broker.port, name, 5, clean=False, props=AWAY) as away:
                away.subscribe("t", qos=1)
                away.disconnect()
        with Wire.connect(broker.port, "brief", 5, clean=False, props=[(mqtt.SESSION_EXPIRY, SHORT_S)]) as brief:
            brief.subscribe("b", qos=1)
            brief.disconnect()
        self.brief_left = time.monotonic()
        with Wire.connect(broker.port, "p", 5) as publisher:
            publisher.publish_done("t", b"soon", props=[(mqtt.MESSAGE_EXPIRY, SHORT_S)])
            publisher.publish_done("t", b"1 h", props=[(mqtt.MESSAGE_EXPIRY, 3600)])
            publisher.publish_done("r", b"soon", retain=True, props=[(mqtt.MESSAGE_EXPIRY, SHORT_S)])
            publisher.publish_done("r/long", b"1 h", retain=True, props=[(mqtt.MESSAGE_EXPIRY, 3600)])
        self.sent = time.monotonic()

    def check(self, name: str, *, expired: bool) -> None:
        """What is still there, and for how long."""
        with Wire.connect(self.broker.port, name, 5, clean=False, props=AWAY, present=1) as away:
            got = [packet for packet in away.quiet(0.5) if packet.type == mqtt.PUBLISH]
        left = {packet["payload"]: packet.prop(mqtt.MESSAGE_EXPIRY) for packet in got}
        passed = time.monotonic() - self.sent
        assert list(left) == ([b"1 h"] if expired else [b"soon", b"1 h"])
        assert abs(left[b"1 h"] - (3600 - passed)) <= SLACK_S
        if not expired:
            assert abs(left[b"soon"] - (SHORT_S - passed)) <= SLACK_S
        with Wire.connect(self.broker.port, "looks", 5) as looks:
            looks.subscribe("r/#")
            topics = {packet["topic"] for packet in looks.quiet(0.3) if packet.type == mqtt.PUBLISH}
        assert topics == ({"r/long"} if expired else {"r", "r/long"})

    def check_the_end(self) -> None:
        """The short ones end when they should, by a clock that never jumped; then the long ones are still there."""
        assert has_session(self.broker, "brief")
        gone = wait_until_gone(self.broker, "brief")
        assert SHORT_S <= gone - self.brief_left + 0.1 <= SHORT_S + SLACK_S
        time.sleep(max(0.0, self.sent + SHORT_S + 1.2 - time.monotonic()))
        self.check("late", expired=True)


def test_expiry_is_exact_over_jumps_while_it_serves(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", faketime="+0") as broker:
        queued = Queued(broker)
        for offset in JUMPS:
            jump(broker, offset)
        queued.check("soon", expired=False)
        queued.check_the_end()


@pytest.mark.parametrize(("offset", "kind"), [("+14d", "sigterm"), ("-1y", "kill9")])
def test_expiry_is_exact_over_a_jump_and_a_restart(tmp_path: Path, offset: str, kind: str) -> None:
    with Broker(tmp_path / "data", faketime="+0") as broker:
        queued = Queued(broker)
        if kind == "sigterm":
            assert broker.sigterm() == 0
        else:
            broker.kill9()
        broker.set_faketime(offset)
        broker.start()
        assert abs(wall_clock(broker)) > 13 * 86_400
        queued.check("soon", expired=False)
        queued.check_the_end()


def test_connections_and_keep_alive_do_not_notice_jumps(tmp_path: Path) -> None:
    """Nobody is disconnected by a jump, and one that is silent is, 1.5 times its keep alive later as ever."""
    with Broker(tmp_path / "data", faketime="+0") as broker:
        long = Wire.connect(broker.port, "long", keepalive=3600)
        alive = Wire.connect(broker.port, "alive", keepalive=4)
        idle = Wire.connect(broker.port, "idle", keepalive=0)
        with long, alive, idle:
            for offset in [*JUMPS, "+14d"]:
                jump(broker, offset)
                for wire in (long, alive, idle):
                    wire.ping()
            with Wire.connect(broker.port, "silent", keepalive=2) as silent:
                heard = time.monotonic()
                broker.set_faketime("-1y")
                silent.expect_closed(10)
            assert 3 <= time.monotonic() - heard <= 3 + 1 + SLACK_S
            for wire in (long, idle):
                wire.ping()
        assert "Traceback" not in broker.log()


@pytest.mark.parametrize("offset", ["-1y"])
def test_messages_held_for_their_acknowledgement_do_not_notice_a_jump(tmp_path: Path, offset: str) -> None:
    """The window in which a receiver may answer ends 20 ms later, whatever the wall clock says."""
    with Broker(tmp_path / "data", faketime="+0") as broker:
        with (
            Wire.connect(broker.port, "r", 5, clean=False, props=AWAY) as receiver,
            Wire.connect(broker.port, "p", 5) as publisher,
        ):
            receiver.subscribe("t", qos=1)
            publisher.publish("t", b"before", 1)
            receiver.take(1)
            publisher.expect(mqtt.PUBACK)
            jump(broker, offset)
            asked = time.monotonic()
            publisher.publish("t", b"after", 1)
            receiver.expect(mqtt.PUBLISH, payload=b"after")
            publisher.expect(mqtt.PUBACK)
            assert 0.015 < time.monotonic() - asked < SLACK_S
        broker.kill9()
        broker.start()
        with Wire.connect(broker.port, "r", 5, clean=False, props=AWAY, present=1) as receiver:
            assert [packet["payload"] for packet in receiver.take(1)] == [b"after"]
