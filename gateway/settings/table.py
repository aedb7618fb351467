"""Every setting of Forebay, declared once.

The file, the environment, ``--set``, ``config show``, docs/settings.md and the core's limits all come from the
fields of ``Settings``. Later sources win: default, the board's, file, environment, ``--set``, options such as
``--listen``.
"""

import dataclasses
import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from gateway.boards import NONE
from gateway.core.acl import Acl
from gateway.core.limits import (
    DROP_NEWEST,
    DROP_OLDEST,
    HASH_TOPIC,
    LEAST_INFLIGHT,
    NEVER,
    PUSH_BACK,
    ROUND_ROBIN,
    STICKY,
    ClientRule,
    Limits,
)
from gateway.settings.board import board_of, defaults_of
from gateway.settings.bridge import state_topics
from gateway.settings.client_types import ClientTypes
from gateway.settings.collector import CollectorSettings
from gateway.settings.entry import PREFIX, Entry, RowError, setting, shown
from gateway.settings.kinds import (
    Address,
    Addresses,
    Boolean,
    Choice,
    Duration,
    EntryError,
    Expiries,
    FilePath,
    Integer,
    Ratio,
    Size,
    quoted,
)
from gateway.settings.sources import SettingsError as SettingsError
from gateway.settings.sources import Sources as Sources
from gateway.settings.sources import read

POLICIES = {"drop_oldest": DROP_OLDEST, "drop_newest": DROP_NEWEST, "push_back": PUSH_BACK}
STRATEGIES = {
    "round_robin": ROUND_ROBIN,
    "least_inflight": LEAST_INFLIGHT,
    "hash_topic": HASH_TOPIC,
    "sticky": STICKY,
}
STARTS = {"end": 0, "earliest": 1}
_CODES: dict[str, dict[str, int]] = {  # limit -> word -> value
    "mqueue_policy": POLICIES,
    "shared_strategy": STRATEGIES,
    "app_start": STARTS,
}
_UNLIMITED = {"unlimited": 0}
_FOREVER = {"never": NEVER}


