"""What goes out to the destination: our node, what waits for its turn, and which messages are settled.

Each of our devices has a queue: births and deaths wait for what was said before them, the backlog for the rate.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import replace
from typing import Final, final

from sparkplug.actions import Action, Refused
from sparkplug.model import Metric, Payload, PayloadError
from sparkplug.node import EdgeNode, Phase
from sparkplug.origin import Entry, Kind, Target, Told
from sparkplug.payload import encode

_RECENT: Final = 10_000  # keys remembered, for messages that come again because their acknowledgement was lost
_BURST_S: Final = 0.25  # of the rate may go out at once


@final
class Outflow:
    """``rate``: messages of the backlog a second, 0 = all at once."""

    def __init__(self, node: EdgeNode, rate: float) -> None:
        self.node = node
        self.targets: dict[str, Target] = {}
        self.sent = 0
        self.refused = 0
        self._rate = rate
        self._open: dict[Hashable, int] = {}  # how many entries a message still has
        self._recent: OrderedDict[Hashable, None] = OrderedDict()
        self._settled: list[Hashable] = []
        self._sent: deque[tuple[int, Entry]] = deque()
        self._credit = 1.0
        self._credit_at: int | None = None

    @property
    def unconfirmed(self) -> int:
        return len(self._sent)

    def begin(self, key: Hashable) -> bool:
        """A message comes in; False when it is under way or done already. ``done`` ends what this begins."""
        if key in self._open:
            return False
        if key in self._recent:
            self._settled.append(key)
            return False
        self._open[key] = 1
        return True

    def done(self, key: Hashable | None) -> None:
        """One part of the message less; with the last it is settled."""
        if key is None:
            return
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]
            self._settled.append(key)
            self._recent[key] = None
            if len(self._recent) > _RECENT:
                self._recent.popitem(last=False)

    def settled(self) -> list[Hashable]:
        """Keys of messages that may be acknowledged, since the last call."""
        found, self._settled = self._settled, []
        return found

    def lost(self) -> None:
        """The destination: what it did not confirm waits again."""
        for _, entry in reversed(self._sent):
            if entry.kind is Kind.DATA:
                entry.target.queue.appendleft(entry)
            else:
                self.done(entry.key)
        self._sent.clear()

    def confirmed(self, mark: int) -> None:
        """The destination has all that was said up to ``sent`` == mark."""
        while self._sent and self._sent[0][0] <= mark:
            self.done(self._sent.popleft()[1].key)

    def counted(self, entry: Entry) -> Entry:
        """One more part of its message, to be said now or queued."""
        if entry.key is not None:
            self._open[entry.key] += 1
        return entry

    def queue(self, entry: Entry) -> None:
        """Births and deaths come after what was said before them, history when the rate allows."""
        entry.target.barriers += entry.kind is not Kind.DATA
        entry.target.queue.append(self.counted(entry))

    def advance(self, now: int) -> list[Told]:
        """All that may go out now: births and deaths once their turn comes, and what the rate allows of the backlog."""
        if self._rate:
            since = 0 if self._credit_at is None else max(now - self._credit_at, 0)
            self._credit = min(self._credit + self._rate * since / 1000, max(1.0, self._rate * _BURST_S))
            self._credit_at = now
        actions: list[Told] = []
        busy = [target for target in self.targets.values() if target.queue]
        for target in sorted(busy, key=lambda target: target.barriers == 0):
            while target.queue:
                entry = target.queue[0]
                if entry.kind is Kind.DATA:
                    if self.node.phase is not Phase.BORN or (self._rate and self._credit < 1):
                        break
                    self._credit -= 1 if self._rate else 0
                    target.queue.popleft()
                    for metric in entry.metrics:
                        metric.is_historical = True
                    actions += self.say(entry, now)
                else:
                    target.queue.popleft()
                    target.barriers -= 1
                    actions += self._birth_or_death(entry, now)
            if not target.queue and not target.alive and target.name in self.node.devices:
                actions += self.node.device_lost(target.name, now)  # it was born for its history alone
        return actions

    def _birth_or_death(self, entry: Entry, now: int) -> list[Action]:
        target = entry.target
        if entry.kind is Kind.DEATH:
            actions = self.node.device_lost(target.name, now) if target.name in self.node.devices else []
        elif target.name in self.node.devices:
            actions = self.node.redefine(target.name, target.latest.values(), now)
            actions += self.node.device_back(target.name, now)
        else:
            actions = self.node.add_device(target.name, target.latest.values(), now)
        self._out(entry, bool(actions))
        return actions

    def say(self, entry: Entry, now: int) -> list[Told]:
        """One DATA; before it a birth, where the device is not online or its birth lacks a metric of another epoch."""
        target, node = entry.target, self.node
        known = node.devices[target.name].metrics
        lacking = [
            Metric(metric.name, datatype=metric.datatype, timestamp=metric.timestamp, is_null=True)
            for metric in {metric.name: metric for metric in entry.metrics}.values()
            if metric.name not in known and metric.datatype
        ]
        actions: list[Told] = []
        if lacking:
            target.latest |= {metric.name: metric for metric in lacking if metric.name}
            actions += node.redefine(target.name, [*known.values(), *lacking], now)
            known = node.devices[target.name].metrics
        actions += node.device_back(target.name, now)
        metrics = []
        for metric in entry.metrics:
            one = known.get(metric.name or "")
            said = sayable(metric) if one is not None and one.datatype == metric.datatype else None
            if said is None:
                actions.append(self.refuse(target.name, f"{metric.name!r}: not a value of the metric that was born"))
            else:
                metrics.append(said)
        if metrics:
            actions += node.report(target.name, metrics, now)
        self._out(entry, bool(metrics))
        return actions

    def _out(self, entry: Entry, said: bool) -> None:
        if said:
            self.sent += 1
            self._sent.append((self.sent, entry))
        else:
            self.done(entry.key)

    def refuse(self, topic: str, reason: str) -> Refused:
        self.refused += 1
        return Refused(topic, reason)

    def online(self, target: Target) -> bool:
        own = self.node.devices.get(target.name)
        return self.node.phase is Phase.BORN and own is not None and own.online


def sayable(metric: Metric) -> Metric | None:
    """The metric as far as it can be written: without what is only about it, if need be."""
    if not metric.datatype:
        return None
    for one in (metric, replace(metric, properties=None, metadata=None)):
        try:
            encode(Payload(metrics=[one]))
        except PayloadError:
            continue
        return one
    return None
