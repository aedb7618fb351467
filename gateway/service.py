"""The gateway as a service of systemd on a machine of its own: which files that takes, which commands, in which order.

The unit files are those of the folder ``systemd``, written for /opt/forebay; for another place their paths are changed.
"""

import dataclasses
import os
import re
import socket
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, final

from gateway.replacing import replace
from gateway.settings.table import Settings, Sources, load

FOLDER: Final = Path(__file__).resolve().parents[1] / "systemd"
PREFIX: Final = "/opt/forebay"
CONFIG: Final = "/etc/forebay/forebay.toml"
DATA_DIR: Final = "/var/lib/forebay"
USER: Final = "forebay"
SERVICE: Final = "forebay.service"
SOCKET: Final = "forebay.socket"
TRIM: Final = "forebay-trim.timer"
BACKUP: Final = "forebay-backup.timer"
SMART: Final = "forebay-smart.timer"
UNITS: Final = (
    SERVICE, SOCKET, "forebay-trim.service", TRIM, "forebay-smart.service", SMART, "forebay-backup.service", BACKUP,
)  # fmt: skip
ENABLED: Final = (SOCKET, SERVICE, TRIM, SMART)  # where and how often a backup is kept is for its owner to say
OWN: Final = Path("etc/systemd/system")
PACKAGED: Final = (Path("usr/lib/systemd/system"), Path("lib/systemd/system"))
LISTENERS: Final = OWN / "forebay.socket.d" / "listen.conf"
SYSUSERS: Final = Path("etc/sysusers.d/forebay.conf")
TMPFILES: Final = Path("etc/tmpfiles.d/forebay.conf")
HOMES: Final = ("/home", "/root", "/run/user")  # what the sandbox hides


class ServiceError(Exception):
    """It cannot be done; the text is one line."""


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """A file that is not there as it should be."""

    path: Path
    text: str
    mode: int = 0o644
    user: str = ""

    def __str__(self) -> str:
        return f"write {self.path}"


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Remove:
    path: Path

    def __str__(self) -> str:
        return f"remove {self.path}"


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    command: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.command)


Step = Write | Remove | Run


