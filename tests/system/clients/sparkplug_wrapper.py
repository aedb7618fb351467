"""An edge node and a device on mqtt-spb-wrapper: births, data at QoS 1, deaths (see peers.py)."""

import json
import sys
import time

from mqtt_spb_wrapper import MqttSpbEntityDevice, MqttSpbEntityEdgeNode
from mqtt_spb_wrapper.spb_protobuf import MetricDataType

port, plan = int(sys.argv[1]), json.load(sys.stdin)
node = MqttSpbEntityEdgeNode("peers", "wrapper")
device = MqttSpbEntityDevice("peers", "wrapper", "device")
for entity in (node, device):
    for name, (kind, value) in plan["birth"].items():
        value = bytes.fromhex(value) if kind == "Bytes" else value
        entity.data.set_value(name, value, spb_data_type=getattr(MetricDataType, kind))
for entity in (node, device):
    if not entity.connect("127.0.0.1", port):
        sys.exit("no connection")
    entity.publish_birth()
for _ in range(plan.get("rounds", 1)):
    for entity in (node, device):
        for name, (kind, value) in plan["data"].items():
            entity.data.set_value(name, bytes.fromhex(value) if kind == "Bytes" else value)
        entity.publish_data(qos=1)
    time.sleep(plan.get("pause_s", 0))
for entity in (device, node):
    entity.disconnect()
