from pathlib import Path

import pytest

from gateway.appliance.piboot import PiBoot
from gateway.image.booting import FIRMWARE_FILES, fill, loader_entry, loader_settings, pi_settings
from gateway.image.plan import BuildError, read_plan
from tests.image import device_tree
from tests.image.pi import TEMPLATE, Model, faults, models

IMAGES = Path(__file__).parents[4] / "images"


def a_root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    plan = read_plan(IMAGES, "rpi")
    names = ["boot/vmlinuz-6.1-arm64", "usr/lib/systemd/boot/efi/systemd-bootx64.efi"]
    names += [f"usr/lib/raspi-firmware/{name}" for name in FIRMWARE_FILES]
    names += [f"usr/lib/linux-image-6.1-arm64/broadcom/{name}" for name in plan.device_trees]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / names[0]).write_bytes(bytes(56) + b"ARM\x64")
    for path in (root / "usr/lib/raspi-firmware").glob("start*.elf"):
        path.write_bytes(TEMPLATE + b"".join(f"{tree[12:-4]}\0".encode() for tree in plan.device_trees))
    for model in models():
        (root / "usr/lib/linux-image-6.1-arm64/broadcom" / model.tree).write_bytes(a_tree(model))
    return root


def a_tree(model: Model) -> bytes:
    node = device_tree.Node("")
    node.values["compatible"] = f"{model.compatible[-1 if '400' in model.tree else 0]}\0".encode()
    return device_tree.write(node)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_uefi(tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = read_plan(IMAGES, "x86-64")
    fill(plan, a_root(tmp_path), b"initrd", "1.2.3", out)
    assert files(out) == {
        "EFI/BOOT/BOOTX64.EFI", "a/vmlinuz", "a/initrd.img", "loader/loader.conf", "loader/entries/a.conf",
    }  # fmt: skip
    entry = (out / "loader/entries/a.conf").read_text()
    assert "version 1.2.3\n" in entry
    assert "linux /a/vmlinuz\ninitrd /a/initrd.img\n" in entry
    assert f"options {plan.command_line('a')}\n" in entry
    assert "linux /b/vmlinuz" in loader_entry(plan, "1", "b")
    assert "editor no" in loader_settings()


def test_the_pi_finds_firmware_device_trees_and_a_slot(tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = read_plan(IMAGES, "rpi")
    fill(plan, a_root(tmp_path), b"initrd", "1.2.3", out)
    slot = {"vmlinuz", "initrd.img", "cmdline.txt", *plan.device_trees}
    assert files(out) == {"config.txt", *FIRMWARE_FILES, *(f"a/{name}" for name in slot)}
    assert "os_prefix=a/\n" in (out / "config.txt").read_text()
    assert (out / "a/cmdline.txt").read_text() == plan.command_line("a") + "\n"
    assert "os_prefix=b/" in pi_settings("b")


@pytest.mark.parametrize("model", models(), ids=lambda model: str(model.tree))
def test_each_model_finds_what_it_reads(tmp_path: Path, model: Model) -> None:
    out = tmp_path / "out"
    plan = read_plan(IMAGES, "rpi")
    fill(plan, a_root(tmp_path), b"initrd", "1.2.3", out)
    assert faults(out, model) == []
    # what a bundle brings for the other slot
    brought = tmp_path / "brought"
    (out / "a").rename(brought)
    (brought / "config.txt").write_text(pi_settings("@"))
    (brought / "cmdline.txt").write_text(plan.command_line("@") + "\n")
    PiBoot(out, "a").install("b", brought)
    assert faults(out, model) == []
    (out / "before.txt").replace(out / "config.txt")  # as the initrd does
    assert faults(out, model) == [f"os_prefix=a/: ignored, since vmlinuz or {model.tree} is not there"]


@pytest.mark.parametrize(
    ("name", "data", "fault"),
    [
        ("start4.elf", None, "start4.elf: not there"),
        ("fixup4.dat", b"", "fixup4.dat: not there"),
        ("start4.elf", b"\x7fELF", "start4.elf: knows no device tree bcm2711-rpi-cm4-io.dtb"),
        ("a/vmlinuz", b"MZ" + bytes(100), "a/vmlinuz: no 64-bit kernel"),
        ("a/initrd.img", None, "a/initrd.img: not there"),
        ("a/cmdline.txt", b"forebay.slot=b forebay.boot=pi\n", "a/cmdline.txt: not that of this slot"),
        ("a/bcm2711-rpi-cm4-io.dtb", b"cut off", "a/bcm2711-rpi-cm4-io.dtb: no device tree, or not whole"),
        ("a/bcm2711-rpi-cm4-io.dtb", None, "os_prefix=a/: ignored"),
    ],
)
def test_one_that_would_not_start(tmp_path: Path, name: str, data: bytes | None, fault: str) -> None:
    out = tmp_path / "out"
    fill(read_plan(IMAGES, "rpi"), a_root(tmp_path), b"initrd", "1.2.3", out)
    (out / name).unlink()
    if data is not None:
        (out / name).write_bytes(data)
    found = faults(out, next(model for model in models() if model.board == "cm4"))
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_what_the_packages_have_not(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    next(root.rglob("*.dtb")).unlink()
    with pytest.raises(BuildError, match=r"no bcm\S+\.dtb: expected it in the package of the kernel"):
        fill(read_plan(IMAGES, "rpi"), root, b"", "1", tmp_path / "out")
    next(root.rglob("fixup4.dat")).unlink()
    with pytest.raises(BuildError, match=r"no fixup4\.dat: expected it in the package of raspi-firmware"):
        fill(read_plan(IMAGES, "rpi"), root, b"", "1", tmp_path / "other")


def test_two_kernels(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    (root / "boot/vmlinuz-6.2").touch()
    with pytest.raises(BuildError, match="expected one kernel, found 2"):
        fill(read_plan(IMAGES, "x86-64"), root, b"", "1", tmp_path / "out")
