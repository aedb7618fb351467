import pytest

from sparkplug.actions import Publish
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, PropertySet, PropertyValue
from sparkplug.node import EdgeNode
from sparkplug.origin import Entry, Kind, Target
from sparkplug.outflow import Outflow, sayable
from sparkplug.topic import NodeId
from tests.sparkplug_rig import T0, metric


class Rig:
    """Two devices, ``a`` and ``b``, whose births wait."""

    def __init__(self, rate: float = 0) -> None:
        self.node = EdgeNode(NodeId("G", "E"))
        self.out = Outflow(self.node, rate)
        for name in "ab":
            target = Target(name, NodeId("g", name), None)
            target.latest, target.alive = {"speed": metric("speed")}, True
            self.out.targets[name] = target
            self.put(Kind.BIRTH, name)

    def put(self, kind: Kind, name: str, key: int | None = None) -> None:
        if key is not None:
            assert self.out.begin(key)
        values = [metric("speed", value=key, at=T0 + 1)] if kind is Kind.DATA else []
        self.out.queue(Entry(kind, self.out.targets[name], key, values))
        self.out.done(key)

    def born(self) -> None:
        self.out.advance(T0)
        self.node.connect(T0)
        self.node.connected(T0)

    def advance(self, now: int = T0) -> list[str]:
        said = [one.topic.split("/") for one in self.out.advance(now) if isinstance(one, Publish)]
        return [f"{levels[2]} {levels[4]}" for levels in said]


def test_births_are_done_before_there_is_a_session_and_values_wait_for_one() -> None:
    rig = Rig()
    rig.put(Kind.DATA, "a", 1)
    assert rig.advance() == []
    assert list(rig.node.devices) == ["a", "b"]
    assert rig.out.settled() == []
    rig.born()
    assert rig.advance() == ["DDATA a"]


def test_a_device_that_waits_to_die_goes_first() -> None:
    rig = Rig(rate=1)
    rig.born()
    for name, key in (("a", 1), ("b", 2)):
        rig.put(Kind.DATA, name, key)
    rig.put(Kind.DEATH, "b", 3)
    assert rig.advance() == ["DDATA b", "DDEATH b"]
    assert rig.advance(T0 + 999) == []
    assert rig.advance(T0 + 1000) == ["DDATA a"]


def test_a_message_is_settled_when_all_its_parts_are_confirmed() -> None:
    rig = Rig()
    rig.born()
    assert rig.out.begin(1)
    assert not rig.out.begin(1)
    for name in "ab":
        rig.out.queue(Entry(Kind.DATA, rig.out.targets[name], 1, [metric("speed")]))
    rig.out.done(1)
    rig.advance()
    rig.out.confirmed(rig.out.sent - 1)
    assert rig.out.settled() == []
    rig.out.confirmed(rig.out.sent)
    assert rig.out.settled() == [1]
    assert not rig.out.begin(1)
    assert rig.out.settled() == [1]


def test_what_was_lost_waits_again_in_its_order() -> None:
    rig = Rig()
    rig.born()
    for key in (1, 2):
        rig.put(Kind.DATA, "a", key)
    rig.advance()
    rig.put(Kind.DEATH, "b", 3)
    rig.advance()
    rig.node.disconnected(T0)
    rig.out.lost()
    assert rig.out.settled() == [3]
    assert [entry.key for entry in rig.out.targets["a"].queue] == [1, 2]
    rig.node.connect(T0)
    rig.node.connected(T0)
    assert rig.advance() == ["DDATA a", "DDATA a"]


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (metric("a"), metric("a")),
        (Metric("a", value=1), None),
        (Metric("a", datatype=DataType.Int32, value="x"), None),
    ],
)
def test_only_what_can_be_written_is_said(one: Metric, said: Metric | None) -> None:
    assert sayable(one) == said


def test_a_quality_that_is_none_does_not_keep_the_value_back() -> None:
    one = metric("a")
    one.properties = PropertySet({"Quality": PropertyValue(DataType.Int32, 7)})
    assert sayable(one) == metric("a")
