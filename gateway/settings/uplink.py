"""The settings of the uplinks (docs/uplinks.md): one table ``[[uplink]]`` for each broker that messages go to."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Final, NamedTuple, final

from gateway.core.limits import NEVER
from gateway.core.uplink import Rule, looping
from gateway.settings.bridge import BridgeSettings
from gateway.settings.entry import RowError, setting
from gateway.settings.kinds import Boolean, Choice, Duration, FilePath, Integer, Kind, Size
from gateway.settings.uplink_kinds import VERSIONS, Names, Remote, Remotes, Rules, Text, Version, checked

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_UNLIMITED: Final = {"unlimited": 0}
_TOPIC: Final = Text(
    "a topic without wildcards, none below $share or $delayed, or nothing", re.compile(r"(?!\$(share|delayed)/)[^+#]*")
)


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UplinkRow:
    """One ``[[uplink]]``; the unit stands last in the name, 0 = none or no limit."""

    name: str
    addresses: tuple[Remote, ...]  # the first is the one to be on
    version: int
    client_id: str  # "" = made from this gateway's own id
    user: str
    password: str = dataclasses.field(repr=False)
    password_file: Path | None
    ca: Path | None
    cert: Path | None
    key: Path | None
    server_name: str
    alpn: tuple[str, ...]
    insecure: bool
    keep_alive_s: int
    session_expiry_s: int
    rules: tuple[Rule, ...]
    max_rate: int
    max_bytes_per_s: int
    max_bytes: int
    when_full: str
    max_age_s: int
    max_inflight: int
    dead_letter: str
    retain: bool
    heartbeat_ms: int
    heartbeat_topic: str
    status_topics: str
    status_topic: str
    hold_off_ms: int


class Field(NamedTuple):
    """One key of ``[[uplink]]``; ``default`` is None where the key must be given."""

    name: str  # of the attribute of Uplink
    kind: Kind
    default: object
    help: str


FIELDS: Final[dict[str, Field]] = {
    "name": Field(
        "name", Text("1 to 64 of A-Z a-z 0-9 . _ -", _NAME), None, "What it is called in commands and topics."
    ),
    "addresses": Field(
        "addresses", Remotes(), None, "Where the broker is: the first that works, and back to the first in the list."
    ),
    "rules": Field("rules", Rules(), None, "Which topics go which way."),
    "version": Field("version", Version(), "5", "MQTT version spoken."),
    "client_id": Field("client_id", Text("a client identifier"), "", "Empty = made from this gateway's own id."),
    "user": Field("user", Text("a user name"), "", "User name told to the broker; empty = none."),
    "password": Field("password", Text("a password"), "", "Its password."),
    "password_file": Field(
        "password_file", FilePath(), "", "File with the password in its first line, read at each connection."
    ),
    "ca": Field("ca", FilePath(), "", "CA certificates that the broker's is checked by, PEM; empty = the system's."),
    "cert": Field("cert", FilePath(), "", "Certificate chain of this gateway, PEM, read at each connection."),
    "key": Field("key", FilePath(), "", "Private key of cert, PEM, without a passphrase."),
    "server_name": Field(
        "server_name", Text("a host name"), "", "Name that the broker's certificate must have; empty = the address's."
    ),
    "alpn": Field("alpn", Names(), [], "Protocols offered in the TLS handshake."),
    "insecure": Field("insecure", Boolean(), False, "Take any certificate of the broker: for tests only."),
    "keep_alive": Field("keep_alive_s", Duration(1, 65535), "30s", "Silence after which a side asks for a sign."),
    "session_expiry": Field(
        "session_expiry_s",
        Duration(0, words={"never": NEVER}),
        "7d",
        "How long the broker is asked to keep this session for what comes in; 5 only.",
    ),
    "max_rate": Field(
        "max_rate", Integer(0, 1_000_000, _UNLIMITED), "unlimited", "Messages per second that go out from the queue."
    ),
    "max_bytes_per_s": Field("max_bytes_per_s", Size(words=_UNLIMITED), "unlimited", "Bytes per second of the same."),
    "max_bytes": Field("max_bytes", Size(words=_UNLIMITED), "unlimited", "Bytes that wait on disk for this uplink."),
    "when_full": Field(
        "when_full",
        Choice("drop_oldest", "drop_newest"),
        "drop_oldest",
        "What goes, counted, where max_bytes is reached.",
    ),
    "max_age": Field("max_age_s", Duration(words={"never": 0}), "never", "Age at which what waits is dropped."),
    "max_inflight": Field(
        "max_inflight",
        Integer(1, 65535, {"as for clients": 0}),
        "as for clients",
        "Messages that may wait for the broker's acknowledgement; its Receive Maximum lowers it.",
    ),
    "dead_letter": Field(
        "dead_letter",
        _TOPIC,
        "",
        "What the broker refuses for good is published here below this topic; empty = it is counted and dropped.",
    ),
    "retain": Field("retain", Boolean(), True, "Send retained messages as such."),
    "heartbeat": Field(
        "heartbeat_ms",
        Duration(0, 86400, ms=True),
        "30s",
        "Time between two messages to the broker and back that show that it forwards; 0 = none.",
    ),
    "heartbeat_topic": Field(
        "heartbeat_topic", _TOPIC, "", "Where, at the broker; empty = forebay/heartbeat/ and the client id."
    ),
    "status_topics": Field(
        "status_topics",
        Choice("both", "local", "off"),
        "both",
        "Where the state is published: retained 1 or 0, here, and by will at the broker.",
    ),
    "status_topic": Field(
        "status_topic", _TOPIC, "", "Its name; empty = that of mosquitto's bridges, $SYS/broker/connection/ID/state."
    ),
    "hold_off": Field(
        "hold_off_ms",
        Duration(1, 86400, ms=True),
        "60s",
        "Time on another address after which the first one is tried again.",
    ),
}


@final
class Uplinks:
    """The list of ``[[uplink]]`` tables; as text the same list in JSON."""

    allowed = "tables with name, addresses and rules, other keys in docs/uplinks.md; as text a list of them in JSON"

    def parse(self, value: object) -> list[UplinkRow]:
        if not isinstance(value, list):
            raise ValueError
        found: list[UplinkRow] = []
        for number, row in enumerate(value, 1):
            uplink = parsed(row, f"[{number}]")
            if any(uplink.name == other.name for other in found):
                raise RowError(f"[{number}].name", uplink.name, "a name that no uplink before it has")
            for other in found:
                _check_pair(other, uplink)
            found.append(uplink)
        return found

    def from_text(self, text: str) -> object:
        try:
            return json.loads(text or "[]")
        except ValueError:
            return text

    def show(self, value: object) -> str:
        assert isinstance(value, list)
        return "[" + ", ".join("{ " + ", ".join(pairs(uplink)) + " }" for uplink in value) + "]"


def parsed(row: object, at: str) -> UplinkRow:
    """One table; ``at`` is where it stands until its name is known. Raises RowError."""
    if not isinstance(row, dict):
        raise RowError(at, row, Uplinks.allowed)
    name = row.get("name")
    if isinstance(name, str) and _NAME.fullmatch(name):
        at = f".{name}"
    for key in row:
        if key not in FIELDS:
            raise RowError(f"{at}.{key}", "***", f"one of the keys {', '.join(FIELDS)}")
    values: dict[str, object] = {}
    for key, field in FIELDS.items():
        given = row.get(key, field.default)
        try:
            values[field.name] = checked(f"{at}.{key}", field.kind, given)
        except RowError as error:
            raise (RowError(f"{at}.{key}", "***", field.kind.allowed) if key == "password" else error) from None
    uplink = UplinkRow(**values)  # type: ignore[arg-type] # as the kinds make them
    _check_together(uplink, at)
    return uplink


def _check_together(uplink: UplinkRow, at: str) -> None:
    """What one value alone cannot show."""
    if uplink.password and uplink.password_file is not None:
        raise RowError(f"{at}.password_file", str(uplink.password_file), "it without password, or password without it")
    if (uplink.password or uplink.password_file is not None) and not uplink.user:
        raise RowError(f"{at}.user", uplink.user, "a user name, since there is a password")
    for key, there, path in (("cert", uplink.key, uplink.cert), ("key", uplink.cert, uplink.key)):
        if there is not None and path is None:
            raise RowError(f"{at}.{key}", "", "a PEM file, since cert and key belong together")
    if (uplink.ca or uplink.cert or uplink.insecure) and not any(remote.tls for remote in uplink.addresses):
        addresses = [str(remote) for remote in uplink.addresses]
        raise RowError(f"{at}.addresses", addresses, "mqtts:// or wss://, since there are settings of TLS")
    if uplink.version != VERSIONS["5"] and (pair := looping(list(uplink.rules))):
        raise RowError(
            f"{at}.version",
            "3.1.1",
            f'"5", whose No Local keeps what goes out from coming back, or other rules: {pair}',
        )


def _check_pair(one: UplinkRow, other: UplinkRow) -> None:
    """Two uplinks to the same broker: as one client they take the session from each other, and their rules may meet."""
    if not {(at.host, at.port) for at in one.addresses} & {(at.host, at.port) for at in other.addresses}:
        return
    if one.client_id and one.client_id == other.client_id:
        raise RowError(f".{other.name}.client_id", other.client_id, f"another than that of {one.name}, to that broker")
    if VERSIONS["3.1.1"] in (one.version, other.version) and (pair := looping([*one.rules, *other.rules])):
        allowed = f"rules that do not meet those of {one.name}, to the same broker, where one of both speaks 3.1.1"
        raise RowError(f".{other.name}.rules", pair, allowed)


def pairs(uplink: UplinkRow) -> list[str]:
    """``key = value`` of all that differs from its default, without the password."""
    found: list[str] = []
    for key, field in FIELDS.items():
        value = getattr(uplink, field.name)
        if field.default is None or value != field.kind.parse(field.default):
            found.append(f"{key} = " + ('"***"' if key == "password" else field.kind.show(value)))
    return found


@dataclasses.dataclass(kw_only=True, slots=True)
class UplinkSettings(BridgeSettings):
    """Part of ``Settings``."""

    uplink: list[UplinkRow] = setting("uplink", Uplinks(), [], "Brokers that messages go to or come from.")
