"""Delivered before durable: what is held back, for how long, and what ends it; the clock stands unless it is moved."""

from collections.abc import Callable

import pytest

from gateway.core.hold import PROMPT
from gateway.core.record import unpack_segment_targets
from tests import wire_format as mqtt
from tests.memory import MemoryBroker
from tests.station import Station

WINDOW_MS = 20


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> MemoryBroker:
    return MemoryBroker(getattr(request, "param", {}))


def receiver(broker: MemoryBroker, name: str = "r", version: int = 5, qos: int = 1) -> Station:
    made = Station(broker, name, version)
    made.subscribe("t/#", qos=qos)
    broker.advance(2000)  # what is lazy has gone to the disk
    return made


def publisher(broker: MemoryBroker, version: int = 5) -> Station:
    return Station(broker, "p", version, persistent=False)


def acknowledged(sender: Station) -> list[int]:
    return sender.pids(mqtt.PUBACK)


def batches(broker: MemoryBroker) -> int:
    """How many commits the store has been given."""
    return len(broker.store.numbers) + (broker.submitted is not None)


def make_slow(broker: MemoryBroker, sender: Station, station: Station) -> None:
    """One hold expires."""
    sender.publish("t/slow", b"late")
    broker.advance(WINDOW_MS)
    assert station.take() == [b"late"]
    assert len(acknowledged(sender)) == 1
    broker.advance(2000)


def waits(broker: MemoryBroker) -> bool:
    """The store gets nothing before the window is over."""
    before = batches(broker)
    broker.advance(WINDOW_MS - 1)
    return batches(broker) == before


def receivers(broker: MemoryBroker, segment: int) -> set[str]:
    """For whom the messages of a stored segment are."""
    sets = unpack_segment_targets(broker.store.segments[segment][1])[3]
    return {broker.store.sessions[target.sid][1] for stored in sets for target in stored.targets}


# Nothing is written


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_prompt_receivers_need_no_disk(broker: MemoryBroker, version: int, qos: int) -> None:
    """Not one commit, however long it goes on; a subscription at QoS 2 gets QoS 1 as QoS 1."""
    stations = [receiver(broker, f"r{number}", version, qos) for number in range(3)]
    sender = publisher(broker, version)
    before = batches(broker)
    for number in range(600):
        sender.publish("t/a", b"%d" % number)
        broker.advance(5)
        for station in stations:
            assert acknowledged(sender) == []
            assert station.take() == [b"%d" % number]
        assert len(acknowledged(sender)) == 1
    broker.advance(15_000)
    assert batches(broker) == before
    assert broker.router.core.hold_bytes == 0


def test_the_packet_ids_of_a_receiver_cost_few_commits(broker: MemoryBroker) -> None:
    station, sender = receiver(broker), publisher(broker)
    before = batches(broker)
    for _ in range(5000):
        sender.publish("t/a")
        station.take()
    assert len(acknowledged(sender)) == 5000
    broker.advance(2000)
    assert batches(broker) - before <= 5


def test_deliveries_do_not_wait_for_the_next_block_of_packet_ids(broker: MemoryBroker) -> None:
    """It is asked for in good time: a thousand go out while that commit is under way."""
    station, sender = receiver(broker), publisher(broker)
    broker.hold()
    while broker.submitted is None:
        sender.publish("t/a")
        assert len(station.take()) == 1
    for _ in range(1000):
        sender.publish("t/a")
        assert len(station.take()) == 1


def test_the_acknowledgements_keep_their_order(broker: MemoryBroker) -> None:
    station, sender = receiver(broker), publisher(broker)
    sent = [sender.publish("t/a") for _ in range(3)]
    pids = station.pids(mqtt.PUBLISH)
    station.puback(pids[2], pids[1])
    assert acknowledged(sender) == []
    station.puback(pids[0])
    assert acknowledged(sender) == sent
    assert not broker.router.core.hold


def test_the_publisher_waits_for_the_commit_when_no_acknowledgement_comes(broker: MemoryBroker) -> None:
    receiver(broker)
    sender = publisher(broker)
    broker.hold()
    pid = sender.publish("t/a", b"x")
    assert waits(broker)
    broker.advance(1)
    assert broker.submitted is not None
    assert acknowledged(sender) == []
    broker.release()
    assert acknowledged(sender) == [pid]
    broker.crash()
    assert Station(broker, "r").take() == [b"x"]


