"""Acknowledgements leave in order, each queue for itself."""

from gateway.core.answers import release_acks
from gateway.core.limits import Limits
from gateway.core.message import PendingAck
from gateway.core.model import Client
from gateway.core.state import Core
from gateway.mqtt.packets import PUBACK, PUBREC


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
