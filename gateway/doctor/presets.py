"""What a collector needs here, and what is to be typed in over there, for each kind of program."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from gateway.settings.collector import PRODUCTS
from gateway.settings.kinds import quoted

KEPT_LEAST_S: Final = 7 * 86_400  # of a session that is granted: a weekend and a public holiday
WINDOW: Final = 1000  # messages that a collector may leave unacknowledged which acknowledges in batches
BATCHING: Final = ("telegraf", "redpanda")  # acknowledge when their output has written


@final
@dataclass(frozen=True, slots=True)
class Wanted:
    """``client_id`` is a pattern where the program makes up its own."""

    product: str
    name: str
    client_id: str
    topics: tuple[str, ...]
    host: str
    port: int
    outage_s: int


def rows(wanted: Wanted) -> dict[str, list[Mapping[str, Any]]]:
    """The rows of the settings file, by table."""
    kept = max(KEPT_LEAST_S, wanted.outage_s)
    return {
        "collector": [
            {
                "name": wanted.name,
                "client_id": wanted.client_id,
                "product": wanted.product,
                "topics": list(wanted.topics),
            }
        ],
        "client_type": [{"username": wanted.name, "type": "application"}],
        "min_session_expiry": [{"client_id": wanted.client_id, "seconds": kept}],
    }


def is_ours(name: str, client_id: str) -> dict[str, Callable[[Mapping[str, Any]], bool]]:
    """Which rows of each table are those of a collector that was added."""
    return {
        "collector": lambda row: row.get("name") == name,
        "client_type": lambda row: row.get("username") == name and "client_id" not in row,
        "min_session_expiry": lambda row: row.get("client_id") == client_id,
    }


def typed_in(wanted: Wanted, password: str) -> list[str]:
    """Lines of settings for the other machine."""
    return _LINES[wanted.product](wanted, password)


def limits(product: str) -> dict[str, int]:
    """Settings of the gateway that must be at least so large."""
    return {"mqtt.max_inflight": WINDOW} if product in BATCHING else {}


def _factry(wanted: Wanted, password: str) -> list[str]:
    return [
        "Factry MQTT collector, settings of the collector:",
        f"  broker             tcp://{wanted.host}:{wanted.port}",
        f"  user               {wanted.name}",
        f"  password           {password}",
        "  qosCollector       1",
        "  persistentSession  true",
        "  keepAliveSecs      30",
        f"  topics             {', '.join(wanted.topics)}",
        f"Its client id is derived from its UUID and must match {wanted.client_id}.",
    ]


def _telegraf(wanted: Wanted, password: str) -> list[str]:
    return [
        "telegraf.conf:",
        "[[inputs.mqtt_consumer]]",
        f'  servers = ["tcp://{wanted.host}:{wanted.port}"]',
        f"  topics = [{', '.join(quoted(topic) for topic in wanted.topics)}]",
        f"  username = {quoted(wanted.name)}",
        f"  password = {quoted(password)}",
        "  qos = 1",
        "  persistent_session = true",
        f"  client_id = {quoted(wanted.client_id)}",
        f"  max_undelivered_messages = {WINDOW}",
        '  keepalive = "30s"',
        "A topic that is taken out there stays subscribed here: then run forebay sessions remove " + wanted.client_id,
    ]


def _ignition(wanted: Wanted, password: str) -> list[str]:
    return [
        "Ignition, MQTT Engine:",
        '  custom property    {"allowCustomNamespacesQos1":true}',
        f"  server             tcp://{wanted.host}:{wanted.port}, user {wanted.name}, password {password}",
        f"  custom namespace   subscriptions {', '.join(wanted.topics)}; QoS1 ticked; Clean Session unticked",
        f"  Client ID          {wanted.client_id}",
        "Sparkplug namespaces of MQTT Engine have no persistent session: they are served live, and by rebirths.",
    ]


def _node_red(wanted: Wanted, password: str) -> list[str]:
    return [
        "Node-RED, mqtt-broker node:",
        f"  Server             {wanted.host}, port {wanted.port}",
        f"  Client ID          {wanted.client_id}",
        '  Use clean session  unticked (5.0: "Use clean start" unticked, '
        f"session expiry {max(KEPT_LEAST_S, wanted.outage_s)})",
        "  Keep Alive         30",
        f"  Security           user {wanted.name}, password {password}",
        "  Auto-unsubscribe   unticked: a redeploy would unsubscribe, and drop what waits",
        f"mqtt in nodes: topics {', '.join(wanted.topics)}; QoS 1",
    ]


def _redpanda(wanted: Wanted, password: str) -> list[str]:
    return [
        "Redpanda Connect:",
        "input:",
        "  mqtt:",
        f"    urls: [ tcp://{wanted.host}:{wanted.port} ]",
        f"    topics: [ {', '.join(quoted(topic) for topic in wanted.topics)} ]",
        f"    client_id: {quoted(wanted.client_id)}",
        "    clean_session: false",
        "    qos: 1",
        "    keepalive: 30",
        f"    user: {quoted(wanted.name)}",
        f"    password: {quoted(password)}",
    ]


def _other(wanted: Wanted, password: str) -> list[str]:
    return [
        f"  address            {wanted.host}, port {wanted.port}",
        f"  client id          {wanted.client_id}, and no other client with it",
        "  clean session      false (5.0: clean start = 0 and session expiry interval = "
        f"{max(KEPT_LEAST_S, wanted.outage_s)})",
        f"  subscriptions      {', '.join(wanted.topics)} at QoS 1",
        "  keep alive         30",
        f"  user               {wanted.name}",
        f"  password           {password}",
    ]


_LINES: Final = {
    "factry": _factry,
    "telegraf": _telegraf,
    "ignition": _ignition,
    "node-red": _node_red,
    "redpanda": _redpanda,
    "other": _other,
}
assert set(_LINES) == set(PRODUCTS)
