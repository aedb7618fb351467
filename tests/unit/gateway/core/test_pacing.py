"""Who publishes too fast is read more slowly, and loses nothing."""

import pytest

from tests.core_rig import broker, connect, core_of
from tests.memory import MemoryBroker


def limited(**limits: object) -> MemoryBroker:
    return broker(**{"client_rate_on": True, "client_rate": [(5, 1)], **limits})


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_too_much_waits_and_none_is_lost(version: int, qos: int) -> None:
    b = limited()
    reader = connect(b, "r")
    reader.subscribe("t", qos=qos)
    writer = connect(b, "w", version=version)
    for n in range(20):
        writer.buffer_publish("t", str(n).encode(), qos)
    writer.flush()
    assert core_of(b).ledger.snapshot()[f"received_qos{qos}"] == 5
    b.advance(1000)
    assert core_of(b).ledger.snapshot()[f"received_qos{qos}"] == 10
    b.advance(2000)
    assert core_of(b).ledger.snapshot()[f"received_qos{qos}"] == 20
    assert [got.payload for got in reader.take_all()] == [str(n).encode() for n in range(20)]
    assert core_of(b).ledger.drops(0) == {}
    assert core_of(b).log == ["w: publishes faster than its rate limit: read more slowly"]


def test_others_go_on_meanwhile_and_keep_alive_does_not_count_against_who_is_held() -> None:
    b = limited(client_rate=[(1, 60)])
    writer = connect(b, "w", keep_alive=1)
    for n in range(3):
        writer.buffer_publish("t", str(n).encode(), 1)
    writer.flush()
    assert connect(b, "o").put("t", b"", 1).reason in (0, 0x10)
    b.advance(30_000)
    assert not writer.link.closed  # type: ignore[attr-defined]
    b.advance(90_500)
    assert [got.type for got in writer.drain()] == ["PUBACK"] * 3


def test_the_limit_of_all_together() -> None:
    b = broker(total_rate_on=True, total_rate=[(6, 1)])
    b.router.reload(b.limits, b.now)
    writers = [connect(b, f"w{i}") for i in range(3)]
    for writer in writers:
        for n in range(6):
            writer.buffer_publish("t", str(n).encode(), 0)
        writer.flush()
    assert core_of(b).ledger.received_qos0 == 6
    b.advance(1000)
    assert core_of(b).ledger.received_qos0 == 12
    b.advance(1000)
    assert core_of(b).ledger.received_qos0 == 18


def test_a_limit_that_is_lifted_while_somebody_waits() -> None:
    b = limited()
    writer = connect(b, "w")
    for n in range(12):
        writer.buffer_publish("t", str(n).encode(), 0)
    writer.flush()
    b.limits.client_rate_on = False
    b.router.reload(b.limits, b.now)
    b.advance(200)
    assert core_of(b).ledger.received_qos0 == 12


def test_who_leaves_while_it_waits_leaves_nothing_behind() -> None:
    b = limited()
    writer = connect(b, "w")
    for n in range(12):
        writer.buffer_publish("t", str(n).encode(), 1)
    writer.flush()
    writer.drop()
    again = connect(b, "w")
    b.advance(2000)
    assert core_of(b).parked == []
    assert again.put("t", b"", 1).reason in (0, 0x10)
    for n in range(12):
        again.buffer_publish("t", str(n).encode(), 1)
    again.flush()
    b.advance(3000)
    assert len(again.drain()) == 12


def test_what_waits_for_the_disk_is_counted_once() -> None:
    b = limited(pending_bytes_max=1)
    reader = connect(b, "r")
    reader.subscribe("t", qos=1)
    reader.drop()
    writer = connect(b, "w")
    b.hold()
    for n in range(5):
        writer.buffer_publish("t", str(n).encode(), 1)
    writer.flush()
    for _ in range(5):
        core_of(b).retry = True
        b.pump()
    b.release()
    assert core_of(b).ledger.received_qos1 == 5
