"""Republishes what edge nodes said as one edge node of its own: their messages go in, what to publish comes out.

The sources' nodes and devices become devices of ours (``mapping``). Births go first, then what is live at once, then
the backlog as historical values with their own timestamps, so many messages a second. A message's key comes back from
``settled()`` when all that came of it is out and confirmed. Times are UTC in ms.
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Final, final

from sparkplug.actions import Command, Connect
from sparkplug.datatypes import DataType
from sparkplug.mapping import is_definition, own_device, to_own, to_source
from sparkplug.model import Metric, Payload, PayloadError
from sparkplug.node import EdgeNode, Phase
from sparkplug.origin import Entry, Kept, Kind, Node, Target, Told, ToSource, shape
from sparkplug.outflow import Outflow, sayable
from sparkplug.payload import decode, encode
from sparkplug.sequence import due
from sparkplug.source import BD_SEQ, REBIRTH, Source, bd_seq_of, update
from sparkplug.topic import CERTIFICATES, MessageType, NodeId, Topic, TopicError, build, parse

_ASK_MS: Final = 30_000
_BORN_AGAIN_MS: Final = 10_000  # within that time after NBIRTH a device is born again or counts as dead


@final
class Republisher:
    """``rate``: messages of the backlog a second, 0 = all at once.

    ``live_ms``: what was received longer ago is backlog. ``settle_ms``: when no backlog came for that long, births say
    the newest values that were sent as historical only. ``commands``: pass them on to the sources. The rest is
    EdgeNode's.
    """

    def __init__(
        self,
        id: NodeId,
        *,
        bd_seq: int = -1,
        primary_host: str | None = None,
        legacy_state: bool = False,
        rate: float = 0,
        live_ms: int = 10_000,
        settle_ms: int = 1000,
        commands: bool = False,
    ) -> None:
        self.node = EdgeNode(id, bd_seq=bd_seq, primary_host=primary_host, legacy_state=legacy_state)
        self._out = Outflow(self.node, rate)
        self.births_changed = False  # set here, cleared by whoever has written the snapshot down
        self._live_ms, self._settle_ms, self._commands = live_ms, settle_ms, commands
        self._nodes: dict[NodeId, Node] = {}
        self._definitions: dict[str, Metric] = {}
        self._backlog_at = 0

    @property
    def waiting(self) -> int:
        """Entries that are not out yet, births and deaths included."""
        return sum(len(target.queue) for target in self._out.targets.values())

    @property
    def unconfirmed(self) -> int:
        """Of those that are out."""
        return self._out.unconfirmed

    @property
    def sent(self) -> int:
        """What ``confirmed`` takes."""
        return self._out.sent

    @property
    def refused(self) -> int:
        """Messages and values that could not be passed on."""
        return self._out.refused

    # The sources

    def take(
        self, key: Hashable, topic: str, data: bytes, now: int, *, late: bool = False, received: int | None = None
    ) -> list[Told]:
        """A message of a source. ``key`` is its own for ever; one that came before is not taken twice.

        ``late``: not part of the live stream; ``received``: when the gateway took it in.
        """
        if not self._out.begin(key):
            return []
        try:
            kept = topic.startswith(CERTIFICATES)
            found = parse(topic.removeprefix(CERTIFICATES))
            actions = [] if not isinstance(found, Topic) else self._take(key, found, data, now, late, received, kept)
        except (TopicError, PayloadError) as error:
            actions = [self._out.refuse(topic, str(error))]
        self._out.done(key)
        return actions

    def settled(self) -> list[Hashable]:
        """Keys of messages that may be acknowledged, since the last call."""
        return self._out.settled()

    def ask_all(self, now: int) -> list[Told]:
        """Ask the nodes that are online for their births: what was restored may be old."""
        return [action for node in self._nodes.values() if node.alive for action in self._ask(node, now)]

    # The destination

    def connect(self, now: int) -> Connect:
        return self.node.connect(now)

    def connected(self, now: int) -> list[Told]:
        return [*self.node.connected(now), *self._out.advance(now)]

    def disconnected(self, now: int) -> None:
        """What was not confirmed goes out again, as history; what births and deaths said, the next births say."""
        self.node.disconnected(now)
        self._out.lost()

    def confirmed(self, mark: int) -> None:
        """The destination has all that was said up to ``sent`` == mark."""
        self._out.confirmed(mark)

    def message(self, topic: str, payload: bytes, now: int, *, retained: bool = False) -> list[Told]:
        """A message of the destination: commands and the primary host's STATE."""
        actions = [
            self._command(action, topic, now) if isinstance(action, Command) else action
            for action in self.node.message(topic, payload, now, retained=retained)
        ]
        return [*actions, *self._out.advance(now)]

    def tick(self, now: int) -> list[Told]:
        """Time passes: the backlog, devices that were not born again, births after the backlog."""
        actions: list[Told] = [*self.node.tick(now)]
        for target in self._out.targets.values():
            if target.doubt_since is not None and due(target.doubt_since, _BORN_AGAIN_MS, now):
                self._die(target, None)
                self.births_changed = True
        actions += self._out.advance(now)
        if self.node.phase is Phase.BORN and due(self._backlog_at, self._settle_ms, now):
            for target in self._out.targets.values():
                if target.restate and not target.queue:
                    target.restate = False
                    if self._out.online(target):
                        actions += self.node.redefine(target.name, target.latest.values(), now)
        return actions

    def leave(self, now: int) -> list[Told]:
        return [*self.node.leave(now)]

    # What outlives a restart

    def snapshot(self) -> list[Kept]:
        """The births that are kept, those in force last of their source."""
        kept = []
        for node in self._nodes.values():
            for birth in node.epochs:
                target = self._target(node, birth.source.device)
                current = birth is node.epochs.current(birth.source.device)
                kept.append(Kept(birth.topic, birth.data, current, target is not None and target.alive))
        return kept

    def restore(self, births: Iterable[Kept], now: int) -> None:
        """The births of a snapshot, before anything else. Raises TopicError, PayloadError."""
        for kept in births:
            topic = parse(kept.topic)
            if not isinstance(topic, Topic):
                raise TopicError(f"{kept.topic!r} is not the topic of a birth")
            self._birth(None, topic, kept.data, now, None, kept.current)
            target = self._target(self._nodes[topic.id], topic.device)
            if kept.current and target is not None and not kept.alive:
                self._die(target, None)
                self._nodes[topic.id].alive &= topic.device is not None
        for target in self._out.targets.values():
            target.doubt_since = None
        self._out.advance(now)
        self.births_changed = False

    # Inside: what comes in

    def _take(
        self, key: Hashable, topic: Topic, data: bytes, now: int, late: bool, received: int | None, kept: bool
    ) -> list[Told]:
        if topic.id == self.node.id:
            return []  # source and destination are one broker
        match topic.type:
            case MessageType.NBIRTH | MessageType.DBIRTH:
                node = self._nodes.get(topic.id)
                if kept and node is not None and node.epochs.current(topic.device) is not None:
                    return []
                actions = self._birth(key, topic, data, now, received, not (late or kept))
            case MessageType.NDATA | MessageType.DDATA:
                actions = self._data(key, topic, data, now, late, received)
            case MessageType.NDEATH | MessageType.DDEATH:
                actions = [] if late else self._death(key, topic, data)
            case _:
                return []
        return [*actions, *self._out.advance(now)]

    def _birth(
        self, key: Hashable | None, topic: Topic, data: bytes, now: int, received: int | None, current: bool
    ) -> list[Told]:
        """A birth; one that is not ``current`` gives names to late data and nothing else."""
        payload = decode(data)
        at = payload.timestamp or received or now
        node = self._nodes.setdefault(topic.id, Node(topic.id))
        before = node.epochs.current(topic.device)
        target = self._target(node, topic.device)
        if before is not None and before.data == data and target is not None and target.alive:
            target.doubt_since = None
            return []
        for metric in payload.metrics:
            metric.timestamp = metric.timestamp or at
        source = node.epochs.add(topic.device, at, str(topic), data, payload.metrics, current=current)
        self.births_changed = True
        if not current:
            return []
        actions: list[Told] = []
        if topic.device is None:
            node.alive, node.asked_at = True, None
            node.bd_seq = bd_seq_of(payload.metrics)
            for other in self._out.targets.values():
                if other.id == topic.id and other.device is not None and other.alive:
                    other.doubt_since = now
            actions += self._define(topic.id, payload.metrics, now)
        metrics, refused = self._own(topic, source)
        actions += refused
        if target is None:
            target = self._new_target(topic)
        target.doubt_since = None
        if target.alive and shape(target.latest.values()) == shape(metrics.values()):
            new = [metric for name, metric in metrics.items() if _differs(metric, target.latest[name])]
            return actions + (self._values(key, target, new, now, False, received) if new else [])
        target.latest, target.alive, target.restate = metrics, True, False
        self._out.queue(Entry(Kind.BIRTH, target, key, []))
        return actions

    def _own(self, topic: Topic, source: Source) -> tuple[dict[str, Metric], list[Told]]:
        """The metrics of a birth as ours has them, and what ours cannot have."""
        metrics: dict[str, Metric] = {}
        refused: list[Told] = []
        for name, metric in source.metrics.items():
            if is_definition(metric) or (topic.device is None and name in (BD_SEQ, REBIRTH)):
                continue
            own = sayable(replace(to_own(metric, topic.id), alias=None, is_historical=False))
            if own is None:
                refused.append(self._out.refuse(str(topic), f"metric {name!r} cannot be said as it is"))
            else:
                metrics[name] = own
        return metrics, refused

    def _define(self, id: NodeId, metrics: Iterable[Metric], now: int) -> list[Told]:
        """Template definitions stand in the birth of our node."""
        found = [replace(to_own(metric, id), timestamp=None) for metric in metrics if is_definition(metric)]
        new = {metric.name: metric for metric in found if metric.name and sayable(metric) is not None}
        if all(self._definitions.get(name) == metric for name, metric in new.items()):
            return []
        self._definitions |= new
        return [*self.node.redefine(None, self._definitions.values(), now)]

    def _data(self, key: Hashable, topic: Topic, data: bytes, now: int, late: bool, received: int | None) -> list[Told]:
        node = self._nodes.setdefault(topic.id, Node(topic.id))
        source = node.epochs.then(topic.device, decode(data).timestamp if late else None)
        payload = decode(data, types=None if source is None else source.types)
        if source is None:
            return [self._out.refuse(str(topic), "no birth is known that names its metrics"), *self._ask(node, now)]
        target = self._target(node, topic.device)
        actions: list[Told] = []
        node.alive = node.alive or not late
        if target is None:
            target = self._new_target(topic)
            target.latest, actions = self._own(topic, source)
            target.alive = not late
            self._out.queue(Entry(Kind.BIRTH, target, None, []))
            if target.alive:
                actions += self._out.advance(now)
        values = []
        for metric in payload.metrics:
            known = source.find(metric)
            if known is None:
                label = metric.alias if metric.name is None else repr(metric.name)
                actions += [self._out.refuse(str(topic), f"the birth had no metric {label}"), *self._ask(node, now)]
                continue
            if known.name in (BD_SEQ, REBIRTH) and topic.device is None:
                continue
            at = metric.timestamp or payload.timestamp or received or now
            one = replace(metric, name=known.name, alias=None, timestamp=at, datatype=metric.datatype or known.datatype)
            values.append(to_own(one, topic.id))
        if not values:
            return actions
        return actions + self._values(key, target, values, now, late, received)

    def _values(
        self, key: Hashable | None, target: Target, metrics: list[Metric], now: int, late: bool, received: int | None
    ) -> list[Told]:
        """Values: live ones at once, history in the queue."""
        aged = received is not None and now - received > self._live_ms
        direct = not (late or aged) and self._out.online(target) and not target.barriers
        live = []
        for metric in metrics:
            latest = target.latest.get(metric.name or "")
            new = latest is not None and metric.datatype == latest.datatype and not late and not metric.is_historical
            if new and latest is not None and (metric.timestamp or 0) >= (latest.timestamp or 0):
                update(latest, metric, now)
                live.append(metric)
            else:
                metric.is_historical = True
        entry = Entry(Kind.DATA, target, key, metrics)
        if direct:
            return self._out.say(self._out.counted(entry), now)
        self._out.queue(entry)
        if live and not target.barriers and target.name in self.node.devices:
            self.node.learn(target.name, live, now)
        if live and self.node.phase is Phase.BORN:
            target.restate = True
        self._backlog_at = now
        return []

    def _death(self, key: Hashable, topic: Topic, data: bytes) -> list[Told]:
        node = self._nodes.get(topic.id)
        if node is None:
            return []
        if topic.device is None:
            said = bd_seq_of(decode(data).metrics)
            if None not in (said, node.bd_seq) and said != node.bd_seq:
                return [self._out.refuse(str(topic), f"bdSeq {said} is not that of the birth in force, {node.bd_seq}")]
            node.alive = False
        for target in self._out.targets.values():
            if target.id == topic.id and topic.device in (None, target.device) and target.alive:
                self._die(target, key)
        self.births_changed = True
        return []

    def _die(self, target: Target, key: Hashable | None) -> None:
        target.alive, target.restate, target.doubt_since = False, False, None
        self._out.queue(Entry(Kind.DEATH, target, key, []))

    def _command(self, command: Command, topic: str, now: int) -> Told:
        """A command for a metric of a source, by the name and the alias that it has there."""
        target = self._out.targets.get(command.device or "")
        birth = None if target is None else self._nodes[target.id].epochs.current(target.device)
        known = None if birth is None else birth.source.metrics.get(command.name)
        if target is None or known is None or not self._commands:
            return self._out.refuse(topic, "commands are not passed on" if not self._commands else "no such metric")
        value: object = command.value
        metric = replace(known, timestamp=now, properties=None, metadata=None, is_historical=False)
        metric.value, metric.is_null = value, value is None  # type: ignore[assignment]
        if metric.alias is not None:
            metric.name = None
        payload = encode(Payload(now, [to_source(metric, target.id)]), with_datatypes=False)
        type = MessageType.NCMD if target.device is None else MessageType.DCMD
        return ToSource(str(Topic(type, target.id, target.device)), payload)

    def _ask(self, node: Node, now: int) -> list[Told]:
        if node.asked_at is not None and not due(node.asked_at, _ASK_MS, now):
            return []
        node.asked_at = now
        metric = Metric(REBIRTH, datatype=DataType.Boolean, value=True, timestamp=now)
        return [ToSource(str(Topic(MessageType.NCMD, node.id)), encode(Payload(now, [metric])))]

    def _target(self, node: Node, device: str | None) -> Target | None:
        return self._out.targets.get(own_device(node.id, device))

    def _new_target(self, topic: Topic) -> Target:
        build(MessageType.DBIRTH, self.node.id, own_device(topic.id, topic.device))  # raises when it is too long
        target = Target(own_device(topic.id, topic.device), topic.id, topic.device)
        self._out.targets[target.name] = target
        return target


def _differs(metric: Metric, latest: Metric) -> bool:
    """A birth says the value once more, or another; an older one says nothing."""
    if (metric.timestamp or 0) < (latest.timestamp or 0):
        return False
    return metric.timestamp != latest.timestamp or metric.value != latest.value
