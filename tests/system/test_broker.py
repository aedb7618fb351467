"""The broker as a process: what it does with bad peers, signals, addresses, certificates and users."""

import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from gateway.auth import Passwords
from gateway.cli.control import RefusedError, ask
from tests import wire_format as mqtt
from tests.crash.shimlog import build_shim, shim_env
from tests.harness import Broker, free_port
from tests.spb_bytes import metric, nbirth
from tests.wire import Wire

SERVER_SHUTTING_DOWN = 0x8B
PACKET_TOO_LARGE = 0x95


def wait_until(true: object, what: str, timeout: float = 30.0) -> None:
    assert callable(true)
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def refusal(broker: Broker, log: Path, status: int = 1) -> str:
    """The one line with which it does not start."""
    broker.log_file = log
    broker.start(wait=False)
    assert broker.process is not None
    assert broker.process.wait(60) == status, broker.log()
    lines = broker.log().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that stays."""
    with Broker(tmp_path_factory.mktemp("broker") / "data") as started:
        yield started
        assert "defect" not in started.log()
        assert "Traceback" not in started.log()


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Broker]:
    """Connections have 1.5 s to CONNECT."""
    with Broker(tmp_path / "data", {"mqtt.connect_timeout": "1500ms"}) as started:
        yield started


# Starting


def test_the_ready_line_says_where_and_how(broker: Broker) -> None:
    wait_until(lambda: "listening" in broker.log(), "no ready line")
    line = broker.log().splitlines()[0]
    wanted = rf"INFO forebay [\d.]+ listening on 127\.0\.0\.1:{broker.port} \((compiled|interpreted)\), data in .*data"
    assert re.fullmatch(wanted, line)


def test_what_only_payloads_need_is_loaded_with_the_first_of_them(broker: Broker) -> None:
    """It costs megabytes that a gateway without Sparkplug nodes never needs."""
    maps = Path(f"/proc/{broker.pid}/maps")
    assert "google/_upb" not in maps.read_text()
    with Wire.connect(broker.port, "edge") as edge:
        birth = nbirth(0, 0, 1, metric("Properties/FW", 1))
        edge.publish_done("spBv1.0/g/NBIRTH/e", birth)
        give_up = time.monotonic() + 30
        while "google/_upb" not in maps.read_text():
            assert time.monotonic() < give_up, "the birth was not read"
            time.sleep(0.05)


def test_a_port_in_use_is_one_line(broker: Broker, tmp_path: Path) -> None:
    line = refusal(Broker(tmp_path / "data", port=broker.port), tmp_path / "log")
    assert line == f"ERROR cannot listen on 127.0.0.1:{broker.port}: Address already in use"


def test_a_data_directory_in_use_is_one_line(broker: Broker, tmp_path: Path) -> None:
    line = refusal(Broker(broker.data_dir, port=free_port()), tmp_path / "log")
    assert f"pid {broker.pid}" in line


def test_a_data_directory_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refusal(Broker(tmp_path / "file" / "data"), tmp_path / "log")


def test_an_address_of_another_machine_is_one_line(tmp_path: Path) -> None:
    line = refusal(Broker(tmp_path / "data", arguments=["--listen", "192.0.2.1:1883"]), tmp_path / "log")
    assert "192.0.2.1:1883" in line


def test_without_uvloop_it_serves_all_the_same(tmp_path: Path) -> None:
    entry = ("-c", "import sys; sys.modules['uvloop'] = None; from gateway.cli.main import main; main()")
    with Broker(tmp_path / "data", entry=entry) as broker:
        with Wire.connect(broker.port, "plain", version=5) as wire:
            wire.subscribe("t", qos=1)
            wire.publish_done("t", b"x" * 300_000)
            wire.take(1)
            wire.send(b"\x30\xff\xff\xff\xff")
            wire.expect(mqtt.DISCONNECT)
            wire.expect_closed()
        assert broker.sigterm() == 0
        assert "ERROR" not in broker.log()


# Bad peers


def stuffed(broker: Broker) -> Wire:
    """A subscriber that reads nothing, with more on the way than its sockets hold."""
    deaf = Wire.connect(broker.port, "deaf", version=5)
    deaf.subscribe("flood")
    with Wire.connect(broker.port, "source", version=5) as source:
        for _ in range(100):
            source.publish("flood", b"x" * 100_000)
        source.ping()
    return deaf


def test_garbage_is_closed_and_others_go_on(broker: Broker) -> None:
    with Wire.connect(broker.port, "steady") as steady:
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, os.urandom(1000), b"\x10\xff\xff\xff\xff\x7f"):
            with Wire.open(broker.port) as bad:
                bad.send(garbage)
                with contextlib.suppress(TimeoutError):
                    while bad.read_packet() is not None:
                        pass
                assert bad.history[-1] == "< closed"
        steady.ping()


def test_half_a_packet_and_silence_ends_with_the_connect_timeout(impatient: Broker) -> None:
    started = time.monotonic()
    with Wire.open(impatient.port) as half:
        half.send(mqtt.connect("half", 4)[:9])
        half.expect_closed()
        assert time.monotonic() - started > 1.0


def test_a_flood_of_bad_packets_is_told_as_a_number(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        for _ in range(200):
            with Wire.open(broker.port) as bad:
                bad.send(b"\0\0")
                bad.expect_closed()
        assert broker.sigterm() == 0
        told = [int(count) for count in re.findall(r"INFO .*: (\d+) more within 10 s", broker.log())]
        lines = broker.log().count("first packet is not CONNECT")
        assert lines <= 10 * (len(told) + 1)  # a slow machine may need more than one window
        assert told and lines + sum(told) == 200


def test_silent_connections_disturb_nobody(impatient: Broker) -> None:
    broker, count = impatient, 3000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 200:
        count = hard - 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 200, hard), hard))
    silent: list[socket.socket] = []
    try:
        before = broker.rss_bytes()
        with Wire.connect(broker.port, "steady") as steady:
            for number in range(count):
                silent.append(socket.create_connection(("127.0.0.1", broker.port), 30))
                if number % 100 == 0:
                    steady.ping()
            assert (broker.rss_bytes() - before) / count < 16_384
            steady.ping()
            for sock in silent:
                sock.settimeout(30)
                assert sock.recv(100) == b""
            steady.ping()
    finally:
        for sock in silent:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_huge_packet_is_refused_with_its_reason_while_it_still_comes(broker: Broker) -> None:
    with Wire.connect(broker.port, "huge", version=5) as wire:
        wire.send(b"\x30" + mqtt.varint(256 * 1024 * 1024 - 10) + b"\0\4some")
        with contextlib.suppress(OSError):
            for _ in range(64):  # the sender has not noticed yet
                wire.sock.sendall(b"\0" * 65_536)
        wire.expect(mqtt.DISCONNECT, code=PACKET_TOO_LARGE)
        wire.expect_closed()


def test_out_of_descriptors_it_rests_and_comes_back(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker, contextlib.ExitStack() as sockets:
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (60, 60))
        for _ in range(80):
            sock = sockets.enter_context(socket.socket())
            sock.connect(("127.0.0.1", broker.port))
        wait_until(lambda: "accepts nobody for now" in broker.log(), broker.log())
        used = broker.cpu_s()
        time.sleep(2.5)
        assert broker.cpu_s() - used < 0.5
        assert broker.log().count("accepts nobody for now") == 1
        sockets.close()
        with Wire.connect(broker.port, "after"):
            pass


def sockets_of(broker: Broker) -> int:
    """Connections to its port that it has not closed."""
    here = f"0100007F:{broker.port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(1 for line in lines if line.split()[1] == here and line.split()[3] in ("01", "08"))


def test_a_peer_that_stays_after_its_last_word_is_closed(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker, Wire.connect(broker.port, "same", version=5) as stays:
        wait_until(lambda: sockets_of(broker) == 1, "the harness' own look is not over")
        with Wire.connect(broker.port, "same", version=5):
            wait_until(lambda: sockets_of(broker) == 1, "still open")
            stays.expect(mqtt.DISCONNECT, code=0x8E)


def test_a_peer_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker, stuffed(broker):
        wait_until(lambda: sockets_of(broker) == 1, "others are still there")
        started = time.monotonic()
        with Wire.connect(broker.port, "deaf", version=5):
            wait_until(lambda: sockets_of(broker) == 1, "still open")
            assert time.monotonic() - started > 3


# Signals


def test_sigterm_says_goodbye_and_ends_well(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        with Wire.connect(broker.port, "five", version=5) as five, Wire.connect(broker.port, "four") as four:
            assert broker.process is not None
            broker.process.send_signal(signal.SIGTERM)
            five.expect(mqtt.DISCONNECT, code=SERVER_SHUTTING_DOWN)
            five.expect_closed()
            four.expect_closed()
            assert broker.process.wait(30) == 0
        assert "connections open" not in broker.log()  # it waited for nobody
        assert not (broker.data_dir / "control.sock").exists()


def test_sigterm_waits_for_no_deaf_peer(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker, stuffed(broker):
        assert broker.sigterm(30) == 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="the shim needs a C compiler")
def test_sigterm_waits_for_no_hanging_disk(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Broker(data) as broker:
        assert broker.sigterm() == 0
    env = shim_env(data, sync_delay_ms=60_000)
    with Broker(data, env=env, preload=[build_shim(tmp_path)]) as broker:
        with Wire.open(broker.port) as waits:
            waits.send(mqtt.connect("kept", 4, clean=False))
            waits.expect_nothing(0.5)  # its session is on the way to the disk
            started = time.monotonic()
            assert broker.sigterm(30) == 0
            assert time.monotonic() - started > 5
        assert "the last commit not on disk" in broker.log()


def test_a_second_signal_quits_at_once(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker, stuffed(broker):
        assert broker.process is not None
        broker.process.send_signal(signal.SIGINT)
        wait_until(lambda: "stopping" in broker.log(), broker.log())
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(30) == 1
        assert "connections open" not in broker.log()  # as at the end of its patience


def test_sighup_takes_good_settings_and_keeps_the_old_for_bad_ones(tmp_path: Path) -> None:
    config = tmp_path / "forebay.toml"
    config.write_text("[mqtt]\nmax_topic_levels = 2\n")
    with Broker(tmp_path / "data", arguments=["--config", str(config)]) as broker:
        with Wire.connect(broker.port, "early", version=5) as early:
            config.write_text("[mqtt]\nmax_topic_levels = 'many'\n")
            broker.hangup()
            wait_until(lambda: "ERROR reload" in broker.log(), broker.log())
            config.write_text("[mqtt]\nmax_topic_levels = 4\n")
            broker.hangup()
            wait_until(lambda: "INFO reloaded" in broker.log(), broker.log())
            early.subscribe("#")
            early.publish("a/b/c/d", b"deep")
            early.expect(mqtt.PUBLISH, topic="a/b/c/d")
        assert broker.log().count("ERROR") == 1


# Who may come in


def test_users_and_anonymous(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        with Wire.connect(broker.port, "anonymous"), Wire.connect(broker.port, "named", username="x", password="y"):
            pass
        users = Passwords(broker.data_dir / "passwd")
        users.add("ann", b"secret")
        broker.hangup()
        wait_until(lambda: "INFO reloaded" in broker.log(), broker.log())
        Wire.connect(broker.port, "a", username="ann", password="secret").close()
        Wire.connect(broker.port, "b", username="ann", password="wrong", code=4).close()
        Wire.connect(broker.port, "c", username="bob", password="secret", version=5, code=0x86).close()
        Wire.connect(broker.port, "d").close()


def test_other_than_loopback_listeners_refuse_anonymous_clients(tmp_path: Path) -> None:
    port = free_port()
    with Broker(tmp_path / "data", arguments=["--listen", f"0.0.0.0:{port}"]) as broker:
        assert "admits nobody: no users" in broker.log()
        Wire.connect(port, "a", code=5).close()
        Wire.connect(port, "b", version=5, code=0x87).close()
        Wire.connect(port, "c", version=5, username="ann", password="secret", code=0x86).close()
        Wire.connect(broker.port, "d").close()


# TLS


def certificate(folder: Path, authority: trustme.CA) -> None:
    made = authority.issue_cert("localhost")
    (folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    (folder / "key.pem").write_bytes(made.private_key_pem.bytes())


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def shown_certificate(wire: Wire) -> bytes:
    assert isinstance(wire.sock, ssl.SSLSocket)
    return wire.sock.getpeercert(binary_form=True) or b""


def test_tls_with_a_certificate_changed_while_serving(tmp_path: Path) -> None:
    authority, port = trustme.CA(), free_port()
    certificate(tmp_path, authority)
    settings = {
        "listeners.tls": f"127.0.0.1:{port}",
        "tls.cert": tmp_path / "cert.pem",
        "tls.key": tmp_path / "key.pem",
    }
    tls = trusting(authority)
    with Broker(tmp_path / "data", settings) as broker, Wire.connect(port, "old", tls=tls) as old:
        old.subscribe("t", qos=1)
        (tmp_path / "key.pem").write_text("broken")
        broker.hangup()
        wait_until(lambda: "ERROR reload" in broker.log(), broker.log())
        certificate(tmp_path, authority)
        broker.hangup()
        wait_until(lambda: "INFO reloaded" in broker.log(), broker.log())
        with Wire.connect(port, "new", tls=tls) as new:
            assert shown_certificate(new) != shown_certificate(old)
            new.publish_done("t", b"x" * 500_000)
            assert old.take(1)[0]["payload"] == b"x" * 500_000
            with Wire.open(port) as plain:  # no TLS on a TLS port
                plain.send(mqtt.connect("plain", 4))
                with contextlib.suppress(ConnectionError):
                    while plain.sock.recv(4096):
                        pass
            new.ping()
        assert broker.sigterm() == 0


# The control socket


def test_the_control_socket_shows_and_removes_sessions(broker: Broker) -> None:
    path = broker.data_dir / "control.sock"
    with Wire.connect(broker.port, "kept", clean=False) as wire:
        wire.subscribe("a/#", qos=1)
        status = ask(path, {"cmd": "status"})
        assert status["listeners"] == [f"127.0.0.1:{broker.port}"]
        assert status["store"]["commits"] > 0
        assert status["store"]["used_bytes"] > 0
        assert status["store"]["error"] is None
        assert status["exact"] is True
        assert status["uptime_s"] >= 0
        assert isinstance(status["compiled"], bool)
        assert "kept" in [row["client_id"] for row in ask(path, {"cmd": "sessions"})]
        assert ask(path, {"cmd": "session", "client_id": "kept"})["subscriptions"][0]["filter"] == "a/#"
        ask(path, {"cmd": "remove", "client_id": "kept"})
        wire.expect_closed()
    with pytest.raises(RefusedError, match="no session of kept"):
        ask(path, {"cmd": "session", "client_id": "kept"})
    with pytest.raises(RefusedError, match="no such command"):
        ask(path, {"cmd": "explode"})


def test_the_command_line_asks_it(broker: Broker) -> None:
    shown = subprocess.run(
        [broker.python, "-m", "gateway", "status", "--data-dir", str(broker.data_dir)],
        env=broker.environment(), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert f"127.0.0.1:{broker.port}" in shown.stdout
