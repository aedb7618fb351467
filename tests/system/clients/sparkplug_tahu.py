"""An edge node with Tahu's Python helpers (tahutils) on paho: aliases, births, data, death (see peers.py)."""

import json
import sys
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
for name, payload in (
    (topic.NBIRTH, node.getBirthPayload(values(plan["birth"]))),
    (under.DBIRTH, device.getBirthPayload(values(plan["birth"]))),
    (topic.NDATA, node.getDataPayload(values(plan["data"]))),
    (under.ddata, device.getDataPayload(values(plan["data"]))),
    (under.DDEATH, device.getDeathPayload()),
    (topic.NDEATH, node.last_death),
):
    client.publish(name, payload, 1).wait_for_publish(10)
client.disconnect()
client.loop_stop()
