"""The misconfigurations, one each, on plants where all else is right; and plants where all is.

A case builds its clients on a port; the test names each client id after its case. ``settings`` other than the common
ones give a case a gateway of its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, final

from tests.system.doctor.drivers import Device, Gmqtt, Loop, MqttJs, Node, Paho

NEVER: Final = 0xFFFFFFFF


@final
@dataclass(slots=True)
class Site:
    """What a case needs to make its clients."""

    loop: Loop
    node: Node
    port: int = 0


@final
@dataclass(slots=True)
class Plant:
    publisher: Device
    collector: Device
    others: list[Device] = field(default_factory=list)  # that stay
    rival: Device | None = None  # goes and comes with the collector, and before it
    returns: Callable[[], Device] | None = None  # the collector as it comes back, if not as it was


@final
@dataclass(frozen=True, slots=True)
class Case:
    """``code`` "" = nothing is to be found. ``setting`` must be in the finding's, ``where`` is whose machine."""

    name: str
    code: str
    setting: str
    where: str
    build: Callable[["Site", str], Plant]
    settings: dict[str, Any] = field(default_factory=dict)
    rows: str = ""  # of a settings file
    size: int = 0  # bytes of filler of a message
    count: int = 10  # messages while the collector is away


def right_publisher(site: Site, name: str, **how: Any) -> Paho:
    return Paho(site.port, f"{name}-plc", f"{name}/data", **how)


def right_collector(site: Site, name: str, **how: Any) -> Paho:
    return Paho(site.port, f"{name}-hist", subscribe=(f"{name}/#",), **how)


def plain(
    publisher: Callable[[Site, str], Device] = right_publisher,
    collector: Callable[[Site, str], Device] = right_collector,
) -> Callable[[Site, str], Plant]:
    return lambda site, name: Plant(publisher(site, name), collector(site, name))


def paho(**how: Any) -> Callable[[Site, str], Device]:
    return lambda site, name: right_collector(site, name, **how)


def telegraf(**how: Any) -> Callable[[Site, str], Device]:
    """inputs.mqtt_consumer: 3.1.1, subscribes only without a session."""
    return lambda site, name: Paho(
        site.port, f"telegraf-{name}", subscribe=(f"{name}/#",), once=True, **{"keepalive": 60, **how}
    )


def gmqtt(**how: Any) -> Callable[[Site, str], Device]:
    return lambda site, name: Gmqtt(site.loop, site.port, f"{name}-hist", subscribe=(f"{name}/#",), **how)


def mqttjs(client_id: str = "{}-hist", topic: str = "{}/#", **how: Any) -> Callable[[Site, str], Device]:
    def make(site: Site, name: str) -> Device:
        return MqttJs(
            site.node, site.port, f"{name}-hist", subscribe=(topic.format(name),),
            **{"clientId": client_id.format(name), "clean": False, "protocolVersion": 4, **how},
        )  # fmt: skip

    return make


def js_publisher(client_id: str = "{}-plc", **how: Any) -> Callable[[Site, str], Device]:
    return lambda site, name: MqttJs(
        site.node, site.port, f"{name}-plc", f"{name}/data",
        **{"clientId": client_id.format(name), "clean": False, "protocolVersion": 4, **how},
    )  # fmt: skip


def gmqtt_publisher(**how: Any) -> Callable[[Site, str], Device]:
    return lambda site, name: Gmqtt(site.loop, site.port, f"{name}-plc", f"{name}/data", **how)


def new_id_each_time(site: Site, name: str) -> Plant:
    first = mqttjs("mqttjs_0a1b00aa")(site, name)
    return Plant(right_publisher(site, name), first, returns=lambda: mqttjs("mqttjs_9c8d77ee")(site, name))


def given_id(site: Site, name: str) -> Plant:
    def make() -> Device:
        return Paho(site.port, "", subscribe=(f"{name}/#",), version=5, expiry=NEVER)

    return Plant(right_publisher(site, name), make(), returns=make)


