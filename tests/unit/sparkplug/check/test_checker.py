"""Our own edge node, host and aware server, watched by the checker, in memory."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sparkplug import state
from sparkplug.actions import Disconnect, Publish
from sparkplug.check.checker import Checker
from sparkplug.check.observed import Published
from sparkplug.check.verdicts import Finding, Outcome
from sparkplug.datatypes import DataType
from sparkplug.host import Host
from sparkplug.model import Metric, Template
from sparkplug.node import EdgeNode
from sparkplug.state import State
from sparkplug.topic import NodeId
from tests.sparkplug_net import Net, Peer, Server, Watcher
from tests.sparkplug_rig import UNDECIDED, rich_metrics

N1, N2 = NodeId("g", "n1"), NodeId("g", "n2")


class Plant:
    """Two aware servers, one host on both, a node with a primary host and one without."""

    def __init__(self) -> None:
        self.checker = Checker(servers=2)
        self.net = Net(1, self.checker.see)
        self.a, self.b = (Server(self.net, name, aware=True) for name in "ab")
        self.node1 = EdgeNode(N1, rich_metrics(), primary_host="h", servers=2)
        self.node2 = EdgeNode(N2, [Metric("speed", datatype=DataType.Int32, value=1)], aliases=False)
        for node in (self.node1, self.node2):
            node.add_device("d", [Metric("temp", datatype=DataType.Int16, value=-1)], self.net.now)
        self.host = Host("h")
        self.n1 = Peer(self.net, "n1", self.node1, [self.a, self.b])
        self.n2 = Peer(self.net, "n2", self.node2, [self.a], version=4)
        self.ha = Peer(self.net, "host a", self.host, [self.a])
        self.hb = Peer(self.net, "host b", Host("h"), [self.b], version=4)
        self.rogue = Peer(self.net, "rogue", Watcher(()), [self.a])
        self.watcher = Peer(
            self.net, "watcher", Watcher((("spBv1.0/#", 1), ("$sparkplug/certificates/#", 1))), [self.a]
        )

    def births_and_data(self) -> None:
        for peer in (self.rogue, self.ha, self.hb):
            peer.connect()
        self.net.run(100)
        self.watcher.connect()
        for peer in (self.n1, self.n2):
            peer.connect()
        self.net.run(1000)
        self.watcher.close(0)
        self.watcher.connect()  # late: it gets the certificates and STATE as retained
        for value in range(2, 5):
            for node, peer in ((self.node1, self.n1), (self.node2, self.n2)):
                peer.do(node.write(None, {"speed": value}, self.net.now))
                peer.do(node.write("d", {"temp": -value}, self.net.now))
            self.net.run(100)
        part = Template("1", [Metric("x", datatype=DataType.Int32, value=7)], [], "Axis")
        self.n1.do(self.node1.write(None, {"axis 1": part}, self.net.now))
        self.net.run(100)

    def commands(self) -> None:
        self.ha.do(self.host.command(N1, None, {"speed": 9}, self.net.now))
        self.ha.do(self.host.command(N2, "d", {"temp": -9}, self.net.now))
        self.host.rebirth(N1)
        self.net.run(200)

    def disorder(self) -> None:
        """A message that comes too late, one that comes in time."""
        self.net.run(10_000)
        self.net.loss = 1.0
        self.n2.do(self.node2.write(None, {"speed": 50}, self.net.now))
        self.net.run(100)
        self.net.loss = 0.0
        self.n2.do(self.node2.write(None, {"speed": 51}, self.net.now))
        self.net.run(10_000)
        self.net.jitter_ms = 100
        for value in range(60, 80):
            self.n2.do(self.node2.write(None, {"speed": value}, self.net.now))
            self.net.run(10)
        self.net.jitter_ms = 0
        self.net.run(1000)

    def devices(self) -> None:
        for peer, node in ((self.n1, self.node1), (self.n2, self.node2)):
            peer.do(node.device_lost("d", self.net.now))
            self.net.run(100)
            node.write("d", {"temp": 5}, self.net.now)
            peer.do(node.device_back("d", self.net.now))
            self.net.run(300)  # the value of before comes as history

    def deaths(self) -> None:
        self.n2.cut()
        self.net.run(100)
        self.n2.connect()
        self.net.run(1000)
        self.n2.do(self.node2.leave(self.net.now))
        self.net.run(100)
        stale = state.encode(State(False, self.net.now - 10**6))
        self.rogue.do([Publish("spBv1.0/STATE/h", stale, 1, True)])
        self.net.run(100)
        self.n1.do(self.node1.write(None, {"speed": 99}, self.net.now))
        self.net.run(100)

    def host_leaves(self) -> None:
        """The node goes with its host, from one server to the other and back."""
        self.ha.do(self.host.leave(self.net.now))
        self.net.run(100)
        self.n1.connect()
        self.net.run(1000)
        self.hb.do([one for one in self.hb.machine.leave(self.net.now) if not isinstance(one, Disconnect)])
        self.hb.cut()
        self.net.run(100)

    def findings(self) -> list[Finding]:
        self.births_and_data()
        self.commands()
        self.disorder()
        self.devices()
        self.deaths()
        self.host_leaves()
        return self.checker.findings()


def test_our_own_machines_meet_what_binds_them() -> None:
    findings = Plant().findings()
    assert [(one.id, one.evidence) for one in findings if one.outcome is Outcome.FAIL] == []
    must = [one for one in findings if one.level == "MUST"]
    assert len(must) == 281
    open_ids = {one.id for one in must if one.outcome is Outcome.NOT_EXERCISED}
    assert len(open_ids) <= 28, sorted(open_ids)
    assert open_ids <= UNDECIDED, sorted(open_ids - UNDECIDED)


def births() -> list[Published]:
    """Of a node with all structures."""
    seen: list[Published] = []
    net = Net(0, lambda one: seen.append(one) if isinstance(one, Published) else None)
    node = EdgeNode(N1, rich_metrics())
    Peer(net, "n", node, [Server(net, "a")]).connect()
    return seen


@given(st.data())
def test_no_payload_stops_the_checker(draw: st.DataObject) -> None:
    (birth,) = births()
    payload = bytearray(birth.message.payload)
    for _ in range(draw.draw(st.integers(1, 4))):
        payload[draw.draw(st.integers(0, len(payload) - 1))] = draw.draw(st.integers(0, 255))
    checker = Checker()
    for type, device in (
        ("NBIRTH", ""),
        ("DBIRTH", "/d"),
        ("NDATA", ""),
        ("DDATA", "/d"),
        ("NCMD", ""),
        ("NDEATH", ""),
    ):
        topic = f"spBv1.0/g/{type}/n1{device}"
        checker.see(Published("c", birth.at, replace(birth.message, topic=topic, payload=bytes(payload))))
    checker.findings()


def test_what_is_not_sparkplug_is_not_judged() -> None:
    checker = Checker()
    checker.see(Published("c", 0, Publish("plant/temperature", b"21", 0, True)))
    assert all(one.outcome is Outcome.NOT_EXERCISED for one in checker.findings())
    checker.see(Published("c", 0, replace(Publish("", b"", 0, False), topic="spBv2.0/g/NDATA/e")))
    failed = {one.id for one in checker.findings() if one.outcome is Outcome.FAIL}
    assert "tck-id-topic-structure-namespace-a" in failed
