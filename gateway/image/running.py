"""Programs of the build machine: found before the work begins, run with a clean environment, heard when they fail."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gateway.image.plan import BuildError

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PACKAGES: Final = {  # program -> Debian package
    "mmdebstrap": "mmdebstrap",
    "mksquashfs": "squashfs-tools",
    "genimage": "genimage",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "mke2fs": "e2fsprogs",
    "zstd": "zstd",
    "depmod": "kmod",
    "openssl": "openssl",
}


def environment(epoch: int, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a program gets to see, so that its output depends on nothing else; ``epoch``: seconds, its time of day."""
    return {
        "PATH": PATH,
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "DEBIAN_FRONTEND": "noninteractive",
        "SOURCE_DATE_EPOCH": str(epoch),
        "E2FSPROGS_FAKE_TIME": str(epoch),
        "MTOOLS_SKIP_CHECK": "1",
        **(more or {}),
    }


def require(programs: Sequence[str] = tuple(PACKAGES)) -> None:
    """Raises BuildError that names the packages to install."""
    missing = [name for name in programs if shutil.which(name, path=PATH) is None]
    if missing:
        packages = " ".join(sorted(PACKAGES[name] for name in missing))
        raise BuildError(f"{', '.join(missing)}: not found here: expected the packages: apt-get install {packages}")
    if os.geteuid() != 0:
        raise BuildError("building an image needs root: its files belong to root")


def run(command: Sequence[str | Path], env: Mapping[str, str], stdin: bytes = b"", cwd: Path | None = None) -> bytes:
    """The program's output. Raises BuildError with its last line on stderr."""
    try:
        done = subprocess.run([str(word) for word in command], env=dict(env), input=stdin, capture_output=True, cwd=cwd)
    except OSError as error:
        raise BuildError(f"{command[0]}: cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace").splitlines()
        raise BuildError(f"{command[0]} failed ({done.returncode}): {' / '.join(said[-4:]) or 'it said nothing'}")
    return done.stdout
