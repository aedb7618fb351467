"""Safe mode and a disk that cannot be written: what a real broker does, and how it gets out again."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.appliance.facts import PATH
from gateway.cli.control import RefusedError, ask
from gateway.doctor.answer import report
from gateway.doctor.snapshot import Ask
from tests import wire_format as mqtt
from tests.harness import Broker
from tests.system.disks import (
    MIB,
    collector,
    drain,
    leave_behind,
    number_of,
    numbered,
    session_drops,
    small_disk,
    status,
    until,
)  # fmt: skip
from tests.system.loops import counted_disk
from tests.wire import Wire

LONG_S = 60.0
SERVER_UNAVAILABLE = 0x88
QUOTA_EXCEEDED = 0x97


def crash(broker: Broker, times: int) -> None:
    for _ in range(times):
        broker.start()
        broker.kill9()


def findings(broker: Broker) -> set[str]:
    """The codes of what the doctor finds."""
    told = report(ask(broker.data_dir / "control.sock", {"cmd": "doctor"}), Ask())
    return {finding["code"] for finding in told["findings"]}


def safe(broker: Broker) -> dict[str, Any] | None:
    found: dict[str, Any] | None = status(broker)["safe_mode"]
    return found


def uplinked(folder: Path, remote: Broker, **settings: object) -> Broker:
    """A gateway with an uplink, its settings in a file."""
    config = folder / "forebay.toml"
    config.write_text(
        f'[[uplink]]\nname = "up"\naddresses = ["mqtt://127.0.0.1:{remote.port}"]\n'
        '[[uplink.rules]]\ndirection = "out"\nfilter = "t/#"\n'
    )
    told = {"safe_mode.crashes": 3, "safe_mode.within": "10m", **settings}
    return Broker(folder / "data", told, arguments=["--config", str(config)])


def state_of(broker: Broker) -> str:
    (row,) = status(broker)["uplinks"]
    state: str = row["state"]
    return state


def test_crashes_lead_to_safe_mode_and_a_command_out_of_it(tmp_path: Path) -> None:
    with Broker(tmp_path / "remote") as remote:
        broker = uplinked(tmp_path, remote)
        crash(broker, 3)
        with broker.start():
            found = safe(broker)
            assert found is not None
            assert (found["crashes"], found["last_good"]) == (3, False)
            assert state_of(broker) == "paused"
            assert "safe mode: 3 crashes" in broker.log()
            assert "safe_mode" in findings(broker)
            with Wire.connect(broker.port, "p") as publisher:
                publisher.publish_done("t/1", b"kept")  # listeners are up, and what is for the uplink waits
            until(lambda: status(broker)["uplinks"][0]["queue_messages"] == 1, "it is queued", LONG_S)
            with Wire.connect(remote.port, "sees") as sees:
                sees.subscribe("t/#", qos=1)
                assert ask(broker.data_dir / "control.sock", {"cmd": "safe_mode_leave"}) is True
                packet = sees.wait_for(mqtt.PUBLISH, LONG_S)
                assert packet["payload"] == b"kept"
            assert safe(broker) is None
            with pytest.raises(RefusedError, match="this is not safe mode"):
                ask(broker.data_dir / "control.sock", {"cmd": "safe_mode_leave"})
            broker.kill9()
            broker.start()
            assert safe(broker) is None, "what was before it is over"


def test_a_run_that_lasts_or_ends_as_it_should_is_no_crash(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", {"safe_mode.crashes": 2, "safe_mode.within": "10m"})
    crash(broker, 1)
    broker.start()
    assert broker.sigterm() == 0
    crash(broker, 1)
    with broker.start():
        assert safe(broker) is None


def test_safe_mode_ends_by_itself(tmp_path: Path) -> None:
    with Broker(tmp_path / "remote") as remote:
        broker = uplinked(tmp_path, remote, **{"safe_mode.within": "600s"})
        crash(broker, 3)
        broker.settings["safe_mode.within"] = "8s"
        with broker.start():
            if safe(broker) is None:
                pytest.skip("three crashes took this machine longer than the time in which they count")
            until(lambda: safe(broker) is None, "safe mode ends", LONG_S)
            until(lambda: state_of(broker) != "paused", "the uplink is dialled", LONG_S)


def test_settings_that_crash_are_put_aside_for_the_last_good_ones(tmp_path: Path) -> None:
    config = tmp_path / "forebay.toml"
    config.write_text("mqtt.max_inflight = 7\n")
    line = ["--config", str(config)]
    broker = Broker(tmp_path / "data", {"safe_mode.crashes": 3, "safe_mode.within": "1s"}, arguments=line)
    good = tmp_path / "data" / "settings.good.toml"
    with broker.start():
        until(good.exists, "the settings were good for long enough", LONG_S)
        assert broker.sigterm() == 0
    config.write_text("mqtt.max_inflight = 9\n")
    broker.settings["safe_mode.within"] = "10m"
    crash(broker, 3)
    with broker.start():
        found = safe(broker)
        assert found is not None
        assert found["last_good"]
        shown = ask(broker.data_dir / "control.sock", {"cmd": "settings"})
        assert shown["mqtt.max_inflight"] == "7"
        config.write_text("nonsense = 1\n")
        with pytest.raises(RefusedError, match="unknown key"):
            ask(broker.data_dir / "control.sock", {"cmd": "safe_mode_leave"})
        assert safe(broker) is not None
        config.write_text("mqtt.max_inflight = 9\n")
        ask(broker.data_dir / "control.sock", {"cmd": "safe_mode_leave"})
        assert ask(broker.data_dir / "control.sock", {"cmd": "settings"})["mqtt.max_inflight"] == "9"
        assert good.read_text() == "mqtt.max_inflight = 7\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control sockets that cannot be in their folder are in one of the test's own."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 16 * MIB) as folder:
        yield folder


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)


def on(disk: Path, log: Path) -> Broker:
    broker = Broker(disk / "data", {"store.error_hold_s": "1s", "store.min_free_bytes": 0, "sys_interval": 0})
    broker.log_file = log
    return broker


def passes_qos0_and_keeps_nothing(broker: Broker) -> None:
    with Wire.connect(broker.port, "live") as live, Wire.connect(broker.port, "p", 5) as publisher:
        live.subscribe("t/#", qos=1)
        publisher.publish("t/zero", b"0")
        live.expect(mqtt.PUBLISH, payload=b"0")
        pid = publisher.publish("t/q", numbered(999, 20), 1)
        answer = publisher.wait_for(mqtt.PUBACK, LONG_S)
        assert (answer["pid"], answer["code"]) == (pid, QUOTA_EXCEEDED)


def test_it_starts_on_a_disk_that_cannot_be_written(disk: Path, tmp_path: Path) -> None:
    broker = on(disk, tmp_path / "log")
    with broker.start():
        leave_behind(broker)
        with Wire.connect(broker.port, "p") as publisher:
            for number in range(20):
                publisher.publish_done("t/q", numbered(number, 20))
        broker.kill9()
        remount(disk, "ro")
        broker.start()
        told = status(broker)
        assert "Read-only" in told["read_only"]
        assert "Read-only" in told["store"]["error"]
        assert "read_only" in findings(broker)
        passes_qos0_and_keeps_nothing(broker)
        lasting = [(mqtt.SESSION_EXPIRY, 60)]
        Wire.connect(
            broker.port, "collector", 5, clean=False, props=lasting, timeout=LONG_S, code=SERVER_UNAVAILABLE
        ).close()
        remount(disk, "rw")
        until(lambda: broker.running() and writable(broker), "it notices, and starts anew", LONG_S)
        with collector(broker, 1) as wire:
            assert [number_of(one) for one in drain(broker, wire)] == list(range(20))
            with Wire.connect(broker.port, "p") as publisher:
                publisher.publish_done("t/q", numbered(20, 20))
            wire.take(1)
        assert "Traceback" not in broker.log()
        assert broker.sigterm() == 0


FOUND = """DISK=/dev/vda
SLOT=a
BOOT=/dev/vda1
ROOT_A=/dev/vda2
ROOT_B=/dev/vda3
SETTINGS=/dev/vda4
DATA=/dev/vda5
DATA_STATE=%s
DATA_REASON="%s"
"""


def on_an_image(folder: Path) -> tuple[Broker, Path]:
    """A broker with a /run of its own, and what the initrd has written there."""
    if os.geteuid() != 0:
        pytest.skip("a /run of its own needs root")
    own_run = folder / "run"
    own_run.mkdir()
    python = folder / "python"
    inside = f'mount --bind {own_run} {PATH.parent} && exec {sys.executable} "$@"'
    python.write_text(f"#!/bin/sh\nexec unshare -m sh -c '{inside}' sh \"$@\"\n")
    python.chmod(0o755)
    broker = Broker(folder / "data", {"store.error_hold_s": "1s", "sys_interval": 0}, python=str(python))
    return broker, own_run / PATH.name


def test_of_a_database_that_is_lost_nothing_is_taken_for_known(tmp_path: Path) -> None:
    """Its partition cannot be mounted: there is none, which does not mean that nobody was to get anything."""
    broker, found = on_an_image(tmp_path)
    found.write_text(FOUND % ("absent", "it cannot be mounted"))
    with broker.start():
        assert status(broker)["read_only"] == "data partition /dev/vda5: it cannot be mounted"
        passes_qos0_and_keeps_nothing(broker)


def test_it_keeps_nothing_on_an_image_whose_data_are_in_ram(tmp_path: Path) -> None:
    """The folder can be written, and yet all of it is gone at the next start: the initrd says so in /run."""
    broker, found = on_an_image(tmp_path)
    found.write_text(FOUND % ("ok", ""))
    with broker.start():
        leave_behind(broker)
        with Wire.connect(broker.port, "p") as publisher:
            publisher.publish_done("t/q", numbered(0, 20))
        broker.kill9()
        found.write_text(FOUND % ("read-only", "e2fsck cannot repair it by itself"))
        broker.start()
        assert status(broker)["read_only"] == "data partition /dev/vda5: e2fsck cannot repair it by itself"
        passes_qos0_and_keeps_nothing(broker)
        lasting = [(mqtt.SESSION_EXPIRY, 60)]
        Wire.connect(
            broker.port, "collector", 5, clean=False, props=lasting, timeout=LONG_S, code=SERVER_UNAVAILABLE
        ).close()
        found.write_text(FOUND % ("repaired", "the file system was repaired"))
        until(lambda: broker.running() and writable(broker), "it notices, and starts anew", LONG_S)
        with collector(broker, 1) as wire:
            assert [number_of(one) for one in drain(broker, wire)] == [0]


def writable(broker: Broker) -> bool:
    try:
        return status(broker)["read_only"] is None
    except Exception:  # it is between its two lives
        return False


def test_what_cannot_be_read_may_want_everything(disk: Path, tmp_path: Path) -> None:
    broker = on(disk, tmp_path / "log")
    with broker.start():
        leave_behind(broker)
        broker.kill9()
        (disk / "data" / "forebay.db").write_bytes(b"\0" * 8192)
        remount(disk, "ro")
        broker.start()
        passes_qos0_and_keeps_nothing(broker)
        assert "cannot be read" in broker.log()
        remount(disk, "rw")


def test_a_disk_that_turns_read_only_while_it_serves(tmp_path: Path) -> None:
    with counted_disk(tmp_path / "disk", 64 * MIB) as disk:
        broker = on(disk.folder, tmp_path / "log")
        with broker.start():
            leave_behind(broker)
            with Wire.connect(broker.port, "p") as publisher:
                for number in range(20):
                    publisher.publish_done("t/q", numbered(number, 20))
            disk.fail()
            passes_qos0_and_keeps_nothing(broker)
            assert status(broker)["store"]["error"]
            assert session_drops(broker, "collector").get("disk") == 1
            assert "store_fails" in findings(broker)
            assert "Traceback" not in broker.log()
            broker.kill9()
            disk.repair()
            broker.start()
            with collector(broker, 1) as wire:
                assert [number_of(one) for one in drain(broker, wire)] == list(range(20))
                with Wire.connect(broker.port, "p") as publisher:
                    publisher.publish_done("t/q", numbered(20, 20))
                wire.take(1)
            broker.kill9()