@pytest.mark.parametrize("code", [0x80, 0x97])
def test_a_refusal_is_an_acknowledgement(broker: MemoryBroker, code: int) -> None:
    station, sender = receiver(broker), publisher(broker)
    before = batches(broker)
    pid = sender.publish("t/a")
    station.puback(*station.pids(mqtt.PUBLISH), code=code)
    assert acknowledged(sender) == [pid]
    assert batches(broker) == before


def test_a_message_too_large_for_its_receiver_is_done_with_the_drop(broker: MemoryBroker) -> None:
    station = Station(broker, "r", props=[(mqtt.MAXIMUM_PACKET_SIZE, 100)])
    station.subscribe("t/#")
    sender = publisher(broker)
    pid = sender.publish("t/a", bytes(200))
    assert acknowledged(sender) == [pid]
    row = broker.router.session("r", broker.now)
    assert row is not None
    assert row["drops"] == {"too_large": 1}
    assert not broker.router.core.hold


# The slow flag


def test_one_expired_hold_makes_a_session_slow(broker: MemoryBroker) -> None:
    """Its messages go straight to the commit, until it has answered in time often enough, without a break."""
    station, sender = receiver(broker), publisher(broker)
    make_slow(broker, sender, station)
    for turn in range(2 * PROMPT - 1):
        before = batches(broker)
        sender.publish("t/a")
        assert batches(broker) > before, f"held after {turn} answers"
        if turn == PROMPT - 2:
            broker.advance(WINDOW_MS + 1)  # one answer too late, and counting starts anew
        station.take()
        if turn == PROMPT - 2:
            assert broker.router.core.sessions["r"].slow
    broker.advance(2000)
    assert not broker.router.core.sessions["r"].slow
    broker.hold()
    sender.publish("t/a")
    assert waits(broker)


def test_one_slow_among_fast_ones(broker: MemoryBroker) -> None:
    """Not held; rows only for those that have not acknowledged when the commit is closed."""
    fast, slow, sender = receiver(broker, "fast"), receiver(broker, "slow"), publisher(broker)
    sender.publish("t/a", b"late")
    fast.take()
    broker.advance(WINDOW_MS)
    slow.take()
    broker.advance(2000)
    assert len(acknowledged(sender)) == 1
    broker.hold()
    sender.publish("t/a", b"first")  # under way to the disk at once, for both
    second = sender.publish("t/a", b"second")  # in the commit behind it
    assert fast.take() == [b"first", b"second"]
    broker.release()
    assert acknowledged(sender) == [second - 1, second]
    assert [receivers(broker, number) for number in sorted(broker.store.segments)] == [{"fast", "slow"}, {"slow"}]
    broker.advance(1000)  # what was acknowledged is written later
    broker.crash()
    assert Station(broker, "fast").take() == []
    assert Station(broker, "slow").take() == [b"first", b"second"]


def test_all_answer_before_the_commit_is_closed(broker: MemoryBroker) -> None:
    """Of a message that is not held nothing is written either, when everyone has it before its turn comes."""
    station, sender = receiver(broker), publisher(broker)
    make_slow(broker, sender, station)
    broker.hold()
    first = sender.publish("t/a", b"first")
    rest = [sender.publish("t/a", bytes(1000)) for _ in range(10)]
    pids = station.pids(mqtt.PUBLISH)
    station.puback(*pids[1:])
    core = broker.router.core
    broker.release()
    assert acknowledged(sender) == [first, *rest]
    assert len(broker.store.segments) == 1
    assert core.commit.bytes == 0
    assert not core.commit.acks


# What ends a hold before its time


def takeover(broker: MemoryBroker, station: Station) -> None:
    Station(broker, station.client_id)


def silence(broker: MemoryBroker, station: Station) -> None:
    station.link.client.keep_alive_ms = 1
    broker.router.core.checked_at = 0
    broker.now += 2
    broker.router.on_tick(broker.now)
    broker.pump()


@pytest.mark.parametrize(
    "way", [lambda broker, station: station.drop(), lambda broker, station: station.disconnect(), takeover, silence]
)
def test_a_receiver_that_goes_away_needs_the_disk_at_once(
    broker: MemoryBroker, way: Callable[[MemoryBroker, Station], None]
) -> None:
    station, other, sender = receiver(broker), receiver(broker, "other"), publisher(broker)
    sent = [sender.publish("t/a", b"%d" % number) for number in range(3)]
    pids = station.pids(mqtt.PUBLISH)
    station.puback(pids[1])
    broker.hold()
    way(broker, station)
    assert broker.submitted is not None
    assert other.take() == [b"0", b"1", b"2"]
    assert acknowledged(sender) == []
    broker.release()
    assert acknowledged(sender) == sent
    broker.crash()
    assert Station(broker, "r").take() == [b"0", b"2"]


