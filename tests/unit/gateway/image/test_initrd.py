import stat
import subprocess
from pathlib import Path

import pytest

from gateway.image.initrd import Entry, dependencies, entries, kept, module_name, named, newc

DEP = """kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko
kernel/fs/jbd2/jbd2.ko:
kernel/lib/crc16.ko:
kernel/fs/ext4-extra.ko:
kernel/drivers/usb/storage/usb-storage.ko: kernel/drivers/usb/core/usbcore.ko
kernel/drivers/usb/core/usbcore.ko:
kernel/sound/snd.ko:
"""


def test_what_is_kept_brings_what_it_needs() -> None:
    needs = dependencies(DEP)
    assert kept(needs, ["fs/ext4"]) == {"kernel/fs/ext4/ext4.ko", "kernel/fs/jbd2/jbd2.ko", "kernel/lib/crc16.ko"}
    assert kept(needs, ["sound/snd.ko", "nothing"]) == {"kernel/sound/snd.ko"}


def test_modules_by_name() -> None:
    needs = dependencies(DEP)
    assert named(needs, ["usb_storage", "built_in"]) == [
        "kernel/drivers/usb/core/usbcore.ko",
        "kernel/drivers/usb/storage/usb-storage.ko",
    ]
    assert module_name("kernel/a/x-y.ko.xz") == "x_y"


def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    modules = folder / "lib/modules/6.1"
    for line in DEP.splitlines():
        path = modules / line.partition(":")[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    (modules / "modules.dep").write_text(DEP)
    (folder / "bin").mkdir()
    (folder / "bin/busybox").write_bytes(b"busybox")
    return folder


def test_the_archive_holds_what_starts(tmp_path: Path) -> None:
    found = {entry.name: entry for entry in entries(root(tmp_path), "6.1", b"#!/bin/sh\n", ["ext4", "usb_storage"])}
    assert found["init"].data == b"#!/bin/sh\n"
    assert stat.S_IMODE(found["init"].mode) == 0o755
    assert "lib/modules/6.1/kernel/fs/jbd2/jbd2.ko" in found
    assert "lib/modules/6.1/kernel/sound/snd.ko" not in found
    assert found["modules"].data == b"ext4\nusb_storage\n"
    assert dependencies(found["lib/modules/6.1/modules.dep"].data.decode())["kernel/fs/ext4/ext4.ko"] == [
        "kernel/fs/jbd2/jbd2.ko",
        "kernel/lib/crc16.ko",
    ]
    names = list(found)
    for name in names:
        parent = str(Path(name).parent)
        assert parent == "." or names.index(parent) < names.index(name)


def unpacked(data: bytes) -> dict[str, tuple[int, bytes]]:
    """By the description of the format: a header of 6 and 13 times 8 characters, name, padding, content, padding."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        at += 110 + name_size
        at += -at % 4
        if name == "TRAILER!!!":
            return found
        found[name] = mode, data[at : at + size]
        at += size
        at += -at % 4


def test_the_format() -> None:
    some = [
        Entry("a", 0o040755),
        Entry("a/bc", 0o100600, b"x" * 5),
        Entry("c", 0o120777, b"a/bc"),
        Entry("d", 0o100644),
    ]
    data = newc(some)
    assert len(data) % 4 == 0
    assert unpacked(data) == {entry.name: (entry.mode, entry.data) for entry in some}
    assert newc(some) == data


def test_the_shell_takes_the_script() -> None:
    script = Path(__file__).parents[4] / "images/initramfs/init"
    subprocess.run(["sh", "-n", str(script)], check=True)


@pytest.mark.parametrize("mount", ["settings", "boot"])
@pytest.mark.parametrize("name", ["factory-reset", "factory-reset.txt"])
def test_a_factory_reset_is_asked_for_where_the_initrd_can_write(tmp_path: Path, mount: str, name: str) -> None:
    """On a Raspberry Pi that is /boot: /settings is the same file system again, mounted read-only."""
    (tmp_path / mount).mkdir()
    flag = tmp_path / mount / name
    flag.touch()
    script = (Path(__file__).parents[4] / "images/initramfs/init").read_text()
    asked = script[script.index("reset_if_asked() {") : script.index("mount_data() {")].replace("/root", str(tmp_path))
    tools = 'in_root() { echo "$@"; }; say() { echo "$@"; }; mount() { echo mount "$@"; }; sync() { :; }'
    line = f"{tools}\nsettings_mount={mount} data=/dev/data\n{asked}\nreset_if_asked\n"
    said = subprocess.run(["sh", "-uc", line], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[0] == f"mount -o remount,rw {tmp_path}/{mount}"
    assert "/sbin/mke2fs -q -F -t ext4 -L data /dev/data" in said
    assert said[-2:] == ["factory reset done", f"mount -o remount,ro {tmp_path}/{mount}"]
    assert not list((tmp_path / mount).iterdir())
