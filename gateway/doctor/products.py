"""Programs that publish and collect: what their settings are called, how a client id gives them away, what they keep.

Facts of their documentation and of runs against them; what is not known is left out and said in MQTT's own words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

# what a setting is about; ``Product.words`` has them
QOS: Final = "qos"
CLEAN: Final = "clean"  # a session that outlives the connection
EXPIRY: Final = "expiry"
CLIENT_ID: Final = "client_id"
KEEP_ALIVE: Final = "keep_alive"
WINDOW: Final = "window"  # messages that it may leave unacknowledged
TOPICS: Final = "topics"

# what becomes of what a publisher makes while it is not connected
DROPS: Final = "drops"
KEEPS: Final = "keeps"  # in its memory, whatever the session flags say
BY_SESSION: Final = ""  # by the standard: what was not acknowledged goes with the session


@final
@dataclass(frozen=True, slots=True)
class Product:
    name: str
    title: str
    words: Mapping[str, str] = field(default_factory=dict)
    ids: str = ""  # client ids that it makes up
    random: str = ""  # of these, those that are new at each start
    offline: str = BY_SESSION
    tool: bool = False  # looks in now and then, and needs nothing kept

    def word(self, about: str) -> str:
        """What to set, in its own words where they are known."""
        return self.words.get(about, _PLAIN[about])


_PLAIN: Final = {
    QOS: "QoS = 1",
    CLEAN: "clean session = false",
    EXPIRY: "session expiry interval",
    CLIENT_ID: "a fixed client id",
    KEEP_ALIVE: "keep alive = 30 s",
    WINDOW: "messages in flight",
    TOPICS: "topics",
}

PRODUCTS: Final = (
    Product(
        "factry",
        "Factry collector",
        {
            QOS: "qosCollector = 1",
            CLEAN: "persistentSession = true",
            KEEP_ALIVE: "keepAliveSecs = 30",
        },
        ids=r"(?i)factry.*",
    ),
    Product(
        "telegraf",
        "Telegraf inputs.mqtt_consumer",
        {
            QOS: "qos = 1",
            CLEAN: 'persistent_session = true, with client_id = "..."',
            CLIENT_ID: 'client_id = "..." of its own',
            KEEP_ALIVE: 'keepalive = "30s"',
            WINDOW: "max_undelivered_messages",
            TOPICS: "topics = [...]",
        },
        ids=r"(?i)telegraf.*",
        random=r"Telegraf-Consumer-\w{5}",
    ),
    Product(
        "ignition",
        "Ignition MQTT Engine",
        {
            QOS: 'custom namespace: QoS1 ticked, with the property {"allowCustomNamespacesQos1":true}',
            CLEAN: "custom namespace: Clean Session unticked, with a Client ID",
            CLIENT_ID: "custom namespace: Client ID",
        },
    ),
    Product(
        "node-red",
        "Node-RED",
        {
            QOS: "QoS 1 in the mqtt node",
            CLEAN: 'mqtt-broker node: "Use clean session" unticked, with a client id',
            EXPIRY: "mqtt-broker node: session expiry (secs)",
            CLIENT_ID: "mqtt-broker node: Client ID",
            KEEP_ALIVE: "mqtt-broker node: Keep Alive = 30",
            TOPICS: "topic of the mqtt in node",
        },
        ids=r"(?i)(nodered|node-red).*",
        random=r"nodered_?[0-9a-f]{16}",
        offline=DROPS,
    ),
    Product(
        "redpanda",
        "Redpanda Connect input mqtt",
        {
            QOS: "qos: 1",
            CLEAN: "clean_session: false, with client_id",
            CLIENT_ID: "client_id: ...",
            KEEP_ALIVE: "keepalive: 30",
            TOPICS: "topics: [...]",
        },
        ids=r"(?i)(redpanda|benthos).*",
    ),
    Product(
        "mqtt.js",
        "mqtt.js",
        {
            QOS: "qos: 1",
            CLEAN: "clean: false, with a clientId",
            EXPIRY: "properties.sessionExpiryInterval",
            CLIENT_ID: "clientId: ... fixed",
            KEEP_ALIVE: "keepalive: 30",
        },
        ids=r"mqttjs_.*",
        random=r"mqttjs_[0-9a-f]{8}",
        offline=KEEPS,
    ),
    Product("mosquitto", "mosquitto_sub", {CLIENT_ID: "-i ID"}, ids=r"mosq-.*", random=r"mosq-\w{18}", tool=True),
    Product("forebay", "forebay sub", ids=r"forebay-[0-9a-f]{16}", random=r"forebay-[0-9a-f]{16}", tool=True),
    Product("paho", "paho", {CLIENT_ID: "client_id"}, ids=r"paho.*", random=r"paho\d{10,}|paho/[0-9A-F]{16,}"),
)
OTHER: Final = Product("other", "client")
_BY_NAME: Final = {product.name: product for product in PRODUCTS}


def product_of(client_id: str, declared: str = "") -> Product:
    """The program behind a client id: as declared, else by the ids that it makes up."""
    known = _BY_NAME.get(declared)
    if known is not None:
        return known
    for product in PRODUCTS:
        if product.ids and re.fullmatch(product.ids, client_id):
            return product
    return OTHER


def is_made_up(client_id: str) -> bool:
    """Whether a program makes this id anew at each start."""
    return any(product.random and re.fullmatch(product.random, client_id) for product in PRODUCTS)


def stem(client_id: str) -> str:
    """The id without an end that looks drawn by lot; empty when it has none."""
    match = re.fullmatch(r"(.*?)[-_.:/]?(?=[0-9A-Za-z]*\d)[0-9A-Za-z]{6,}", client_id)
    return match[1] if match is not None else ""
