"""To those that get it from the log, and to the rest, each in turn and both at once."""

from typing import Any

import pytest

from gateway.core.fanout import deliver_all, deliver_kept, deliver_rest
from gateway.core.message import Message
from gateway.core.model import Route
from gateway.core.ranks import drops
from gateway.core.routes import route_of
from tests.conformance.client import Client
from tests.core_rig import broker, connect, core_of
from tests.memory import MemoryBroker

TOPIC = "plant/line"


def crowd() -> tuple[MemoryBroker, dict[str, Client], Route]:
    """A persistent and a memory session, and a shared group of each kind."""
    b = broker()
    clients = {}
    for name, filter, kept in (
        ("kept", "plant/#", True), ("memory", "plant/#", False), ("group kept", "$share/k/plant/#", True),
        ("group memory", "$share/m/plant/#", False),
    ):  # fmt: skip
        clients[name] = connect(b, name, clean=not kept, expiry=1000 if kept else 0)
        clients[name].subscribe(filter, qos=1)
    return b, clients, route_of(core_of(b), TOPIC)


def got(clients: dict[str, Client]) -> dict[str, list[tuple[bytes, int]]]:
    return {name: [(p.payload, p.qos) for p in client.take_all()] for name, client in clients.items()}


def test_all() -> None:
    b, clients, route = crowd()
    assert deliver_all(core_of(b), route, Message(TOPIC.encode(), b"x", 1, False), None, False, b.now)
    b.pump()
    assert set(map(tuple, got(clients).values())) == {((b"x", 1),)}


def test_kept_and_rest_are_two_halves() -> None:
    b, clients, route = crowd()
    deliver_kept(core_of(b), route, Message(TOPIC.encode(), b"x", 1, False), None, False, b.now)
    deliver_rest(core_of(b), route, Message(TOPIC.encode(), b"y", 0, False), None, b.now)
    b.pump()
    assert got(clients) == {
        "kept": [(b"x", 1)], "group kept": [(b"x", 1)], "memory": [(b"y", 0)], "group memory": [(b"y", 0)],
    }  # fmt: skip


def test_a_message_that_waits_leaves_with_its_commit() -> None:
    b, clients, route = crowd()
    b.hold()
    m = Message(TOPIC.encode(), b"x", 1, False)
    m.waits = True
    deliver_kept(core_of(b), route, m, None, False, b.now)
    b.pump()
    clients["kept"].expect_nothing()
    clients["group kept"].expect_nothing()
    b.release()
    clients["kept"].take(payload=b"x")
    clients["group kept"].take(payload=b"x")


def test_one_that_waits_and_is_put_off_leaves_with_the_commit_that_takes_it() -> None:
    b, clients, route = crowd()
    b.hold()
    m = Message(TOPIC.encode(), b"x", 1, False)
    m.waits = True
    deliver_kept(core_of(b), route, m, None, False, b.now)
    b.pump()
    b.fail()
    b.advance(200)
    clients["kept"].expect_nothing()
    b.release()
    b.advance(2000)
    clients["kept"].take(payload=b"x")


def test_one_that_waits_is_read_back_by_who_comes_after_its_commit() -> None:
    b, clients, route = crowd()
    clients["kept"].drop()
    b.hold()
    m = Message(TOPIC.encode(), b"x", 1, False)
    m.waits = True
    deliver_kept(core_of(b), route, m, None, False, b.now)
    b.pump()
    b.release()
    connect(b, "kept").take(payload=b"x")


@pytest.mark.parametrize("kept", [True, False])
def test_nobody_gets_his_own_where_he_does_not_want_it(kept: bool) -> None:
    b = broker()
    client = connect(b, "c", clean=not kept, expiry=1000 if kept else 0)
    client.subscribe("plant/#", qos=1, no_local=True)
    core: Any = core_of(b)
    route, own = route_of(core, TOPIC), core.sessions["c"]
    deliver_kept(core, route, Message(TOPIC.encode(), b"x", 1, False), own, False, b.now)
    deliver_rest(core, route, Message(TOPIC.encode(), b"x", 1, False), own, b.now)
    b.pump()
    client.expect_nothing()
    assert own.matched == 0


def test_qos_0_that_the_disk_would_have_to_keep_is_given_up_when_it_has_no_room() -> None:
    """Nobody can be held back for it, and what waits for the disk in RAM is bounded."""
    b = broker(mqueue_store_qos0_persistent=True, pending_bytes_max=2000)
    b.crash()
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    client.drop()
    publisher = connect(b, "p", clean=True, expiry=0)
    b.hold()
    for _ in range(50):
        publisher.publish("t", bytes(500), 0)
    assert core_of(b).commit.bytes < 3000
    b.release()
    s = core_of(b).sessions["s"]
    kept = sum(int(q.count) for q in s.backlogs())
    assert 0 < kept < 50
    assert drops(core_of(b), s) == {"disk": 50 - kept}
