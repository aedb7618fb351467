"""Acknowledgements leave in order, each queue for itself; a ping answers for QoS 0."""

from typing import Any

import pytest

from gateway.core.answers import release_acks
from gateway.core.limits import Limits
from gateway.core.message import PendingAck
from gateway.core.model import Client
from gateway.core.state import Core
from gateway.mqtt.packets import PUBACK, PUBREC
from tests.core_rig import broker, connect
from tests.memory import MemoryBroker


def waiting(c: Client, type: int, *ids: int) -> list[PendingAck]:
    made = [PendingAck(c, type, id) for id in ids]
    for a in made:
        (c.acks if type == PUBACK else c.recs).append(a)
    if type == PUBACK:
        c.unacked += len(made)
    return made


def test_only_the_done_head_leaves() -> None:
    core = Core(Limits(), 0, 1)
    c = Client(None, "", 100, 0)
    c.version = 4
    acks = waiting(c, PUBACK, 1, 2, 300)
    recs = waiting(c, PUBREC, 7)
    acks[1].done = True
    release_acks(core, c)
    assert c.take() == b""
    recs[0].done = True  # QoS 2 does not wait for QoS 1
    release_acks(core, c)
    assert c.take() == b"\x50\x02\x00\x07"
    acks[0].done = acks[2].done = True
    release_acks(core, c)
    assert c.take() == b"\x40\x02\x00\x01\x40\x02\x00\x02\x40\x02\x01\x2c"
    assert c.unacked == 0


def test_a_reason_is_told() -> None:
    core = Core(Limits(), 0, 1)
    c = Client(None, "", 100, 0)
    c.version = 5
    a = waiting(c, PUBACK, 1)[0]
    a.done, a.reason = True, 0x97
    release_acks(core, c)
    assert c.take() == b"\x40\x03\x00\x01\x97"


def test_nobody_is_answered_who_is_gone() -> None:
    core = Core(Limits(), 0, 1)
    c = Client(None, "", 100, 0)
    waiting(c, PUBACK, 1)[0].done = True
    c.closing = True
    release_acks(core, c)
    assert c.take() == b""


PING = b"\xc0\x00"


def collected(**limits: Any) -> MemoryBroker:
    b = broker(**limits)
    historian = connect(b, "historian")
    historian.subscribe("#", qos=1)
    historian.drop()
    return b


@pytest.mark.parametrize(
    ("topic", "retain", "limits"),
    [
        ("spBv1.0/g/NDATA/n", False, {}),
        ("t", False, {"mqueue_store_qos0_persistent": True}),
        ("t", False, {"upgrade_qos": True}),
        ("t", True, {}),
        ("$delayed/60/t", False, {}),
    ],
)
def test_a_ping_waits_for_what_came_at_qos_0_and_is_to_be_kept(
    topic: str, retain: bool, limits: dict[str, Any]
) -> None:
    b = collected(**limits)
    node, other = connect(b, "node", 4), connect(b, "other", 4)
    b.hold()
    for _ in range(2):  # the first is on its way, the second in the open commit
        node.publish(topic, b"x", 0, retain=retain)
        node.send(PING)
        other.ping()
        node.expect_nothing()
    assert b.release_one()
    node.expect("PINGRESP")
    node.expect_nothing()
    b.release()
    node.expect("PINGRESP")
    b.hold()
    node.ping()


def test_a_ping_waits_for_nothing_else() -> None:
    b = collected()
    node = connect(b, "node", 4)
    b.hold()
    node.publish("t", b"x", 0)  # kept for nobody
    node.ping()


def test_a_disk_that_takes_nothing_does_not_cut_the_link() -> None:
    b = collected()
    node = connect(b, "node", 4)
    b.hold()
    node.publish("spBv1.0/g/NDATA/n", b"x", 0)
    b.fail()
    node.ping()


def test_a_disk_that_does_not_answer_does_not_cut_the_link() -> None:
    b = collected()
    node = connect(b, "node", 4)
    b.hold()
    for _ in range(2):  # the first is on its way, the second in the open commit
        node.publish("spBv1.0/g/NDATA/n", b"x", 0)
        node.send(PING)
    b.advance(4000)
    node.expect_nothing()
    b.advance(2000)
    node.expect("PINGRESP")
    node.expect("PINGRESP")
    node.ping()
    assert b.router.take_alarms() == ["the disk does not answer"]
    b.release()
    node.expect_nothing()
    assert b.router.take_alarms() == ["the disk answers again"]
    b.hold()
    node.publish("spBv1.0/g/NDATA/n", b"x", 0)
    node.send(PING)
    node.expect_nothing()


def test_a_ping_that_waits_when_the_disk_fails_is_answered() -> None:
    b = collected()
    node = connect(b, "node", 4)
    b.hold()
    node.publish("spBv1.0/g/NDATA/n", b"x", 0)
    node.send(PING)
    b.fail()
    b.advance(1000)
    node.expect("PINGRESP")
