"""paho-mqtt as a persistent QoS 1 collector of spBv1.0/#: PORT CLIENT_ID VERSION (4, 5). It ends with its input.

Prints ``READY`` when it is connected with its subscription, and ``M ID TOPIC PAYLOAD`` for each message: ingest id (0
where there is none), payload in hex.
"""

import sys
import threading
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


def say(*words: object) -> None:
    print(*words, flush=True)


def on_connect(client: paho.Client, _data: Any, flags: Any, _code: Any, _properties: Any) -> None:
    if flags.session_present:
        say("READY")
    else:
        client.subscribe("spBv1.0/#", 1)


def on_message(_client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
    pairs = dict(getattr(message.properties, "UserProperty", ()))
    if message.qos == 1:
        say("M", pairs.get("forebay-id", 0), message.topic, message.payload.hex())


def main() -> None:
    port, client_id, version = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    persistent: dict[str, Any] = {"clean_session": False} if version == 4 else {}
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion(version), **persistent)
    client.on_connect, client.on_message = on_connect, on_message
    client.on_subscribe = lambda *_: say("READY")
    if version == 5:
        expiry = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        expiry.SessionExpiryInterval = 3600
        client.connect("127.0.0.1", port, clean_start=False, properties=expiry)
    else:
        client.connect("127.0.0.1", port)
    waiting = threading.Thread(target=sys.stdin.read, daemon=True)
    waiting.start()
    while waiting.is_alive():
        client.loop(0.05)
    client.disconnect()
    client.loop(0.05)


main()
