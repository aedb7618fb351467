import json
from pathlib import Path
from typing import Any

import pytest

from gateway.appliance.disks import DiskError, candidates, disks, facts, is_device, refuse

GIB = 1 << 30


def row(name: str, **more: Any) -> dict[str, Any]:
    """A removable disk of 8 GiB, as lsblk 2.38 describes it."""
    plain = {"name": name, "path": f"/dev/{name}", "type": "disk", "size": 8 * GIB, "rm": True, "ro": False,
             "hotplug": True, "tran": "usb", "vendor": "Generic ", "model": "STORAGE DEVICE", "serial": "000000001206",
             "mountpoints": [None], "partuuid": None, "uuid": None, "label": None, "partlabel": None,
             "pkname": None}  # fmt: skip
    return {**plain, **more}


def part(name: str, of: str, **more: Any) -> dict[str, Any]:
    return row(name, type="part", pkname=of, model=None, vendor=None, serial=None, **more)


# a laptop: an encrypted root on NVMe, a stick that the desktop mounted, a card reader without a card, a Pi's card
LAPTOP = {
    "blockdevices": [
        row("nvme0n1", rm=False, hotplug=False, tran="nvme", vendor=None, model="Disk X", children=[
            part("nvme0n1p1", "nvme0n1", mountpoints=["/boot/efi"]),
            part("nvme0n1p2", "nvme0n1", children=[row("root", type="crypt", mountpoints=["/"])]),
        ]),
        row("sda", rm=False, hotplug=False, tran="sata", vendor="ATA", model="Data"),
        row("sdb", children=[part("sdb1", "sdb", mountpoints=["/media/me/CARD"])]),
        row("sdc", size=0),
        row("sdd"),
        row("mmcblk0", rm=False, hotplug=False, tran=None, vendor=None, model=None, serial="0xbe000000"),
    ]
}  # fmt: skip


def one(*rows: dict[str, Any], name: str = "") -> Any:
    found = disks(json.dumps({"blockdevices": list(rows)}))
    return next(disk for disk in found if disk.name == name) if name else found[0]


def refused(disk: Any, image_bytes: int | None = GIB, forced: bool = False, command_line: str = "") -> str:
    with pytest.raises(DiskError) as error:
        refuse(disk, image_bytes, forced, command_line)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("forced", [False, True])
def test_the_disk_of_the_system_is_never_taken(forced: bool) -> None:
    said = refused(one(*LAPTOP["blockdevices"], name="nvme0n1"), forced=forced)
    assert said == "/dev/nvme0n1: this system runs from it (Disk X, 8.0 GiB, 000000001206)"
    swap = one(row("sdx", children=[part("sdx1", "sdx", mountpoints=["[SWAP]"])]))
    assert "runs from it" in refused(swap, forced=forced)
    # an overlay as root: nothing of the disk is seen as mounted, but the kernel was told of it
    hidden = one(row("sdx", children=[part("sdx1", "sdx", partuuid="8A1B-01")]))
    assert "runs from it" in refused(hidden, forced=forced, command_line="ro root=PARTUUID=8a1b-01 quiet")
    refuse(hidden, GIB, forced, "root=PARTUUID=8a1b-02")


def test_mounted_and_fixed_disks_want_to_be_named() -> None:
    mounted = one(*LAPTOP["blockdevices"], name="sdb")
    assert refused(mounted) == "/dev/sdb: in use, mounted at /media/me/CARD; umount it, or --force sdb"
    fixed = one(*LAPTOP["blockdevices"], name="sda")
    assert "a fixed disk (ATA Data, 8.0 GiB" in refused(fixed)
    assert "--force sda" in refused(fixed)
    for disk in (mounted, fixed):
        refuse(disk, GIB, True, "")


def test_what_no_force_helps() -> None:
    stick = one(row("sdd"))
    assert refused(stick, 8 * GIB + 1, True) == "/dev/sdd: too small, 8.0 GiB for an image of 8.0 GiB"
    refuse(stick, 8 * GIB, False, "")
    refuse(stick, None, False, "")
    assert "write-protected" in refused(one(row("sdd", ro=True)), forced=True)
    said = refused(one(part("sdd1", "sdd")), forced=True)
    assert said == "/dev/sdd1: a partition, expected a whole disk: /dev/sdd"
    assert "a crypt, expected a whole disk" in refused(one(row("x", type="crypt")), forced=True)


def test_those_that_can_be_had() -> None:
    found = candidates(disks(json.dumps(LAPTOP)), "")
    assert [disk.name for disk in found] == ["sdd", "mmcblk0"]
    assert found[0].shown() == "Generic STORAGE DEVICE, 8.0 GiB, 000000001206"
    assert found[1].shown() == "no model, 8.0 GiB, 0xbe000000"


def test_older_versions_of_lsblk() -> None:
    old = row("sdb", rm="1", ro="0", hotplug="0", size=str(8 * GIB), tran=None, mountpoint="/mnt")
    del old["mountpoints"]
    disk = one(old)
    assert (disk.removable, disk.read_only, disk.bytes, disk.mounts) == (True, False, 8 * GIB, ["/mnt"])
    with pytest.raises(DiskError, match="lsblk gave no list"):
        disks("nonsense")


def test_a_file_is_no_device(tmp_path: Path) -> None:
    assert not is_device(tmp_path / "new")
    (tmp_path / "there").touch()
    assert not is_device(tmp_path / "there")
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(DiskError, match="neither a disk nor a file"):
            is_device(path)
    with pytest.raises(DiskError, match="no such device"):
        is_device(Path("/dev/sdzz"))


def test_what_lsblk_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="lsblk"):
        facts(tmp_path)
