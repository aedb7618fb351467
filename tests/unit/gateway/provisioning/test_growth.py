import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from gateway.provisioning.growth import GrowthError, new_table

GPT = """label: gpt
label-id: 0F1C8B6E-2B1D-5B0A-9D0C-3C1F6B1D2A3E
device: /dev/vda
unit: sectors
first-lba: 34
last-lba: 1707998
sector-size: 512

/dev/vda1 : start=        2048, size=      524288, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, uuid=11111111-2B1D-5B0A-9D0C-3C1F6B1D2A3E, name="boot"
/dev/vda2 : start=      526336, size=     1048576, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, uuid=22222222-2B1D-5B0A-9D0C-3C1F6B1D2A3E, name="root-a"
/dev/vda3 : start=     1574912, size=      131072, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, uuid=33333333-2B1D-5B0A-9D0C-3C1F6B1D2A3E, name="data"
"""  # noqa: E501
MBR = """label: dos
label-id: 0x5ac3f19e
device: /dev/mmcblk0
unit: sectors
sector-size: 512

/dev/mmcblk0p1 : start=        2048, size=      524288, type=c, bootable
/dev/mmcblk0p2 : start=      526336, size=      131072, type=83
"""
SHIPPED = "0f1c8b6e-2b1d-5b0a-9d0c-3c1f6b1d2a3e"
AS_SHIPPED = (1574912 + 131072 + 2048) * 512
NUMBERS = [UUID(int=number << 96) for number in range(0xA1, 0xB0)]


def test_first_start_grows_the_last_partition_and_renames_all() -> None:
    numbers = iter(NUMBERS)
    table = new_table(GPT, 32 << 30, SHIPPED, lambda: next(numbers))
    assert table is not None
    assert "label-id: 000000A1-0000-0000-0000-000000000000" in table
    assert "-lba" not in table  # the table may now use the whole disk
    rows = [line for line in table.splitlines() if line.startswith("/dev")]
    assert "start=2048, size=524288" in rows[0]
    assert "size=1048576" in rows[1]
    assert "start=1574912" in rows[2]
    assert "size" not in rows[2]
    assert 'name="data"' in rows[2]
    assert [row[row.index("uuid=") :][:13] for row in rows] == ["uuid=000000A2", "uuid=000000A3", "uuid=000000A4"]


def test_a_disk_of_the_images_size_is_only_renamed() -> None:
    numbers = iter(NUMBERS)
    table = new_table(GPT, AS_SHIPPED, SHIPPED, lambda: next(numbers))
    assert table is not None
    assert "size=131072" in table


def test_later_starts_change_nothing() -> None:
    assert new_table(GPT, AS_SHIPPED, "another", lambda: pytest.fail("no new id is needed")) is None


def test_a_disk_that_was_renamed_and_not_grown_grows_alone() -> None:
    table = new_table(GPT, 32 << 30, "another", lambda: pytest.fail("no new id is needed"))
    assert table is not None
    assert "uuid=33333333" in table
    assert "label-id: 0F1C8B6E" in table


def test_mbr() -> None:
    table = new_table(MBR, 32 << 30, "0x5ac3f19e", lambda: NUMBERS[0])
    assert table is not None
    assert "label-id: 0x000000a1" in table
    assert "/dev/mmcblk0p1 : start=2048, size=524288, type=c, bootable" in table
    assert "/dev/mmcblk0p2 : start=526336, type=83" in table


def test_a_disk_without_a_table() -> None:
    with pytest.raises(GrowthError, match="no partitions"):
        new_table("", 1 << 30, SHIPPED, lambda: NUMBERS[0])


def test_sfdisk_takes_what_is_written(tmp_path: Path) -> None:
    disk = tmp_path / "disk.img"
    for text, shipped in ((GPT, SHIPPED), (MBR, "0x5ac3f19e")):
        disk.write_bytes(b"")
        with open(disk, "r+b") as file:
            file.truncate(AS_SHIPPED)
        _sfdisk([str(disk)], text)
        with open(disk, "r+b") as file:
            file.truncate(4 << 30)
        numbers = iter(NUMBERS)
        dump = _sfdisk(["--dump", str(disk)])
        table = new_table(dump, 4 << 30, shipped, lambda numbers=numbers: next(numbers))  # type: ignore[misc]
        assert table is not None
        _sfdisk(["--no-reread", "--force", "--no-tell-kernel", str(disk)], table)
        after = _sfdisk(["--dump", str(disk)])
        start, size = (int(after.splitlines()[-1].split(key + "=")[1].split(",")[0]) for key in ("start", "size"))
        assert 0 <= (4 << 30) - (start + size) * 512 < 2 << 20
        assert new_table(after, 4 << 30, shipped, lambda: pytest.fail("once is enough")) is None


def _sfdisk(words: list[str], text: str = "") -> str:
    return subprocess.run(["/sbin/sfdisk", *words], input=text, capture_output=True, text=True, check=True).stdout
