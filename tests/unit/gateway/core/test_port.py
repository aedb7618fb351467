"""What the bridge has of the core."""

from gateway.core.nodes import BORN
from tests.core_rig import broker, connect
from tests.plant import TOPIC, T
from tests.spb_bytes import nbirth


def test_events_are_taken_once() -> None:
    b = broker()
    connect(b, "e", version=4, clean=True).publish(TOPIC.format("NBIRTH"), nbirth(3))
    assert [event.kind for event in b.router.bridge.take_events()] == [BORN]
    assert b.router.bridge.take_events() == []


def test_the_driver_is_told_of_events() -> None:
    b = broker()
    connect(b, "e", version=4, clean=True).publish(TOPIC.format("NBIRTH"), nbirth(3))
    assert b.router.busy(b.now)


def test_nodes_by_name() -> None:
    b = broker()
    connect(b, "e", version=4, clean=True).publish(TOPIC.format("NBIRTH"), nbirth(3))
    port = b.router.bridge
    assert [node.key for node in port.nodes()] == ["g/e"]
    assert port.node("g/e") is port.nodes()[0]
    assert port.node("g/f") is None


def test_rows_go_with_the_next_commit_and_come_back() -> None:
    b = broker()
    b.router.bridge.keep("node g/e", b"{}", b.now)
    b.advance(2000)
    assert b.store.bridge == {"node g/e": b"{}"}
    b.router.bridge.keep("node g/e", None, b.now)
    b.advance(2000)
    assert b.store.bridge == {}


def test_a_row_waits_for_a_disk_that_fails() -> None:
    b = broker()
    b.hold()
    b.router.bridge.keep("node g/e", b"{}", b.now)
    b.advance(2000)
    b.fail()
    b.release()
    b.advance(3000)
    assert b.store.bridge == {"node g/e": b"{}"}


def test_messages_of_the_gateway_itself() -> None:
    b = broker()
    client = connect(b, "c", clean=True)
    client.subscribe("x", qos=1)
    assert b.router.bridge.publish("x", b"1", 1, False, b.now)
    b.pump()
    client.take(payload=b"1", qos=1, retain=False)
    assert not b.router.bridge.publish("y", b"2", 1, True, b.now)
    b.pump()
    client.subscribe("y")
    client.expect("PUBLISH", payload=b"2", retain=True)
    b.crash()
    late = connect(b, "late", clean=True)
    late.subscribe("y")
    late.expect("PUBLISH", payload=b"2", retain=True)


def test_a_command_of_the_gateway_does_not_wait_longer_than_others() -> None:
    b = broker(command_expiry_ms=1000)
    connect(b, "e").subscribe(TOPIC.format("NCMD"), qos=1)
    connect(b, "e").drop()
    b.router.bridge.publish(TOPIC.format("NCMD"), b"x", 1, False, b.now)
    b.advance(2000)
    connect(b, "e").expect_nothing()


def test_utc() -> None:
    b = broker()
    b.router.bridge.set_utc(T, True, b.now)
    assert b.router.bridge.utc_ms(b.now + 5) == T + 5


def test_healthy_is_what_the_disk_is() -> None:
    b = broker()
    assert b.router.bridge.healthy()
    b.hold()
    connect(b, "c", version=4, clean=True).publish("x", b"1", qos=1, retain=True)
    b.fail()
    assert not b.router.bridge.healthy()
    b.release()
    b.advance(2000)
    assert b.router.bridge.healthy()
