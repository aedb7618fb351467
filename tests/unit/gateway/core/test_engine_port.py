"""What an engine takes: publishers wait for it while it is up, and for the disk here while it is not."""

from gateway.core.engine import CLOSED, ENDED, ENGINE_ID, FILTERS, KNOWN, OPENED
from tests import wire_format as mqtt
from tests.engine_rig import application, come_up, keep, payloads, port_of, taken, with_engine
from tests.memory import MemoryBroker, entries
from tests.station import Station


def publisher(broker: MemoryBroker) -> Station:
    return Station(broker, "p", persistent=False)


def stored(broker: MemoryBroker) -> list[bytes]:
    return [entry.message.payload for _, _, records in broker.store.segments.values() for entry in entries(records)]


def test_a_publisher_waits_for_the_engine_however_long_and_nothing_is_written_here() -> None:
    broker = with_engine()
    p = publisher(broker)
    first = p.publish("plant/a", b"1")
    second = p.publish("plant/b", b"2")
    packets = taken(broker)
    assert payloads(packets) == [b"1", b"2"]
    broker.advance(3000)  # the window of elision is over many times
    assert p.pids(mqtt.PUBACK) == []
    keep(broker, packets[:1])
    assert p.pids(mqtt.PUBACK) == [first]
    keep(broker, packets[1:])
    assert p.pids(mqtt.PUBACK) == [second]
    broker.advance(3000)
    assert stored(broker) == []


def test_with_a_slow_reader_of_its_own_beside_the_engine_the_disk_here_answers() -> None:
    broker = with_engine()
    device = Station(broker, "device", persistent=True)
    device.subscribe("plant/#")
    p = publisher(broker)
    used = p.publish("plant/a", b"1")
    assert payloads(taken(broker)) == [b"1"]
    broker.advance(3000)  # neither has answered
    assert p.pids(mqtt.PUBACK) == [used]
    assert stored(broker) == [b"1"]


def test_other_topics_are_none_of_its_business() -> None:
    broker = with_engine()
    p = publisher(broker)
    used = p.publish("office/a", b"1")
    assert p.pids(mqtt.PUBACK) == [used]
    assert taken(broker) == []


def test_when_the_engine_goes_the_disk_here_takes_its_place_and_gives_all_back_in_order() -> None:
    broker = with_engine()
    p = publisher(broker)
    ids = [p.publish("plant/a", b"%d" % n) for n in range(3)]
    keep(broker, taken(broker)[:1])
    port_of(broker).detach(broker.now)
    broker.pump()
    assert p.pids(mqtt.PUBACK) == ids
    assert stored(broker) == [b"1", b"2"]
    more = [p.publish("plant/a", b"%d" % n) for n in range(3, 6)]
    assert p.pids(mqtt.PUBACK) == more
    come_up(broker)
    assert payloads(taken(broker)) == [b"1", b"2", b"3", b"4", b"5"]


def test_what_waited_for_the_engine_outlives_a_crash() -> None:
    broker = with_engine(up=False)
    p = publisher(broker)
    for n in range(5):
        p.publish("plant/a", b"%d" % n)
    broker.crash()
    port_of(broker).configure(True, ["plant/#"], broker.now)
    come_up(broker)
    packets = taken(broker)
    assert payloads(packets) == [b"0", b"1", b"2", b"3", b"4"]
    keep(broker, packets)
    broker.advance(3000)
    assert broker.store.segments == {}


def test_a_crash_repeats_few_of_what_drained_before_it() -> None:
    broker = with_engine(up=False)
    p = publisher(broker)
    for n in range(100):
        p.publish("plant/a", b"%d" % n)
    come_up(broker, window=10)
    got = 0
    while got < 60:
        packets = taken(broker)
        got += len(packets)
        keep(broker, packets)
        broker.advance(1)
    broker.crash()
    port_of(broker).configure(True, ["plant/#"], broker.now)
    come_up(broker)
    again = int(taken(broker)[0].payload)
    assert got - 16 <= again <= got


def test_what_a_crash_would_repeat_is_counted_until_it_is_on_disk() -> None:
    broker = with_engine(up=False)
    p = publisher(broker)
    for n in range(100):
        p.publish("plant/a", b"%d" % n)
    come_up(broker, window=200)
    broker.hold()
    port = port_of(broker)
    port.take_news()
    keep(broker, taken(broker)[:60])
    assert (port.repeats(), port.take_news()) == (60, False)
    broker.advance(20)
    assert (port.repeats(), port.take_news()) == (60, False), "the commit is under way"
    broker.release()
    assert (port.repeats(), port.take_news()) == (0, True)
    assert not port.take_news()


def test_a_disk_that_takes_nothing_is_not_waited_for() -> None:
    broker = with_engine(up=False)
    p = publisher(broker)
    for n in range(100):
        p.publish("plant/a", b"%d" % n)
    come_up(broker, window=200)
    broker.hold()
    keep(broker, taken(broker)[:60])
    broker.advance(20)
    assert port_of(broker).repeats() == 60
    broker.fail()
    assert port_of(broker).repeats() == 0