@final
@dataclasses.dataclass(kw_only=True, slots=True)
class Settings(CollectorSettings):
    """The values in force; a field is its dotted name with dots and hyphens as underscores."""

    listen: list[Address] = setting("listen", Addresses(), ["127.0.0.1:1883"], "Plain TCP listeners.")
    listeners_tls: list[Address] = setting(
        "listeners.tls", Addresses(), [], "TLS listeners; they need tls.cert and tls.key."
    )
    tls_cert: Path | None = setting("tls.cert", FilePath(), "", "Certificate chain of the TLS listeners, PEM.")
    tls_key: Path | None = setting("tls.key", FilePath(), "", "Private key of tls.cert, PEM, without a passphrase.")
    tls_min_version: str = setting("tls.min_version", Choice("1.2", "1.3"), "1.2", "Oldest TLS version accepted.")
    data_dir: Path = setting(
        "data_dir", FilePath(required=True), "var", "Folder of the database, the password file and the control socket."
    )
    durability: str = setting(
        "durability",
        Choice("fsync", "os"),
        "fsync",
        'What an acknowledgement waits for: "fsync" outlives a power cut, "os" outlives only a crash of the broker.',
    )
    allow_anonymous: str = setting(
        "allow_anonymous",
        Choice("auto", "true", "false"),
        "auto",
        'Clients without a user name: "auto" takes them on loopback listeners only.',
    )
    password_file: Path | None = setting(
        "password_file", FilePath(), "", "Users and password hashes; empty = passwd in data_dir."
    )

    mqtt_max_inflight: int = setting(
        "mqtt.max_inflight",
        Integer(1, 65535),
        32,
        "Outgoing QoS 1 and 2 messages of one client that wait for its acknowledgement; its Receive Maximum lowers it.",
        "max_inflight",
    )
    mqtt_receive_maximum: int = setting(
        "mqtt.receive_maximum",
        Integer(1, 65535),
        1000,
        "Incoming QoS 1 and 2 messages of one client at a time.",
        "receive_maximum",
    )
    mqtt_max_packet_size: int = setting(
        "mqtt.max_packet_size",
        Size(128, 268_435_460),
        "1MiB",
        "Largest packet that a client may send.",
        "max_packet_bytes",
    )
    mqtt_max_topic_levels: int = setting(
        "mqtt.max_topic_levels", Integer(1, 65535), 128, "Levels of a topic or filter.", "max_topic_levels"
    )
    mqtt_max_clientid_len: int = setting(
        "mqtt.max_clientid_len", Integer(23, 65535), 65535, "Characters of a client identifier.", "max_clientid_chars"
    )
    mqtt_max_topic_alias: int = setting(
        "mqtt.max_topic_alias",
        Integer(0, 65535),
        10,
        "Topic aliases that a client may set, 0 = none.",
        "max_topic_alias",
    )
    mqtt_max_mqueue_len: int = setting(
        "mqtt.max_mqueue_len",
        Integer(0, 2**31, _UNLIMITED),
        1000,
        "Messages queued for a client whose session ends with its connection; persistent sessions queue on disk.",
        "max_mqueue_len",
    )
    mqtt_max_mqueue_bytes: int = setting(
        "mqtt.max_mqueue_bytes", Size(words=_UNLIMITED), "64MiB", "Bytes of such a queue.", "max_mqueue_bytes"
    )
    mqtt_mqueue_store_qos0: bool = setting(
        "mqtt.mqueue_store_qos0",
        Boolean(),
        True,
        "Queue QoS 0 messages for a slow client of such a session.",
        "mqueue_store_qos0",
    )
    mqtt_mqueue_store_qos0_persistent: bool = setting(
        "mqtt.mqueue_store_qos0_persistent",
        Boolean(),
        False,
        "Queue QoS 0 messages for persistent sessions too.",
        "mqueue_store_qos0_persistent",
    )
    mqtt_mqueue_policy: str = setting(
        "mqtt.mqueue_policy",
        Choice(*POLICIES),
        "drop_oldest",
        'What a full queue does: "drop_oldest" (QoS 0 first), "drop_newest", "push_back" (stop reading the publisher).',
        "mqueue_policy",
    )
    mqtt_upgrade_qos: bool = setting(
        "mqtt.upgrade_qos",
        Boolean(),
        False,
        "Deliver at the higher of publish and subscription QoS instead of the lower.",
        "upgrade_qos",
    )
    mqtt_session_expiry_interval: int = setting(
        "mqtt.session_expiry_interval",
        Duration(1, words=_FOREVER),
        "never",
        "How long a persistent session of a 3.1 or 3.1.1 client outlives its connection.",
        "session_expiry_s",
    )
    mqtt_max_session_expiry_interval: int = setting(
        "mqtt.max_session_expiry_interval",
        Duration(1, words=_FOREVER),
        "never",
        "Longest session expiry that a 5.0 client is given.",
        "max_session_expiry_s",
    )
    mqtt_message_expiry_interval: int = setting(
        "mqtt.message_expiry_interval",
        Duration(words={"never": 0}),
        "never",
        "Expiry of messages that bring none of their own.",
        "message_expiry_s",
    )
    mqtt_server_keepalive: int = setting(
        "mqtt.server_keepalive",
        Duration(0, 65535),
        0,
        "Keep alive forced on 5.0 clients; 0 = the client's own.",
        "server_keep_alive_s",
    )
    mqtt_keepalive_multiplier: int = setting(
        "mqtt.keepalive_multiplier",
        Ratio(1, 10),
        1.5,
        "Silence that ends a connection, in keep alives.",
        "keepalive_percent",
    )
    mqtt_connect_timeout: int = setting(
        "mqtt.connect_timeout",
        Duration(0.1, 3600, ms=True),
        "10s",
        "Time from accept to CONNECT.",
        "connect_timeout_ms",
    )
    mqtt_max_connections: int = setting(
        "mqtt.max_connections", Integer(0, 2**31, _UNLIMITED), "unlimited", "Connections at a time.", "max_connections"
    )
    min_session_expiry: list[tuple[str, int]] = setting(
        "min_session_expiry",
        Expiries(),
        [],
        "Least session expiry by client-id pattern, for collectors that cannot ask; the first match counts.",
        "min_session_expiry",
    )

    mqtt_shared_subscription_strategy: str = setting(
        "mqtt.shared_subscription_strategy",
        Choice(*STRATEGIES),
        "round_robin",
        "Who of a shared subscription gets a message: the next in turn, the one with the fewest in flight, one for "
        "each topic, or the same one as long as it is connected.",
        "shared_strategy",
    )

    client_type: list[ClientRule] = setting(
        "client_type",
        ClientTypes(),
        [],
        "Which clients are of type APPLICATION, the others are DEVICE; the first match counts (docs/delivery.md).",
        "client_types",
    )
    store_max_bytes: int = setting(
        "store.max_bytes", Size(1_048_576), "1GiB", "Disk budget of the message store.", "store_bytes_max"
    )
    store_min_free_bytes: int = setting("store.min_free_bytes", Size(), "64MiB", "Disk space left to others.")
    store_commit_window_ms: int = setting(
        "store.commit_window_ms",
        Integer(0, 1000),
        20,
        "How long an insert is held back while its receivers may acknowledge, in ms; 0 = everything is written.",
        "commit_window_ms",
    )
    store_error_hold_s: int = setting(
        "store.error_hold_s",
        Duration(0, 86400, ms=True),
        "30s",
        "How long a publish waits for a failing disk before it is refused.",
        "error_hold_ms",
    )
    store_push_back_s: int = setting(
        "store.push_back_s",
        Duration(0, 86400, ms=True),
        "30s",
        "How long publishers are held back at a full store before its oldest messages are dropped.",
        "push_back_ms",
    )
    sys_interval: int = setting(
        "sys_interval",
        Duration(0, 86400, ms=True),
        "10s",
        "Time between $SYS publications; 0 = none.",
        "sys_interval_ms",
    )
    log_level: str = setting("log.level", Choice("debug", "info", "warning", "error"), "info", "Least level logged.")
    log_format: str = setting(
        "log.format", Choice("console", "json"), "console", 'Lines for people, or "json": one object a line.'
    )

    sources: Sources = dataclasses.field(default_factory=Sources)
    on_board: str = NONE  # the board whose defaults count
    notes: list[str] = dataclasses.field(default_factory=list)  # one line each: what looks wrong but stops nothing

    @property
    def passwords(self) -> Path:
        """The password file in force."""
        return self.password_file or self.data_dir / "passwd"

    @property
    def access_file(self) -> Path:
        """Roles, rules and bans of single users and clients."""
        return self.data_dir / "access.toml"

    @property
    def control_socket(self) -> Path:
        """Where ``forebay status`` finds the broker."""
        return self.data_dir / "control.sock"

    def limits(self) -> Limits:
        """The core's limits as set."""
        limits = Limits()
        for entry in TABLE.values():
            if entry.limit:
                value = getattr(self, entry.field)
                codes = _CODES.get(entry.limit)
                setattr(limits, entry.limit, value if codes is None else codes[value])
        limits.acl = Acl(self.acl, [], {}) if self.acl else None
        limits.own_topics = state_topics(self.bridge_host_id)
        return limits

    def reload(self) -> "Settings":
        """Read the same sources again. Raises SettingsError and leaves these as they are."""
        return load(self.sources)