@final
class Machine:
    """A system's root folder: "/" of this machine, or another one that does not run."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self.runs = root == Path("/")

    def at(self, path: str | Path) -> Path:
        return self.root / str(path).lstrip("/")

    def packaged(self) -> bool:
        """Whether a Debian package brings the units."""
        return any(self.at(folder / SERVICE).exists() for folder in PACKAGED)

    def systemctl(self, *words: str) -> Run:
        return Run(("systemctl", *(() if self.runs else (f"--root={self.root}",)), *words))

    def tool(self, name: str, *words: str) -> Run:
        return Run((name, *(() if self.runs else (f"--root={self.root}",)), *words))

    def has_user(self) -> bool:
        try:
            lines = self.at("etc/passwd").read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return False
        return any(line.startswith(USER + ":") for line in lines)

    def asks(self, *words: str) -> str:
        """What systemctl says, "" where it cannot say anything."""
        done = subprocess.run(self.systemctl(*words).command, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def check(self) -> None:
        """Raises ServiceError where nothing can be installed."""
        if self.runs and not Path("/run/systemd/system").is_dir():
            raise ServiceError("systemd does not run here: forebay service needs it (or --root DIR)")
        if os.geteuid() != 0:
            raise ServiceError("only root can do that: try again with sudo")


def install(machine: Machine, prefix: Path, base: Path, config: Path) -> Iterator[Step]:
    """What is missing of the service, in the order to be done; nothing where all of it stands.

    ``prefix`` is the environment that runs it, ``base`` its interpreter's. Raises ServiceError and SettingsError.
    """
    settings = _settings(machine, config)
    data_dir = settings.data_dir if settings is not None else Path(DATA_DIR)
    _check(prefix, config, data_dir)
    packaged = machine.packaged()
    texts = {LISTENERS: listening(settings)}
    if not packaged:
        texts |= {OWN / name: unit(name, prefix, base, config, data_dir) for name in UNITS}
        texts |= {SYSUSERS: _text("sysusers.d/forebay.conf"), TMPFILES: _placed("tmpfiles.d/forebay.conf", data_dir)}
    changed = [Write(machine.at(path), text) for path, text in texts.items() if _read(machine.at(path)) != text]
    yield from changed
    made_user = not packaged and (not machine.has_user() or _among(changed, SYSUSERS))
    if made_user:
        yield machine.tool("systemd-sysusers", SYSUSERS.name)
    if made_user or _among(changed, TMPFILES):
        yield machine.tool("systemd-tmpfiles", "--create", TMPFILES.name)
    if settings is None:
        yield Write(machine.at(config), f'data_dir = "{data_dir}"\n', 0o640, USER)
    yield from _set_going(machine, changed, packaged)


def _set_going(machine: Machine, changed: list[Write], packaged: bool) -> Iterator[Step]:
    if changed and machine.runs:
        yield machine.systemctl("daemon-reload")
    off = [name for name in ENABLED if machine.asks("is-enabled", name) != "enabled"]
    if off and not packaged:  # else it is the package's, and its owner's
        yield machine.systemctl("enable", *off)
    if not machine.runs:
        return
    active = [name for name in ENABLED if machine.asks("is-active", name) == "active"]
    wanted = active if packaged else list(ENABLED)
    if _among(changed, LISTENERS) and SOCKET in active:  # systemd opens no other address while the old ones are served
        yield machine.systemctl("stop", SERVICE, SOCKET)
        active = [name for name in active if name not in (SERVICE, SOCKET)]
    if changed and SERVICE in active:
        yield machine.systemctl("restart", SERVICE)
    still = [name for name in wanted if name not in active]
    if still:
        yield machine.systemctl("start", *still)


def uninstall(machine: Machine) -> Iterator[Step]:
    """What there is to take away: units, never data, settings or the user. Raises ServiceError."""
    if machine.packaged():
        raise ServiceError("it came as a Debian package: apt remove forebay")
    there = [machine.at(path) for path in (*(OWN / name for name in UNITS), LISTENERS, SYSUSERS, TMPFILES)]
    there = [path for path in there if path.exists()]
    if not there:
        return
    units = [name for name in UNITS if machine.at(OWN / name).exists()]
    if units:
        yield machine.systemctl("disable", *(("--now",) if machine.runs else ()), *units)
    for path in there:
        yield Remove(path)
    if machine.runs:
        yield machine.systemctl("daemon-reload")


def do(step: Step) -> None:
    """Carry it out. Raises ServiceError."""
    try:
        if isinstance(step, Write):
            _write(step)
        elif isinstance(step, Remove):
            step.path.unlink(missing_ok=True)
            if step.path.parent.suffix == ".d" and step.path.parent.name.startswith("forebay."):
                step.path.parent.rmdir()
        else:
            done = subprocess.run(step.command, capture_output=True, text=True, check=False)
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
                raise ServiceError(f"{step}: {lines[-1]}")
    except OSError as error:
        raise ServiceError(f"{step}: {error.strerror or error}") from error


def unit(name: str, prefix: Path, base: Path, config: Path, data_dir: Path) -> str:
    """The unit file for this place."""
    text = _placed(name, data_dir).replace(CONFIG, str(config)).replace(PREFIX, str(prefix))
    if str(config.parent) != str(Path(CONFIG).parent):
        text = text.replace(f"ReadWritePaths={Path(CONFIG).parent}", f"ReadWritePaths={config.parent}")
    if data_dir != Path(DATA_DIR):
        text = re.sub(r"StateDirectory=.*\nStateDirectoryMode=.*\n", f"ReadWritePaths={data_dir}\n", text)
    hidden = [str(path) for path in dict.fromkeys((prefix, base)) if _hidden(path)]
    if hidden:
        shown = f"ProtectHome=tmpfs\nBindReadOnlyPaths={' '.join(hidden)}"
        text = text.replace("ProtectHome=yes", shown)
    return text


def listening(settings: Settings | None) -> str:
    """The part of the socket unit that says what the settings do; those that listen on port 0 stay the broker's own."""
    lines = ["[Socket]", "ListenStream="]
    settings = settings if settings is not None else Settings()
    ways = (settings.listen, settings.listeners_tls, settings.listeners_mtls, settings.listeners_ws)
    for host, port in (address for way in (*ways, settings.listeners_wss) for address in way):
        if not port:
            continue
        try:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError:
            continue  # the broker says so when it starts
        for _, _, _, _, address in found:
            text = f"[{address[0]}]" if ":" in str(address[0]) else str(address[0])
            lines.append(f"ListenStream={text}:{port}")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def held(shown: str) -> list[str]:
    """The addresses in what ``systemctl show -p Listen`` says."""
    return re.findall(r"(\S+) \(Stream\)", shown.replace("Listen=", ""))


def _settings(machine: Machine, config: Path) -> Settings | None:
    place = machine.at(config)
    return load(Sources(place), {}) if place.exists() else None


def _check(prefix: Path, config: Path, data_dir: Path) -> None:
    if not (prefix / "bin" / "forebay").exists():
        raise ServiceError(f"{prefix}/bin/forebay: expected an environment that Forebay is installed in")
    if not data_dir.is_absolute():
        raise ServiceError(f'{config}: data_dir = "{data_dir}": expected an absolute path for a service')
    for path in (config, data_dir):
        if _hidden(path):
            raise ServiceError(f"{path}: expected a place outside {', '.join(HOMES)}, which the service cannot see")


def _hidden(path: Path) -> bool:
    return any(path.is_relative_to(home) for home in HOMES)


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _placed(name: str, data_dir: Path) -> str:
    return _text(name).replace(DATA_DIR, str(data_dir))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _among(writes: Iterable[Write], path: Path) -> bool:
    return any(write.path.parts[-len(path.parts) :] == path.parts for write in writes)


def _write(step: Write) -> None:
    step.path.parent.mkdir(parents=True, exist_ok=True)
    replace(step.path, step.text.encode(), step.mode)
    if step.user:
        os.chown(step.path, *_owner(step))


def _owner(step: Write) -> tuple[int, int]:
    """The user's ids as the system has them that the file belongs to."""
    for folder in step.path.parents:
        users = folder / "etc" / "passwd"
        if users.exists():
            for line in users.read_text(encoding="utf-8", errors="replace").splitlines():
                name, _, uid, gid, *_ = line.split(":")
                if name == step.user:
                    return int(uid), int(gid)
            break
    raise ServiceError(f"{step}: there is no user {step.user}")