def end_at_disconnect(broker: MemoryBroker, station: Station) -> None:
    station.disconnect(0)


def clean_start(broker: MemoryBroker, station: Station) -> None:
    Station(broker, station.client_id, clean=True)


def removed(broker: MemoryBroker, station: Station) -> None:
    assert broker.router.remove_session(station.client_id, broker.now)
    broker.pump()


@pytest.mark.parametrize("way", [end_at_disconnect, clean_start, removed])
def test_the_end_of_a_session_is_a_counted_drop_and_an_answer(
    broker: MemoryBroker, way: Callable[[MemoryBroker, Station], None]
) -> None:
    station, other, sender = receiver(broker), receiver(broker, "other"), publisher(broker)
    sent = [sender.publish("t/a", b"%d" % number) for number in range(3)]
    assert other.take() == [b"0", b"1", b"2"]
    station.puback(*station.pids(mqtt.PUBLISH)[:1])
    assert acknowledged(sender) == sent[:1]
    broker.hold()
    way(broker, station)
    assert acknowledged(sender) == sent[1:]
    drops = broker.router.status(broker.now)["drops"]
    assert drops == {"session_end": 2}
    broker.release()
    broker.advance(2000)
    assert not broker.store.segments


def test_a_shutdown_keeps_what_is_held(broker: MemoryBroker) -> None:
    receiver(broker)
    sender = publisher(broker)
    sender.publish("t/a", b"x")
    broker.router.shutdown(broker.now)
    broker.pump()
    assert acknowledged(sender) == []
    broker.crash()
    assert Station(broker, "r").take() == [b"x"]


# Never held


def straight_to_the_commit(broker: MemoryBroker, sender: Station, topic: str = "t/a", **options: object) -> bool:
    broker.advance(2000)
    before = batches(broker)
    sender.publish(topic, b"x", **options)  # type: ignore[arg-type]
    return batches(broker) > before


def test_retained_is_not_held(broker: MemoryBroker) -> None:
    receiver(broker)
    assert straight_to_the_commit(broker, publisher(broker), retain=True)


def test_qos_2_is_not_held(broker: MemoryBroker) -> None:
    receiver(broker, qos=2)
    assert straight_to_the_commit(broker, publisher(broker), qos=2)


def test_a_shared_group_is_not_held_for(broker: MemoryBroker) -> None:
    receiver(broker)
    member = Station(broker, "m")
    member.subscribe("$share/g/t/#")
    assert straight_to_the_commit(broker, publisher(broker))


@pytest.mark.parametrize("broker", [{"mqtt.upgrade_qos": True}], indirect=True)
def test_qos_that_is_raised_is_not_held(broker: MemoryBroker) -> None:
    """QoS 0 raised to 1 has a publisher that cannot send again; QoS 1 raised to 2 needs its id on disk."""
    receiver(broker)
    assert straight_to_the_commit(broker, publisher(broker), qos=0)


@pytest.mark.parametrize("broker", [{"mqtt.upgrade_qos": True}], indirect=True)
def test_qos_1_raised_to_2_is_not_held(broker: MemoryBroker) -> None:
    receiver(broker, qos=2)
    assert straight_to_the_commit(broker, publisher(broker))


@pytest.mark.parametrize("broker", [{"store.commit_window_ms": 0}], indirect=True)
def test_a_window_of_0_is_none(broker: MemoryBroker) -> None:
    receiver(broker)
    assert straight_to_the_commit(broker, publisher(broker))


def test_a_receiver_that_is_away_is_not_held_for(broker: MemoryBroker) -> None:
    receiver(broker)
    receiver(broker, "away").drop()
    assert straight_to_the_commit(broker, publisher(broker))


def test_above_the_cap_in_bytes_nothing_is_held(broker: MemoryBroker) -> None:
    station, sender = receiver(broker), publisher(broker)
    broker.limits.hold_bytes_max = 5000
    before = batches(broker)
    for _ in range(5):
        sender.publish("t/a", bytes(1000))
    assert batches(broker) == before
    broker.hold()
    sender.publish("t/a", bytes(1000))
    assert broker.submitted is not None
    station.take()
    broker.release()
    assert len(acknowledged(sender)) == 6
    assert broker.router.core.hold_bytes == 0


