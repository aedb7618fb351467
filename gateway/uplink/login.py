"""From an uplink's settings to what the core wants to know of it."""

from typing import Final

from gateway.core.uplink import Login, Uplink
from gateway.mqtt.packets import V5
from gateway.mqtt.reasons import reason_name
from gateway.settings.uplink import UplinkRow
from gateway.settings.uplink_kinds import Remote
from gateway.uplink.dial import DialError

# CONNACK codes after which trying soon is of no use: somebody must change something here or there
FOR_GOOD: Final = frozenset((0x81, 0x82, 0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x90, 0x95, 0x99, 0x9A, 0x9B, 0x9C, 0x9D))
FOR_GOOD_V3: Final = frozenset((1, 2, 4, 5))
_WORDS_V3: Final = {
    1: "protocol version not accepted",
    2: "client identifier rejected",
    3: "server unavailable",
    4: "bad user name or password",
    5: "not authorized",
}


def refusal(code: int, version: int) -> tuple[str, bool]:
    """What a CONNACK says, and whether trying soon is of no use."""
    if version == V5:
        return f"{reason_name(code)} (0x{code:02x})", code in FOR_GOOD
    return f"{_WORDS_V3.get(code, 'unknown reason')} (return code {code})", code in FOR_GOOD_V3


def uplink_of(row: UplinkRow) -> Uplink:
    """Its rules and limits."""
    uplink = Uplink(row.name, list(row.rules))
    uplink.max_bytes = row.max_bytes
    uplink.drop_newest = row.when_full == "drop_newest"
    uplink.max_age_s = row.max_age_s
    uplink.max_rate = row.max_rate
    uplink.max_bytes_s = row.max_bytes_per_s
    uplink.window = row.max_inflight
    uplink.dead_topic = row.dead_letter
    uplink.retain = row.retain
    return uplink


def client_id_of(row: UplinkRow, gateway_id: str) -> str:
    """As the broker knows it."""
    return row.client_id or f"forebay-{gateway_id}-{row.name}"


def status_topic_of(row: UplinkRow, client_id: str) -> str:
    """Where its state is published."""
    return row.status_topic or f"$SYS/broker/connection/{client_id}/state"


def login_of(row: UplinkRow, remote: Remote, client_id: str) -> Login:
    """How to log in there. Raises DialError when the password cannot be read."""
    login = Login(row.name, f"{remote.host}:{remote.port}", client_id)
    login.version = row.version
    login.keep_alive_s = row.keep_alive_s
    login.session_expiry_s = row.session_expiry_s if row.version == V5 else 0
    if row.user:
        login.username = row.user
        login.password = password_of(row)
    if row.status_topics == "both":
        login.status_topic = status_topic_of(row, client_id)
    if row.heartbeat_ms:
        login.beat_topic = row.heartbeat_topic or f"forebay/heartbeat/{client_id}"
    return login


def password_of(row: UplinkRow) -> bytes | None:
    """From the settings, or the first line of its file as it is now. Raises DialError."""
    if row.password_file is None:
        return row.password.encode() if row.password else None
    try:
        data = row.password_file.read_bytes()
    except OSError as e:
        raise DialError("password", f"{row.password_file}: {e.strerror}", True) from None
    return data.split(b"\n", 1)[0].rstrip(b"\r")
