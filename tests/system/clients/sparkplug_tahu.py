"""An edge node with Tahu's Python helpers (tahutils) on paho: aliases, births, data, death (see peers.py)."""

import json
import sys
import time
from typing import Any

import paho.mqtt.client as mqtt
from tahutils import MetricDataType, SpbModel, SpbTopic

port, plan = int(sys.argv[1]), json.load(sys.stdin)
topic = SpbTopic("peers", "tahu")


def values(said: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: bytes.fromhex(value) if kind == "Bytes" else value for name, (kind, value) in said.items()}


kinds = {name: getattr(MetricDataType, kind) for name, (kind, _) in plan["birth"].items()}
node = SpbModel(kinds, use_aliases=True, flatten_states=False)
device = SpbModel(kinds, use_aliases=False, flatten_states=False, is_device=True)
client: Any = mqtt.Client("tahu")  # type: ignore[arg-type] # paho 1
client.will_set(topic.NDEATH, node.getDeathPayload(), 1)
client.connect("127.0.0.1", port)
client.loop_start()
under = topic.construct_device_topic("device")


def publish(name: str, payload: bytes) -> None:
    client.publish(name, payload, 1).wait_for_publish(10)


publish(topic.NBIRTH, node.getBirthPayload(values(plan["birth"])))
publish(under.DBIRTH, device.getBirthPayload(values(plan["birth"])))
for _ in range(plan.get("rounds", 1)):
    publish(topic.NDATA, node.getDataPayload(values(plan["data"])))
    publish(under.ddata, device.getDataPayload(values(plan["data"])))
    time.sleep(plan.get("pause_s", 0))
publish(under.DDEATH, device.getDeathPayload())
publish(topic.NDEATH, node.last_death)
client.disconnect()
client.loop_stop()
