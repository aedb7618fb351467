"""Sources that die, come back with other metrics and say things late, and a destination that comes and goes.

Whatever happens, what our node says meets the requirements, and each value arrives once, with its time and its name.
"""

import os
from collections import Counter
from collections.abc import Hashable, Iterable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparkplug.actions import Action, Publish, Subscribe
from sparkplug.check.checker import Checker
from sparkplug.check.observed import Connected, Delivered, Disconnected, Published, Subscribed
from sparkplug.check.verdicts import Outcome
from sparkplug.datatypes import DataType
from sparkplug.mapping import own_device
from sparkplug.model import Metric, Payload
from sparkplug.node import EdgeNode, Phase
from sparkplug.origin import Told
from sparkplug.payload import decode, encode
from sparkplug.republish import Republisher
from sparkplug.source import REBIRTH
from sparkplug.topic import NodeId
from tests.sparkplug_rig import T0

WALKS = int(os.environ.get("FOREBAY_WALKS", "40"))
OWN = NodeId("G", "E")
NODES = (NodeId("g", "e0"), NodeId("g", "e1"))
DEVICES = (None, "d")
REBIRTH_COMMAND = encode(Payload(T0, [Metric(REBIRTH, datatype=DataType.Boolean, value=True)]))

Value = tuple[str, str, Hashable, int | None]
"""Our device, the name, the value and its time."""


def metrics(count: int) -> list[Metric]:
    return [Metric(f"m{n}", datatype=DataType.Int64, value=0, timestamp=T0) for n in range(count)]


