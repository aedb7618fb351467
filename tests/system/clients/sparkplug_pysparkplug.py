"""An edge node with a device on pysparkplug: births, data, deaths (see peers.py)."""

import json
import sys
import time
from typing import Any

from pysparkplug import DataType, Device, EdgeNode, Metric, get_current_timestamp

port, plan = int(sys.argv[1]), json.load(sys.stdin)


def metrics(values: dict[str, list[Any]]) -> list[Metric]:
    """Of names, datatypes and values."""
    found = []
    for name, (kind, value) in values.items():
        datatype = DataType[kind.upper().replace("ARRAY", "_ARRAY")]
        value = bytes.fromhex(value) if kind == "Bytes" else value
        value = tuple(value) if isinstance(value, list) else value
        found.append(Metric(get_current_timestamp(), name, datatype, value=value, is_null=value is None))
    return found


node = EdgeNode("peers", "pysparkplug", metrics(plan["birth"]))
device = Device("device", metrics(plan["birth"]))
node.register(device)
node.connect("127.0.0.1", port=port)
while not node._connected:
    time.sleep(0.01)
for _ in range(plan.get("rounds", 1)):
    node.update(metrics(plan["data"]))
    node.update_device("device", metrics(plan["data"]))
    time.sleep(plan.get("pause_s", 0))
node.deregister("device")
node.disconnect()
