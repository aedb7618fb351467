"""What the doctor looks at, typed: the rows of ``gateway.core.facts`` and what the settings and the store say."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from gateway.settings.collector import CollectorRule


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client id that connected since the gateway's start."""

    client_id: str
    peer: str = ""
    user: str = ""
    version: str = "3.1.1"
    connected: bool = True
    since_ms: int = 0  # it came, or left
    assigned: bool = False
    clean: bool = False
    keep_alive_s: int = 60
    expiry_s: int | None = None  # asked for
    max_packet: int | None = None
    connects: int = 1
    quarrels: int = 0
    rival: str = ""
    silences: int = 0
    asked: Mapping[str, int] = field(default_factory=dict)  # filters, with the answer of the SUBACK
    asked_more: bool = False  # there are others
    publishes: bool = False
    topics_more: bool = False
    largest: int = 0  # bytes of a message of it
    message_expiry_s: int | None = None

    @property
    def host(self) -> str:
        return self.peer.rpartition(":")[0]

    @property
    def is_v5(self) -> bool:
        return self.version == "5.0"

    @property
    def ends_with_connection(self) -> bool:
        """Its session, by what it asked for."""
        return not self.expiry_s if self.is_v5 else self.clean


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """A session or a shared group: for whom messages may be kept."""

    client_id: str
    kind: str = "session"
    connected: bool = True
    persistent: bool = True
    application: bool = False
    expiry_s: int | None = None  # None = never
    granted_s: int = 0  # by a rule of min_session_expiry
    subscriptions: Mapping[str, int] = field(default_factory=dict)  # filter -> QoS
    members: tuple[str, ...] = ()
    inflight: int = 0
    window: int = 0
    unacked_ms: int = 0
    queued: int = 0
    queued_bytes: int = 0
    rate: float | None = None  # messages/s
    max_bytes: int | None = None
    max_age_s: int | None = None
    drops: Mapping[str, int] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """A topic that a client published on, and where it leads."""

    publisher: str
    topic: str
    qos: tuple[int, ...]
    targets: Mapping[str, int]  # keeper -> subscription QoS
    sparkplug: bool = False
    closed: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Settings and state of the gateway itself; sizes in bytes."""

    durability: str = "fsync"
    store_used: int = 0
    store_max: int = 1 << 30
    store_free: int = 1 << 40
    store_min_free: int = 0
    store_error: str = ""
    read_only: str = ""  # why nothing can be written since the start
    safe_mode: str = ""  # what it is about, in a line; "" = it is not on
    synchronised: bool = True
    upgrade_qos: bool = False
    store_qos0: bool = False
    message_expiry_s: int = 0
    device_limit: int = 0
    device_ttl_s: int = 0
    session_expiry_s: int | None = None  # None = never
    max_session_expiry_s: int | None = None
    max_inflight: int = 32
    bridge: bool = True
    bridge_elide: bool = False
    push_back_s: float = 30
    keep_alive_percent: int = 150
    flush_evicted: int = 0
    flush_max: int = 10_000
    flash_left: float | None = None  # of its life, of 1; None = not known
    flash_years: float | None = None  # at the rate of the last days
    flash_day_bytes: int = 0
    flash_spares_low: bool = False
    message_bytes: float = 0  # of payload, on average
    collectors: tuple[CollectorRule, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    gateway: Gateway = field(default_factory=Gateway)
    clients: Mapping[str, Client] = field(default_factory=dict)
    keepers: Mapping[str, Keeper] = field(default_factory=dict)
    leads: tuple[Lead, ...] = ()
    leads_left_out: int = 0
    nodes: tuple[Mapping[str, Any], ...] = ()  # of the Sparkplug bridge
    uplinks: tuple[Mapping[str, Any], ...] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)  # of the log of the applications, where that is not here


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is to be covered, and from where on something is too much."""

    outage_s: int = 8 * 3600
    unacked_s: float = 60  # a message without its acknowledgement
    keep_alive_s: int = 120


def clients_of(rows: Iterable[dict[str, Any]]) -> dict[str, Client]:
    """Of ``facts()["clients"]``."""
    return {row["client_id"]: Client(**row) for row in rows}


def keepers_of(rows: Iterable[dict[str, Any]]) -> dict[str, Keeper]:
    """Of ``facts()["keepers"]``."""
    return {row["client_id"]: Keeper(**{**row, "members": tuple(row["members"])}) for row in rows}


def leads_of(rows: Iterable[dict[str, Any]]) -> tuple[Lead, ...]:
    """Of ``facts()["flows"]``."""
    return tuple(
        Lead(
            publisher=row["publisher"],
            topic=row["topic"],
            qos=tuple(row["qos"]),
            targets={target["client_id"]: target["qos"] for target in row["targets"]},
            sparkplug=row["sparkplug"],
            closed=row["closed"],
        )
        for row in rows
    )
