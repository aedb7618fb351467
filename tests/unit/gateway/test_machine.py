"""What the kernel says, from folders as real machines have them."""

import os
from pathlib import Path

import pytest

from gateway.machine import Disk, compatible, disk_of, model


def put(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def block(folder: Path, name: str, **files: str) -> Disk:
    put(folder / name, stat="1 0 8 0 5 0 4000 0 0 0 0\n", **files)
    return Disk(folder / name)


def test_a_device_tree_names_the_board(tmp_path: Path) -> None:
    base = "sys__firmware__devicetree__base__"
    put(tmp_path, **{base + "compatible": "raspberrypi,4-model-b\0brcm,bcm2711\0", base + "model": "Raspberry Pi 4\0"})
    assert compatible(tmp_path) == ["raspberrypi,4-model-b", "brcm,bcm2711"]
    assert model(tmp_path) == "Raspberry Pi 4"


def test_a_machine_without_one_has_what_its_firmware_says(tmp_path: Path) -> None:
    dmi = "sys__class__dmi__id__"
    put(tmp_path, **{dmi + "sys_vendor": "Acme\n", dmi + "product_name": "Box PC 7\n"})
    assert compatible(tmp_path) == []
    assert model(tmp_path) == "Acme Box PC 7"
    assert model(tmp_path / "nothing") == ""


@pytest.mark.parametrize(
    ("name", "files", "storage"),
    [
        ("mmcblk0", {"device__type": "SD\n"}, "sd"),
        ("mmcblk1", {"device__type": "MMC\n"}, "emmc"),
        ("nvme0n1", {}, "nvme"),
        ("sda", {"queue__rotational": "0\n", "removable": "0\n"}, "ssd"),
        ("sda", {"queue__rotational": "1\n", "removable": "0\n"}, "hdd"),
        ("sda", {"queue__rotational": "1\n", "removable": "1\n"}, "sd"),
        ("sdb", {"device__model": "InnoDisk CFast 3ME\n", "queue__rotational": "0\n"}, "cf"),
        ("vda", {"queue__rotational": "1\n"}, ""),
        ("loop0", {}, ""),
    ],
)
def test_classes_of_storage(tmp_path: Path, name: str, files: dict[str, str], storage: str) -> None:
    assert block(tmp_path, name, **files).storage() == storage


def test_counters_and_life(tmp_path: Path) -> None:
    disk = block(
        tmp_path, "mmcblk0", device__life_time="0x02 0x03\n", device__pre_eol_info="0x01\n", device__cid="1b53\n"
    )
    assert disk.written_bytes() == 4000 * 512
    assert disk.life_used_percent() == 30
    assert not disk.spares_low()
    assert disk.identity() == "mmcblk0 1b53"


@pytest.mark.parametrize(
    ("text", "used"), [("0x00 0x00", -1), ("0x01 0x01", 10), ("0x0b 0x01", 100), ("nonsense", -1), ("", -1)]
)
def test_life_that_is_not_told(tmp_path: Path, text: str, used: int) -> None:
    assert block(tmp_path, "mmcblk0", device__life_time=text).life_used_percent() == used


@pytest.mark.parametrize(("text", "low"), [("0x01", False), ("0x02", True), ("0x03", True), ("0x00", False)])
def test_spares(tmp_path: Path, text: str, low: bool) -> None:
    assert block(tmp_path, "mmcblk0", device__pre_eol_info=text).spares_low() == low


def linked(root: Path, number: int) -> Path:
    """Where sysfs has the device of this number."""
    link = root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
    link.parent.mkdir(parents=True, exist_ok=True)
    return link


def test_a_partition_is_of_its_disk_and_a_mapped_one_of_what_lies_below(tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev
    if os.major(number) == 0:
        pytest.skip("the file system of the tests is on no disk")
    root = tmp_path / "root"
    devices = root / "sys/devices"
    block(devices, "mmcblk0")
    put(devices / "mmcblk0/mmcblk0p3", partition="3", stat="0")
    put(devices / "dm-0", stat="0")
    (devices / "dm-0/slaves").mkdir()
    (devices / "dm-0/slaves/mmcblk0p3").symlink_to(devices / "mmcblk0/mmcblk0p3")
    for target in ("mmcblk0/mmcblk0p3", "dm-0", "mmcblk0"):
        link = linked(root, number)
        link.unlink(missing_ok=True)
        link.symlink_to(devices / target)
        disk = disk_of(tmp_path / "not" / "yet" / "there", root)
        assert disk is not None
        assert disk.name == "mmcblk0"


def test_no_disk_is_no_disk(tmp_path: Path) -> None:
    assert disk_of(tmp_path, tmp_path / "empty") is None
    assert disk_of(Path("/proc/self")) is None
