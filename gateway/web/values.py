"""The live values of a Sparkplug node, for who looks at its page."""

import base64
import binascii
import json
from typing import Any, Final, final

from gateway.bridge.naming import Names
from gateway.web.times import clock_of
from sparkplug.model import PayloadError
from sparkplug.plain import plain
from sparkplug.topic import TopicError

METRICS_MAX: Final = 500  # shown of one node
CHARS_MAX: Final = 120  # of one value

Answer = dict[str, Any]


@final
class NodeValues:
    """Takes the broker's answers to ``sparkplug_values``; ``number`` is the one to ask with next."""

    def __init__(self, key: str) -> None:
        self.number = 0
        self.unreadable = 0
        self._group, _, self._edge = key.partition("/")
        self._names = Names()
        self._values: dict[tuple[str, str], dict[str, Any]] = {}
        self._changes = 0

    def take(self, answer: Answer) -> None:
        """Births first, then what was said in its order."""
        if answer["fresh"]:
            self._names = Names()
            self._values.clear()
        self.number = answer["number"]
        self._changes += 1
        for type, device, encoded in answer["said"]:
            topic = f"spBv1.0/{self._group}/{type}/{self._edge}" + (f"/{device}" if device else "")
            try:
                found = self._names.read(topic, base64.b64decode(encoded))
            except (PayloadError, TopicError, binascii.Error):
                self.unreadable += 1
                continue
            if found is not None:
                self._note(device, plain(found[3]), type.endswith("BIRTH"))

    def _note(self, device: str, said: dict[str, Any], birth: bool) -> None:
        for metric in said["metrics"]:
            name = metric.get("name") or f"alias {metric.get('alias', '?')}"
            old = self._values.get((device, name), {})
            at = metric.get("timestamp", said.get("timestamp"))
            self._values[device, name] = {
                "type": metric.get("datatype") or old.get("type", ""),
                "value": _shown(metric.get("value")),
                "at": "" if at is None else clock_of(at),
                "changed": 0 if birth else self._changes,
            }

    def rows(self) -> list[dict[str, Any]]:
        """Devices with their metrics, the node itself first; ``live``: it came with the last answer."""
        devices: dict[str, list[dict[str, Any]]] = {}
        for device, name in sorted(self._values)[:METRICS_MAX]:
            value = self._values[device, name]
            live = value["changed"] == self._changes
            devices.setdefault(device, []).append({"name": name, **value, "live": live, "said": value["changed"] > 0})
        return [{"device": device, "metrics": metrics} for device, metrics in devices.items()]

    @property
    def left_out(self) -> int:
        return max(0, len(self._values) - METRICS_MAX)


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= CHARS_MAX else text[: CHARS_MAX - 3] + "..."