def test_a_full_window_is_held_for_only_when_it_empties_fast_enough(broker: MemoryBroker) -> None:
    station = Station(broker, "r", props=[(mqtt.RECEIVE_MAXIMUM, 2)])
    station.subscribe("t/#")
    sender = publisher(broker)
    assert not straight_to_the_commit(broker, sender)
    station.take()
    for _ in range(2):
        sender.publish("t/a")
    assert straight_to_the_commit(broker, sender)
    while station.take():
        pass
    for _ in range(200):  # 2 for each ms
        sender.publish("t/a")
        sender.publish("t/a")
        station.take()
        broker.advance(1)
    before = batches(broker)
    for _ in range(4):
        sender.publish("t/a")
    assert batches(broker) == before


# Beside commits


def test_an_answer_behind_the_batch_is_written_behind_it(broker: MemoryBroker) -> None:
    """Too late to be left out: the row is written, removed by a later commit, and not delivered again after a crash."""
    station, sender = receiver(broker), publisher(broker)
    make_slow(broker, sender, station)
    broker.hold()
    pid = sender.publish("t/a", b"x")
    assert station.take() == [b"x"]
    assert acknowledged(sender) == []
    broker.release()
    assert acknowledged(sender) == [pid]
    assert len(broker.store.segments) == 1
    broker.advance(2000)
    assert not broker.store.segments
    broker.crash()
    assert Station(broker, "r").take() == []


def test_held_messages_wait_out_a_store_that_fails(broker: MemoryBroker) -> None:
    """Answered by their receiver, or by the commit that works in the end; never by one that failed."""
    station, slow, sender = receiver(broker), receiver(broker, "slow"), publisher(broker)
    make_slow(broker, sender, station)
    slow.take()
    for _ in range(PROMPT):
        sender.publish("t/a")
        station.take()
    assert len(acknowledged(sender)) == PROMPT
    slow.subscribe("other")
    broker.hold()
    lone = Station(broker, "lone")
    assert lone.connack is None  # a commit is under way
    only = Station(broker, "only", persistent=False)
    only.subscribe("nothing")
    slow.drop()
    held = sender.publish("t/b", b"held")
    broker.fail()
    broker.advance(WINDOW_MS)
    assert acknowledged(sender) == []
    assert station.take()[-1] == b"held"
    broker.advance(600)
    assert broker.submitted is not None
    broker.release()
    broker.advance(600)
    assert acknowledged(sender) == [held]


def test_a_held_message_is_answered_by_its_receiver_while_the_store_fails(broker: MemoryBroker) -> None:
    station, sender = receiver(broker), publisher(broker)
    broker.hold()
    Station(broker, "other")
    pid = sender.publish("t/a", b"held")
    broker.fail()
    assert station.take() == [b"held"]
    assert acknowledged(sender) == [pid]


def test_what_needs_no_disk_goes_on_while_the_store_fails(broker: MemoryBroker) -> None:
    """Prompt receivers answer for the disk; without them the publisher is read no further."""
    station, sender, other = receiver(broker), publisher(broker), Station(broker, "q", persistent=False)
    broker.hold()
    Station(broker, "third")
    broker.fail()
    pid = sender.publish("t/a", b"new")
    assert station.take() == [b"new"]
    assert acknowledged(sender) == [pid]
    station.drop()
    other.publish("t/a", b"nobody there")
    assert acknowledged(other) == []
    assert len(broker.router.core.parked) == 1


def test_order_after_a_crash_when_held_and_other_messages_mix(broker: MemoryBroker) -> None:
    """A commit takes along what was held before it for the same queue: one FIFO for each session."""
    one, two, sender = receiver(broker, "one"), receiver(broker, "two"), publisher(broker)
    two.subscribe("both/#", "two/#", qos=2)
    one.subscribe("both/#")
    broker.advance(2000)
    sender.publish("t/a", b"1")  # held for both
    sender.publish("two/a", b"2")  # held for two
    sender.publish("both/a", b"3")  # held for both
    pids = one.pids(mqtt.PUBLISH)
    one.puback(pids[1])
    before = batches(broker)
    sender.publish("two/a", b"4", 2)  # not held
    sender.publish("t/a", b"5")
    assert batches(broker) > before
    broker.crash()
    assert Station(broker, "two").take()[:3] == [b"1", b"2", b"3"]
    assert Station(broker, "one").take() == [b"1"]


def test_what_is_held_for_another_queue_stays_held(broker: MemoryBroker) -> None:
    one, two, sender = receiver(broker, "one"), Station(broker, "two"), publisher(broker)
    two.subscribe("two/#", qos=2)
    broker.advance(2000)
    held = sender.publish("t/a", b"1")
    sender.publish("two/a", b"2", 2)
    core = broker.router.core
    assert len(core.hold) == 1
    assert one.take() == [b"1"]
    assert acknowledged(sender) == [held]
    assert core.hold_bytes == 0
