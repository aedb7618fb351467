"""Updates for tests, made from what a build left: good ones, and those that go wrong in each of the ways that count.

Each brings the agent of the tests in its initrd, and there what is wrong with it too.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.appliance.journal import Version
from gateway.appliance.sources import write_index
from gateway.image.booting import loader_entry
from gateway.image.bundling import ROOT, manifest, pack
from gateway.image.plan import read_plan
from gateway.image.signing import Signing, open_signing
from gateway.store.migrations import MIGRATIONS, SCHEMA
from tests.image.agent import HANDOVER, with_agent

REPO: Final = Path(__file__).parents[2]
STICK_MIB: Final = 1400
GOOD: Final = "forebay-99.0.0-x86-64.raucb"
NOW: Final = (SCHEMA, MIGRATIONS[-1][1])
# a gateway that does not run need not be waited for as long as on a machine that nobody watches
HASTE: Final = {
    "forebay-confirm.service.d/haste.conf": "[Service]\nExecStart=\n"
    "ExecStart=/opt/forebay/bin/forebay update confirm --wait 30 --config /etc/forebay/forebay.toml\n",
    "forebay-console@.service.d/haste.conf": "[Unit]\nConditionPathExists=/no/person\n",
}
# it runs, and cannot write its store
SICK: Final = {"forebay.service.d/sick.conf": "[Service]\nReadOnlyPaths=/var/lib/forebay\n"}
# nothing of the program can be loaded, so that not even the update can be left by it
HOLLOW: Final = "mount -t tmpfs -o ro hollow /root/opt/forebay/lib"
# all have the root that was built, which says another version
ABOUT: Final = "usr/lib/forebay/image.json"
MASKED: Final = "systemd.mask=forebay.service systemd.mask=forebay.socket"


class Bundles:
    """In a folder, from the output of ``forebay image build --board x86-64``."""

    def __init__(self, folder: Path, built: Path) -> None:
        self.folder = folder
        self.built = built
        self.plan = read_plan(REPO / "images", "x86-64")
        self.keys = open_signing(Path(os.environ.get("FOREBAY_SIGNING", built.parent / "signing")))
        self.initrd = self._initrd({})  # of what is flashed
        small = os.urandom(1 << 20)
        self.make(GOOD, "99.0.0")
        write_index(folder / GOOD, self.plan.compatible, "99.0.0")
        self.make("unhealthy.raucb", "98.0.0", units=SICK)
        self.make("masked.raucb", "97.0.0", MASKED)
        self.make("hollow.raucb", "96.0.0", more=HOLLOW)
        self.make("emergency.raucb", "88.0.0", "systemd.unit=emergency.target")
        self.make("dead.raucb", "95.0.0", root=small)
        self.make("panic.raucb", "94.0.0", "rdinit=/nothing", root=small)
        self.make("kernel.raucb", "93.0.0", root=small, kernel=small)
        self.make("one-way.raucb", "92.0.0", MASKED, data=(SCHEMA + 1, SCHEMA + 1))
        self.make("board.raucb", "91.0.0", root=small, compatible="forebay-rpi")
        self.make("alien.raucb", "90.0.0", root=small, keys=open_signing(folder / "alien"))
        self.make("old.raucb", "0.0.1", root=small, data=(0, 0))
        tampered = self.make("tampered.raucb", "89.0.0", root=small)
        data = bytearray(tampered.read_bytes())
        data[len(data) // 2] ^= 1
        tampered.write_bytes(data)

    def make(self, name: str, version: str, options: str = "", root: bytes | None = None, kernel: bytes = b"",
             units: Mapping[str, str] | None = None, more: str = ":", compatible: str = "",
             keys: Signing | None = None, data: tuple[int, int] = NOW) -> Path:  # fmt: skip
        """``units`` and ``more``, a command before the system starts: in its initrd."""
        content = self.folder / "content"
        (content / "boot").mkdir(parents=True)
        if root is None:
            shutil.copyfile(self.built / "slot" / ROOT, content / ROOT)
        else:
            (content / ROOT).write_bytes(root)
        (content / "boot/vmlinuz").write_bytes(kernel or (self.built / "slot/vmlinuz").read_bytes())
        says = f's/"version": "[^"]*"/"version": "{version}"/'
        about = f"sed '{says}' /root/{ABOUT} >/run/about && mount -o bind /run/about /root/{ABOUT}"
        (content / "boot/initrd.img").write_bytes(self._initrd(units or {}, f"{about}\n{more}"))
        entry = loader_entry(self.plan, version, "@").replace("forebay.slot=@", f"forebay.slot=@ {options}")
        (content / "boot/entry.conf").write_text(entry)
        (content / "manifest.raucm").write_text(manifest(compatible or self.plan.compatible, Version(version, *data)))
        bundle = self.folder / name
        pack(content, bundle, keys or self.keys)
        shutil.rmtree(content)
        return bundle

    def stick(self) -> Path:
        """A USB stick with all of them, and the index of a web server."""
        path = self.folder / "stick.img"
        with path.open("wb") as out:
            out.truncate(STICK_MIB << 20)
        subprocess.run(["mkfs.vfat", "-F", "32", path], check=True, capture_output=True)
        for file in [*self.folder.glob("*.raucb"), *self.folder.glob("*.json")]:
            subprocess.run(["mcopy", "-i", path, file, f"::{file.name}"], check=True)
        return path

    def _initrd(self, units: Mapping[str, str], more: str = "") -> bytes:
        init = (REPO / "images/initramfs/init").read_text()
        if more:
            init = init.replace(HANDOVER, f"{more}\n{HANDOVER}")
        return with_agent((self.built / "slot/initrd.img").read_bytes(), init, {**HASTE, **units})
