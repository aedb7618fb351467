"""What the relay of the uplink tests makes of the bytes that passed, and what it calls a fault."""

import pytest

from tests import wire_format as mqtt
from tests.system.flow import numbered
from tests.system.relay import Passed, faults, taken_apart


@pytest.mark.parametrize("version", [4, 5])
def test_the_bytes_are_taken_apart(version: int) -> None:
    up = mqtt.connect("u", version)
    up += b"".join(mqtt.publish("t", numbered(n), 1, pid=n % 2 + 1, version=version) for n in range(4))
    up += (
        mqtt.publish("beat", b"x", 0, version=version) + mqtt.publish("t", numbered(4), 1, pid=9, version=version)[:-3]
    )
    down = b"".join(mqtt.ack(mqtt.PUBACK, pid, version) for pid in (1, 2, 1))
    found = taken_apart(up, down)
    assert found.upwards == [numbered(n) for n in range(4)]
    assert found.acknowledged == [numbered(n) for n in (0, 1, 2)]


def test_a_refusal_is_no_acknowledgement() -> None:
    up = mqtt.connect("u", 5) + mqtt.publish("t", numbered(0), 1, pid=1, version=5)
    assert taken_apart(up, mqtt.ack(mqtt.PUBACK, 1, 5, code=0x97)).acknowledged == []
    assert taken_apart(up, mqtt.ack(mqtt.PUBACK, 1, 5, code=0x10)).acknowledged == [numbered(0)]


def one(*numbers: int, acknowledged: tuple[int, ...] | None = None) -> Passed:
    done = numbers if acknowledged is None else acknowledged
    return Passed([numbered(n) for n in numbers], [numbered(n) for n in done])


def test_what_is_a_fault() -> None:
    assert faults([one(0, 1, 2, acknowledged=(0, 1)), one(2, 3)], 4, window=1, again=0) == []
    assert faults([one(0, 1)], 3, 1, 0) == ["lost: [2] (1 of 3)"]
    assert faults([one(0, 1, 2, acknowledged=(0, 1))], 3, 1, 0) == ["lost: [2] (1 of 3)"]
    assert faults([one(0, 2, 1)], 3, 1, 0) == ["out of order: [0, 2, 1]"]
    assert faults([one(0, 1, 2), one(1, 2)], 3, 2, 0) == []
    assert faults([one(0, 1, 2), one(1, 2)], 3, 1, 0) == [
        "2 duplicates over 2 connections, of which 0 are the publisher's"
    ]
    assert faults([one(0, 1, 1, 2)], 3, 1, 1) == []
    assert len(faults([one(0, 1, 1, 2)], 3, 1, 0)) == 1
    assert faults([one(0, 1, 1, 2)], 3, 1, 0, kills=1) == []
