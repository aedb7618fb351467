"""A client under watch, through the router: seen, kept waiting for its acknowledgements, refused, let go."""

import pytest

from gateway.core import probing
from gateway.core.watch import CLOSED, CONNECTED, PUBLISHED, REFUSED, Watch
from tests import wire_format as mqtt
from tests.memory import MemoryBroker
from tests.station import Station

WILL = "spBv1.0/g/NDEATH/e"


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


def watch(broker: MemoryBroker, client_id: str = "press", will: str = WILL) -> Watch:
    made = Watch(client_id, will.encode())
    probing.watch(broker.router.core, made, broker.now)
    return made


def kinds(w: Watch) -> list[int]:
    return [seen.kind for seen in w.take()]


def test_what_a_client_does_is_seen_from_its_present_connection_on(broker: MemoryBroker) -> None:
    press, other = Station(broker, "press"), Station(broker, "other")
    press.publish("before")
    w = watch(broker)
    press.publish("a", b"1", qos=1)
    press.publish("a", b"2", qos=0)
    other.publish("a", b"3")
    press.drop()
    Station(broker, "press").publish("b", b"4", qos=2)
    seen = w.take()
    assert [(one.kind, one.connection) for one in seen] == [
        (CONNECTED, 1), (PUBLISHED, 1), (PUBLISHED, 1), (CLOSED, 1), (CONNECTED, 2), (PUBLISHED, 2),
    ]  # fmt: skip
    assert [(one.publish.qos, one.publish.payload) for one in seen if one.publish is not None] == [
        (1, b"1"),
        (0, b"2"),
        (2, b"4"),
    ]


def test_a_device_with_a_new_id_each_time_is_known_by_its_will(broker: MemoryBroker) -> None:
    w = watch(broker, "")
    for name in ("random-1", "random-2"):
        link = broker.open()
        link.send(mqtt.connect(name, will=mqtt.Will(WILL, b"gone", 1)))
        link.send(mqtt.publish("a", name.encode(), 0, False, False, 0, 4))
        link.close()
    assert kinds(w) == [CONNECTED, PUBLISHED, CLOSED] * 2


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("kept", [True, False], ids=["for a durable session", "for nobody"])
def test_acknowledgements_are_kept_back_and_let_go_in_order(broker: MemoryBroker, qos: int, kept: bool) -> None:
    if kept:
        Station(broker, "collector").subscribe("a", qos=2)
    press = Station(broker, "press")
    answer = mqtt.PUBACK if qos == 1 else mqtt.PUBREC
    first = press.publish("a", b"0", qos)
    broker.advance(100)
    assert press.pids(answer) == [first]
    w = watch(broker)
    c = w.client
    assert c is not None
    probing.withhold(c)
    pids = [press.publish("a", str(number).encode(), qos) for number in range(3)]
    broker.advance(5_000)
    assert press.pids(answer) == []
    probing.release(broker.router.core, c)
    broker.pump()
    assert press.pids(answer) == pids
    last = press.publish("a", b"4", qos)
    broker.advance(100)
    assert press.pids(answer) == [last], "and all is as it was"
    assert c.unacked == 0


def test_the_next_connection_is_acknowledged_again(broker: MemoryBroker) -> None:
    press = Station(broker, "press")
    w = watch(broker)
    assert w.client is not None
    probing.withhold(w.client)
    press.publish("a")
    press.drop()
    press = Station(broker, "press")
    assert press.pids(mqtt.PUBACK) == []
    pid = press.publish("a")
    assert press.pids(mqtt.PUBACK) == [pid]


def test_a_refused_client_gets_no_answer_and_others_do(broker: MemoryBroker) -> None:
    w = watch(broker)
    w.refuse = True
    link = broker.open()
    link.send(mqtt.connect("press"))
    assert (link.closed, bytes(link.inbox)) == (True, b"")
    assert kinds(w) == [REFUSED]
    assert Station(broker, "other").connack is not None
    w.refuse = False
    assert Station(broker, "press").connack is not None
    assert kinds(w) == [CONNECTED]


def test_unwatch_takes_all_back(broker: MemoryBroker) -> None:
    press = Station(broker, "press")
    w = watch(broker)
    c = w.client
    assert c is not None
    probing.withhold(c)
    w.refuse = True
    pid = press.publish("a")
    probing.unwatch(broker.router.core, w)
    broker.pump()
    assert press.pids(mqtt.PUBACK) == [pid]
    w.take()
    press.publish("a")
    assert w.take() == []
    assert c.watch is None
    assert Station(broker, "press").connack is not None
    probing.unwatch(broker.router.core, w)
    assert broker.router.core.watches == []


def test_a_takeover_moves_the_watch(broker: MemoryBroker) -> None:
    first = Station(broker, "press")
    w = watch(broker)
    second = Station(broker, "press")
    assert first.link.closed
    second.publish("a")
    seen = w.take()
    assert [(one.kind, one.connection) for one in seen] == [(CONNECTED, 1), (CONNECTED, 2), (PUBLISHED, 2)]
