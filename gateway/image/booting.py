"""What the boot partition holds: loader, kernel and initrd of slot a, or the Raspberry Pi's firmware beside them."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.image.plan import BuildError, Plan

SLOT: Final = "a"  # the other one is empty until the first update
FIRMWARE: Final = Path("usr/lib/raspi-firmware")
# of the firmware, by model: bootcode.bin only up to the Pi 3, start4 and fixup4 from the Pi 4
FIRMWARE_FILES: Final = ("bootcode.bin", "start.elf", "fixup.dat", "start4.elf", "fixup4.dat")


def loader_entry(plan: Plan, version: str, slot: str) -> str:
    """Of systemd-boot, for one slot; among several the highest version is started."""
    lines = [f"title Forebay {version} ({slot})", "sort-key forebay", f"version {version}"]
    lines += [f"linux /{slot}/vmlinuz", f"initrd /{slot}/initrd.img", f"options {plan.command_line(slot)}"]
    return "".join(line + "\n" for line in lines)


def loader_settings() -> str:
    """Of systemd-boot: no menu, and nobody edits the command line at the console."""
    return "timeout 0\neditor no\nauto-entries no\n"


def pi_settings(slot: str) -> str:
    """``config.txt`` of the Pi's firmware: everything of a slot lies in a folder of its own."""
    lines = ["# Written with the image. Updates change os_prefix."]
    lines += ["arm_64bit=1", f"os_prefix={slot}/", "kernel=vmlinuz", "initramfs initrd.img followkernel"]
    lines += ["enable_uart=1", "disable_overscan=1", "upstream_kernel=1"]
    return "".join(line + "\n" for line in lines)


def fill(plan: Plan, root: Path, initrd: bytes, version: str, out: Path) -> None:
    """Write the boot partition's files into the folder ``out``. Raises BuildError."""
    slot = out / SLOT
    slot.mkdir(parents=True)
    kernels = sorted((root / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise BuildError(f"{root}/boot: expected one kernel, found {len(kernels)}")
    shutil.copyfile(kernels[0], slot / "vmlinuz")
    (slot / "initrd.img").write_bytes(initrd)
    if plan.is_gpt:
        source, target = plan.efi_loader
        (out / target).parent.mkdir(parents=True)
        shutil.copyfile(root / source, out / target)
        (out / "loader/entries").mkdir(parents=True)
        (out / "loader/loader.conf").write_text(loader_settings())
        (out / f"loader/entries/{SLOT}.conf").write_text(loader_entry(plan, version, SLOT))
        return
    _fill_pi(plan, root, kernels[0].name.removeprefix("vmlinuz-"), out)


def _fill_pi(plan: Plan, root: Path, release: str, out: Path) -> None:
    slot = out / SLOT
    for path in _all(root / FIRMWARE, FIRMWARE_FILES, "raspi-firmware"):
        shutil.copyfile(path, out / path.name)
    trees = root / "usr/lib" / f"linux-image-{release}" / "broadcom"
    for path in _all(trees, plan.device_trees, "the kernel"):
        shutil.copyfile(path, slot / path.name)
    (out / "config.txt").write_text(pi_settings(SLOT))
    (slot / "cmdline.txt").write_text(plan.command_line(SLOT) + "\n")


def _all(folder: Path, names: Sequence[str], package: str) -> list[Path]:
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise BuildError(f"{folder}: no {', '.join(missing)}: expected it in the package of {package}")
    return [folder / name for name in names]
