"""From packages to an image that can be flashed: the steps of ``forebay image build`` in their order."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from gateway import __version__
from gateway.appliance.blocks import write_bmap
from gateway.image.booting import fill
from gateway.image.disk import assemble, disk_id, fits, ident, make_data, make_fat
from gateway.image.foreign import allow
from gateway.image.initrd import entries, newc
from gateway.image.manifest import SIGNATURE, SUFFIX, describe
from gateway.image.plan import MIB, SETTINGS_MIB, BuildError, Plan
from gateway.image.root import bootstrap, finish, kernel_release, squash, trim_modules
from gateway.image.running import environment, require, run
from gateway.image.sbom import debian, document, python
from gateway.image.signing import Signing, sign
from gateway.image.sources import find

LABEL: Final = "FOREBAY"  # of the partition that people edit
_SITES: Final = "opt/forebay/lib/python3*/site-packages"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be built from what. ``tree``: the sources, with ``images``; ``packages``: Forebay's own .deb files."""

    plan: Plan
    tree: Path
    packages: Sequence[Path]
    apt: Path
    signing: Signing
    out: Path
    epoch: int


def source_epoch(tree: Path) -> int:
    """Seconds: SOURCE_DATE_EPOCH, else when the last change of the sources was committed. Raises BuildError."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not given:
        command = ["git", "-C", str(tree), "log", "-1", "--format=%ct"]
        try:
            given = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            raise BuildError(f"{tree}: no git history here: expected SOURCE_DATE_EPOCH, in seconds") from None
    if not given.isdecimal():
        raise BuildError(f"SOURCE_DATE_EPOCH = {given}: expected a number of seconds")
    return int(given)


def build(order: Order, say: Callable[[str], None]) -> Path:
    """Build it; the path of the compressed image, beside which the other files lie. Raises BuildError."""
    require()
    allow(order.plan)
    plan, work = order.plan, order.out / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    root = work / "root"
    say("packages")
    bootstrap(plan, find(order.apt, plan.components), order.packages, root, order.epoch)
    say("root file system")
    parts = [*debian((root / "var/lib/dpkg/status").read_text()), *python(sorted(root.glob(_SITES)))]
    trim_modules(plan, root, order.epoch)
    initrd = make_initrd(order, root)
    boot = work / "boot"
    fill(plan, root, initrd, __version__, boot)
    finish(plan, root, order.tree / "images/overlay", order.signing.authority.read_bytes(), disk_id(plan, __version__))
    squash(root, work / "root.squashfs", order.epoch)
    _check_size(work / "root.squashfs", plan.slot_mib, "slot_mib")
    say("disk image")
    _make_parts(order, work, boot)
    disk = assemble(plan, __version__, work, order.epoch)
    say("compressed, described and signed")
    image = _publish(order, work, disk, document(plan, __version__, parts))
    shutil.rmtree(work)
    return image


def make_initrd(order: Order, root: Path) -> bytes:
    """The initrd, compressed as the kernel takes it."""
    init = (order.tree / "images/initramfs/init").read_bytes()
    archive = newc(entries(root, kernel_release(root), init, order.plan.modules_early))
    return run(["zstd", "-q", "-15", "-c"], environment(order.epoch), archive)


def _check_size(path: Path, mib: int, key: str) -> None:
    size = path.stat().st_size
    if not fits(size, mib):
        raise BuildError(f"{path.name}: {size / MIB:.0f} MiB: expected at most {key} = {mib}")


def _make_parts(order: Order, work: Path, boot: Path) -> None:
    """The file systems beside the root."""
    plan, fat = order.plan, order.tree / "images/fat"
    for name in ("forebay.toml", "README.txt"):
        settings = work / "settings" if plan.is_gpt else boot
        settings.mkdir(exist_ok=True)
        shutil.copyfile(fat / name, settings / name)
    label = "BOOT" if plan.is_gpt else LABEL
    make_fat(work / "boot.fat", plan.boot_mib, label, ident(plan, __version__, "boot-fat"), boot, order.epoch)
    if plan.is_gpt:
        serial = ident(plan, __version__, "settings-fat")
        make_fat(work / "settings.fat", SETTINGS_MIB, LABEL, serial, work / "settings", order.epoch)
    make_data(work / "data.ext4", plan.data_mib, ident(plan, __version__, "data-fs"), order.epoch)


def _publish(order: Order, work: Path, disk: Path, bill: str) -> Path:
    """What is left in the output folder: new files take the place of those of an earlier build one by one."""
    plan, out = order.plan, order.out
    base = f"forebay-{__version__}-{plan.board}"
    image = out / f"{base}.img.zst"
    spare = [(part.start * MIB, part.size * MIB) for part in plan.partitions() if part.name in ("root-a", "root-b")]
    write_bmap(disk, out / f"{base}.img.bmap", spare)
    run(["zstd", "-q", "-f", "-9", "-T2", disk, "-o", image], environment(order.epoch))
    (out / f"{base}.cdx.json").write_text(bill)
    kept = [image, out / f"{base}.img.bmap", out / f"{base}.cdx.json"]
    for name, source in (("root.squashfs", work / "root.squashfs"), *_slot_files(work / "boot/a")):
        target = out / "slot" / name
        target.parent.mkdir(exist_ok=True)
        os.replace(source, target)
    manifest = out / (base + SUFFIX)
    manifest.write_text(describe(plan, __version__, order.epoch, disk, kept))
    sign(order.signing, manifest, out / (base + SIGNATURE))
    return image


def _slot_files(folder: Path) -> list[tuple[str, Path]]:
    return [(path.name, path) for path in sorted(folder.iterdir())]
