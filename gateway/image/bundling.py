"""Updates: what a build left for a slot, as a bundle that appliances of that board take from this signer."""

import os
import shutil
from pathlib import Path
from typing import Final

from gateway.appliance.bundle import build_field
from gateway.appliance.journal import Version
from gateway.appliance.sources import SUFFIX, write_index
from gateway.image.booting import loader_entry, pi_settings
from gateway.image.plan import BuildError, Plan
from gateway.image.running import environment, run
from gateway.image.signing import Signing

ROOT: Final = "root.squashfs"
SLOT: Final = "slot"  # folder of a build's output
_ANY: Final = "@"  # stands for the letter of the slot that it will be written to


def make_bundle(plan: Plan, built: Path, version: Version, signing: Signing, out: Path) -> Path:
    """``forebay-VERSION-BOARD.raucb`` in ``out``, with its index beside it. Raises BuildError.

    ``built``: the output folder of a build of that board; ``version``: of the program in it, and of its data.
    """
    slot = built / SLOT
    if not (slot / ROOT).is_file():
        raise BuildError(f"{slot / ROOT}: not there: expected the output of forebay image build --board {plan.board}")
    out.mkdir(parents=True, exist_ok=True)
    bundle = out / f"forebay-{version.version}-{plan.board}{SUFFIX}"
    content = out / f"{bundle.name}.content"
    shutil.rmtree(content, ignore_errors=True)
    boot = content / "boot"
    boot.mkdir(parents=True)
    try:
        os.link(slot / ROOT, content / ROOT)
    except OSError:  # another file system
        shutil.copyfile(slot / ROOT, content / ROOT)
    for path in slot.iterdir():
        if path.name != ROOT:
            shutil.copyfile(path, boot / path.name)
    if plan.is_gpt:
        (boot / "entry.conf").write_text(loader_entry(plan, version.version, _ANY))
    else:
        (boot / "config.txt").write_text(pi_settings(_ANY))
        (boot / "cmdline.txt").write_text(plan.command_line(_ANY) + "\n")
    (content / "manifest.raucm").write_text(manifest(plan.compatible, version))
    pack(content, bundle, signing)
    shutil.rmtree(content)
    write_index(bundle, plan.compatible, version.version)
    return bundle


def manifest(compatible: str, version: Version) -> str:
    """As RAUC reads it."""
    return (
        f"[update]\ncompatible={compatible}\nversion={version.version}\nbuild={build_field(version)}\n\n"
        f"[bundle]\nformat=verity\n\n[image.root]\nfilename={ROOT}\n"
    )


def pack(content: Path, bundle: Path, signing: Signing) -> None:
    """Sign and pack; what is in it is packed already. Raises BuildError."""
    if shutil.which("rauc") is None:
        raise BuildError("rauc: not found here: expected the package: apt-get install rauc")
    bundle.unlink(missing_ok=True)
    keys = [f"--cert={signing.certificate}", f"--key={signing.key}"]
    plain = "--mksquashfs-args=-noI -noD -noF -noX"
    run(["rauc", *keys, "bundle", plain, content, bundle], environment(0))
