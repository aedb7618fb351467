"""An APPLICATION that reads from an engine: what it gets, what it settles, and what is forgotten when it goes."""

from gateway.core.engine import ENDED, Arrived
from tests.core_rig import backlog_of, connect, session_of
from tests.engine_rig import application, bring, port_of, taken, with_engine


def test_it_gets_captured_topics_from_the_engine_alone() -> None:
    broker = with_engine()
    client = application(broker, filter="#")
    publisher = connect(broker, "p", clean=True, expiry=0)
    publisher.publish("plant/a", b"captured", 1)
    publisher.publish("office/a", b"not", 1)
    assert client.take().payload == b"not"
    client.expect_nothing()
    bring(broker, 7)
    assert client.take(topic="plant/x").payload == b"7"


def test_each_message_is_settled_by_itself_in_any_order() -> None:
    broker = with_engine()
    client = application(broker)
    bring(broker, 1, 2, 3)
    got = [client.expect("PUBLISH") for _ in range(3)]
    client.ack("PUBACK", got[2].pid)
    client.ack("PUBACK", got[0].pid)
    assert port_of(broker).take_settled() == [("app-1", 3), ("app-1", 1)]
    assert port_of(broker).room("app-1", 10) == 9


def test_what_is_not_settled_when_it_goes_is_forgotten_and_comes_again_under_a_new_id() -> None:
    broker = with_engine()
    client = application(broker)
    bring(broker, 1, 2)
    pids = [client.expect("PUBLISH").pid for _ in range(2)]
    client.ack("PUBACK", pids[0])
    client.drop()
    session = session_of(broker, "app-1")
    assert (session.inflight, session.matched, session.settled) == ({}, 1, 1)
    again = connect(broker, "app-1")
    again.expect_nothing()
    bring(broker, 2)
    got = again.take()
    assert got.payload == b"2"
    assert got.pid not in pids
    assert port_of(broker).take_settled() == [("app-1", 1), ("app-1", 2)]


def test_what_waits_for_the_window_is_forgotten_too() -> None:
    broker = with_engine({"mqtt.max_inflight": 2})
    client = application(broker)
    bring(broker, 1, 2, 3, 4)
    assert len(session_of(broker, "app-1").queue) == 2
    client.drop()
    session = session_of(broker, "app-1")
    assert (len(session.queue), session.queue_bytes, session.matched) == (0, 0, 0)


def test_with_priorities_as_well() -> None:
    broker = with_engine({"mqtt.max_inflight": 2, "mqtt.mqueue_priorities": "plant/x=5"})
    client = application(broker)
    bring(broker, 1, 2, 3, 4)
    assert [client.take().payload for _ in range(4)] == [b"1", b"2", b"3", b"4"]
    bring(broker, 5, 6, 7)
    client.drop()
    session = session_of(broker, "app-1")
    assert (session.ranked, session.queue_bytes, session.matched) == (0, 0, 4)


def test_its_qos_is_at_most_1_and_what_it_did_not_ask_for_is_settled_at_once() -> None:
    broker = with_engine()
    client = connect(broker, "app-1")
    assert client.subscribe("plant/x", qos=2) == [1]
    bring(broker, 1, topic=b"plant/y")
    client.expect_nothing()
    bring(broker, 2, qos=0)
    assert client.expect("PUBLISH").qos == 0
    assert port_of(broker).take_settled() == [("app-1", 1), ("app-1", 2)]


def test_expired_ones_are_dropped_counted_and_settled() -> None:
    broker = with_engine()
    client = application(broker)
    old = Arrived(1, b"plant/x", b"old", 1, False, b"", broker.now - 1)
    port_of(broker).bring("app-1", [old], broker.now)
    bring(broker, 2)
    assert client.take().payload == b"2"
    assert port_of(broker).take_settled() == [("app-1", 1), ("app-1", 2)]
    assert broker.router.core.ledger.drops(session_of(broker, "app-1").sid) == {"expired": 1}


def test_what_waits_in_the_log_here_goes_before_what_the_engine_has() -> None:
    broker = with_engine({"mqtt.max_inflight": 1})
    client = connect(broker, "app-1")
    client.subscribe("office/#", "plant/#", qos=1)
    client.drop()
    publisher = connect(broker, "p", clean=True, expiry=0)
    publisher.put("office/a", b"1")
    publisher.put("office/a", b"2")
    client = connect(broker, "app-1")
    assert port_of(broker).room("app-1", 10) == 0
    assert [client.take().payload for _ in range(2)] == [b"1", b"2"]
    assert backlog_of(broker, "app-1").count == 0
    assert port_of(broker).room("app-1", 10) == 10


def test_a_device_reads_from_the_log_here() -> None:
    broker = with_engine(up=False)
    device = connect(broker, "device")
    device.subscribe("plant/#", qos=1)
    connect(broker, "p", clean=True, expiry=0).put("plant/a", b"1")
    assert device.take().payload == b"1"


def test_one_that_starts_clean_and_for_one_connection_is_forgotten_everywhere() -> None:
    broker = with_engine()
    connect(broker, "app-1", clean=True, expiry=0)
    assert [(e.kind, e.client_id, e.fresh) for e in port_of(broker).take_events()] == [(ENDED, "app-1", True)]


def test_one_that_reads_at_another_gateway_is_disconnected_here() -> None:
    broker = with_engine()
    client = application(broker)
    port_of(broker).taken("app-1", broker.now)
    broker.pump()
    client.expect_closed(0x8E)


def test_a_shared_subscription_is_served_from_here() -> None:
    broker = with_engine()
    client = connect(broker, "app-1")
    client.subscribe("$share/g/plant/#", qos=1)
    connect(broker, "p", clean=True, expiry=0).publish("plant/a", b"1", 1)
    assert client.take().payload == b"1"
    assert [one.payload for one in taken(broker)] == [b"1"]


def test_large_messages_are_few_at_a_time() -> None:
    broker = with_engine({"mqtt.max_inflight": 1})
    application(broker)
    large = [Arrived(n, b"plant/x", bytes(400_000), 1, False, b"", 0) for n in range(1, 5)]
    assert port_of(broker).room("app-1", 1000) == 1000
    port_of(broker).bring("app-1", large, broker.now)
    assert port_of(broker).room("app-1", 1000) == 0
