"""An edge node with its devices, as a machine: what happened goes in, what to do comes out.

Whoever drives it connects as ``connect()`` says, tells it what comes and does what it returns, in that order. Time is
UTC in ms. ``bd_seq`` is the caller's to keep over restarts: written down after ``connect()`` and before connecting.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, final

from sparkplug import state
from sparkplug.actions import Action, Command, Connect, Disconnect, Publish, Refused, Subscribe
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload, PayloadError, Template, Value
from sparkplug.payload import decode, encode
from sparkplug.sequence import SEQ_COUNT, due
from sparkplug.source import BD_SEQ, REBIRTH, Source, asks_rebirth, name_fault, update
from sparkplug.topic import MessageType, NodeId, StateTopic, Topic, TopicError, build, build_state, parse

_BATCH: Final = 100  # metrics of the backlog in one message


class Phase(Enum):
    """How far the node is with its session."""

    OFFLINE = auto()
    CONNECTING = auto()
    WAITING = auto()  # for its primary host
    BORN = auto()
    LEAVING = auto()


@final
class EdgeNode:
    """One edge node.

    ``bd_seq``: the last one used, -1 before the first. ``primary_host``: no birth before that host is online.
    ``servers``: how many there are to walk through. ``aliases``: give each metric one. ``history_max``: how many values
    of each source are kept while there is nobody to send them to; the oldest give way and are counted in ``dropped``.
    ``host_wait_ms``: how long to wait for the primary host before the next server is tried.
    """

    def __init__(
        self,
        id: NodeId,
        metrics: Iterable[Metric] = (),
        *,
        bd_seq: int = -1,
        primary_host: str | None = None,
        legacy_state: bool = False,
        servers: int = 1,
        aliases: bool = True,
        history_max: int = 10_000,
        host_wait_ms: int = 30_000,
    ) -> None:
        self.id = id
        self.bd_seq = bd_seq
        self.server = 0
        self.phase = Phase.OFFLINE
        self.dropped = 0
        self._topics = {type: build(type, id) for type in MessageType if type.value[0] == "N"}
        self._primary = None if primary_host is None else StateTopic(primary_host, legacy_state)
        self._state_topic = None if primary_host is None else build_state(primary_host, legacy=legacy_state)
        self._host: state.State | None = None
        self._servers = servers
        self._aliases = aliases
        self._last_alias = 0
        self._wait_ms = host_wait_ms
        self._since = 0
        self._seq = 0
        self._history_max = history_max
        self._backlogs: dict[str | None, deque[Metric]] = {}
        self._node = Source(None)
        self._node.online = True
        self.devices: dict[str, Source] = {}
        self._define(self._node, metrics)

    # What the program does

    def add_device(self, device: str, metrics: Iterable[Metric], now: int) -> list[Action]:
        """A device is there. Raises TopicError for its id, ValueError for its metrics or when it is known already."""
        build(MessageType.DBIRTH, self.id, device)
        if device in self.devices:
            raise ValueError(f"device {device!r} is known already")
        source = Source(device)
        self._define(source, metrics)
        self.devices[device] = source
        source.online = True
        return [self._birth(source, now)] if self.phase is Phase.BORN else []

    def device_lost(self, device: str, now: int) -> list[Action]:
        """The device does not answer; what is written for it waits [tck-id-operational-behavior-device-ddeath]."""
        source = self.devices[device]
        was, source.online = source.online, False
        if not was or self.phase is not Phase.BORN:
            return []
        return [self._publish(MessageType.DDEATH, device, [], now)]

    def device_back(self, device: str, now: int) -> list[Action]:
        source = self.devices[device]
        was, source.online = source.online, True
        return [self._birth(source, now)] if not was and self.phase is Phase.BORN else []

    def define(self, device: str | None, metric: Metric, now: int) -> list[Action]:
        """One more metric, which takes a new birth [tck-id-topics-nbirth-metric-reqs]. Raises ValueError."""
        source = self.source(device)
        self._define(source, [metric])
        if self.phase is not Phase.BORN or not source.online:
            return []
        return self._births(now) if device is None else [self._birth(source, now)]

    def redefine(self, device: str | None, metrics: Iterable[Metric], now: int) -> list[Action]:
        """These metrics in place of the former ones, by a new birth; names that stay keep their alias.

        Raises ValueError.
        """
        source, fresh = self.source(device), Source(device)
        self._define(fresh, metrics, {name: known.alias for name, known in source.metrics.items()})
        source.replace(fresh.metrics.values())
        if self.phase is not Phase.BORN or not source.online:
            return []
        return self._births(now) if device is None else [self._birth(source, now)]

    def learn(self, device: str | None, metrics: Iterable[Metric], now: int) -> None:
        """The next birth has these values, unless it has newer ones; nothing is said of them until then."""
        source = self.source(device)
        for metric in metrics:
            known = source.metrics[metric.name or ""]
            if (metric.timestamp or now) >= (known.timestamp or 0):
                update(known, metric, now)

    def report(self, device: str | None, metrics: Iterable[Metric], now: int) -> list[Action]:
        """Say these values in one message, as they are, historical or live, changed or not; live ones are learnt.

        Nothing is said and [] returned while the source is not born. Raises KeyError for a device or metric that is
        not known, PayloadError for a value that its datatype does not hold.
        """
        source = self.source(device)
        if self.phase is not Phase.BORN or not source.online:
            return []
        said = []
        for metric in metrics:
            known = source.metrics[metric.name or ""]
            said.append(replace(metric, alias=known.alias, datatype=known.datatype, timestamp=metric.timestamp or now))
        encode(Payload(metrics=said))  # raises before a seq is given
        self.learn(device, [metric for metric in said if not metric.is_historical], now)
        return [self._data(source, said, now)]

    def write(
        self, device: str | None, values: Mapping[str, Value], now: int, *, at: int | None = None
    ) -> list[Action]:
        """Metrics have these values, since ``at`` (now when None); what did not change is not reported.

        Values that cannot be sent now are sent later as historical; one older than the latest is historical too.
        Raises KeyError for an unknown device or metric, PayloadError for a value that its datatype does not hold.
        """
        source = self.source(device)
        online = self.phase is Phase.BORN and source.online
        changed, metrics = [], []
        for name, value in values.items():
            known = source.metrics[name]
            if value == known.value and type(value) is type(known.value):
                continue
            metric = replace(known, value=value, is_null=value is None, timestamp=at or now, properties=None)
            older = (at or now) < (known.timestamp or 0)
            metric.is_historical = older or not online
            metrics.append(metric)
            if not older:
                changed.append((known, metric))
        if not metrics:
            return []
        # what cannot be encoded raises here, before anything is changed
        actions: list[Action] = [self._data(source, metrics, now)] if online else []
        if not online:
            encode(Payload(metrics=metrics))
            for metric in metrics:
                self._keep(device, metric)
        for known, metric in changed:
            update(known, metric, now)
        return actions

    @property
    def backlog(self) -> int:
        """How many values wait."""
        return sum(map(len, self._backlogs.values()))

    # What the connection does

    def connect(self, now: int) -> Connect:
        """The next session: its will and the server to connect to. ``bd_seq`` is the one to write down."""
        self.bd_seq = (self.bd_seq + 1) % SEQ_COUNT
        self.phase = Phase.CONNECTING
        return Connect(self._death(now), self.server)

    def connected(self, now: int) -> list[Action]:
        """The server took the session."""
        self._since = now
        self._host = None
        filters = [(self._topics[MessageType.NCMD], 1), (build(MessageType.DCMD, self.id, "x")[:-1] + "#", 1)]
        if self._state_topic is not None:
            self.phase = Phase.WAITING
            return [Subscribe((*filters, (self._state_topic, 1)))]
        return [Subscribe(tuple(filters)), *self._births(now)]

    def disconnected(self, now: int) -> None:
        """The connection is closed or could not be made; the next server comes next, unless the node left by itself."""
        if self.phase is not Phase.OFFLINE:
            self.server = (self.server + 1) % self._servers
        self.phase = Phase.OFFLINE
        self._since = now

    def leave(self, now: int) -> list[Action]:
        """End the session on purpose [tck-id-operational-behavior-edge-node-intentional-disconnect-ndeath]."""
        if self.phase is Phase.OFFLINE:
            return []
        actions = self._goodbye(now)
        self.phase = Phase.OFFLINE
        return actions

    def message(self, topic: str, payload: bytes, now: int, *, retained: bool = False) -> list[Action]:
        """A message came. What is wrong with it comes back as Refused."""
        try:
            found = parse(topic)
            if isinstance(found, StateTopic):
                return self._on_state(found, payload, now) if found == self._primary else []
            return self._on_command(found, payload, now, retained)
        except (TopicError, PayloadError, state.StateError) as error:
            return [Refused(topic, str(error))]

    def tick(self, now: int) -> list[Action]:
        """Time passes: one message of the backlog, or away from a server where the primary host does not come."""
        if self.phase is Phase.WAITING and self._servers > 1 and due(self._since, self._wait_ms, now):
            return self._goodbye(now)
        if self.phase is not Phase.BORN:
            return []
        for device, waiting in self._backlogs.items():
            source = self.source(device)
            if source.online and waiting:
                batch = [waiting.popleft() for _ in range(min(len(waiting), _BATCH))]
                return [self._data(source, batch, now)]
        return []

    # Inside

    def source(self, device: str | None) -> Source:
        return self._node if device is None else self.devices[device]

    def _define(
        self, source: Source, metrics: Iterable[Metric], aliases: Mapping[str, int | None] = MappingProxyType({})
    ) -> None:
        """``aliases``: those to give again."""
        metrics = [replace(metric, alias=None) for metric in metrics]
        fault = name_fault([*source.metrics.values(), *metrics])
        if fault is not None:
            raise ValueError(fault)
        for metric in metrics:
            if source.device is None and metric.name in (BD_SEQ, REBIRTH):
                raise ValueError(f"{metric.name!r} is the node's own")
            if source.device is not None and _is_definition(metric):
                raise ValueError(f"{metric.name!r}: templates are defined by the node")
            if self._aliases and not _is_definition(metric):
                metric.alias = aliases.get(metric.name or "")
                if metric.alias is None:
                    self._last_alias += 1
                    metric.alias = self._last_alias
            metric.is_null = metric.value is None
            source.add(metric)

    def _births(self, now: int) -> list[Action]:
        self.phase = Phase.BORN
        self._seq = 0
        actions: list[Action] = [self._birth(self._node, now)]
        actions.extend(self._birth(source, now) for source in self.devices.values() if source.online)
        return actions

    def _birth(self, source: Source, now: int) -> Publish:
        metrics = [replace(metric, timestamp=metric.timestamp or now) for metric in source.metrics.values()]
        for metric in metrics:
            known = source.metrics[metric.name or ""]
            known.timestamp = metric.timestamp
        if source.device is not None:
            return self._publish(MessageType.DBIRTH, source.device, metrics, now)
        own = [
            Metric(BD_SEQ, datatype=DataType.Int64, value=self.bd_seq, timestamp=now),
            Metric(REBIRTH, datatype=DataType.Boolean, value=False, timestamp=now),
        ]
        return self._publish(MessageType.NBIRTH, None, [*own, *metrics], now)

    def _data(self, source: Source, metrics: list[Metric], now: int) -> Publish:
        type = MessageType.NDATA if source.device is None else MessageType.DDATA
        metrics = [replace(metric, name=None) if metric.alias is not None else metric for metric in metrics]
        return self._publish(type, source.device, metrics, now)

    def _publish(self, type: MessageType, device: str | None, metrics: list[Metric], now: int) -> Publish:
        """The next message of the session: seq is given here, where the message goes out."""
        born = type in (MessageType.NBIRTH, MessageType.DBIRTH)
        payload = encode(Payload(now, metrics, self._seq), with_datatypes=born)
        self._seq = (self._seq + 1) % SEQ_COUNT
        return Publish(str(Topic(type, self.id, device)), payload, 0, False)

    def _death(self, now: int) -> Publish:
        metric = Metric(BD_SEQ, datatype=DataType.Int64, value=self.bd_seq, timestamp=now)
        return Publish(self._topics[MessageType.NDEATH], encode(Payload(now, [metric])), 1, False)

    def _goodbye(self, now: int) -> list[Action]:
        """NDEATH is for a node that was born; the will says it once more to a 5.0 server, which is harmless."""
        born = self.phase is Phase.BORN
        self.phase = Phase.LEAVING
        return [self._death(now), Disconnect(with_will=True)] if born else [Disconnect()]

    def _keep(self, device: str | None, metric: Metric) -> None:
        waiting = self._backlogs.setdefault(device, deque(maxlen=self._history_max))
        self.dropped += len(waiting) == waiting.maxlen
        waiting.append(metric)

    def _on_state(self, topic: StateTopic, payload: bytes, now: int) -> list[Action]:
        said = state.decode(payload, legacy=topic.legacy)
        if said is None:
            return []
        if not said.follows(self._host):
            return [Refused(str(topic), "older than what the host said before")]
        self._host = said
        if said.online:
            return self._births(now) if self.phase is Phase.WAITING else []
        if self.phase is Phase.BORN or (self.phase is Phase.WAITING and self._servers > 1):
            return self._goodbye(now)
        return []

    def _on_command(self, topic: Topic, payload: bytes, now: int, retained: bool) -> list[Action]:
        if topic.id != self.id or topic.type not in (MessageType.NCMD, MessageType.DCMD):
            return []
        source = self._node if topic.device is None else self.devices.get(topic.device)
        if retained or self.phase is not Phase.BORN or source is None or not source.online:
            reason = "a retained command is of another time" if retained else "nothing is born that could take it"
            return [Refused(str(topic), reason)]
        metrics = decode(payload, types=source.types).metrics
        if topic.device is None and asks_rebirth(metrics):
            return self._births(now)
        actions: list[Action] = []
        for metric in metrics:
            known = source.find(metric)
            if known is not None and known.name is not None:
                actions.append(Command(topic.device, known.name, metric.value))
            elif metric.name != REBIRTH:
                actions.append(Refused(str(topic), f"no metric {metric.name or metric.alias!r}"))
        return actions


def _is_definition(metric: Metric) -> bool:
    return isinstance(metric.value, Template) and metric.value.is_definition
