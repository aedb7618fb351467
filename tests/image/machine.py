"""An image in QEMU: without KVM, with UEFI firmware and a disk that keeps what was flushed.

A Raspberry Pi 3 has no firmware there: what that would read is taken from the disk's boot partition at each start.
"""

import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

MIB = 1 << 20
BOOT_S = 420.0  # to the first answer, on a machine that has other work as well
FIRMWARE = {
    "amd64": (Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd")),
    "arm64": (Path("/usr/share/AAVMF/AAVMF_CODE.fd"), Path("/usr/share/AAVMF/AAVMF_VARS.fd")),
}
COMMANDS = {
    "amd64": ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"],
    "arm64": ["qemu-system-aarch64", "-machine", "virt", "-accel", "tcg,thread=multi", "-cpu", "cortex-a72"],
    "pi": ["qemu-system-aarch64", "-machine", "raspi3b", "-accel", "tcg,thread=multi"],
}
KINDS = {"x86-64": "amd64", "arm64": "arm64", "rpi": "pi"}  # of machine, for each board
PI_TREE = "bcm2837-rpi-3-b.dtb"
PI_MAC = "b8:27:eb:00:00:01"  # a made-up one would not be taken for a cable


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@final
class Machine:
    """One disk and one firmware memory, started as often as wanted.

    ``arch``: a key of COMMANDS; ``ports``: guest port -> port on loopback; ``parts``: names of the disk's partitions.
    """

    def __init__(self, folder: Path, arch: str, manifest: dict[str, Any]) -> None:
        self.disk = folder / "disk.img"
        self.log = folder / "console.log"
        self.ports = {1883: free_port(), 8883: free_port(), 8443: free_port()}
        self.extra: list[str] = []
        self.reboots = False  # a reset starts it again, rather than ends it
        self.restricted = True  # it reaches nobody by itself; else whom this machine's network namespace reaches
        self._arch = arch
        self._socket = folder / "console.sock"
        self._offsets: dict[str, int] = {part["name"]: part["start_mib"] * MIB for part in manifest["partitions"]}
        self.parts = [part["name"] for part in manifest["partitions"]]
        self._offsets.setdefault("settings", self._offsets["boot"])
        self._folder = folder
        if arch in FIRMWARE:
            shutil.copyfile(FIRMWARE[arch][1], folder / "firmware.vars")
        self._process: subprocess.Popen[bytes] | None = None

    def grow(self, size: int) -> None:
        """As if the image had been written to a disk of that many bytes."""
        with open(self.disk, "r+b") as disk:
            disk.truncate(size)

    def read(self, name: str, partition: str = "settings") -> bytes:
        """A file of a FAT partition. Raises FileNotFoundError."""
        done = subprocess.run(["mcopy", "-n", "-i", self._fat(partition), f"::{name}", "-"], capture_output=True)
        if done.returncode:
            raise FileNotFoundError(name)
        return done.stdout

    def write(self, name: str, data: bytes, partition: str = "settings") -> None:
        """Put a file onto a FAT partition, as a person does with the card in a reader."""
        subprocess.run(["mcopy", "-o", "-i", self._fat(partition), "-", f"::{name}"], input=data, check=True)

    def offset(self, partition: str) -> int:
        """Bytes, of its beginning on the disk."""
        return self._offsets[partition]

    def _fat(self, partition: str) -> str:
        return f"{self.disk}@@{self.offset(partition)}"

    def start(self) -> None:
        assert self._process is None
        forwards = ",".join(f"hostfwd=tcp:127.0.0.1:{own}-:{port}" for port, own in self.ports.items())
        command = [*COMMANDS[self._arch], "-m", "1024", "-display", "none", "-nodefaults"]
        command += [] if self.reboots else ["-no-reboot"]
        # writeback gives the guest a write cache, and its flushes reach the file
        drive = f"file={self.disk},format=raw,cache=writeback"
        restrict = "on" if self.restricted else "off"
        command += ["-netdev", f"user,id=net,restrict={restrict},{forwards}"]
        if self._arch == "pi":
            command += [*self._as_the_firmware(), "-drive", f"{drive},if=sd"]
            command += ["-device", f"usb-net,netdev=net,mac={PI_MAC}"]
            command += ["-serial", "null"]  # the console is the second one
        else:
            command += ["-smp", "2", "-drive", f"if=pflash,format=raw,readonly=on,file={FIRMWARE[self._arch][0]}"]
            command += ["-drive", f"if=pflash,format=raw,file={self._folder / 'firmware.vars'}"]
            command += ["-drive", f"{drive},if=none,id=disk", "-device", "virtio-blk-pci,drive=disk,bootindex=0"]
            command += ["-device", "virtio-net-pci,netdev=net,romfile="]
            command += ["-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng"]
        command += [
            "-chardev",
            f"socket,id=console,path={self._socket},server=on,wait=off,logfile={self.log},logappend=on",
        ]
        command += ["-serial", "chardev:console", *self.extra]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def _as_the_firmware(self) -> list[str]:
        """What the Pi's would load, by its own settings."""
        settings = self.read("config.txt", "boot").decode()
        told = dict(re.findall(r"^(\w+)[= ]([^\s]+)", settings, re.MULTILINE))
        loaded = {"-kernel": told["kernel"], "-initrd": told["initramfs"], "-dtb": PI_TREE}
        words = []
        for option, name in loaded.items():
            (self._folder / name).write_bytes(self.read(told["os_prefix"] + name, "boot"))
            words += [option, str(self._folder / name)]
        line = self.read(f"{told['os_prefix']}cmdline.txt", "boot").decode().strip()
        # QEMU's watchdog resets as soon as it is set up
        return [*words, "-append", f"{line} systemd.watchdog_sec=0"]

    def said(self) -> str:
        """What the serial console has shown, of all starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def wait_for(self, text: str, since: int = 0, timeout_s: float = BOOT_S) -> str:
        """What the console shows from ``since`` on, once it has shown ``text``."""
        end = time.monotonic() + timeout_s
        while text not in (found := self.said()[since:]):
            assert time.monotonic() < end, f"no {text!r} on the console, its end: {found[-3000:]}"
            assert self.is_running(), f"it stopped before {text!r} was on the console, its end: {found[-3000:]}"
            time.sleep(0.2)
        return found

    def type(self, text: str) -> None:
        """At the serial console."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self._socket))
            sock.sendall(text.encode())
            time.sleep(1)  # what is sent before the socket closes may be thrown away

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait(self, timeout_s: float = 120) -> None:
        """Until it has switched itself off."""
        assert self._process is not None
        self._process.wait(timeout_s)
        self._process = None

    def kill(self) -> None:
        """As if its plug was pulled."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


def unpack(image: Path, disk: Path) -> None:
    subprocess.run(["zstd", "-q", "-d", "-f", "--sparse", str(image), "-o", str(disk)], check=True)


@contextmanager
def machine(folder: Path, image: Path, arch: str, manifest: dict[str, Any]) -> Iterator[Machine]:
    """A machine with a disk of its own; it is ended when the test is."""
    folder.mkdir(parents=True, exist_ok=True)
    unpack(image, folder / "disk.img")
    found = Machine(folder, arch, manifest)
    try:
        yield found
    finally:
        found.kill()
        found.disk.unlink()
