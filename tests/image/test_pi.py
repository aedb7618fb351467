"""The image for Raspberry Pis as built: what the firmware reads, and what Linux needs until it has a root.

``make image TASK=test BOARD=rpi`` runs it.
"""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.image.initrd import module_name
from tests.image import device_tree
from tests.image.conftest import Built
from tests.image.machine import MIB, unpack
from tests.image.pi import Model, faults, mbr_faults, models

CARD = {"bcm2837": "brcm,bcm2835-sdhost", "bcm2711": "brcm,bcm2711-emmc2"}
USB = {"bcm2837": "brcm,bcm2835-usb", "bcm2711": "brcm,bcm2711-pcie"}
# what is driven by a part of the kernel itself, as modules.builtin calls it; nothing of those is in modules.alias
BUILT_IN = {
    "brcm,bcm2711-cprman": "clk-bcm2835",
    "brcm,bcm2711-gpio": "pinctrl-bcm2835",
    "brcm,bcm2711-pcie": "pcie-brcmstb",
    "brcm,bcm2835-cprman": "clk-bcm2835",
    "brcm,bcm2835-dma": "bcm2835-dma",
    "brcm,bcm2835-gpio": "pinctrl-bcm2835",
    "brcm,bcm2835-mbox": "bcm2835-mailbox",
    "raspberrypi,bcm2835-firmware": "raspberrypi",
    "raspberrypi,bcm2835-power": "raspberrypi-power",
    "raspberrypi,firmware-gpio": "gpio-raspberrypi-exp",
}
ALWAYS = {"fixed-clock", "simple-bus"}
# clocks that may feed the clock generator, and need not be there
OPTIONAL = {"brcm,bcm2711-dsi1", "brcm,bcm2835-dsi0", "brcm,bcm2835-dsi1"}


class Pi(NamedTuple):
    """What was built: the boot partition's files in ``boot``; ``early``: modules in the initrd."""

    boot: Path
    head: bytes
    early: set[str]
    aliases: str
    built_in: set[str]


@pytest.fixture(scope="module")
def pi(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Pi:
    if built.manifest["board"] != "rpi":
        pytest.skip("not the image for Raspberry Pis")
    folder = tmp_path_factory.mktemp("pi")
    boot, disk = folder / "boot", folder / "disk.img"
    boot.mkdir()
    unpack(built.image, disk)
    subprocess.run(["mcopy", "-s", "-n", "-Q", "-i", f"{disk}@@{MIB}", "::*", str(boot)], check=True)
    with disk.open("rb") as file:
        head = file.read(2 * MIB)
    disk.unlink()
    root = folder / "root"
    files = ["usr/lib/modules/*/modules.alias", "usr/lib/modules/*/modules.builtin"]
    squashed = built.folder / "slot/root.squashfs"
    subprocess.run(["unsquashfs", "-q", "-n", "-no-xattrs", "-d", root, squashed, *files], check=True)
    (modules,) = (root / "usr/lib/modules").iterdir()
    initrd = subprocess.run(["zstd", "-dc", boot / "a/initrd.img"], check=True, capture_output=True).stdout
    return Pi(
        boot,
        head,
        {module_name(path.decode()) for path in re.findall(rb"lib/modules/[\w./+-]+\.ko", initrd)},
        (modules / "modules.alias").read_text(),
        {module_name(line) for line in (modules / "modules.builtin").read_text().splitlines()},
    )


def test_the_disk_is_one_that_each_model_reads(pi: Pi) -> None:
    assert mbr_faults(pi.head) == []


@pytest.mark.parametrize("model", models(), ids=lambda model: str(model.tree))
def test_the_firmware_finds_what_it_reads(pi: Pi, model: Model) -> None:
    assert faults(pi.boot, model) == []


def test_nothing_else_is_there(pi: Pi) -> None:
    """Among it: nothing of a slot that was not built, and nothing that the firmware would take before it."""
    found = {str(path.relative_to(pi.boot)) for path in pi.boot.rglob("*") if path.is_file()}
    read = {"bootcode.bin", "start.elf", "fixup.dat", "start4.elf", "fixup4.dat", "config.txt"}
    slot = {"vmlinuz", "initrd.img", "cmdline.txt", "bcm2837-rpi-3-b.dtb", *(model.tree for model in models())}
    assert found == read | {f"a/{name}" for name in slot} | {"forebay.toml", "README.txt"}


@pytest.mark.parametrize("model", models(), ids=lambda model: str(model.tree))
@pytest.mark.parametrize("devices", [CARD, USB], ids=["card", "usb"])
def test_the_initrd_drives_all_that_the_disk_hangs_on(pi: Pi, model: Model, devices: dict[str, str]) -> None:
    """There is no udev in it, so what it does not load by name stays without a driver."""
    tree = device_tree.read((pi.boot / "a" / model.tree).read_bytes())
    used = [node for node in tree.all() if devices[model.chip] in node.compatible and node.is_used]
    assert used
    for node in (need for device in used for need in device_tree.waits_for(tree, device)):
        names = set(node.compatible)
        if names & (ALWAYS | OPTIONAL):
            continue
        known = {module_name(BUILT_IN[name]) for name in names if name in BUILT_IN}
        modules = device_tree.drivers(node.compatible, pi.aliases)
        assert known & pi.built_in or modules & pi.early, f"{node.name} ({', '.join(names)}): {modules or 'no driver'}"


def test_the_initrd_can_start_the_board_again(pi: Pi) -> None:
    """By the watchdog, which has nothing in the device tree: it belongs to a driver that is built in."""
    assert "bcm2835_wdt" in pi.early
    assert "bcm2835_pm" in pi.built_in
