"""The face of the core: what comes in at the wrong time does no harm, and what is taken is taken once."""

import pytest

from gateway.core.limits import Limits
from gateway.core.router import Router
from gateway.mqtt.packets import Pingreq
from tests.conformance.client import Client
from tests.core_rig import broker, connect, core_of, fill, session_of


def test_what_is_taken_is_taken_once() -> None:
    router = Router(Limits(), None, 0, 1)
    c = router.open(None, "peer", 0)
    router.core.touch(c)
    router.core.touch(c)
    assert router.take_sends() == [c]
    assert router.take_sends() == []
    router.core.touch(c)
    assert router.take_sends() == [c]


def test_the_first_packet_must_be_a_connect() -> None:
    router = Router(Limits(), None, 0, 1)
    c = router.open(None, "peer", 0)
    router.on_packet(c, Pingreq(), 0)
    assert c.closing
    assert len(router.take_log()) == 1
    router.on_packet(c, Pingreq(), 0)  # what was decoded already
    assert router.take_log() == []


def test_so_many_connections_and_no_more() -> None:
    limits = Limits()
    limits.max_connections = 2
    router = Router(limits, None, 0, 1)
    first = router.open(None, "a", 0)
    assert not router.full()
    router.open(None, "b", 0)
    assert router.full()
    router.on_closed(first, 0)
    assert not router.full()


def test_answers_that_come_too_late() -> None:
    """A read for a queue that was unloaded, a commit for a client that is gone."""
    b = broker(window_messages=2)
    client = connect(b, "s", receive_maximum=1)
    client.subscribe("t", qos=1)
    client.drop()
    fill(b, "t", 5)
    router = b.router
    late = Client(b.open(), 5)
    b.holding = True
    late.send_connect("s", clean=False, expiry=1000, receive_maximum=1)
    batch = b.submitted
    assert batch is not None
    b.submitted = None
    b.store.apply(batch)
    router.on_committed(batch.number, b.now)
    reads = router.take_reads()
    assert reads
    late.drop()
    for token, ids in reads:
        router.on_segments(token, b.store.read_now(ids), b.now)
        router.on_segments(token, b.store.read_now(ids), b.now)
    assert len(session_of(b, "s").backlog.ram) == 0  # type: ignore[union-attr]
    b.release()
    client = connect(b, "s", receive_maximum=1)
    assert [int(client.take().payload) for _ in range(5)] == list(range(5))


def test_other_limits_count_for_topics_that_are_known_already() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=0)
    publisher = connect(b, "p")
    publisher.put("t", b"a", 1)
    assert client.expect("PUBLISH").qos == 0
    limits = Limits()
    limits.upgrade_qos = True
    limits.commit_window_ms = 0
    b.router.reload(limits, b.now)
    publisher.put("t", b"b", 1)
    assert client.expect("PUBLISH").qos == 1


def test_an_operator_may_end_a_session() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    fill(b, "t", 2)
    client.drain()
    assert b.router.remove_session("s", b.now)
    b.pump()
    client.expect_closed(0x98)
    assert not b.router.remove_session("s", b.now)
    b.advance(2_000)
    assert not b.store.sessions
    assert not b.store.segments
    assert core_of(b).ledger.drops(0) == {"session_end": 2}


@pytest.mark.parametrize("version", [4, 5])
def test_the_shutdown_tells_who_can_be_told_and_leaves_all_on_disk(version: int) -> None:
    b = broker()
    client = connect(b, "s", version)
    client.subscribe("t", qos=1)
    fill(b, "t", 2)
    client.take()
    client.take()
    b.router.shutdown(b.now)
    b.pump()
    client.expect_closed(0x8B if version == 5 else None, silent=version == 4)
    assert b.router.take_batch(b.now) is None
    b.crash()
    assert not connect(b, "s", version).drain()
