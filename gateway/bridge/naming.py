"""Names for what data only numbers: the births of a node and its devices, as far as they were seen."""

from typing import final

from sparkplug.model import Metric, Payload
from sparkplug.payload import decode
from sparkplug.topic import CERTIFICATES, MessageType, StateTopic, parse


@final
class _Born:
    """What a birth says of its metrics; those without an alias are known by their names."""

    def __init__(self, payload: Payload) -> None:
        self.names: dict[int, str] = {}
        self.types: dict[int | str, int] = {}
        for metric in payload.metrics:
            if metric.name is None:
                continue
            self.types[metric.name] = metric.datatype
            if metric.alias is not None:
                self.names[metric.alias] = metric.name
                self.types[metric.alias] = metric.datatype


@final
class Names:
    """Tell it every message in the order in which it came, certificates of the gateway among them."""

    def __init__(self) -> None:
        self._births: dict[tuple[str, str | None], _Born] = {}

    def read(self, topic: str, payload: bytes) -> tuple[MessageType, str, str | None, Payload] | None:
        """Type, "group/edge node", device and content, with the names filled in; None when it is no such message.

        A metric that no birth names keeps its alias alone. Raises TopicError and PayloadError.
        """
        found = parse(topic.removeprefix(CERTIFICATES))
        if isinstance(found, StateTopic):
            return None
        key = f"{found.id.group}/{found.id.node}"
        born = self._births.get((key, found.device))
        types = born.types if born is not None and found.type not in _BIRTHS else {}
        content = decode(payload, types=types)
        if found.type in _BIRTHS:
            self._births[key, found.device] = _Born(content)
        elif born is not None:
            for metric in content.metrics:
                _name(metric, born)
        return found.type, key, found.device, content

    def forget(self, key: str) -> None:
        """A node died: its devices have to be born anew."""
        for known in [known for known in self._births if known[0] == key]:
            del self._births[known]


_BIRTHS = (MessageType.NBIRTH, MessageType.DBIRTH)


def _name(metric: Metric, born: _Born) -> None:
    if metric.name is None and metric.alias is not None:
        metric.name = born.names.get(metric.alias)
