"""A bridge of mosquitto.conf as an uplink."""

import re
from typing import Any, Final, final

from gateway.imports.mosquitto_file import Line
from gateway.imports.table import ImportFileError

_VERSIONS: Final = {"mqttv31": "3.1.1", "mqttv311": "3.1.1", "mqttv50": "5"}
_PLAIN: Final = {  # their keys whose value is ours as it stands
    "remote_clientid": "client_id", "clientid": "client_id", "remote_username": "user", "username": "user",
    "bridge_cafile": "ca", "bridge_certfile": "cert", "bridge_keyfile": "key", "notification_topic": "status_topic",
}  # fmt: skip
_SWITCHES: Final = {"bridge_insecure": "insecure", "bridge_outgoing_retain": "retain"}
_WHY: Final = {
    "remote_password": "a password is not carried over: put it in a file of its own and name that in password_file",
    "password": "a password is not carried over: put it in a file of its own and name that in password_file",
    "cleansession": "what goes out waits on disk always; session_expiry is for what comes in",
    "local_cleansession": "what goes out waits on disk always",
    "restart_timeout": "the pause between tries grows from 100 ms to 30 s",
    "start_type": "an uplink is connected always; forebay uplink pause stops it",
    "round_robin": "the first address is the one to be on, the others stand in for it",
    "idle_timeout": "an uplink is connected always",
    "threshold": "an uplink is connected always",
    "try_private": "loops are known by origin and hops of each message, not by a bit of CONNECT",
    "bridge_attempt_unsubscribe": "nothing is subscribed to that would have to be given up",
    "bridge_capath": "name one file with the certificates in ca",
    "bridge_tls_version": "1.2 and newer are spoken",
    "bridge_max_packet_size": "the other side says it in its CONNACK",
    "bridge_bind_address": "the system chooses",
    "bridge_identity": "keys agreed on beforehand (PSK) are not spoken",
    "bridge_psk": "keys agreed on beforehand (PSK) are not spoken",
    "bridge_require_ocsp": "OCSP is not asked",
    "local_clientid": "an uplink is no client of this gateway",
    "local_username": "an uplink is no client of this gateway, the rules of acl do not bind it",
    "local_password": "an uplink is no client of this gateway",
}


@final
class Bridge:
    """What stands below ``connection NAME``."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.remarks: list[str] = []
        self._row: dict[str, Any] = {}
        self._addresses: list[str] = []
        self._rules: list[dict[str, Any]] = []
        self._version = ""
        self._tls = False
        self._notify = {"notifications": True, "notifications_local_only": False}

    def take(self, line: Line) -> bool:
        """Whether the setting is one of a bridge. Raises ImportFileError."""
        key, value = line.key, line.value
        if key in ("address", "addresses"):
            self._addresses += value.split()
        elif key == "topic":
            self._topic(line)
        elif key in _PLAIN:
            self._row[_PLAIN[key]] = value
            self._tls = self._tls or key in ("bridge_cafile", "bridge_certfile")
        elif key in _SWITCHES:
            self._row[_SWITCHES[key]] = flag(line)
        elif key in self._notify:
            self._notify[key] = flag(line)
        elif key == "keepalive_interval":
            self._row["keep_alive"] = max(number(line), 1)
        elif key == "bridge_alpn":
            self._row["alpn"] = [value]
        elif key in ("bridge_protocol_version", "mqtt_version"):
            if value not in _VERSIONS:
                raise ImportFileError(f"{line.where}: {key} {value}: expected {', '.join(_VERSIONS)}")
            self._version = _VERSIONS[value]
        elif key in _WHY:
            self._tls = self._tls or key == "bridge_capath"
            self.remarks.append(f"{line.where}: {key}: no counterpart: {_WHY[key]}")
        else:
            return False
        return True

    def row(self) -> dict[str, Any]:
        """The uplink. Raises ImportFileError when an address or all topics are missing."""
        where = f"{self.line.where}: connection {self.line.value}"
        if not self._addresses:
            raise ImportFileError(f"{where}: expected an address")
        if not self._rules:
            raise ImportFileError(f"{where}: expected a topic that has a counterpart")
        scheme = "mqtts" if self._tls else "mqtt"
        version = self._version or "3.1.1"
        if version != "5" and any(rule["direction"] == "both" for rule in self._rules):
            version = "5"
            self.remarks.append(f"{where}: topics that go both ways need MQTT 5, so that is spoken")
        status = "local" if self._notify["notifications_local_only"] else "both"
        return {
            "name": re.sub(r"[^A-Za-z0-9._-]", "-", self.line.value)[:64],
            "addresses": [f"{scheme}://{address}" for address in self._addresses],
            "rules": self._rules,
            "version": version,
            "status_topics": status if self._notify["notifications"] else "off",
            **self._row,
        }

    def _topic(self, line: Line) -> None:
        """topic PATTERN [[[out|in|both] QOS] LOCAL-PREFIX REMOTE-PREFIX]."""
        words = ["" if word == '""' else word for word in line.value.split()]
        pattern, direction, qos, local, remote = [*words, *["", "out", "0", "", ""][len(words) :]][:5]
        if not words or len(words) > 5 or direction not in ("out", "in", "both") or qos not in ("0", "1", "2"):
            raise ImportFileError(
                f"{line.where}: topic {line.value}: expected PATTERN, out, in or both, a QoS and two prefixes"
            )
        if not pattern:
            start, _, pattern = local.rpartition("/")
            there, _, last = remote.rpartition("/")
            if pattern != last or not pattern:
                self.remarks.append(f"{line.where}: topic: no counterpart: one topic under quite another name there")
                return
            local, remote = f"{start}/" if start else "", f"{there}/" if there else ""
        rule: dict[str, Any] = {"direction": direction, "filter": pattern, "qos": int(qos)}
        if local:
            rule["local_prefix"] = local
        if remote:
            rule["remote_prefix"] = remote
        if qos == "0":
            self.remarks.append(
                f"{line.where}: topic: QoS 0 as there, so nothing waits while the link is away; 1 keeps it"
            )
        self._rules.append(rule)


def known() -> set[str]:
    """The keys of a bridge that are known here, with a counterpart or with a reason."""
    own = {"address", "addresses", "topic", "keepalive_interval", "bridge_alpn", "bridge_protocol_version"}
    return own | {"notifications", "notifications_local_only"} | set(_PLAIN) | set(_SWITCHES) | set(_WHY)


def flag(line: Line) -> bool:
    """Raises ImportFileError."""
    if line.value not in ("true", "false"):
        raise ImportFileError(f"{line.where}: {line.key} {line.value}: expected true or false")
    return line.value == "true"


def number(line: Line) -> int:
    """Raises ImportFileError."""
    if not re.fullmatch(r"-?[0-9]{1,10}", line.value):
        raise ImportFileError(f"{line.where}: {line.key} {line.value}: expected a whole number")
    return int(line.value)
