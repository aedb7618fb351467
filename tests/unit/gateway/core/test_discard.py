"""The operator empties a queue: all that waits goes, counted, and what comes next is delivered as ever."""

import pytest

from gateway.core.discard import NO_QUEUE, PRESENT
from tests.core_rig import backlog_of, broker, connect, core_of, fill
from tests.memory import MemoryBroker
from tests.property.audit import audit


def away(b: MemoryBroker, name: str, qos: int = 1) -> None:
    client = connect(b, name)
    client.subscribe("#", qos=qos)
    client.drop()


def payloads(b: MemoryBroker, name: str) -> list[int]:
    client = connect(b, name)
    found = [int(got.payload) for got in client.take_all()]
    client.drop()
    return found


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("priorities", [{}, {"mqueue_priorities": [("t", 9)]}])
def test_all_that_waits_goes_and_what_comes_next_stays(crash: bool, priorities: dict[str, object]) -> None:
    b = broker(sys_interval_ms=0, **priorities)
    away(b, "full")
    away(b, "other")
    fill(b, "t", 5)
    fill(b, "u", 5, start=5)
    assert b.router.discard("full", b.now) == 10
    b.pump()
    audit(core_of(b), b.store)
    row = b.router.session("full", b.now)
    assert row is not None
    assert (row["queue_messages"], row["drops"]) == (0, {"discarded": 10})
    if crash:
        b.crash()
    fill(b, "t", 3, start=10)
    audit(core_of(b), b.store)
    assert payloads(b, "full") == [10, 11, 12]
    assert sorted(payloads(b, "other")) == list(range(13))
    audit(core_of(b), b.store)


@pytest.mark.parametrize("crash", [False, True])
def test_what_was_sent_and_not_acknowledged_goes_too(crash: bool) -> None:
    b = broker(sys_interval_ms=0)
    away(b, "full", 2)
    fill(b, "t", 3)
    fill(b, "t", 3, 2, start=3)
    client = connect(b, "full")
    client.drop()  # some of it was sent
    assert b.router.discard("full", b.now) == 6
    b.pump()
    audit(core_of(b), b.store)
    if crash:
        b.crash()
    fill(b, "t", 1, start=9)
    assert payloads(b, "full") == [9]
    audit(core_of(b), b.store)


def test_while_a_commit_is_under_way() -> None:
    b = broker(sys_interval_ms=0)
    away(b, "full")
    b.hold()
    publisher = connect(b, "publisher", clean=True, expiry=0)
    for number in range(4):
        publisher.publish("t", str(number).encode(), 1)
    assert b.router.discard("full", b.now) == 4
    b.release()
    b.pump()
    audit(core_of(b), b.store)
    assert backlog_of(b, "full").count == 0
    fill(b, "t", 2, start=4)
    assert payloads(b, "full") == [4, 5]
    audit(core_of(b), b.store)


def test_not_of_who_is_there_or_has_none() -> None:
    b = broker(sys_interval_ms=0)
    away(b, "full")
    fill(b, "t", 2)
    here = connect(b, "full")
    assert b.router.discard("full", b.now) == PRESENT
    assert len(here.take_all()) == 2
    assert b.router.discard("nobody", b.now) == NO_QUEUE
