"""Segments that were read go to whom they were asked for, once."""

from tests.core_rig import backlog_of, broker, connect, core_of, fill
from tests.memory import MemoryBroker
from tests.station import Station


def rig(*names: str) -> MemoryBroker:
    b = broker(sys_interval_ms=0)
    for name in names:
        client = connect(b, name)
        client.subscribe("t", qos=1)
        client.drop()
    fill(b, "t", 9)
    return b


def asked(b: MemoryBroker, name: str) -> list[tuple[int, list[int]]]:
    """What is read for a client that comes back; not answered yet."""
    b.hold()
    Station(b, name)
    batch, b.submitted = b.submitted, None
    assert batch is not None
    b.store.apply(batch)
    b.router.on_committed(batch.number, b.now)
    return b.router.take_reads()


def test_an_answer_that_nobody_asked_for_changes_nothing() -> None:
    b = rig("s")
    b.router.on_segments(999, [(1, b"")], b.now)
    assert backlog_of(b, "s").count == 9


def test_an_answer_counts_once() -> None:
    b = rig("s")
    core = core_of(b)
    ((token, ids),) = asked(b, "s")
    assert token in core.readings
    for _ in range(2):
        b.router.on_segments(token, b.store.read_now(ids), b.now)
        assert len(backlog_of(b, "s").held) == 9
    assert not core.readings
    assert not core.coming


def test_two_that_need_the_same_ask_once() -> None:
    b = rig("one", "two")
    ((token, ids),) = asked(b, "one")
    assert asked(b, "two") == []
    b.router.on_segments(token, b.store.read_now(ids), b.now)
    for name in ("one", "two"):
        assert [d.message.payload for d in backlog_of(b, name).held] == [b"%d" % n for n in range(9)]


def test_who_is_gone_meanwhile_reads_again_when_it_is_back() -> None:
    b = rig("s")
    ((token, ids),) = asked(b, "s")
    next(link for link in list(b.links.values()) if link.client.session is not None).close()
    b.router.on_segments(token, b.store.read_now(ids), b.now)
    assert not backlog_of(b, "s").held
    b.release()
    back = Station(b, "s")
    assert back.take() == [b"%d" % n for n in range(9)]