_INHERITED = {field.name for field in dataclasses.fields(CollectorSettings)}
TABLE: dict[str, Entry] = {
    field.metadata["entry"].name: field.metadata["entry"]
    for field in sorted(dataclasses.fields(Settings), key=lambda field: field.name in _INHERITED)
    if "entry" in field.metadata
}


def load(sources: Sources, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings from all sources. Raises SettingsError."""
    settings = Settings(sources=sources)
    given = list(_given(sources, os.environ if environ is None else environ, settings.notes))
    board = board_of(given)
    for where, name, value in [*defaults_of(board), *given]:
        entry = TABLE[name]
        try:
            setattr(settings, entry.field, entry.kind.parse(value))
        except EntryError as error:
            wrong = f"{name}.{quoted(error.key)} = {shown(error.value)}"
            raise SettingsError(f"{where}: {wrong}: expected {entry.kind.allowed}") from None
        except RowError as error:
            raise SettingsError(f"{where}: {name}{error}") from None
        except ValueError:
            raise SettingsError(f"{where}: {name} = {shown(value)}: expected {entry.kind.allowed}") from None
    settings.on_board = board
    _check_together(settings)
    return settings


def _given(sources: Sources, environ: Mapping[str, str], notes: list[str]) -> Iterator[tuple[str, str, object]]:
    """(where, dotted name, TOML value), weakest first."""
    if sources.config is not None:
        for name, value in _flat(read(sources.config), str(sources.config)):
            yield str(sources.config), name, value
    for entry in TABLE.values():
        if entry.foreign_env in environ:
            yield entry.foreign_env, entry.name, entry.kind.from_text(environ[entry.foreign_env])
    by_env = {entry.env: entry for entry in TABLE.values()}
    for variable, text in environ.items():
        if variable in by_env:
            yield variable, by_env[variable].name, by_env[variable].kind.from_text(text)
        elif variable.startswith(PREFIX) and (near := difflib.get_close_matches(variable, by_env, 1, 0.85)):
            notes.append(f"{variable} is no setting and has no effect; did you mean {near[0]}?")
    for item in sources.sets:
        name, equals, text = item.partition("=")
        name = name.strip()
        if not equals:
            raise SettingsError(f'--set: "{item}": expected key=value')
        yield "--set", name, _known(name, text, "--set").kind.from_text(text.strip())
    for name, value in sources.options:
        yield "--" + name.replace("_", "-"), name, value


def _flat(table: dict[str, Any], where: str, above: str = "") -> Iterator[tuple[str, object]]:
    """The dotted names and values of nested tables."""
    for key, value in table.items():
        name = above + key
        if isinstance(value, dict) and any(known.startswith(name + ".") for known in TABLE):
            yield from _flat(value, where, name + ".")
        else:
            _known(name, value, where)
            yield name, value


def _known(name: str, value: object, where: str) -> Entry:
    if name in TABLE:
        return TABLE[name]
    groups = {known.partition(".")[0]: known for known in TABLE if "." in known}
    if name in groups:
        raise SettingsError(f"{where}: {name} = {shown(value)}: expected a table with keys such as {groups[name]}")
    near = difflib.get_close_matches(name, TABLE, 1, 0.5) or [k for k in TABLE if k.endswith("." + name)]
    hint = f"did you mean {near[0]}?" if near else "forebay config show lists the settings"
    said = "***" if re.search(r"passw|secret|token", name.lower()) else shown(value)  # meant for another place
    raise SettingsError(f"{where}: {name} = {said}: unknown key; {hint}")


def _check_together(settings: Settings) -> None:
    """What one value alone cannot show."""
    with_tls = {
        "listeners.tls": settings.listeners_tls,
        "listeners.mtls": settings.listeners_mtls,
        "listeners.wss": settings.listeners_wss,
    }
    if not (settings.listen or any(with_tls.values()) or settings.listeners_ws or settings.listeners_unix):
        raise SettingsError('listen = []: expected at least one "HOST:PORT" here or a listener of another kind')
    with_tls["http.listen_tls"] = settings.http_listen_tls
    needed = {"tls.cert": settings.tls_cert, "tls.key": settings.tls_key}
    if settings.listeners_mtls:
        needed["tls.client_ca"] = settings.tls_client_ca
    for listeners, addresses in with_tls.items():
        for name, path in needed.items() if addresses else ():
            if path is None:
                raise SettingsError(f'{name} = "": expected a PEM file, since {listeners} is set')
            note = f'{name} = "{path}": expected a PEM file, but there is none: what needs it waits for it'
            if not path.is_file() and note not in settings.notes:
                settings.notes.append(note)
    if settings.tls_crl is not None and settings.tls_client_ca is None:
        raise SettingsError(f'tls.crl = "{settings.tls_crl}": expected tls.client_ca as well')


def as_toml(settings: Settings, names: Sequence[str] = ()) -> Iterator[str]:
    """``name = value`` lines of the settings in force."""
    for entry in TABLE.values():
        if not names or entry.name in names:
            yield f"{entry.name} = {entry.kind.show(getattr(settings, entry.field))}"
