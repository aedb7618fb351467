"""Edge nodes against a host over links that lose, repeat, reorder and break: afterwards the host knows what is.

While anything goes wrong, the requirements checker finds nothing that our machines do not meet.
"""

import os
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sparkplug.actions import Data, Missing, Publish
from sparkplug.check.checker import Checker
from sparkplug.check.verdicts import Outcome
from sparkplug.datatypes import DataType
from sparkplug.host import Host
from sparkplug.model import Metric
from sparkplug.node import EdgeNode
from sparkplug.topic import NodeId
from tests.sparkplug_net import Net, Peer, Server
from tests.sparkplug_rig import T0, data, dbirth, ddeath, nbirth, ndeath

NODES = 2
DEVICES = (None, "d1", "d2")
BURST, EVERY_MS, PAUSE_MS = 3, 1000, 5000
HEALED_MS_MAX = 900_000  # the longest pause between two requests to a node is 5 minutes
WALKS = int(os.environ.get("FOREBAY_WALKS", "40"))


def metrics() -> list[Metric]:
    return [Metric(name, datatype=DataType.Int32, value=0) for name in ("a", "b")]


class Links(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32), aliases=st.booleans())
    def start(self, seed: int, aliases: bool) -> None:
        self.checker = Checker(grace_ms=3000)
        self.net = Net(seed, self.checker.see)
        self.server = Server(self.net, "a", aware=True)
        self.aliases = aliases
        self.host = Host("h", rebirth_burst=BURST, rebirth_every_ms=EVERY_MS)
        self.at_host = Peer(self.net, "h", self.host, [self.server])
        self.at_host.connect()
        self.net.run(200)
        self.nodes = [self.new_node(number, 250) for number in range(NODES)]
        self.peers = [Peer(self.net, f"n{number}", node, [self.server]) for number, node in enumerate(self.nodes)]
        for peer in self.peers:
            peer.connect()
        self.value = 0
        self.faults = False

    def new_node(self, number: int, bd_seq: int) -> EdgeNode:
        node = EdgeNode(NodeId("g", f"e{number}"), metrics(), bd_seq=bd_seq, aliases=self.aliases)
        for device in DEVICES:
            if device is not None:
                node.add_device(device, metrics(), self.net.now)
        return node

    @rule(number=st.integers(0, NODES - 1), device=st.sampled_from(DEVICES), both=st.booleans())
    def write(self, number: int, device: str | None, both: bool) -> None:
        self.value += 1
        values = {"a": self.value, "b": -self.value} if both else {"a": self.value}
        self.peers[number].do(self.nodes[number].write(device, values, self.net.now))

    @rule(ms=st.sampled_from([1, 10, 100, 2500, 20_000]))
    def wait(self, ms: int) -> None:
        self.net.run(ms)

    @rule(
        loss=st.sampled_from([0.0, 0.2, 0.7]),
        repeats=st.sampled_from([0.0, 0.3]),
        jitter=st.sampled_from([0, 50, 3000]),
    )
    def trouble(self, loss: float, repeats: float, jitter: int) -> None:
        self.net.loss, self.net.repeats, self.net.jitter_ms = loss, repeats, jitter

    @rule(number=st.integers(0, NODES - 1), device=st.sampled_from(DEVICES[1:]))
    def device_goes_or_comes(self, number: int, device: str) -> None:
        node = self.nodes[number]
        change = node.device_lost if node.devices[device].online else node.device_back
        self.peers[number].do(change(device, self.net.now))

    @rule(
        number=st.integers(0, NODES - 1),
        unseen=st.sampled_from([1, 40_000]),
        away=st.sampled_from([0, 700, 50_000]),
        restarts=st.booleans(),
        new_id=st.booleans(),
    )
    def node_breaks(self, number: int, unseen: int, away: int, restarts: bool, new_id: bool) -> None:
        """The link breaks, perhaps unseen by the server, perhaps because the node restarts."""
        peer = self.peers[number]
        peer.cut(unseen)
        if restarts:
            self.nodes[number] = self.new_node(number, self.nodes[number].bd_seq)
            peer.machine = self.nodes[number]
        if new_id:
            peer.name += "'"
        self.net.run(away)
        peer.connect()

    @rule(number=st.integers(0, NODES - 1))
    def node_leaves(self, number: int) -> None:
        self.peers[number].do(self.nodes[number].leave(self.net.now))
        self.net.run(100)
        self.peers[number].connect()

    @rule(away=st.sampled_from([0, 3000]))
    def host_breaks(self, away: int) -> None:
        self.at_host.cut()
        self.net.run(away)
        self.at_host.connect()

    @invariant()
    def requirements_are_met(self) -> None:
        if not hasattr(self, "checker"):
            return
        failed = [one for one in self.checker.findings() if one.outcome is Outcome.FAIL and one.level == "MUST"]
        assert failed == []

    def teardown(self) -> None:
        if not hasattr(self, "checker"):
            return
        self.net.loss, self.net.repeats, self.net.jitter_ms = 0.0, 0.0, 0
        self.net.run(60_000)  # what is under way comes in
        for number in range(NODES):
            for device in DEVICES:
                self.write(number, device, True)
        for _ in range(HEALED_MS_MAX // 10_000):
            self.net.run(10_000)
            if not self.differences():
                break
        assert self.differences() == []
        self.requests_are_within_the_budget()
        self.requirements_are_met()

    def differences(self) -> list[str]:
        """What the host believes and is not so."""
        found = []
        for node in self.nodes:
            view = self.host.nodes.get(node.id)
            if view is None or not view.online or view.bd_seq != node.bd_seq:
                found.append(f"{node.id}: offline or of another session")
                continue
            for device in DEVICES:
                source, seen = node.source(device), view.source(device)
                if (seen is not None and seen.online) != source.online:
                    found.append(f"{node.id}/{device}: online is {source.online}")
                elif seen is not None and source.online:
                    found += [
                        f"{node.id}/{device}: {name} is {metric.value!r}, not {seen.metrics[name].value!r}"
                        for name, metric in source.metrics.items()
                        if seen.metrics[name].value != metric.value
                    ]
        return found

    def requests_are_within_the_budget(self) -> None:
        asked = [(at, one.topic) for at, one in self.at_host.sent if "/NCMD/" in one.topic]
        for first, (start, _) in enumerate(asked):
            for count, (end, _) in enumerate(asked[first:], 1):
                assert count <= BURST + (end - start) / EVERY_MS
        for node in self.nodes:
            times = [at for at, topic in asked if topic.endswith(node.id.node)]
            assert all(later - sooner >= PAUSE_MS for sooner, later in pairwise(times))


Links.TestCase.settings = settings(
    max_examples=WALKS,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLinks = Links.TestCase


def test_without_trouble_nothing_is_asked_missed_or_late() -> None:
    net = Net()
    server = Server(net, "a")
    host = Host("h")
    at_host = Peer(net, "h", host, [server])
    at_host.connect()
    net.run(100)
    node = EdgeNode(NodeId("g", "e"), metrics())
    peer = Peer(net, "n", node, [server])
    peer.connect()
    for value in range(1, 1000):
        peer.do(node.write(None, {"a": value}, net.now))
        net.run(10)
    told = [one for one in at_host.told if isinstance(one, Data)]
    assert [one.metrics[0].value for one in told[1:]] == list(range(1, 1000))
    assert not any(one.late for one in told)
    assert not any(isinstance(one, Missing) for one in at_host.told)
    assert [one for _, one in at_host.sent if isinstance(one, Publish) and "/NCMD/" in one.topic] == []


PARTS = [
    nbirth(),
    dbirth(T0, 1),
    data(T0 + 1, 2, 5),
    data(T0 + 2, 3, 6, device="d", alias=2),
    ddeath(T0 + 3, 4),
    ndeath(),
]
WHERE = [
    *(topic for topic, _ in PARTS),
    "spBv1.0/g/NCMD/e",
    "spBv1.0/g/DCMD/e/d",
    "spBv1.0/STATE/h",
    "STATE/h",
    "x",
    "",
]
PAYLOADS = [*(payload for _, payload in PARTS), b'{"online":true,"timestamp":1}', b"ONLINE", b""]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    payload = bytearray(draw(st.sampled_from(PAYLOADS)))
    for _ in range(draw(st.integers(0, 3))):
        if payload:
            payload[draw(st.integers(0, len(payload) - 1))] = draw(st.integers(0, 255))
    return bytes(payload)


@settings(max_examples=10 * WALKS, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WHERE), damaged(), st.integers(0, 3000), st.booleans()), max_size=30))
def test_nothing_that_a_peer_sends_raises(messages: list[tuple[str, bytes, int, bool]]) -> None:
    host, node = Host("h"), EdgeNode(NodeId("g", "e"), metrics(), primary_host="h")
    node.add_device("d", metrics(), T0)
    now = T0
    for machine in (host, node):
        machine.connect(now)
        machine.connected(now)
    for topic, payload, passed, retained in messages:
        now += passed
        for machine in (host, node):
            machine.message(topic, payload, now, retained=retained)
            machine.tick(now)
    host.disconnected(now)
    node.disconnected(now)
