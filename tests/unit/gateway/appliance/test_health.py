"""Against a real broker."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from gateway.appliance.health import UnhealthyError, round_trip, wait_for_health
from gateway.cli.control import ask
from gateway.net.control import elsewhere, listen
from tests import wire_format as mqtt
from tests.harness import Broker
from tests.system.disks import MIB, fill, small_disk
from tests.wire import Wire


def control(folder: Path) -> Path:
    return folder / "control.sock"


def test_a_healthy_gateway(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Broker(data) as broker, Wire.connect(broker.port, "collector") as wire:
        wire.subscribe("#", qos=1)
        for _ in range(2):
            assert wait_for_health(control(data), 0) == ""
        with Wire.connect(broker.port, "machine") as machine:
            machine.publish_done("t", b"seen", qos=1)
        assert wire.expect(mqtt.PUBLISH)["payload"] == b"seen"  # and nothing of the round trips before
        assert [row["client_id"] for row in ask(control(data), {"cmd": "sessions"})] == ["collector"]
        assert ask(control(data), {"cmd": "status"})["store"]["commits"] > 0


def test_rules_and_users_do_not_keep_it_out(tmp_path: Path) -> None:
    """It needs no user: who may open the control socket owns the gateway."""
    data = tmp_path / "data"
    settings = {"allow_anonymous": "false", "acl": "allow write a/#"}
    with Broker(data, settings=settings):
        assert wait_for_health(control(data), 0) == ""


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(UnhealthyError, match="the broker does not run"):
        round_trip(control(tmp_path))
    assert "does not run" in wait_for_health(control(tmp_path), 0.01)


def test_it_may_still_come(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data")
    broker.start(wait=False)
    try:
        assert wait_for_health(control(tmp_path / "data"), 30) == ""
    finally:
        broker.kill9()


def test_a_frozen_gateway(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            with pytest.raises(UnhealthyError, match=r"does not answer within 0\.2 s"):
                round_trip(control(tmp_path / "data"), 0.2)
        finally:
            os.kill(broker.pid, signal.SIGCONT)


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", 16 * MIB) as data, Broker(data, {"store.min_free_bytes": "1MiB"}):
        assert wait_for_health(control(data), 0) == ""
        (data / "forebay.db.spare").unlink(missing_ok=True)
        fill(data / "ballast")
        with pytest.raises(UnhealthyError, match=r"does not answer within 2 s|refused with reason code 0x97"):
            round_trip(control(data), 2)


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the control socket is elsewhere, and what is acknowledged is not kept."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    with contextlib.closing(listen(elsewhere(control(tmp_path / "data")))):
        assert wait_for_health(control(tmp_path / "data"), 0) == f"the broker cannot write to {tmp_path}/data"
