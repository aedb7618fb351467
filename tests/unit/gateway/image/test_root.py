import os
from pathlib import Path

import pytest

from gateway.image.plan import BuildError, read_plan
from gateway.image.root import copy_tree, finish, kernel_release, units

TOP = Path(__file__).parents[4]


def test_what_is_started_is_there() -> None:
    found = units(read_plan(TOP / "images", "x86-64"))
    assert "forebay-console@ttyS0.service" in found
    assert "forebay-console@tty1.service" in found
    for name in found:
        if name.startswith("forebay-"):
            file = name.replace(name[name.index("@") + 1 : name.rindex(".")], "") if "@" in name else name
            assert (TOP / "systemd" / file).is_file()


def test_a_board_without_a_radio_does_not_wait_for_one() -> None:
    """The service of the radio comes with the device: in the start of the system, all would wait 90 s for it."""
    overlay = TOP / "images/rpi/overlay/usr/lib/systemd/system"
    link = overlay / "sys-subsystem-net-devices-wlan0.device.wants/wpa_supplicant@wlan0.service"
    assert os.readlink(link) == "../wpa_supplicant@.service"
    assert not [name for name in units(read_plan(TOP / "images", "rpi")) if name.startswith("wpa_")]


def test_what_is_ours_goes_in_and_what_differs_goes_out(tmp_path: Path) -> None:
    for name in ("etc/machine-id", "var/log/apt/history.log", "var/lib/dpkg/status", "usr/lib/x", "boot/vmlinuz-6"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    plan = read_plan(TOP / "images", "x86-64")
    finish(plan, tmp_path, TOP / "images/overlay", b"certificate", "0xabc")
    assert (tmp_path / "etc/machine-id").read_bytes() == b""
    assert not (tmp_path / "var/log/apt").exists()
    assert not (tmp_path / "var/lib/dpkg").exists()
    assert not list((tmp_path / "boot").iterdir())
    assert (tmp_path / "usr/lib/x").exists()
    assert (tmp_path / "etc/rauc/keyring.pem").read_bytes() == b"certificate"
    assert '"disk_id": "0xabc"' in (tmp_path / "usr/lib/forebay/image.json").read_text()
    for name in ("data", "settings", "etc/forebay"):
        assert (tmp_path / name).is_dir()
    assert os.readlink(tmp_path / "etc/systemd/network") == "/data/appliance/network"


def test_links_take_the_place_of_empty_folders_and_modes_are_plain(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "a").mkdir(parents=True)
    (source / "a/link").symlink_to("/elsewhere")
    (source / "a/run").write_text("x")
    (source / "a/run").chmod(0o700)
    (source / "a/read").write_text("x")
    (source / "a/read").chmod(0o600)
    (target / "a/link").mkdir(parents=True)
    copy_tree(source, target)
    assert os.readlink(target / "a/link") == "/elsewhere"
    assert (target / "a/run").stat().st_mode & 0o777 == 0o755
    assert (target / "a/read").stat().st_mode & 0o777 == 0o644


def test_one_kernel(tmp_path: Path) -> None:
    (tmp_path / "lib/modules/6.1").mkdir(parents=True)
    assert kernel_release(tmp_path) == "6.1"
    (tmp_path / "lib/modules/6.2").mkdir()
    with pytest.raises(BuildError, match=r"expected one kernel, found 6\.1, 6\.2"):
        kernel_release(tmp_path)
