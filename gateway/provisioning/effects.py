"""What the settings of the card do, one by one: each is put in force, or raises what the person is to be told."""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from gateway.access import Access
from gateway.auth import Passwords
from gateway.certificates import Authority
from gateway.core.acl import READ, Rule
from gateway.core.topics import split_share
from gateway.doctor.presets import Wanted, is_ours, limits, rows
from gateway.provisioning.card import Preset
from gateway.provisioning.network import Network, Wifi, network_file, wifi_file
from gateway.replacing import replace
from gateway.service import listening
from gateway.settings.file import check, edited, read, write
from gateway.settings.rows import with_rows, without_rows
from gateway.settings.table import SettingsError, Sources, load

PORT: Final = 1883
OUTAGE_S: Final = 8 * 3600  # that a collector of the card is to outlast at least
SHARED: Final = 0o644


@final
@dataclass(frozen=True, slots=True)
class Places:
    """Where things lie. ``fat``: the folder of ``forebay.toml``; ``own``: what this machine remembers of itself."""

    fat: Path
    own: Path
    settings: Path
    data: Path

    @property
    def applied(self) -> Path:
        """The digest of the file as it was applied last."""
        return self.own / "applied"

    @property
    def code(self) -> Path:
        return self.own / "setup-code"

    @property
    def users(self) -> Path:
        return self.data / "passwd"

    @property
    def access(self) -> Path:
        return self.data / "access.toml"


def name_machine(places: Places, name: str = "") -> None:
    """The name stays what it was, unless one is given; the first one is made from the machine's id."""
    places.own.mkdir(parents=True, exist_ok=True)
    path = places.own / "hostname"
    if name or not path.exists():
        if not name:
            number = (places.own / "machine-id").read_bytes().strip()
            name = "forebay-" + hashlib.sha256(b"forebay" + number).hexdigest()[:6]
        replace(path, f"{name}\n".encode(), SHARED)


def hostname(places: Places) -> str:
    """As it is kept; "forebay" where it could not be."""
    with contextlib.suppress(OSError):
        return (places.own / "hostname").read_text().strip()
    return "forebay"


def apply_network(places: Places, network: Network | None, wifi: Wifi | None) -> None:
    """Files that systemd-networkd and wpa_supplicant read when they start."""
    folder = places.own / "network"
    folder.mkdir(exist_ok=True)
    if network is not None:
        replace(folder / "10-forebay.network", network_file(network).encode(), SHARED)
    if wifi is not None and (wifi.password or not (places.own / "wifi").exists()):
        (places.own / "wifi").mkdir(exist_ok=True)
        replace(places.own / "wifi" / "wpa_supplicant-wlan0.conf", wifi_file(wifi).encode())


def first_settings(places: Places, stamp: str) -> None:
    """The file that a gateway begins with: plain MQTT for all that have a password."""
    if places.settings.exists():
        return
    places.settings.parent.mkdir(parents=True, exist_ok=True)
    text = (
        "# Settings of this gateway; forebay config show lists all there are.\n"
        f'listen = ["0.0.0.0:{PORT}"]\ndata_dir = "{places.data}"\n'
    )
    write(places.settings, text, stamp)


def make_certificate(places: Places, now_ms: int, stamp: str) -> None:
    """Keys of its own: an authority, and a certificate for the name of this machine; then TLS is on."""
    folder = places.data / "ca"
    if (folder / "ca.key").exists():
        return
    name = hostname(places)
    authority = Authority(folder, now_ms)
    authority.create(f"Forebay {name}")
    certificate, key = authority.issue("gateway", server=True, hosts=(name, f"{name}.local"))
    changes: dict[str, object] = {"tls.cert": str(certificate), "tls.key": str(key)}
    changes |= {"listeners.tls": ["0.0.0.0:8883"], "http.listen_tls": ["0.0.0.0:8443"]}
    _write(places, edited(read(places.settings), changes), stamp)


def hold_listeners(places: Places, part: Path) -> None:
    """The part of the socket unit that says which listeners systemd holds. Raises SettingsError and OSError."""
    text = listening(load(Sources(places.settings), {}))
    part.parent.mkdir(parents=True, exist_ok=True)
    replace(part, text.encode(), SHARED)


def _write(places: Places, text: str, stamp: str) -> None:
    if text != read(places.settings):
        write(places.settings, text, stamp)


def set_key(places: Places, key: str, value: object, stamp: str) -> None:
    try:
        text = edited(read(places.settings), {key: value})
    except ValueError as error:
        raise SettingsError(f"{key}: {error}") from None
    _write(places, text, stamp)


def add_uplink(places: Places, row: Mapping[str, Any], stamp: str) -> None:
    path = places.settings
    text = without_rows(path, read(path), {"uplink": lambda other: other.get("name") == row["name"]})
    _write(places, with_rows(path, text, {"uplink": [row]}), stamp)


def add_collector(places: Places, preset: Preset, stamp: str) -> None:
    path = places.settings
    wanted = Wanted(preset.product, preset.name, preset.client_id, preset.topics, hostname(places), PORT, OUTAGE_S)
    text = without_rows(path, read(path), is_ours(preset.name, preset.client_id))
    text = with_rows(path, text, rows(wanted))
    inflight = check(path, text).limits().max_inflight
    low = {key: value for key, value in limits(preset.product).items() if inflight < value}
    _write(places, edited(text, low) if low else text, stamp)
    access = Access(places.access)
    with access.change():
        mine = [Rule(True, READ, split_share(topic)[1], preset.name) for topic in preset.topics]
        access.rules = [rule for rule in access.rules if rule.username != preset.name] + mine
    if preset.password:
        Passwords(places.users).add(preset.name, preset.password.encode())


def add_user(places: Places, name: str, password: str, role: str) -> None:
    access = Access(places.access)
    with access.change():  # first: a user without a role could do more
        access.roles[name] = role
    Passwords(places.users).add(name, password.encode())


def give(folder: Path, uid: int, gid: int) -> None:
    """The folder, or file, and all in it belongs to the gateway's user, who is to read and change it."""
    for path in [folder, *folder.rglob("*")]:
        stat = path.lstat()
        if (stat.st_uid, stat.st_gid) != (uid, gid):
            os.chown(path, uid, gid, follow_symlinks=False)
