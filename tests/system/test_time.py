"""A wall clock that jumps by two weeks, a year and ten: nothing that runs on gateway time may notice.

A real broker under libfaketime, which moves the wall clock alone; jumps while it serves, and while it is away.
"""

import contextlib
import datetime
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trustme

from gateway.cli.control import RefusedError, ask
from tests import wire_format as mqtt
from tests.harness import FAKETIME_LIBRARIES, Broker, free_port
from tests.wire import Wire
from tests.wire_format import WireError

JUMPS = ["+14d", "-1y", "+10y"]
SHORT_S = 20  # expiry of what ends during a test: longer than a start on a loaded machine takes
TAKEN_OVER_S = 1.2  # libfaketime looks at its file once a second
SLACK_S = 10.0  # of a loaded machine; the core looks at its clients once a second
PROBE = "import time; print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic())"
AWAY = [(mqtt.SESSION_EXPIRY, 3600)]

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        not any(Path(path).exists() for path in FAKETIME_LIBRARIES), reason="libfaketime is not installed"
    ),
]


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
    give_up = time.monotonic() + SHORT_S + 30
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
            self.brief_left = time.monotonic()  # or a moment later
            brief.disconnect()
        with Wire.connect(broker.port, "p", 5) as publisher:
            publisher.publish_done("t", b"soon", props=[(mqtt.MESSAGE_EXPIRY, SHORT_S)])
            publisher.publish_done("t", b"1 h", props=[(mqtt.MESSAGE_EXPIRY, 3600)])
            publisher.publish_done("r", b"soon", retain=True, props=[(mqtt.MESSAGE_EXPIRY, SHORT_S)])
            publisher.publish_done("r/long", b"1 h", retain=True, props=[(mqtt.MESSAGE_EXPIRY, 3600)])
        self.sent = time.monotonic()

    def check(self, name: str, *, expired: bool) -> None:
        """What is still there, and for how long."""
        with Wire.connect(self.broker.port, name, 5, clean=False, props=AWAY, present=1) as away:
            got = away.take(1 if expired else 2)
            away.expect_nothing()
        left = {packet["payload"]: packet.prop(mqtt.MESSAGE_EXPIRY) for packet in got}
        passed = time.monotonic() - self.sent
        assert list(left) == ([b"1 h"] if expired else [b"soon", b"1 h"])
        assert abs(left[b"1 h"] - (3600 - passed)) <= SLACK_S
        if not expired:
            assert abs(left[b"soon"] - (SHORT_S - passed)) <= SLACK_S
        with Wire.connect(self.broker.port, "looks", 5) as looks:
            looks.subscribe("r/#")
            looks.ping()  # what is retained has come before its answer
            topics = {packet["topic"] for packet in looks.waiting}
        assert topics == ({"r/long"} if expired else {"r", "r/long"})

    def check_the_end(self) -> None:
        """The short ones end when they should, by a clock that never jumped; then the long ones are still there."""
        assert has_session(self.broker, "brief")
        gone = wait_until_gone(self.broker, "brief")
        assert SHORT_S <= gone - self.brief_left <= SHORT_S + SLACK_S
        time.sleep(max(0.0, self.sent + SHORT_S + 1.2 - time.monotonic()))
        self.check("late", expired=True)


def test_expiry_is_exact_over_jumps_while_it_serves(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", faketime="+0") as broker:
        queued = Queued(broker)
        for offset in JUMPS:
            jump(broker, offset)
        queued.check("soon", expired=False)
        queued.check_the_end()


@pytest.mark.parametrize(("offset", "kind"), [("+14d", "sigterm"), ("-1y", "kill9"), ("+10y", "kill9")])
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
        alive = Wire.connect(broker.port, "alive", keepalive=60)
        idle = Wire.connect(broker.port, "idle", keepalive=0)
        with long, alive, idle:
            for offset in [*JUMPS, "+14d"]:
                jump(broker, offset)
                for wire in (long, alive, idle):
                    wire.ping()
            heard = time.monotonic()  # or a moment later
            with Wire.connect(broker.port, "silent", keepalive=2) as silent:
                broker.set_faketime("-1y")
                silent.expect_closed()
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


def lets_in(port: int, trust: ssl.SSLContext) -> bool:
    """Whether a client with this certificate may connect; with TLS 1.3 the no comes after the handshake."""
    try:
        Wire.connect(port, "again", tls=trust).close()
    except (OSError, WireError):
        return False
    return True


def wait_until(port: int, trust: ssl.SSLContext, *, let_in: bool) -> None:
    give_up = time.monotonic() + 30
    while lets_in(port, trust) != let_in:
        assert time.monotonic() < give_up, "it is not let in" if let_in else "it is let in"
        time.sleep(0.2)


def test_certificates_go_by_the_wall_clock_and_standing_connections_do_not_notice(tmp_path: Path) -> None:
    """Ten years ahead a client's certificate has expired; with the right time it is let in again."""
    authority, port = trustme.CA(), free_port()
    in_a_year = datetime.datetime.fromtimestamp(time.clock_gettime(time.CLOCK_REALTIME) + 31_536_000, datetime.UTC)
    server = authority.issue_cert("127.0.0.1", "localhost")
    device = authority.issue_cert("device", common_name="device", not_after=in_a_year)
    (tmp_path / "server.pem").write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
    server.private_key_pem.write_to_path(tmp_path / "server.key")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trust = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    authority.configure_trust(trust)
    device.configure_cert(trust)
    settings = {
        "listeners.mtls": f"127.0.0.1:{port}", "tls.cert": tmp_path / "server.pem", "tls.key": tmp_path / "server.key",
        "tls.client_ca": tmp_path / "ca.pem", "allow_anonymous": "true",
    }  # fmt: skip
    with Broker(tmp_path / "data", settings, faketime="+0") as broker:
        wait_until(port, trust, let_in=True)
        with Wire.connect(port, "stays", keepalive=3600, tls=trust) as stays:
            jump(broker, "+10y")
            wait_until(port, trust, let_in=False)
            stays.ping()
            broker.set_faketime("+0")
            wait_until(port, trust, let_in=True)
            stays.ping()
        assert "Traceback" not in broker.log()
