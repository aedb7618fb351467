import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.image.disk import assemble, disk_id, fits, ident, layout, make_data, make_fat
from gateway.image.plan import MIB, read_plan

IMAGES = Path(__file__).parents[4] / "images"
EPOCH = 1_790_000_000
TOOLS = ("genimage", "mkfs.vfat", "mcopy", "mke2fs")
needs_tools = pytest.mark.skipif(
    any(shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None for name in TOOLS),
    reason=f"needs {', '.join(TOOLS)}, which make image installs",
)


def test_a_gpt_with_fixed_ids() -> None:
    plan = read_plan(IMAGES, "x86-64")
    text = layout(plan, "1.0.0", {"boot": "boot.fat"})
    assert 'partition-table-type = "gpt"' in text
    assert str(ident(plan, "1.0.0", "disk")) in text
    assert text == layout(plan, "1.0.0", {"boot": "boot.fat"})
    assert text != layout(plan, "1.0.1", {"boot": "boot.fat"})
    assert len({ident(plan, "1.0.0", part.name) for part in plan.partitions()}) == 5
    assert 'partition settings {\n    offset = 1281M\n    size = 16M\n    partition-type-uuid = "F"' in text


def test_an_mbr_for_the_pi() -> None:
    plan = read_plan(IMAGES, "rpi")
    text = layout(plan, "1.0.0", {})
    assert 'partition-table-type = "mbr"' in text
    assert f'disk-signature = "{disk_id(plan, "1.0.0")}"' in text
    assert "partition boot {\n    offset = 1M\n    size = 256M\n    partition-type = 0x0c\n    bootable = true" in text
    assert text.count("  partition ") == 4


def test_sizes() -> None:
    assert fits(MIB, 1)
    assert not fits(MIB + 1, 1)


@needs_tools
@pytest.mark.parametrize("board", ["x86-64", "rpi"])
def test_two_disks_are_the_same_bytes_and_have_the_partitions(tmp_path: Path, board: str) -> None:
    plan = dataclasses.replace(read_plan(IMAGES, board), boot_mib=24, slot_mib=4, data_mib=48)  # small ones are quick
    disks = []
    for name in ("one", "two"):
        work = tmp_path / name
        content = work / "content"
        (content / "a").mkdir(parents=True)
        (content / "forebay.toml").write_text("# settings\n")
        (content / "a/vmlinuz").write_bytes(bytes(100_000))
        make_fat(work / "boot.fat", plan.boot_mib, "BOOT", ident(plan, "1", "boot-fat"), content, EPOCH)
        make_fat(work / "settings.fat", 16, "FOREBAY", ident(plan, "1", "settings-fat"), content, EPOCH)
        make_data(work / "data.ext4", plan.data_mib, ident(plan, "1", "data"), EPOCH)
        (work / "root.squashfs").write_bytes(b"hsqs" * 1000)
        disks.append(assemble(plan, "1", work, EPOCH))
    assert subprocess.run(["cmp", *disks]).returncode == 0
    dump = subprocess.run(["/sbin/sfdisk", "--dump", disks[0]], capture_output=True, text=True, check=True).stdout
    assert f"label-id: {disk_id(plan, '1')}" in dump
    starts = [int(line.split("start=")[1].split(",")[0]) // 2048 for line in dump.splitlines() if "start=" in line]
    assert starts == [part.start for part in plan.partitions()]
    offset = plan.partitions()[0].start * MIB
    listed = subprocess.run(["mdir", "-b", "-/", "-i", f"{disks[0]}@@{offset}", "::"], capture_output=True, text=True)
    assert set(listed.stdout.split()) == {"::/a/", "::/a/vmlinuz", "::/forebay.toml"}
    with open(disks[0], "rb") as disk:
        disk.seek(plan.partitions()[1].start * MIB)
        assert disk.read(4) == b"hsqs"
