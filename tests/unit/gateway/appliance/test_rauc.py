import configparser
import stat
from pathlib import Path

import pytest

from gateway.appliance.bundle import BundleError
from gateway.appliance.rauc import install, write_conf
from gateway.appliance.slots import appliance
from tests.machine_root import machine_root


def test_slots_are_devices_of_the_disk_that_was_booted_from(tmp_path: Path) -> None:
    path = write_conf(appliance(machine_root(tmp_path)))
    conf = configparser.ConfigParser()
    conf.read(path)
    assert path == tmp_path / "etc/rauc/system.conf"
    assert conf["system"]["compatible"] == "forebay-test"
    assert conf["system"]["bootloader"] == "custom"
    assert {conf[name]["bootname"]: conf[name]["device"] for name in conf if name.startswith("slot.")} == {
        "a": f"{tmp_path}/dev/sdx2",
        "b": f"{tmp_path}/dev/sdx3",
    }


def rauc(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "rauc").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "rauc").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_its_progress_and_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[int, str]] = []
    rauc(tmp_path, monkeypatch, 'echo "installing"; echo "  0% Installing"; echo " 40% Copying image to root.1"')
    install(tmp_path / "u.raucb", tmp_path / "conf", lambda *step: steps.append(step))
    assert steps == [(0, "Installing"), (40, "Copying image to root.1")]
    rauc(
        tmp_path,
        monkeypatch,
        'echo " 40% Failed"; echo "LastError: Failed mounting bundle: no loop device" >&2; exit 1',
    )
    with pytest.raises(BundleError, match=r"u\.raucb: Failed mounting bundle: no loop device"):
        install(tmp_path / "u.raucb", tmp_path / "conf", lambda *_: None)
    (tmp_path / "rauc").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BundleError, match="rauc cannot be run"):
        install(tmp_path / "u.raucb", tmp_path / "conf", lambda *_: None)