def test_nor_is_one_that_hangs() -> None:
    broker = with_engine(up=False)
    p = publisher(broker)
    for n in range(100):
        p.publish("plant/a", b"%d" % n)
    come_up(broker, window=200)
    broker.hold()
    keep(broker, taken(broker)[:60])
    broker.advance(20)
    broker.advance(10_000)
    assert port_of(broker).repeats() == 0


def test_behind_a_backlog_order_is_kept_over_what_comes() -> None:
    broker = with_engine(up=False)
    p = publisher(broker)
    for n in range(2500):  # more than the window in memory
        p.publish("plant/a", b"%d" % n)
    come_up(broker, window=100)
    got: list[bytes] = []
    late = 2500
    while packets := taken(broker):
        got += payloads(packets)
        keep(broker, packets)
        if late < 2600:
            p.publish("plant/a", b"%d" % late)
            late += 1
    assert got == [b"%d" % n for n in range(late)]


def test_qos_2_and_retained_ones_are_kept_here_and_handed_on_at_qos_1() -> None:
    broker = with_engine()
    p = publisher(broker)
    two = p.publish("plant/a", b"2", qos=2)
    kept = p.publish("plant/r", b"r", retain=True)
    assert p.pids(mqtt.PUBREC) == [two] or kept
    packets = taken(broker)
    assert [(one.payload, one.qos, one.retain) for one in packets] == [(b"2", 1, False), (b"r", 1, True)]


def test_qos_0_goes_while_it_is_up_and_is_counted_as_dropped_else() -> None:
    broker = with_engine()
    p = publisher(broker)
    p.publish("plant/a", b"0", qos=0)
    packets = taken(broker)
    assert [(one.payload, one.qos) for one in packets] == [(b"0", 0)]
    port_of(broker).detach(broker.now)
    p.publish("plant/a", b"0", qos=0)
    row = port_of(broker).row(broker.now)
    assert row is not None
    assert row["drops"] == {"qos0_offline": 1}


def test_a_payload_above_what_it_takes_is_dropped_and_counted() -> None:
    broker = with_engine(up=False)
    come_up(broker, largest=200)
    p = publisher(broker)
    used = p.publish("plant/a", b"x" * 500)
    assert p.pids(mqtt.PUBACK) == [used]
    assert taken(broker) == []
    row = port_of(broker).row(broker.now)
    assert row is not None
    assert row["drops"] == {"too_large": 1}


def test_too_much_in_the_drivers_hands_stops_the_rest_until_there_is_room() -> None:
    broker = with_engine()
    p = publisher(broker)
    port_of(broker).unsent(10_000_000, broker.now)
    p.publish("plant/a", b"1")
    assert taken(broker) == []
    port_of(broker).unsent(0, broker.now)
    assert payloads(taken(broker)) == [b"1"]


def test_events_say_who_reads_what() -> None:
    broker = with_engine()
    client = application(broker)
    client.unsubscribe("plant/#")
    client.drop()
    told = [(e.kind, e.client_id, e.filters, e.fresh) for e in port_of(broker).take_events()]
    assert told == [
        (OPENED, "app-1", [], False), (FILTERS, "app-1", [], False), (CLOSED, "app-1", [], False),
    ]  # fmt: skip
    assert broker.router.remove_session("app-1", broker.now)
    assert [(e.kind, e.fresh) for e in port_of(broker).take_events()] == [(ENDED, False)]


def test_applications_are_known_after_a_restart() -> None:
    broker = with_engine()
    application(broker)
    broker.crash()
    port_of(broker).configure(True, ["plant/#"], broker.now)
    assert [(e.kind, e.client_id, e.filters) for e in port_of(broker).take_events()] == [(KNOWN, "app-1", ["plant/#"])]


def test_an_operator_may_end_its_session_which_begins_anew() -> None:
    broker = with_engine(up=False)
    publisher(broker).publish("plant/a", b"1")
    assert broker.router.remove_session(ENGINE_ID, broker.now)
    come_up(broker)
    assert taken(broker) == []
    Station(broker, "q", persistent=False).publish("plant/a", b"2")
    assert payloads(taken(broker)) == [b"2"]


def test_without_an_engine_what_waited_for_one_stays_and_is_told() -> None:
    broker = with_engine(up=False)
    publisher(broker).publish("plant/a", b"1")
    broker.crash()
    port_of(broker).configure(False, ["plant/#"], broker.now)
    assert broker.router.take_alarms() == ["1 messages wait for an engine, and none is configured"]
    assert ENGINE_ID in broker.router.core.sessions


def test_no_client_may_come_in_with_its_name() -> None:
    broker = with_engine()
    station = Station(broker, ENGINE_ID)
    assert station.connack is not None
    assert station.connack["code"] == 0x85
