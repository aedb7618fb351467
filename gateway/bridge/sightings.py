"""What a probe sees of a node: the events of the control socket, with their Sparkplug payloads understood."""

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any, Final, final

from sparkplug.model import Metric, Payload, PayloadError
from sparkplug.payload import decode

BIRTHS: Final = ("NBIRTH", "DBIRTH")
DATA: Final = ("NDATA", "DDATA")


@final
@dataclass(frozen=True, slots=True)
class Connected:
    at: int  # gateway ms, as in all of these
    connection: int  # counts from 1
    client_id: str = ""
    version: int = 4
    clean: bool = True
    keep_alive_s: int = 0
    will_qos: int | None = None
    will_bdseq: int | None = None


@final
@dataclass(frozen=True, slots=True)
class Closed:
    at: int


@final
@dataclass(frozen=True, slots=True)
class Refused:
    at: int


@final
@dataclass(frozen=True, slots=True)
class Message:
    """A Sparkplug message. ``integers`` are its whole-number metrics by name, "device/metric" below a device.

    A message of history may hold many values of a metric.
    """

    at: int
    connection: int
    type: str
    device: str
    qos: int
    dup: bool
    digest: bytes  # of topic and payload: the only mark of a message that comes again
    seq: int | None = None
    bdseq: int | None = None
    bdseq_type: int = 0
    historical: bool = False
    made_at: int | None = None  # the sender's clock, ms since 1970
    integers: dict[str, tuple[int, ...]] = field(default_factory=dict)


Sighting = Connected | Closed | Refused | Message


@final
class Eyes:
    """Reads one node's events in their order; births say what aliases and datatypes mean.

    ``properties`` are the texts of its births ("Properties/Hardware Make"), ``aliases`` whether data came by alias.
    """

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self.aliases = False
        self._names: dict[tuple[str, int], str] = {}
        self._types: dict[str, dict[int | str, int]] = {}

    def see(self, event: dict[str, Any]) -> Sighting | None:
        """What an event was; None for a message that is no Sparkplug message of the node or cannot be read."""
        kind, at = event["kind"], event["at"]
        if kind == "connected":
            return self._connected(event)
        if kind == "closed":
            return Closed(at)
        if kind == "refused":
            return Refused(at)
        topic: str = event["topic"]
        parts = topic.split("/")
        if len(parts) not in (4, 5) or parts[0] != "spBv1.0":
            return None
        data = base64.b64decode(event["payload"])
        device = parts[4] if len(parts) == 5 else ""
        try:
            payload = decode(data, types=self._types.get(device))
        except PayloadError:
            return None
        digest = hashlib.blake2b(topic.encode() + b"\0" + data, digest_size=16).digest()
        type, connection, qos, dup = parts[2], event["connection"], event["qos"], event["dup"]
        if type in BIRTHS:
            self._learn(device, payload)
        elif type in DATA:
            self.aliases = self.aliases or any(metric.name is None for metric in payload.metrics)
        return Message(
            at, connection, type, device, qos, dup, digest, payload.seq, *_bdseq(payload),
            any(metric.is_historical for metric in payload.metrics), _made_at(payload), self._integers(device, payload),
        )  # fmt: skip

    def _connected(self, event: dict[str, Any]) -> Connected:
        bdseq = None
        if event["will"]:
            try:
                bdseq, _ = _bdseq(decode(base64.b64decode(event["will"])))
            except PayloadError:
                pass
        names = ("at", "connection", "client_id", "version", "clean", "keep_alive_s", "will_qos")
        return Connected(**{name: event[name] for name in names}, will_bdseq=bdseq)

    def _learn(self, device: str, payload: Payload) -> None:
        types = self._types.setdefault(device, {})
        for metric in payload.metrics:
            name = metric.name
            if name is None:
                continue
            types[name] = metric.datatype
            if metric.alias is not None:
                types[metric.alias] = metric.datatype
                self._names[device, metric.alias] = name
            if isinstance(metric.value, str):
                self.properties[name] = metric.value

    def _integers(self, device: str, payload: Payload) -> dict[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for metric in payload.metrics:
            name = self._name(device, metric)
            value = metric.value
            if name is not None and isinstance(value, int) and not isinstance(value, bool) and name != "bdSeq":
                found.setdefault(f"{device}/{name}" if device else name, []).append(value)
        return {name: tuple(values) for name, values in found.items()}

    def _name(self, device: str, metric: Metric) -> str | None:
        if metric.name is not None or metric.alias is None:
            return metric.name
        return self._names.get((device, metric.alias))


def _bdseq(payload: Payload) -> tuple[int | None, int]:
    """Its value and datatype."""
    for metric in payload.metrics:
        if metric.name == "bdSeq" and isinstance(metric.value, int):
            return metric.value, metric.datatype
    return None, 0


def _made_at(payload: Payload) -> int | None:
    """The oldest time in it."""
    times = [metric.timestamp for metric in payload.metrics if metric.timestamp is not None]
    return min(times) if times else payload.timestamp
