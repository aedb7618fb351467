"""A Debian whose first process is systemd, in namespaces of this machine: up in a second, and no harm to its host."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self, final

PACKAGES: Final = "systemd,systemd-sysv,python3,init-system-helpers,debconf,dbus,e2fsprogs,util-linux"

# the host's sysctls and devices stay its own: what is mounted from it is read-only
_BOOT: Final = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
[ ! -d /sys/fs/ext4 ] || mount --bind /sys/fs/ext4 sys/fs/ext4
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do : >dev/$name; mount --bind /dev/$name dev/$name; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mkdir run/data
[ -z "$2" ] || { cp -a "$2" dev/; mkdir -p var/lib/forebay; mount "$2" var/lib/forebay; }
# no chroot: within one nobody may make user namespaces, as services do
pivot_root . mnt
cd /
umount -l /mnt
export container=namespaces
exec /lib/systemd/systemd --log-target=journal --show-status=0
"""


def debian(archive: Path) -> None:
    """Make a bare Debian there, with the package sources of this machine; a minute, and it needs them."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    line = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm", f"{archive}.new.tar"]
    subprocess.run(line, check=True)
    os.replace(f"{archive}.new.tar", archive)


def missing() -> str:
    """Why such a machine cannot be had here; "" where it can."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("mmdebstrap", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"needs {tool}"
    return "" if _cgroups() is not None else "needs cgroup v2"


def _cgroups() -> Path | None:
    for folder in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        if (folder / "cgroup.controllers").exists():
            return folder
    return None


@final
class Machine:
    """Boots the folder ``root``; it has this machine's network. ``data`` is a block device for /var/lib/forebay."""

    def __init__(self, root: Path, data: str = "") -> None:
        self.root = root
        self._data = data
        cgroups = _cgroups()
        assert cgroups is not None
        self._cgroup = cgroups / f"forebay-test-{os.getpid()}-{root.name}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._cgroup.mkdir()
        spaces = ["--mount", "--pid", "--fork", "--ipc", "--uts", "--cgroup", "--kill-child"]
        inside = f'echo $$ >{self._cgroup}/cgroup.procs && exec unshare {" ".join(spaces)} sh -c "$0" sh "$@"'
        line = ["sh", "-c", inside, _BOOT, str(self.root), self._data]
        with self.root.with_name(self.root.name + ".boot.log").open("wb") as log:
            self._process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while self.asks("systemctl", "is-system-running") not in ("running", "degraded"):
            assert time.monotonic() < deadline and self._process.poll() is None, "does not boot"
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + 20
        while self._cgroup.exists() and time.monotonic() < deadline:
            for folder in sorted(self._cgroup.rglob("*"), reverse=True):
                if folder.is_dir():
                    with contextlib.suppress(OSError):
                        folder.rmdir()
            with contextlib.suppress(OSError):
                self._cgroup.rmdir()
            time.sleep(0.1)

    def reboot(self, between: Callable[[], object]) -> None:
        """As after a power cut: all its processes end at once, then this is called, then it starts again."""
        self.__exit__()
        between()
        self.__enter__()

    def run(self, *command: str, check: bool = True, env: dict[str, str] | None = None) -> str:
        """What it prints, on both outputs; a failure ends the test."""
        done = self._inside(command, env or {})
        assert not check or done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def asks(self, *command: str) -> str:
        """The first line of what it prints, whatever becomes of it."""
        return self._inside(command, {}).stdout.partition("\n")[0]

    def _inside(self, command: tuple[str, ...], env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
        spaces = ["--mount", "--pid", "--ipc", "--uts", "--cgroup", "--root", "--wd"]
        named = [f"{name}={value}" for name, value in env.items()]
        line = ["nsenter", "--target", str(self._first()), *spaces, "env", "-i", f"PATH={_PATH}", *named, *command]
        return subprocess.run(line, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    def _first(self) -> int:
        """Its process 1, as the host numbers it."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else pid


_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
