"""The steps of a start that touch the machine: the disk grows, the card is read, the console tells."""

import os
import pwd
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from gateway.appliance.facts import Facts, about
from gateway.provisioning.applying import Outcome, apply, remounted
from gateway.provisioning.effects import Places, give, hold_listeners, hostname
from gateway.provisioning.growth import GrowthError, grow
from gateway.service import SOCKET
from gateway.settings.table import SettingsError

DATA: Final = Path("/data")
FAT: Final = Path("/settings")
PLACES: Final = Places(FAT, DATA / "appliance", Path("/etc/forebay/forebay.toml"), Path("/var/lib/forebay"))
HELD: Final = Path("/run/systemd/system") / f"{SOCKET}.d" / "listen.conf"
USER: Final = "forebay"
RESET_FLAG: Final = "factory-reset"


def start(facts: Facts, now_ms: int, stamp: str, say: Callable[[str], None]) -> Outcome:
    """All of it, for one start of the machine."""
    if facts.is_writable:
        try:
            for line in grow(facts.disk, facts.data, DATA, str(about().get("disk_id", "")), uuid.uuid4):
                say(line)
        except GrowthError as error:
            say(f"data partition: {error}")
    else:
        say(f"data partition: {facts.data_state}: {facts.data_reason}")
    with _told(say):
        PLACES.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    outcome = apply(PLACES, lambda: writable(FAT), now_ms, stamp, facts.is_writable)
    with _told(say):
        if not give_all():
            say(f"there is no user {USER}")
    with _told(say):
        name = hostname(PLACES)
        socket.sethostname(name)
        Path("/etc/hostname").write_text(name + "\n")
    for line in outcome.errors:
        say(line)
    _hold(say)
    return outcome


def _hold(say: Callable[[str], None]) -> None:
    """Listeners that are open before the broker is, and while it starts again; without that it opens them itself."""
    try:
        hold_listeners(PLACES, HELD)
        _run(["systemctl", "daemon-reload"])
    except (SettingsError, OSError) as error:
        say(f"{SOCKET}: {error}")


@contextmanager
def _told(say: Callable[[str], None]) -> Iterator[None]:
    """A disk that is full or bad costs one step, not the start."""
    try:
        yield
    except OSError as error:
        say(str(error))


def give_all() -> bool:
    """What root has written belongs to the gateway's user; False where there is no such user."""
    try:
        entry = pwd.getpwnam(USER)
    except KeyError:
        return False
    give(PLACES.data, entry.pw_uid, entry.pw_gid)
    for path in (PLACES.settings, PLACES.settings.with_name(PLACES.settings.name + ".history")):
        if path.exists():
            give(path, entry.pw_uid, entry.pw_gid)
    return True


def writable(folder: Path) -> AbstractContextManager[None]:
    """The card's FAT; for as long as it takes."""
    mount = mount_of(folder)
    return remounted(mount, remount) if mount is not None else nullcontext()


def mount_of(folder: Path) -> Path | None:
    """Where the file system of a folder is mounted, when that is not the root."""
    while not os.path.ismount(folder):
        folder = folder.parent
    return None if folder == Path("/") else folder


def remount(mount: Path, for_writing: bool) -> None:
    """Raises OSError."""
    _run(["mount", "-o", f"remount,{'rw' if for_writing else 'ro'}", str(mount)])


def ask_for_reset(folder: Path = FAT, writable: Callable[[Path], AbstractContextManager[None]] = writable) -> None:
    """The next start deletes all data. Raises OSError."""
    with writable(folder):
        (folder / RESET_FLAG).write_bytes(b"")


def reboot() -> None:
    """Raises OSError."""
    _run(["systemctl", "reboot"])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(done.returncode, f"{' '.join(command)}: {done.stderr.strip()}")
