"""mosquitto.conf: listeners, who may come in and what they may do, limits and bridges, as settings of ours."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, final

from gateway.imports.convert import Imported, Taken
from gateway.imports.mosquitto_bridge import Bridge, flag, number
from gateway.imports.mosquitto_file import Line, read, read_acl, text_of, users_of
from gateway.imports.table import ImportFileError
from gateway.settings.kinds import EntryError, quoted
from gateway.settings.table import TABLE

_SPANS: Final = {"h": "h", "d": "d", "w": "w", "m": 30, "y": 365}  # a month of mosquitto's is 30 days


def _limit(none: object) -> Callable[[Line], object]:
    return lambda line: none if number(line) <= 0 else number(line)


def _span(line: Line) -> object:
    match = re.fullmatch(r"([0-9]{1,6})([hdwmy])", line.value)
    if match is None:
        raise ImportFileError(f"{line.where}: {line.key} {line.value}: expected a number and h, d, w, m or y")
    unit = _SPANS[match[2]]
    return f"{int(match[1]) * unit}d" if isinstance(unit, int) else f"{match[1]}{unit}"


# their key -> ours, how the value is read, and what differs
_SAME: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Line], object], str]]] = {
    "max_inflight_messages": (("mqtt.max_inflight",), _limit(65535), ""),
    "max_queued_messages": (
        ("mqtt.max_mqueue_len",), _limit("unlimited"),
        "only for sessions that end with their connection; persistent ones queue on disk, bounded by store.max_bytes",
    ),
    "max_queued_bytes": (("mqtt.max_mqueue_bytes",), _limit("unlimited"), "as max_queued_messages, and not beside it"),
    "max_packet_size": (("mqtt.max_packet_size",), _limit("256MiB"), ""),
    "message_size_limit": (("mqtt.max_packet_size",), _limit("256MiB"), "it bounds the whole packet"),
    "persistent_client_expiration": (
        ("mqtt.session_expiry_interval", "mqtt.max_session_expiry_interval"), _span, "",
    ),
    "queue_qos0_messages": (("mqtt.mqueue_store_qos0_persistent",), flag, ""),
    "upgrade_outgoing_qos": (("mqtt.upgrade_qos",), flag, ""),
    "sys_interval": (("sys_interval",), lambda line: max(number(line), 0), ""),
    "max_topic_alias": (("mqtt.max_topic_alias",), number, ""),
    "tls_version": (("tls.min_version",), lambda line: "1.3" if line.value == "tlsv1.3" else "1.2", ""),
}  # fmt: skip
_NOTHING: Final = "there is nothing to switch"
_WHY: Final = {
    "persistence": "what is acknowledged is on disk always; durability says how hard",
    "persistence_location": "data_dir is where the database lives; mosquitto's own is not read",
    "persistence_file": "the database has its own name in data_dir",
    "autosave_interval": "every commit is saved before it is acknowledged",
    "autosave_on_changes": "every commit is saved before it is acknowledged",
    "memory_limit": "queues have limits of their own: mqtt.max_waiting_bytes",
    "max_inflight_bytes": "the window counts messages",
    "max_keepalive": "mqtt.server_keepalive forces one on all 5.0 clients, none only bounds it",
    "max_qos": "every QoS is served",
    "allow_duplicate_messages": "overlapping subscriptions are delivered each, with their identifiers",
    "retain_available": "retained messages are always there; a rule of acl may deny a topic",
    "retain_expiry_interval": "a message's own expiry counts",
    "allow_zero_length_clientid": "such clients get an id, as the standard says",
    "auto_id_prefix": "the id that such clients get has a prefix of its own",
    "set_tcp_nodelay": "it is set always",
    "per_listener_settings": "what is set for one listener counts for all",
    "max_connections": "with several listeners it counts for all of them here: mqtt.max_connections",
    "mount_point": "a listener has no topics of its own",
    "bind_interface": "name an address of that interface instead",
    "socket_domain": "the address says which",
    "use_username_as_clientid": "a client keeps the id that it gives",
    "use_subject_as_username": "a certificate's common name is the user, or its first alternative name",
    "capath": "name one file with the certificates in tls.client_ca",
    "ciphers": "the TLS library chooses",
    "ciphers_tls1.3": "the TLS library chooses",
    "dhparamfile": "the TLS library chooses",
    "tls_engine": "keys are files",
    "tls_keyform": "keys are files",
    "tls_engine_kpass_sha1": "keys are files",
    "psk_hint": "keys agreed on beforehand (PSK) are not spoken",
    "psk_file": "keys agreed on beforehand (PSK) are not spoken",
    "http_dir": "no files are served; the status page is http.listen",
    "websockets_headers_size": _NOTHING,
    "websockets_log_level": "log.level",
    "log_dest": "the log goes to stderr, from where systemd takes it",
    "log_facility": "the log goes to stderr, from where systemd takes it",
    "log_timestamp": _NOTHING,
    "log_timestamp_format": _NOTHING,
    "connection_messages": "connections are not logged one by one; forebay sessions shows them",
    "pid_file": "systemd knows it",
    "user": "systemd starts the gateway as its own user",
    "plugin": "there are no plugins",
    "auth_plugin": "there are no plugins",
    "global_plugin": "there are no plugins",
    "auth_plugin_deny_special_chars": "there are no plugins",
    "check_retain_source": "a retained message is delivered to who may read its topic",
    "clientid_prefixes": "a rule of acl may name client ids",
}
_PER_LISTENER: Final = frozenset({
    "protocol", "cafile", "certfile", "keyfile", "crlfile", "require_certificate", "use_identity_as_username",
    "websockets_origin",
})  # fmt: skip


@final
class Listener:
    """What stands below ``listener``, or before the first of them."""

    def __init__(self, line: Line | None, addresses: list[str], path: str = "") -> None:
        self.line = line
        self.addresses = addresses
        self.path = path
        self.given: dict[str, Line] = {}

    def value(self, key: str) -> str:
        return self.given[key].value if key in self.given else ""

    @property
    def setting(self) -> str:
        """Ours for its kind."""
        tls = "certfile" in self.given
        if self.value("protocol") == "websockets":
            return "listeners.wss" if tls else "listeners.ws"
        if not tls:
            return "listen"
        return "listeners.mtls" if self.value("require_certificate") == "true" else "listeners.tls"


@final
class Conversion:
    """Gathers what the lines say, section by section."""

    def __init__(self, folder: Path) -> None:
        self.result = Imported()
        self._folder = folder
        self._first = Listener(None, [])
        self._listeners = [self._first]
        self._bridges: list[Bridge] = []
        self._anonymous: list[Line] = []
        self._rules: list[dict[str, str]] = []
        self._port, self._bound = "", ""

    def take(self, line: Line) -> None:
        """One setting, in its place. Raises ImportFileError."""
        key = line.key
        if key == "connection":
            self._bridges.append(Bridge(line))
        elif self._bridges and self._bridges[-1].take(line):
            return
        elif key == "listener":
            self._listen(line)
        elif key in ("port", "bind_address"):
            self._port = line.value if key == "port" else self._port
            self._bound = line.value if key == "bind_address" else self._bound
            self._first.line = self._first.line or line
        elif key in _PER_LISTENER:
            self._listeners[-1].given[key] = line
        elif key == "allow_anonymous":
            flag(line)
            self._anonymous.append(line)
        elif key == "password_file":
            self._users(line)
        elif key == "acl_file":
            self._acl(line)
        elif key == "log_type":
            if line.value in ("all", "debug"):
                self.set("log.level", "debug", line)
        elif key in _SAME:
            targets, reading, differs = _SAME[key]
            for target in targets:
                self.set(target, reading(line), line)
            if differs:
                self.remark(line, f"{targets[0]} differs: {differs}")
        elif key == "max_connections" and len(self._listeners) <= 2:
            self.set("mqtt.max_connections", "unlimited" if number(line) < 0 else number(line), line)
        else:
            why = _WHY.get(key, "not among the settings of mosquitto known here")
            self.remark(line, f"no counterpart: {why}")

    def finish(self) -> Imported:
        """Listeners, anonymous clients and bridges, which need the whole file. Raises ImportFileError."""
        if self._port or self._bound:
            self._first.addresses = _addresses(self._bound, self._port or "1883")
        listeners = [one for one in self._listeners if one.addresses or one.path]
        by_setting: dict[str, list[str]] = {}
        for listener in listeners:
            self._add(listener, by_setting)
        for setting, addresses in by_setting.items():
            self.set(setting, addresses, Line("listeners", "listener", ", ".join(addresses)))
        if listeners and "listen" not in by_setting:
            self.set("listen", [], Line("listeners", "listener", "none of plain TCP"))
        self._who(bool(listeners))
        if self._rules:
            self.set("acl", self._rules, Line("acl_file", "acl_file", ""))
        if self._bridges:
            rows = [bridge.row() for bridge in self._bridges]
            names = ", ".join(bridge.line.value for bridge in self._bridges)
            self.set("uplink", rows, Line("connections", "connection", names))
            for bridge in self._bridges:
                self.result.remarks += bridge.remarks
        return self.result

    def set(self, target: str, value: object, line: Line) -> None:
        """One of our settings. A value that ours does not take is a remark."""
        entry = TABLE[target]
        try:
            self.result.taken[target] = Taken(entry.kind.parse(value), line.source)
        except ValueError as error:
            said = f"{error.key} = {quoted(str(error.value))}" if isinstance(error, EntryError) else quoted(line.value)
            self.remark(line, f"no counterpart for {said}: {target} is {entry.kind.allowed} and keeps its default")

    def remark(self, line: Line, text: str) -> None:
        self.result.remarks.append(f"{line.where}: {line.key}: {text}")

    def _listen(self, line: Line) -> None:
        """listener PORT [ADDRESS], with port 0 listener 0 PATH."""
        port, _, host = line.value.partition(" ")
        if not port.isdigit() or int(port) > 65535 or (port == "0" and not host):
            raise ImportFileError(
                f"{line.where}: listener {line.value}: expected a port and, as it is wanted, an address"
            )
        if port == "0":
            self._listeners.append(Listener(line, [], host.strip()))
        else:
            self._listeners.append(Listener(line, _addresses(host.strip(), port)))

    def _add(self, listener: Listener, by_setting: dict[str, list[str]]) -> None:
        if listener.path:
            assert listener.line is not None
            self.set("listeners.unix", listener.path, listener.line)
            return
        setting = listener.setting
        by_setting.setdefault(setting, []).extend(listener.addresses)
        files = {"certfile": "tls.cert", "keyfile": "tls.key", "cafile": "tls.client_ca", "crlfile": "tls.crl"}
        for key, target in files.items():
            line = listener.given.get(key)
            if line is None:
                continue
            before = self.result.taken.get(target)
            if before is not None and str(before.value) != line.value:
                self.remark(line, f"no counterpart: all listeners share {target}, which is {before.value} already")
            elif setting in ("listeners.tls", "listeners.mtls", "listeners.wss"):
                self.set(target, line.value, line)
        if "require_certificate" in listener.given and listener.value("use_identity_as_username") != "true":
            self.set("tls.certificate_user", "off", listener.given["require_certificate"])
        if origin := listener.given.get("websockets_origin"):
            self.set("websocket.origins", [origin.value], origin)

    def _who(self, listens: bool) -> None:
        """Whether clients without a name come in; with a listener of its own mosquitto lets none in unless told to."""
        said = {line.value for line in self._anonymous}
        if len(said) > 1:
            self.remark(self._anonymous[-1], "no counterpart: it differs by listener; none lets in who has no name")
        if said:
            self.set("allow_anonymous", "false" if "false" in said else "true", self._anonymous[0])
        elif listens:
            self.set("allow_anonymous", "false", Line("default", "allow_anonymous", "false"))

    def _users(self, line: Line) -> None:
        names = users_of(text_of(self._folder / line.value, line)) if (self._folder / line.value).exists() else []
        who = (
            f"{len(names)} users ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})" if names else "its users"
        )
        self.remark(line, f"no counterpart: passwords are hashed otherwise: forebay user add NAME for {who}")

    def _acl(self, line: Line) -> None:
        path = self._folder / line.value
        if not path.exists():
            self.remark(line, f"not imported: there is no {path}")
            return
        for rule in read_acl(text_of(path, line), path.name):
            row = {"deny": "readwrite"} if rule.access == "deny" else {"allow": rule.access}
            row["topic"] = rule.topic
            if rule.user is not None:
                row["username"] = rule.user
            elif not rule.pattern:
                self.result.remarks.append(
                    f"{rule.where}: topic: differs: for everybody here, there for who has no name"
                )
            self._rules.append(row)


def _addresses(host: str, port: str) -> list[str]:
    if not host:
        return [f"0.0.0.0:{port}", f"[::]:{port}"]
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]


def convert(text: str, folder: Path) -> Imported:
    """The settings of a mosquitto.conf that lies in ``folder``. Raises ImportFileError."""
    conversion = Conversion(folder)
    for line in read(text, folder):
        conversion.take(line)
    return conversion.finish()


def known() -> set[str]:
    """The keys of mosquitto.conf that are known here, with a counterpart or with a reason."""
    own = {"connection", "listener", "port", "bind_address", "allow_anonymous", "password_file", "acl_file", "log_type"}
    return own | set(_PER_LISTENER) | set(_SAME) | set(_WHY)
