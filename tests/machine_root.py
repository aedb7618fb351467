"""A folder that looks like the root of an appliance: what the initramfs tells, a boot partition, a data partition."""

import json
import os
import struct
from pathlib import Path

ENTRY = "title Forebay 1.2.0\nversion 1.2.0\nsort-key forebay\nlinux /a/vmlinuz\noptions forebay.slot=a\n"


def kernel(text: str) -> bytes:
    """What begins like a kernel of this machine."""
    machine = {"x86_64": 0x8664, "aarch64": 0xAA64}[os.uname().machine]
    head = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40)
    return head + b"PE\0\0" + struct.pack("<H", machine) + text.encode()


def machine_root(root: Path, slot: str = "a", boot_id: str = "first") -> Path:
    """Newly flashed, with slot a running."""
    for folder in (
        "run",
        "etc/rauc",
        "proc/sys/kernel/random",
        "boot/loader/entries",
        "boot/a",
        "dev",
        "usr/lib/forebay",
    ):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for number, device in enumerate(("sdx1", "sdx2", "sdx3"), 1):
        partition = root / "sys/devices/sdx" / device
        partition.mkdir(parents=True, exist_ok=True)
        (partition / "partition").write_text(f"{number}\n")
        link = root / "sys/class/block" / device
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(partition)
    for device in ("sdx2", "sdx3"):
        (root / "dev" / device).write_bytes(bytes(1 << 20))
    (root / "boot/loader/entries/a.conf").write_text(ENTRY)
    (root / "boot/a/vmlinuz").write_bytes(kernel("1.2.0"))
    boots(root, slot, boot_id)
    return root


def boots(root: Path, slot: str, boot_id: str) -> None:
    """What the initramfs leaves after a boot into a slot."""
    (root / "proc/sys/kernel/random/boot_id").write_text(f"{boot_id}\n")
    lines = {"DISK": "/dev/sdx", "SLOT": slot, "BOOT": "/dev/sdx1", "ROOT_A": f"{root}/dev/sdx2",
             "ROOT_B": f"{root}/dev/sdx3", "SETTINGS": "/dev/sdx4", "DATA": "/dev/sdx5",
             "DATA_STATE": "ok", "DATA_REASON": '""'}  # fmt: skip
    (root / "run/forebay-boot.env").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    version = "1.2.0" if slot == "a" else "1.3.0"
    (root / "usr/lib/forebay/image.json").write_text(json.dumps({"compatible": "forebay-test", "version": version}))
