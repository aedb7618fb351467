"""The root file system: Debian's packages and Forebay's, made into one read-only squashfs."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from gateway import __version__
from gateway.image.initrd import dependencies, kept
from gateway.image.plan import BuildError, Plan
from gateway.image.running import environment, run
from gateway.image.sources import SUITE, Source

PACKAGES: Final = (
    "busybox-static",
    "ca-certificates",
    "dbus",
    "dosfstools",
    "e2fsprogs",
    "fdisk",
    "init-system-helpers",
    "kmod",
    "python3",
    "rauc",
    "rauc-service",
    "systemd",
    "systemd-resolved",
    "systemd-sysv",
    "systemd-timesyncd",
    "udev",
    "zstd",
)
_EXCLUDED: Final = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/i18n/*",
    "/usr/share/lintian/*",
    "/usr/share/bug/*",
    "/usr/share/bash-completion/*",
    "/usr/share/zsh/*",
)
_INCLUDED: Final = ("/usr/share/doc/*/copyright",)  # the licences go with the programs
# of no use where nothing is ever installed, or different at each build
_REMOVED: Final = (
    "boot/*",
    "var/cache/*",
    "var/lib/apt",
    "var/lib/dpkg",
    "var/lib/systemd/*",
    "var/log/*",
    "var/lib/dbus/machine-id",
    "etc/machine-id",
    "etc/hostname",
    "etc/resolv.conf",
    "etc/apt",
    "etc/passwd-",
    "etc/group-",
    "etc/shadow-",
    "etc/gshadow-",
    "etc/.pwd.lock",
    "root/.*",
    "tmp/*",
    "usr/lib/python3*/test",
    "usr/lib/python3*/idlelib",
    "usr/lib/python3*/lib2to3",
    "usr/lib/python3*/pydoc_data",
    "usr/lib/systemd/boot",
    "bin/busybox",
    "initrd.img*",
    "vmlinuz*",
)
_COMPILE: Final = (
    "import compileall, pathlib, py_compile, shutil\n"
    "for cache in list(pathlib.Path('/usr/lib').glob('python3*/**/__pycache__')): shutil.rmtree(cache)\n"
    "mode = py_compile.PycInvalidationMode.UNCHECKED_HASH\n"
    "for path in sorted(pathlib.Path('/usr/lib').glob('python3*')): "
    "compileall.compile_dir(path, quiet=2, invalidation_mode=mode)\n"
)


def bootstrap(plan: Plan, sources: Sequence[Source], packages: Sequence[Path], root: Path, epoch: int) -> None:
    """Debian's packages and these .deb files, unpacked and set up in ``root``. Raises BuildError."""
    listed = root.with_name("sources.list")
    listed.write_text("".join(source.line() + "\n" for source in sources))
    setup = ["mkdir -p $1/forebay-packages", *(f"cp {quote(str(path))} $1/forebay-packages/" for path in packages)]
    enable = " ".join(quote(unit) for unit in units(plan))
    hooks = [
        " && ".join(setup),
        'chroot "$1" sh -c "dpkg -i /forebay-packages/*.deb" && rm -r "$1/forebay-packages"' if packages else "true",
        f'chroot "$1" systemctl enable {enable}',
        f'chroot "$1" python3 -c {quote(_COMPILE)}',
    ]
    command: list[str | Path] = ["mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", "--quiet"]
    command += [f"--architectures={plan.arch}", f"--include={','.join([plan.kernel, *PACKAGES, *plan.packages])}"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED]
    command += [f"--dpkgopt=path-include={pattern}" for pattern in _INCLUDED]
    # the mirror may be a copy of some day
    command += ['--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=APT::Install-Recommends "false"']
    command += [f"--customize-hook={hook}" for hook in hooks]
    # the initrd is written here, not by the kernel's package
    run([*command, SUITE, root, listed], environment(epoch, {"INITRD": "No"}))


def units(plan: Plan) -> list[str]:
    """What is started on an appliance beside what the packages start."""
    terminals = [console.partition(",")[0].replace("tty0", "tty1") for console in plan.consoles]
    consoles = [f"forebay-console@{terminal}.service" for terminal in terminals]
    return ["systemd-networkd.service", "forebay-provision.service", *consoles]


def kernel_release(root: Path) -> str:
    """Of the one kernel that is in the root. Raises BuildError."""
    found = sorted(path.name for path in (root / "lib/modules").iterdir())
    if len(found) != 1:
        raise BuildError(f"{root}/lib/modules: expected one kernel, found {', '.join(found) or 'none'}")
    return found[0]


def trim_modules(plan: Plan, root: Path, epoch: int) -> None:
    """Only the modules that the plan keeps, and what they need, stay."""
    release = kernel_release(root)
    folder = root / "lib/modules" / release
    needs = dependencies((folder / "modules.dep").read_text())
    stay = kept(needs, plan.modules_keep)
    for path in needs.keys() - stay:
        (folder / path).unlink()
    run(["depmod", "-b", root, release], environment(epoch))


def finish(plan: Plan, root: Path, overlay: Path, keyring: bytes, disk_id: str) -> None:
    """Put in what is ours and take out what an appliance has no use for."""
    for pattern in _REMOVED:
        for path in sorted(root.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    for name in ("boot", "settings", "data", "etc/forebay", "etc/rauc", "var/lib"):
        (root / name).mkdir(parents=True, exist_ok=True)
    copy_tree(overlay, root)
    copy_tree(plan.folder / "overlay", root)
    _link(root / "etc/resolv.conf", "/run/systemd/resolve/stub-resolv.conf")
    _link(root / "etc/mtab", "/proc/self/mounts")
    (root / "etc/machine-id").touch()
    (root / "etc/hostname").write_text("forebay\n")
    (root / "etc/fstab").write_text("")
    (root / "etc/rauc/keyring.pem").write_bytes(keyring)
    about = {"board": plan.board, "version": __version__, "compatible": plan.compatible, "boot": plan.boot}
    (root / "usr/lib/forebay").mkdir(exist_ok=True)
    about["disk_id"] = disk_id  # as shipped: a disk that still has it was never started
    (root / "usr/lib/forebay/image.json").write_text(json.dumps(about, indent=2) + "\n")


def copy_tree(source: Path, target: Path) -> None:
    """Files and links into the root, readable for all, executable where the source is."""
    for path in sorted(source.rglob("*")):
        to = target / path.relative_to(source)
        if path.is_symlink():
            to.parent.mkdir(parents=True, exist_ok=True)
            _link(to, os.readlink(path))
        elif path.is_dir():
            if not to.is_dir():
                to.mkdir(parents=True)
        else:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.unlink(missing_ok=True)
            shutil.copyfile(path, to)
            to.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _link(path: Path, to: str) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(to)


def squash(root: Path, out: Path, epoch: int) -> None:
    """The root as a squashfs, the same bytes for the same files."""
    out.unlink(missing_ok=True)
    command: list[str | Path] = [
        "mksquashfs",
        root,
        out,
        "-comp",
        "zstd",
        "-Xcompression-level",
        "15",
        "-b",
        "256K",
        "-no-progress",
    ]
    command += ["-noappend", "-all-time", str(epoch), "-quiet", "-no-exports"]
    env = environment(epoch)
    del env["SOURCE_DATE_EPOCH"]  # mksquashfs takes it or options, not both
    run([*command, "-mkfs-time", str(epoch)], env)