class Stream(RuleBasedStateMachine):
    @initialize(rate=st.sampled_from([0, 20]))
    def start(self, rate: int) -> None:
        self.now, self.key, self.value, self.more = T0, 0, 0, 2
        self.checker = Checker()
        self.machine = Republisher(OWN, rate=rate, commands=True)
        self.sources = [EdgeNode(id, metrics(2)) for id in NODES]
        self.held: list[tuple[str, bytes]] = []
        self.births_since = 0
        self.wanted: list[Value] = []
        self.got: list[Value] = []
        self.in_births: set[Value] = set()
        self.live: dict[tuple[str, str], int] = {}
        self.names: dict[int, tuple[str, str]] = {}
        self.settled = 0
        for number, source in enumerate(self.sources):
            source.add_device("d", metrics(2), T0)
            self.source_comes(number)

    # The sources

    def take(self, actions: Iterable[Action], *, age: int = 0) -> None:
        for action in actions:
            if isinstance(action, Publish):
                self.note_birth(action)
                if self.births_since > 1:
                    self.late_comes()
                self.feed((action.topic, action.payload), age=age)

    def note_birth(self, message: Publish) -> None:
        _, group, type, node, *device = message.topic.split("/")
        self.births_since += type == "NBIRTH"
        if type in ("NBIRTH", "DBIRTH"):
            own = own_device(NodeId(group, node), device[0] if device else None)
            said = decode(message.payload).metrics
            self.in_births |= {(own, one.name or "", one.value, one.timestamp) for one in said}  # type: ignore[misc]

    def feed(self, message: tuple[str, bytes], *, age: int = 0, late: bool = False) -> None:
        self.key += 1
        self.say(self.machine.take(self.key, *message, self.now, late=late, received=self.now - age))

    def source_comes(self, number: int) -> None:
        source = self.sources[number]
        self.will = source.connect(self.now).will
        self.take(source.connected(self.now))

    @rule(
        number=st.integers(0, 1),
        device=st.sampled_from(DEVICES),
        both=st.booleans(),
        age=st.sampled_from([0, 0, 60_000]),
        late=st.booleans(),
    )
    def value_changes(self, number: int, device: str | None, both: bool, age: int, late: bool) -> None:
        source = self.sources[number]
        self.now += 1
        if source.phase is not Phase.BORN or not source.source(device).online:
            return
        self.value += 1
        values = dict.fromkeys(("m0", "m1") if both else ("m1",), self.value)
        own = own_device(NODES[number], device)
        self.wanted += [(own, name, value, self.now) for name, value in values.items()]
        actions = source.write(device, dict(values), self.now)
        if late and len(self.held) < 5:
            self.held += [(one.topic, one.payload) for one in actions if isinstance(one, Publish)]
        else:
            self.take(actions, age=age)

    @rule()
    def late_comes(self) -> None:
        held, self.held, self.births_since = self.held, [], 0
        for message in held:
            self.feed(message, late=True)

    @rule(number=st.integers(0, 1), comes=st.booleans())
    def source_dies(self, number: int, comes: bool) -> None:
        source = self.sources[number]
        self.now += 1
        if source.phase is Phase.BORN:
            source.disconnected(self.now)
            bd_seq = Metric("bdSeq", datatype=DataType.Int64, value=source.bd_seq, timestamp=self.now)
            self.take([Publish(f"spBv1.0/g/NDEATH/e{number}", encode(Payload(self.now, [bd_seq])), 1, False)])
        if comes:
            self.now += 1
            self.source_comes(number)

    @rule(number=st.integers(0, 1))
    def device_goes_or_comes(self, number: int) -> None:
        source = self.sources[number]
        self.now += 1
        change = source.device_lost if source.devices["d"].online else source.device_back
        self.take(change("d", self.now))

    @rule(number=st.integers(0, 1), device=st.sampled_from(DEVICES))
    def metric_comes(self, number: int, device: str | None) -> None:
        self.now += 1
        self.more += 1
        new = Metric(f"m{self.more}", datatype=DataType.Double, value=0.5)
        self.take(self.sources[number].define(device, new, self.now))

    @rule(number=st.integers(0, 1))
    def source_restarts_with_other_aliases(self, number: int) -> None:
        self.source_dies(number, False)
        before = self.sources[number]
        source = EdgeNode(NODES[number], reversed(metrics(2)), bd_seq=before.bd_seq)
        self.now += 1
        source.add_device("d", metrics(2), self.now)
        self.sources[number] = source
        self.source_comes(number)

    # The destination

    @rule()
    def destination_comes_or_goes(self) -> None:
        if self.machine.node.phase is Phase.OFFLINE:
            will = self.machine.connect(self.now).will
            self.checker.see(Connected("n", self.now, 5, True, will))
            self.say(self.machine.connected(self.now))
        else:
            self.machine.confirmed(self.machine.sent)
            self.machine.disconnected(self.now)
            self.checker.see(Disconnected("n", self.now, None))

    @rule(ms=st.sampled_from([10, 500, 12_000]))
    def wait(self, ms: int) -> None:
        for _ in range(max(ms // 500, 1)):
            self.now += min(ms, 500)
            self.say(self.machine.tick(self.now))

    @precondition(lambda self: self.machine.node.phase is Phase.BORN)
    @rule()
    def host_asks(self) -> None:
        self.checker.see(Delivered("n", self.now, Publish("spBv1.0/G/NCMD/E", REBIRTH_COMMAND, 1, False)))
        self.say(self.machine.message("spBv1.0/G/NCMD/E", REBIRTH_COMMAND, self.now))

    def say(self, actions: Iterable[Told]) -> None:
        for action in actions:
            if isinstance(action, Subscribe):
                self.checker.see(Subscribed("n", self.now, action.filters))
            elif isinstance(action, Publish):
                self.checker.see(Published("n", self.now, action))
                self.read(action)

    def read(self, message: Publish) -> None:
        _, _, type, _, *device = message.topic.split("/")
        for metric in decode(message.payload).metrics:
            if type == "DBIRTH":
                assert metric.alias is not None and metric.name is not None
                self.names[metric.alias] = (device[0], metric.name)
            elif type == "DDATA":
                own, name = self.names[metric.alias or 0]
                assert own == device[0]
                assert isinstance(metric.value, int | float)
                self.got.append((own, name, metric.value, metric.timestamp))
            if type in ("DBIRTH", "DDATA") and not metric.is_historical:
                where = (device[0], metric.name or self.names[metric.alias or 0][1])
                assert (metric.timestamp or 0) >= self.live.get(where, 0) or type == "DBIRTH"
                self.live[where] = metric.timestamp or 0

    @invariant()
    def requirements_are_met(self) -> None:
        if hasattr(self, "checker"):
            assert [one for one in self.checker.findings() if one.outcome is Outcome.FAIL] == []

    def teardown(self) -> None:
        if not hasattr(self, "checker"):
            return
        self.late_comes()
        for number in range(len(NODES)):
            for device in DEVICES:  # what came late is not what is
                self.value_changes(number, device, True, 0, False)
        if self.machine.node.phase is Phase.OFFLINE:
            self.destination_comes_or_goes()
        self.wait(30_000)
        self.machine.confirmed(self.machine.sent)
        assert self.machine.waiting == self.machine.refused == 0
        assert len(self.machine.settled()) == self.key
        wanted, got = Counter(self.wanted), Counter(one for one in self.got if one[2] not in (0, 0.5))
        assert wanted - got == Counter()
        assert set(got - wanted) <= self.in_births  # these the source has said twice itself
        self.ours_is_what_theirs_is()
        self.requirements_are_met()

    def ours_is_what_theirs_is(self) -> None:
        for number, source in enumerate(self.sources):
            for device in DEVICES:
                theirs = source.source(device)
                ours = self.machine.node.devices[own_device(NODES[number], device)]
                online = theirs.online and source.phase is Phase.BORN
                assert ours.online == online
                if online:
                    for name, metric in theirs.metrics.items():
                        known = ours.metrics[name]
                        assert (known.value, known.timestamp) == (metric.value, metric.timestamp)


Stream.TestCase.settings = settings(
    max_examples=WALKS,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestStream = Stream.TestCase
