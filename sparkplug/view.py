"""One edge node with its devices as a host application sees it.

Messages go in as they come, what they mean comes out in the order in which they were sent. ``wants_rebirth`` is set
when only a rebirth can help; the host asks for it within its budget.
"""

from collections import deque
from typing import Final, NamedTuple, final

from sparkplug.actions import Action, Data, Missing, Offline, Online, Refused
from sparkplug.model import Metric, Payload, PayloadError
from sparkplug.payload import decode
from sparkplug.sequence import SEQ_COUNT, Reorder, Verdict, due
from sparkplug.source import Source, bd_seq_of, name_fault, update
from sparkplug.topic import MessageType, NodeId, Topic

_EARLY_MAX: Final = 256  # messages kept until the birth that they belong to
_EARLY_BYTES_MAX: Final = 1_000_000
_DEVICES_MAX: Final = 10_000
_DEATHS: Final = 8  # how many deaths are remembered: births on their way may be overtaken by more than one
_ANSWER_MS: Final = 30_000  # a node whose death is in doubt must show itself within that time


class _Raw(NamedTuple):
    """A message that waits; decoded when it is its turn, since a birth before it says how."""

    topic: Topic
    data: bytes


@final
class NodeView:
    """State of a node; times are UTC ms. Without ``online`` all of its metrics and devices are stale."""

    def __init__(self, id: NodeId, reorder_ms: int) -> None:
        self.id = id
        self.node = Source(None)
        self.devices: dict[str, Source] = {}
        self.bd_seq: int | None = None
        self.wants_rebirth = False
        self.asked = False  # for a rebirth, and none came since
        self.answered = False  # born or dead, so nothing needs to be asked
        self.order: Reorder[_Raw] = Reorder(reorder_ms)
        self._owners: dict[int, str | None] = {}  # alias -> the source that it belongs to
        self._birth_digest: int | None = None
        self._birth_at = 0
        self._before: dict[str | None, Source] = {}  # as the birth before named things, for what comes late
        self._before_at = 0
        self._dead: deque[int | None] = deque(maxlen=_DEATHS)  # bdSeqs of deaths without a birth since
        self._suspect: int | None = None  # digest of a birth that was not believed
        self._early: deque[_Raw] = deque()
        self._early_bytes = 0
        self._early_since: int | None = None
        self._doubt_since: int | None = None

    @property
    def online(self) -> bool:
        return self.node.online

    @property
    def armed(self) -> bool:
        """Time alone may change something."""
        return self.order.since is not None or self._early_since is not None or self._doubt_since is not None

    def source(self, device: str | None) -> Source | None:
        return self.node if device is None else self.devices.get(device)

    def receive(self, topic: Topic, data: bytes, now: int) -> list[Action]:
        """A message of this node. Raises PayloadError when it cannot be read."""
        if topic.type is MessageType.NBIRTH:
            return self._on_birth(topic, data, now)
        if topic.type is MessageType.NDEATH:
            return self._on_death(topic, data, now)
        if not self.node.online:
            return self._hold_early(topic, data, now)
        return self._in_order(topic, data, now)

    def tick(self, now: int) -> list[Action]:
        """The reorder timer, the wait for a birth, and a death in doubt."""
        actions: list[Action] = []
        while self.node.online and self.order.expired(now):
            actions += self._give_up(now)
            self.wants_rebirth = True
        if self._early_since is not None and due(self._early_since, self.order.timeout_ms, now):
            self._early_since = now
            self.wants_rebirth = True
        if self._doubt_since is not None and due(self._doubt_since, _ANSWER_MS, now):
            actions += self._go_offline(now)
        return actions

    def link_lost(self, now: int) -> list[Action]:
        """The host lost its own connection: nothing is known of the node until its next birth."""
        actions = self._go_offline(now)
        return actions + [self._late(raw) for raw in self._take_early()]

    # Births and deaths of the node

    def _on_birth(self, topic: Topic, data: bytes, now: int) -> list[Action]:
        payload, digest = decode(data), hash(data)
        seq = payload.seq or 0  # a birth without one starts the count all the same
        if self.node.online and digest == self._birth_digest:
            return []
        at = now if payload.timestamp is None else payload.timestamp
        bd_seq = bd_seq_of(payload.metrics)
        doubt = self._doubt(at, bd_seq, digest, seq)
        if doubt is not None:
            return [Refused(str(topic), doubt)]
        fault = self._alias_fault(None, payload.metrics, {})
        if fault is not None:
            return [Refused(str(topic), fault)]
        actions = self._drop_devices(now)
        again = [*self.order.begin(seq, payload.timestamp, digest), *self._take_early()]
        self._doubt_since = self._suspect = None
        while bd_seq in self._dead:
            self._dead.remove(bd_seq)
        self.asked = self.wants_rebirth = False
        self.answered = True
        self._before, self._before_at = {None: self.node}, self._birth_at
        self._before |= dict(self.devices.items())
        self.node, self.devices = Source(None), {device: Source(device) for device in self.devices}
        self._owners.clear()
        self.bd_seq, self._birth_digest, self._birth_at = bd_seq, digest, at
        actions += self._install(topic, self.node, payload, at)
        for raw in again:
            actions += self._taken_again(raw, now)
        return actions

    def _doubt(self, at: int, bd_seq: int | None, digest: int, seq: int) -> str | None:
        """Why this birth is not believed; an unheard-of one that comes after a request for a rebirth is."""
        if seq >= SEQ_COUNT:
            return f"seq {seq} is out of range"
        if self.node.online and at < self._birth_at:
            return "an older birth than the one in force"
        if digest == self._birth_digest:
            reason = "a repetition of the last birth"
        elif at < self._birth_at:
            reason = "an older birth than the last one"
        elif bd_seq is not None and bd_seq in self._dead:
            reason = f"the death with bdSeq {bd_seq} came before this birth"
        else:
            return None
        if self.asked and digest not in (self._birth_digest, self._suspect):
            return None
        self._suspect = digest
        self.wants_rebirth = True
        return reason

    def _on_death(self, topic: Topic, data: bytes, now: int) -> list[Action]:
        bd_seq = bd_seq_of(decode(data).metrics)
        self._dead.append(bd_seq)
        if not self.node.online:
            return []  # twice is no fault: an explicit death and the will
        if bd_seq != self.bd_seq and bd_seq is not None and self.bd_seq is not None:
            # Of an earlier session. Or the node gives its will another number than its births: it must show itself.
            self._doubt_since = now
            self.wants_rebirth = True
            return [Refused(str(topic), f"bdSeq {bd_seq} is not that of the birth in force, {self.bd_seq}")]
        return self._go_offline(now)

    def _go_offline(self, now: int) -> list[Action]:
        if not self.node.online:
            return []
        actions: list[Action] = []
        while self.order.since is not None:  # what waits was sent before this
            actions += self._give_up(now)
        self._doubt_since = None
        self.node.online, self.node.at = False, now
        self.answered = True
        return [*actions, *self._drop_devices(now), Offline(self.id, None, now)]

    def _drop_devices(self, now: int) -> list[Action]:
        actions: list[Action] = []
        for device, source in self.devices.items():
            if source.online:
                source.online, source.at = False, now
                actions.append(Offline(self.id, device, now))
        return actions

    # Messages with a seq

    def _hold_early(self, topic: Topic, data: bytes, now: int) -> list[Action]:
        """Its birth is on the way, or a rebirth must be asked for."""
        self._early.append(_Raw(topic, data))
        self._early_bytes += len(data)
        if self._early_since is None:
            self._early_since = now
        actions = []
        while len(self._early) > _EARLY_MAX or self._early_bytes > _EARLY_BYTES_MAX:
            oldest = self._early.popleft()
            self._early_bytes -= len(oldest.data)
            actions.append(self._late(oldest))
        return actions

    def _take_early(self) -> list[_Raw]:
        found = list(self._early)
        self._early.clear()
        self._early_bytes = 0
        self._early_since = None
        return found

    def _in_order(self, topic: Topic, data: bytes, now: int) -> list[Action]:
        source = self.node if topic.device is None else self.devices.get(topic.device)
        payload = decode(data, types=None if source is None else source.types)
        seq, at = payload.seq, payload.timestamp
        if seq is None:
            return self._apply(topic, payload, now)  # it cannot be put in order
        if seq >= SEQ_COUNT:
            self.wants_rebirth = True
            return [Refused(str(topic), f"seq {seq} is out of range")]
        if at is not None and at < self._birth_at and payload.metrics and all(m.is_historical for m in payload.metrics):
            at = None  # a backlog whose sender stamps the whole message with the time of its values
        digest, raw = hash(data), _Raw(topic, data)
        verdict = self.order.judge(seq, at, digest, raw, now)
        actions: list[Action] = []
        while verdict is Verdict.FULL:
            actions += self._give_up(now)
            self.wants_rebirth = True
            verdict = self.order.judge(seq, at, digest, raw, now)
        if verdict is Verdict.NOW:
            self._doubt_since = None
            actions += self._apply(topic, payload, now)
            if self.order.since is not None:
                actions += self._drain(now)
        elif verdict is Verdict.LATE:
            actions.append(self._late(raw))
        return actions

    def _taken_again(self, raw: _Raw, now: int) -> list[Action]:
        try:
            return self._in_order(raw.topic, raw.data, now)
        except PayloadError as error:
            return [Refused(str(raw.topic), str(error))]

    def _drain(self, now: int) -> list[Action]:
        actions: list[Action] = []
        while (raw := self.order.ready()) is not None:
            source = self.source(raw.topic.device)
            try:
                payload = decode(raw.data, types=None if source is None else source.types)
                actions += self._apply(raw.topic, payload, now)
            except PayloadError as error:
                actions.append(Refused(str(raw.topic), str(error)))
        return actions

    def _give_up(self, now: int) -> list[Action]:
        missing = self.order.give_up()
        actions: list[Action] = [Missing(self.id, missing)] if missing else []
        return actions + self._drain(now)

    # What a message says

    def _apply(self, topic: Topic, payload: Payload, now: int) -> list[Action]:
        type, device = topic.type, topic.device
        if type is MessageType.DBIRTH:
            assert device is not None
            if device not in self.devices and len(self.devices) >= _DEVICES_MAX:
                return [Refused(str(topic), f"more than {_DEVICES_MAX} devices")]
            source = self.devices.setdefault(device, Source(device))
            at = now if payload.timestamp is None else payload.timestamp
            return self._install(topic, source, payload, at)
        found = self.source(device)
        if found is None or not found.online:
            self.wants_rebirth |= type is not MessageType.DDEATH
            return [Refused(str(topic), "the device was not born")]
        if type is MessageType.DDEATH:
            found.online = False
            found.at = now if payload.timestamp is None else payload.timestamp
            return [Offline(self.id, device, found.at)]
        named: list[Metric] = []
        unknown: Metric | None = None
        by_alias, sent_at = found.by_alias, payload.timestamp
        for metric in payload.metrics:
            known = by_alias.get(metric.alias) or found.find(metric)  # type: ignore[arg-type]
            if known is None:
                unknown = metric
                continue
            metric.name = known.name
            named.append(metric)
            if not metric.is_historical:
                update(known, metric, sent_at)
        actions: list[Action] = [Data(self.id, device, payload, False, named)]
        if unknown is not None:
            self.wants_rebirth = True
            label = f"alias {unknown.alias}" if unknown.name is None else repr(unknown.name)
            actions.append(Refused(str(topic), f"the birth had no metric {label}"))
        return actions

    def _install(self, topic: Topic, source: Source, payload: Payload, at: int) -> list[Action]:
        fault = self._alias_fault(source.device, payload.metrics, self._owners)
        if fault is not None:
            return [Refused(str(topic), fault)]
        for alias in source.by_alias:
            self._owners.pop(alias, None)
        named = [metric for metric in payload.metrics if metric.name]
        source.replace(named)
        self._owners.update(dict.fromkeys(source.by_alias, source.device))
        source.online, source.at = True, at
        actions: list[Action] = [
            Online(self.id, source.device, at),
            Data(self.id, source.device, payload, False, named),
        ]
        fault = name_fault(payload.metrics)
        if fault is not None:
            actions.append(Refused(str(topic), fault))
        return actions

    def _alias_fault(self, device: str | None, metrics: list[Metric], owners: dict[int, str | None]) -> str | None:
        """An alias that means two metrics would give values to the wrong one [tck-id-payloads-alias-uniqueness]."""
        seen: set[int] = set()
        for metric in metrics:
            alias = metric.alias
            if alias is not None:
                if alias in seen or owners.get(alias, device) != device:
                    return f"alias {alias} is given to two metrics"
                seen.add(alias)
        return None

    def _late(self, raw: _Raw) -> Action:
        """History, whatever its metrics say of themselves; births and deaths of another time change nothing."""
        topic = raw.topic
        if topic.type in (MessageType.DBIRTH, MessageType.DDEATH):
            return Refused(str(topic), "of an earlier time")
        try:
            source = self._source_then(topic.device, decode(raw.data).timestamp)
            payload = decode(raw.data, types=None if source is None else source.types)
        except PayloadError as error:
            return Refused(str(topic), str(error))
        named = []
        for metric in payload.metrics:
            known = None if source is None else source.find(metric)
            if known is not None:
                metric.name = known.name
            if metric.name is not None:
                named.append(metric)
        return Data(self.id, topic.device, payload, True, named)

    def _source_then(self, device: str | None, at: int | None) -> Source | None:
        """The names that were in force at that time: an alias may mean something else in each session."""
        if at is None or at >= self._birth_at:
            return self.source(device)
        return self._before.get(device) if at >= self._before_at else None