def rivals(site: Site, name: str) -> Plant:
    return Plant(right_publisher(site, name), right_collector(site, name), rival=right_collector(site, name))


def with_orphan(site: Site, name: str) -> Plant:
    old = Paho(site.port, f"{name}-hist-old", subscribe=(f"{name}/#",))
    old.open()
    old.close()
    return Plant(right_publisher(site, name), right_collector(site, name))


def with_stale_filter(site: Site, name: str) -> Plant:
    before = Paho(site.port, f"{name}-hist", subscribe=(f"{name}/#", f"old-{name}/#"))
    before.open()
    before.close()
    return Plant(right_publisher(site, name), right_collector(site, name))


def late(site: Site, name: str) -> Plant:
    """The collector comes for the first time after the outage."""
    collector = right_collector(site, name)
    return Plant(right_publisher(site, name), Absent(collector))


@final
class Absent:
    """A client that is not there at first."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.calls = 0
        self.received = device.received

    def open(self) -> None:
        self.calls += 1
        if self.calls > 1:
            self.device.open()

    def publish(self, number: int, size: int = 0) -> None:
        raise NotImplementedError

    def settle(self, numbers: Iterable[int]) -> None:
        raise NotImplementedError

    def is_connected(self) -> bool:
        return False

    def close(self) -> None:
        self.device.close()


def sparkplug(site: Site, name: str) -> Plant:
    return Plant(
        Paho(site.port, f"{name}-plc", f"spBv1.0/{name}/NDATA/n", qos=0),
        Paho(site.port, f"{name}-hist", subscribe=(f"spBv1.0/{name}/#",)),
    )


def gathering(site: Site, name: str) -> Plant:
    return Plant(right_publisher(site, name), right_collector(site, name), [Paho(
        site.port, f"{name}-hist2", subscribe=(f"{name}/+",)
    )])  # fmt: skip


COMMON: Final[dict[str, Any]] = {"sys_interval": 0}
DEVICE: Final = "mqtt.persistent-session.device.persisted-messages"

CASES: Final = (
    # the publisher's machine
    Case("a01", "publish_qos0", "QoS = 1", "publisher", plain(lambda s, n: right_publisher(s, n, qos=0))),
    Case("a02", "publish_qos0", "QoS = 1", "publisher", plain(js_publisher(qos=0))),
    Case("a03", "publisher_drops_offline", "keep alive = 0", "publisher",
         plain(js_publisher("nodered_{}", nodered=True))),
    Case("a04", "publisher_clean_session", "session expiry interval", "publisher",
         plain(gmqtt_publisher(clean=False, expiry=None))),
    Case("a05", "publisher_random_id", "a fixed client id", "publisher",
         plain(lambda s, n: Paho(s.port, "", f"{n}/data", version=5, expiry=NEVER))),
    Case("a06", "publisher_message_expiry", "message expiry interval", "publisher",
         plain(gmqtt_publisher(message_expiry=1))),
    Case("a07", "keep_alive_long", "keep alive = 30 s", "publisher", plain(js_publisher(keepalive=600))),
    # the collector's machine
    Case("b01", "collector_clean_session", "clean session = false", "collector", plain(collector=paho(clean=True))),
    Case("b02", "collector_clean_session", "persistent_session = true", "collector",
         plain(collector=telegraf(clean=True))),
    Case("b03", "collector_clean_session", "clean start = 0", "collector",
         plain(collector=mqttjs(clean=True, protocolVersion=5))),
    Case("b04", "collector_no_expiry", "session expiry interval", "collector",
         plain(collector=mqttjs(protocolVersion=5))),
    Case("b05", "collector_clean_start", "clean start = 0", "collector", plain(collector=gmqtt(clean=True))),
    Case("b06", "collector_expiry", "session expiry interval", "collector", plain(collector=gmqtt(expiry=1))),
    Case("b07", "collector_random_id", "clientId", "collector", new_id_each_time),
    Case("b08", "collector_random_id", "a fixed client id", "collector", given_id),
    Case("b09", "subscription_qos0", "qos = 1", "collector", plain(collector=telegraf(qos=0))),
    Case("b10", "subscription_qos0", "QoS 1 in the mqtt node", "collector",
         plain(collector=mqttjs("nodered_{}", qos=0))),
    Case("b11", "duplicate_client_id", "a client id of its own", "collector", rivals),
    Case("b12", "collector_stuck", "max_undelivered_messages", "collector",
         plain(collector=telegraf(never_ack=True))),
    Case("b13", "keep_alive_off", "keep alive = 30 s", "collector", plain(collector=paho(keepalive=0))),
    Case("b14", "group_not_persistent", "clean session = false", "collector",
         plain(collector=mqttjs(topic="$share/g/{}/#", clean=True))),
    Case("b15", "subscription_refused", "topics", "collector",
         plain(collector=lambda s, n: Paho(s.port, f"{n}-hist", subscribe=(f"$share/+/{n}/#",)))),
    Case("b16", "collector_max_packet", "maximum packet size", "collector",
         plain(collector=gmqtt(maximum_packet_size=150)), size=200),
    # the gateway
    Case("c01", "orphan_session", "forebay sessions remove", "gateway", with_orphan),
    Case("c02", "subscription_stale", "forebay sessions remove", "gateway", with_stale_filter),
    Case("c03", "device_limit", f"{DEVICE}.limit", "gateway", plain(), {f"{DEVICE}.limit": 5}),
    Case("c04", "device_ttl", f"{DEVICE}.ttl", "gateway", plain(), {f"{DEVICE}.ttl": 1}),
    Case("c05", "message_expiry", "mqtt.message_expiry_interval", "gateway", plain(),
         {"mqtt.message_expiry_interval": 1}),
    Case("c06", "retention_age", "max_age", "gateway", plain(),
         {"client_type": "c06-hist=application;max_age=1"}),
    Case("c07", "session_expiry", "mqtt.session_expiry_interval", "gateway",
         plain(gmqtt_publisher()), {"mqtt.session_expiry_interval": 1}),
    Case("c08", "session_expiry_capped", "mqtt.max_session_expiry_interval", "gateway",
         plain(collector=gmqtt()), {"mqtt.max_session_expiry_interval": 1}),
    Case("c09", "disk_budget", "store.max_bytes", "gateway", plain(),
         {"store.max_bytes": "1MiB", "store.push_back_s": 0}, size=250_000, count=5),
    Case("c10", "sparkplug_not_raised", "bridge.enabled = true", "gateway", sparkplug, {"bridge.enabled": False}),
    Case("c11", "durability_os", 'durability = "fsync"', "gateway", plain(), {"durability": "os"}),
    Case("c12", "flush_evictions", "session-cache-max-size", "gateway", gathering,
         {f"{DEVICE}.write-and-flush": False, "mqtt.buffered-delivery.session-cache-max-size": 1}),
    Case("c13", "collector_missing", "connect it", "collector", late,
         {"collector": '[{ name = "c13", client_id = "c13-hist" }]'}),
    Case("c14", "subscription_missing", "topics", "collector",
         lambda s, n: Plant(right_publisher(s, n), Paho(s.port, f"{n}-hist", subscribe=(f"{n}/other/#",)),
                            [Paho(s.port, f"{n}-line", f"{n}/other/1")]),
         {"collector": '[{ name = "c14", client_id = "c14-hist", topics = ["c14/#"] }]'}),
    Case("c15", "subscription_refused", "forebay acl allow read 'c15/#'", "gateway", plain(), {"acl": "allow write #"}),
    # all is right
    Case("r01", "", "", "", plain()),
    Case("r02", "", "", "", plain(gmqtt_publisher(), gmqtt())),
    Case("r03", "", "", "",
         plain(js_publisher(), mqttjs(protocolVersion=5, properties={"sessionExpiryInterval": NEVER}))),
    Case("r04", "", "", "", plain(js_publisher(), telegraf())),
    Case("r05", "", "", "", sparkplug),
)  # fmt: skip
