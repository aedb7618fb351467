"""Programs of another architecture on the build machine: QEMU runs them, once the kernel knows which and how."""

import os
from pathlib import Path
from typing import Final

from gateway.image.plan import BuildError, Plan
from gateway.image.running import environment, run

BINFMT: Final = Path("/proc/sys/fs/binfmt_misc")
RULES: Final = Path(
    "/usr/lib/binfmt.d"
)  # of the package qemu-user-static; where systemd runs, it has put them in force


def allow(plan: Plan, binfmt: Path = BINFMT, rules: Path = RULES) -> None:
    """Put QEMU's own rule for the plan's programs in force where that is needed. Raises BuildError."""
    if os.uname().machine == plan.machine:
        return
    name = f"qemu-{plan.machine}"
    rule = rules / f"{name}.conf"
    if not rule.is_file():
        raise BuildError(f"{rule}: not there: expected the packages: apt-get install qemu-user-static arch-test")
    if not (binfmt / "register").exists():
        run(["mount", "-t", "binfmt_misc", "binfmt_misc", binfmt], environment(0))
    if (binfmt / name).exists():
        return
    try:
        (binfmt / "register").write_bytes(rule.read_bytes().rstrip(b"\n"))
    except OSError as error:
        raise BuildError(f"{binfmt}/register: {error.strerror}: {plan.arch} programs cannot be run here") from None
