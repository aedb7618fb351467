import json
import os
import subprocess
from pathlib import Path

import pytest

from gateway.appliance.bundle import read_bundle
from gateway.appliance.journal import Version
from gateway.appliance.sources import newest
from gateway.image.bundling import make_bundle
from gateway.image.plan import BuildError, read_plan
from gateway.image.signing import open_signing
from tests.signed import needs_rauc

IMAGES = Path(__file__).parents[4] / "images"
VERSION = Version("1.3.0", 4, 3)


def built(folder: Path, *more: str) -> Path:
    """As a build leaves it."""
    slot = folder / "slot"
    slot.mkdir(parents=True)
    (slot / "root.squashfs").write_bytes(os.urandom(100_000))
    for name in ("vmlinuz", "initrd.img", *more):
        (slot / name).write_text(name)
    return folder


def content(bundle: Path, keys: Path, folder: Path) -> Path:
    subprocess.run(["rauc", f"--keyring={keys}/ca.crt", "extract", bundle, folder], check=True, capture_output=True)
    return folder


@needs_rauc
def test_what_a_pc_gets(tmp_path: Path) -> None:
    plan, keys = read_plan(IMAGES, "x86-64"), open_signing(tmp_path / "keys")
    made = make_bundle(plan, built(tmp_path / "built"), VERSION, keys, tmp_path / "out")
    assert made == tmp_path / "out/forebay-1.3.0-x86-64.raucb"
    assert sorted(path.name for path in made.parent.iterdir()) == [made.name, "forebay-x86-64.json"]
    found = read_bundle(made, (f"--keyring={keys.authority}",))
    assert (found.compatible, found.holds) == ("forebay-x86-64", VERSION)
    folder = content(made, keys.folder, tmp_path / "content")
    assert sorted(path.name for path in (folder / "boot").iterdir()) == ["entry.conf", "initrd.img", "vmlinuz"]
    entry = (folder / "boot/entry.conf").read_text()
    assert "linux /@/vmlinuz" in entry and "forebay.slot=@" in entry and "rauc.slot=@" in entry and "panic=" in entry
    assert (folder / "root.squashfs").read_bytes() == (tmp_path / "built/slot/root.squashfs").read_bytes()
    index = json.loads((tmp_path / "out/forebay-x86-64.json").read_text())
    assert (index["version"], index["bundle"], index["bytes"]) == ("1.3.0", made.name, made.stat().st_size)
    assert newest(f"file://{made}", "forebay-x86-64")["bundle"] == f"file://{made}"


@needs_rauc
def test_what_a_raspberry_pi_gets(tmp_path: Path) -> None:
    plan, keys = read_plan(IMAGES, "rpi"), open_signing(tmp_path / "keys")
    folder = built(tmp_path / "built", "bcm2711-rpi-4-b.dtb", "cmdline.txt")
    made = make_bundle(plan, folder, VERSION, keys, tmp_path / "out")
    boot = content(made, keys.folder, tmp_path / "content") / "boot"
    assert sorted(path.name for path in boot.iterdir()) == [
        "bcm2711-rpi-4-b.dtb",
        "cmdline.txt",
        "config.txt",
        "initrd.img",
        "vmlinuz",
    ]
    assert "os_prefix=@/" in (boot / "config.txt").read_text()
    assert "forebay.slot=@" in (boot / "cmdline.txt").read_text()


def test_without_a_build(tmp_path: Path) -> None:
    plan, keys = read_plan(IMAGES, "x86-64"), open_signing(tmp_path / "keys")
    with pytest.raises(BuildError, match=r"root\.squashfs: not there: expected the output of forebay image build"):
        make_bundle(plan, tmp_path, VERSION, keys, tmp_path)
