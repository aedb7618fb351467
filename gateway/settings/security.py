"""The settings that say who may come in by which way, and do what there (docs/security.md)."""

import dataclasses
from pathlib import Path

from gateway.core.acl import Rule
from gateway.settings.board import BoardSettings
from gateway.settings.entry import setting
from gateway.settings.kinds import Address, Addresses, Boolean, Choice, Duration, FilePath, Integer
from gateway.settings.rule_kinds import AclRules, Origins, Rates

_UNLIMITED = {"unlimited": 0}


@dataclasses.dataclass(kw_only=True, slots=True)
class SecuritySettings(BoardSettings):
    """Part of ``Settings``."""

    listeners_mtls: list[Address] = setting(
        "listeners.mtls",
        Addresses(),
        [],
        "TLS listeners for clients with a certificate only; they need tls.client_ca as well.",
    )
    listeners_ws: list[Address] = setting("listeners.ws", Addresses(), [], "WebSocket listeners.")
    listeners_wss: list[Address] = setting(
        "listeners.wss", Addresses(), [], "WebSocket listeners over TLS; they need tls.cert and tls.key."
    )
    listeners_unix: Path | None = setting(
        "listeners.unix", FilePath(), "", "Path of a Unix socket for clients on this machine; empty = none."
    )
    listeners_unix_mode: str = setting(
        "listeners.unix_mode",
        Choice("600", "660", "666"),
        "660",
        "Who may open it: its owner, its group too, or everybody.",
    )
    tls_client_ca: Path | None = setting(
        "tls.client_ca",
        FilePath(),
        "",
        "Certificates of those who sign clients' certificates, PEM; with it TLS listeners ask clients for theirs.",
    )
    tls_crl: Path | None = setting(
        "tls.crl", FilePath(), "", "Certificate revocation lists of tls.client_ca, PEM; empty = none is asked."
    )
    tls_certificate_user: str = setting(
        "tls.certificate_user",
        Choice("cn", "san", "off"),
        "cn",
        "Which user a client with a certificate is: its subject's common name, its first alternative name, or the one "
        "that it gives with a password.",
    )
    websocket_origins: list[str] = setting(
        "websocket.origins",
        Origins(),
        [],
        "Web pages that may connect besides those of the address that they connect to.",
    )
    acl: list[Rule] = setting(
        "acl",
        AclRules(),
        [],
        "Who may publish and subscribe where; with any rule here, what no rule allows is denied (docs/security.md).",
    )
    auth_failures_per_minute: int = setting(
        "auth.failures_per_minute",
        Integer(1, 1_000_000, _UNLIMITED),
        30,
        "Wrong passwords that may be tried for one user from one address, five times as many for all users together; "
        "beyond them logins are refused unseen.",
    )
    connection_rate: int = setting(
        "connection_rate",
        Integer(1, 1_000_000, _UNLIMITED),
        "unlimited",
        "New connections per second that a listener takes; more wait.",
    )
    address_connection_rate: int = setting(
        "address_connection_rate",
        Integer(1, 1_000_000, _UNLIMITED),
        "unlimited",
        "New connections per second that one address may make; more are closed.",
    )
    flapping_detect_enable: bool = setting(
        "flapping_detect.enable",
        Boolean(),
        False,
        "Whether a client id that connects too often is kept out for a while (EMQX's name, as those of its limits).",
    )
    flapping_detect_max_count: int = setting(
        "flapping_detect.max_count", Integer(1, 10_000), 15, "Connections within the window that are not too many."
    )
    flapping_detect_window_time: int = setting(
        "flapping_detect.window_time", Duration(0.1, 86_400, ms=True), "1m", "The window."
    )
    flapping_detect_ban_time: int = setting(
        "flapping_detect.ban_time",
        Duration(0.1, ms=True),
        "5m",
        "For how long it is kept out; a restart of the broker ends it too.",
    )
    mqtt_rate_limits_total_enabled: bool = setting(
        "mqtt.rate-limits.total.enabled",
        Boolean(),
        False,
        "Whether all clients together are read no faster than mqtt.rate-limits.total.config.",
        "total_rate_on",
        "MQTT_TOTAL_RATE_LIMITS_ENABLED",
    )
    mqtt_rate_limits_total_config: list[tuple[int, int]] = setting(
        "mqtt.rate-limits.total.config",
        Rates(),
        "1000:1,50000:60",
        "Messages that may come from all clients in so many seconds.",
        "total_rate",
        "MQTT_TOTAL_RATE_LIMITS_CONFIG",
    )
    mqtt_rate_limits_incoming_publish_enabled: bool = setting(
        "mqtt.rate-limits.incoming-publish.enabled",
        Boolean(),
        False,
        "Whether each client is read no faster than mqtt.rate-limits.incoming-publish.client-config.",
        "client_rate_on",
        "MQTT_INCOMING_RATE_LIMITS_ENABLED",
    )
    mqtt_rate_limits_incoming_publish_client_config: list[tuple[int, int]] = setting(
        "mqtt.rate-limits.incoming-publish.client-config",
        Rates(),
        "10:1,300:60",
        "Messages that may come from one client in so many seconds; more wait on its side, none is lost.",
        "client_rate",
        "MQTT_INCOMING_RATE_LIMITS_CLIENT_CONFIG",
    )
