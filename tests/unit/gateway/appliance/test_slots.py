import subprocess
from pathlib import Path

import pytest

from gateway.appliance.slots import NoApplianceError, appliance, other, require_data, require_own_disk, writable
from tests.loops import loop_device
from tests.machine_root import machine_root


def test_what_the_initramfs_told(tmp_path: Path) -> None:
    where = appliance(machine_root(tmp_path, "b"))
    assert (where.slot, where.disk, other(where.slot)) == ("b", Path("/dev/sdx"), "a")
    assert where.devices == {"a": tmp_path / "dev/sdx2", "b": tmp_path / "dev/sdx3"}
    assert (where.compatible, where.version, where.boot_id) == ("forebay-test", "1.3.0", "first")
    require_own_disk(where)
    require_data(where)


def test_no_appliance(tmp_path: Path) -> None:
    with pytest.raises(NoApplianceError, match="no appliance"):
        appliance(tmp_path)
    machine_root(tmp_path)
    env = tmp_path / "run/forebay-boot.env"
    good = env.read_bytes()
    for bad, said in (
        (good.replace(b"SLOT=a", b"SLOT=c"), "which of two runs"),
        (good[:40], "ROOT_A.*: not there"),
        (b"\xff\xfe", "no appliance"),
    ):
        env.write_bytes(bad)
        with pytest.raises(NoApplianceError, match=said):
            appliance(tmp_path)
    env.write_bytes(good)
    for text in ("{}", "[]", "no JSON", '{"compatible": 1, "version": 2}'):
        (tmp_path / "usr/lib/forebay/image.json").write_text(text)
        with pytest.raises(NoApplianceError, match="does not say what image this is"):
            appliance(tmp_path)


def test_a_partition_of_another_disk_is_never_a_slot(tmp_path: Path) -> None:
    """As a second flashed disk has, with the same labels."""
    root = machine_root(tmp_path)
    link = root / "sys/class/block/sdx3"
    link.unlink()
    with pytest.raises(NoApplianceError, match="sdx3: no partition of /dev/sdx"):
        require_own_disk(appliance(root))
    (root / "sys/devices/sdy/sdx3").mkdir(parents=True)
    (root / "sys/devices/sdy/sdx3/partition").write_text("3\n")
    link.symlink_to(root / "sys/devices/sdy/sdx3")
    with pytest.raises(NoApplianceError, match="sdx3: no partition of /dev/sdx"):
        require_own_disk(appliance(root))


def test_data_that_cannot_be_written(tmp_path: Path) -> None:
    root = machine_root(tmp_path)
    env = root / "run/forebay-boot.env"
    text = env.read_text().replace("DATA_STATE=ok", "DATA_STATE=read-only")
    env.write_text(text.replace('DATA_REASON=""', 'DATA_REASON="e2fsck ended with 4"'))
    with pytest.raises(NoApplianceError, match="the data partition is read-only: e2fsck ended with 4"):
        require_data(appliance(root))


def test_the_boot_partition_is_read_only_but_for_the_moment(tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(bytes(8 << 20))
    boot = tmp_path / "boot"
    boot.mkdir()
    with loop_device(tmp_path / "disk") as device:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        subprocess.run(["mount", "-o", "ro", device, boot], check=True)
        try:
            with writable(boot):
                (boot / "file").write_text("x")
            with pytest.raises(OSError, match="Read-only"):
                (boot / "file").write_text("y")
            assert (boot / "file").read_text() == "x"
        finally:
            subprocess.run(["umount", boot], check=True)
    with writable(tmp_path):  # no mount of its own
        pass
