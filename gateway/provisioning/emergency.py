"""Emergency mode of an image, where nobody can log in: the consoles say what failed, and the machine starts again.

A version on trial goes back to the one of before. One that was confirmed tries again, since what failed may pass.
"""

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

AGAIN_S: Final = 600.0
SYSTEM: Final = "emergency mode"
_ERRORS: Final = 8  # lines of the journal
_CONSOLES: Final = Path("/sys/class/tty/console/active")


def reason(failed: Sequence[str]) -> str:
    """One line for ``forebay update status``. ``failed``: units."""
    return f"{SYSTEM}: {', '.join(failed)} failed" if failed else SYSTEM


def screen(why: str, errors: Sequence[str], minutes: float) -> str:
    """What the consoles show."""
    lines = ["", f"Forebay cannot start: {why}"]
    lines += [f"  {line}" for line in errors]
    lines.append(
        f"Nothing is served. It starts again in {minutes:.0f} minutes, or when its power is switched off and on."
    )
    return "".join(f"{line}\r\n" for line in [*lines, ""])


def failed_units() -> list[str]:
    """As systemd names them."""
    said = _said(["systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--full"])
    return [line.split()[0] for line in said.splitlines() if line.strip()]


def errors() -> list[str]:
    """The last errors that the journal has of this start."""
    return _said(["journalctl", "-b", "-p", "err", "-n", str(_ERRORS), "-o", "cat", "--no-pager"]).splitlines()


def show(text: str, consoles: Path = _CONSOLES, devices: Path = Path("/dev")) -> None:
    """On screen and serial ports, whichever of them the kernel uses."""
    try:
        names = consoles.read_text().split()
    except OSError:
        names = ["console"]
    for name in names:
        try:
            with (devices / name).open("wb", buffering=0) as console:
                console.write(text.encode())
        except OSError:  # a screen that is not there must not hide what the others say
            continue


def stay(
    show: Callable[[str], None],
    leave: Callable[[str], None],
    reboot: Callable[[], None],
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """All of it. ``leave`` goes back to the version of before, where this one is on trial, by a reboot of its own."""
    why = reason(failed_units())
    show(screen(why, errors(), AGAIN_S / 60))
    leave(why)
    wait(AGAIN_S)
    reboot()


def _said(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:
        return ""
