"""The three outbound paths through the router, with the clock in the test's hands."""

from typing import Any

import pytest

from gateway.core.limits import ClientRule, Limits
from gateway.core.model import APPLICATION, Client
from gateway.core.paths import flush_cache, gather_in_batch, settle
from gateway.core.state import Core
from tests import wire_format as mqtt
from tests.core_rig import core_of, session_of
from tests.memory import MemoryBroker
from tests.station import Station
from tests.wire_format import Packet

DIRECT = {"mqtt.write-and-flush": False}
DEVICE = {"mqtt.persistent-session.device.persisted-messages.write-and-flush": False}
APPLICATIONS = {"client_type": "app*=application"}
BOUND_MS = 300  # idle time and interval


def broker(settings: dict[str, Any]) -> MemoryBroker:
    return MemoryBroker({"store.commit_window_ms": 0, "sys_interval": 0, **settings})


def taker(b: MemoryBroker, name: str, qos: int, version: int = 5, filter: str = "t", **options: Any) -> Station:
    made = Station(b, name, version, **options)
    made.subscribe(filter, qos=qos)
    made.come()
    return made


def numbers(packets: list[Packet]) -> list[int]:
    return [int(packet["payload"]) for packet in packets if packet.type == mqtt.PUBLISH]


def publish(giver: Station, count: int, qos: int = 0, start: int = 0, **options: Any) -> None:
    """One for each turn of the loop."""
    for number in range(start, start + count):
        giver.publish("t", str(number).encode(), qos, **options)


PATHS = [("direct", DIRECT, 0), ("direct", DIRECT, 1), ("device", DEVICE, 0), ("device", DEVICE, 1)]


@pytest.fixture(params=PATHS, ids=[f"{name} QoS {qos}" for name, _, qos in PATHS])
def path(request: pytest.FixtureRequest) -> tuple[dict[str, Any], int, bool]:
    name, settings, qos = request.param
    return settings, qos, name == "device"


Path = tuple[dict[str, Any], int, bool]

# Gathering on the direct and the device path


def test_what_is_fewer_than_the_count_waits_and_the_count_takes_all(path: Path) -> None:
    settings, qos, persistent = path
    b = broker(settings)
    c, giver = taker(b, "c", qos, persistent=persistent), Station(b, "p", persistent=False)
    publish(giver, 4, qos)
    assert c.come() == []
    publish(giver, 1, qos, start=4)
    assert numbers(c.come()) == [0, 1, 2, 3, 4]
    publish(giver, 4, qos, start=5)
    assert c.come() == []


def test_idle_time_flushes_the_rest_in_idle_time_and_interval(path: Path) -> None:
    settings, qos, persistent = path
    b = broker(settings)
    c, giver = taker(b, "c", qos, persistent=persistent), Station(b, "p", persistent=False)
    publish(giver, 2, qos)
    assert b.router.wake_at() == b.now + 100  # the driver must not sleep longer
    b.advance(BOUND_MS - 1)
    assert c.come() == []
    b.advance(1)
    assert numbers(c.come()) == [0, 1]
    b.advance(1000)
    publish(giver, 1, qos, start=2)
    b.advance(100)  # the last flush is long ago: the next look takes it
    assert numbers(c.come()) == [2]


def test_another_packet_takes_along_what_waits_in_order(path: Path) -> None:
    settings, qos, persistent = path
    b = broker(settings)
    c, giver = taker(b, "c", qos, persistent=persistent), Station(b, "p", persistent=False)
    publish(giver, 3, qos)
    c.link.send(b"\xc0\x00")
    came = c.come()
    assert [packet.type for packet in came] == [mqtt.PUBLISH] * 3 + [mqtt.PINGRESP]
    assert numbers(came) == [0, 1, 2]
    publish(giver, 4, qos, start=3)
    assert c.come() == []  # counted anew


def test_retained_messages_after_a_subscribe_leave_at_once(path: Path) -> None:
    settings, qos, persistent = path
    b = broker(settings)
    c, giver = taker(b, "c", qos, persistent=persistent), Station(b, "p", persistent=False)
    giver.publish("kept", b"7", qos, retain=True)
    publish(giver, 2, qos)
    assert c.come() == []
    c.link.send(mqtt.subscribe([("kept", qos)], 9, 5, []))
    came = c.come()
    assert numbers(came) == [0, 1, 7]
    assert mqtt.SUBACK in [packet.type for packet in came]


def test_a_retained_message_that_had_to_wait_for_the_disk_leaves_at_once() -> None:
    """QoS 2: behind the SUBACK, when message and packet id are stored."""
    b = broker(DEVICE)
    c, giver = taker(b, "c", 2), Station(b, "p", persistent=False)
    giver.publish("kept", b"7", 2, retain=True)
    c.link.send(mqtt.subscribe([("kept", 2)], 9, 5, []))
    assert numbers(c.come()) == [7]


def test_a_pubrel_leaves_at_once_and_takes_along_what_waits() -> None:
    for settings, persistent in ((DIRECT, False), (DEVICE, True)):
        b = broker({**settings, "mqtt.buffered-msg-count": 2})
        c, giver = taker(b, "c", 2, persistent=persistent), Station(b, "p", persistent=False)
        giver.publish("t", b"0", 2)
        b.advance(BOUND_MS)
        (first,) = c.come()
        giver.publish("t", b"1", 0)
        assert c.come() == []
        c.link.send(mqtt.ack(mqtt.PUBREC, first["pid"], 5))
        assert [packet.type for packet in c.come()] == [mqtt.PUBLISH, mqtt.PUBREL]


def test_a_full_window_flushes_for_nothing_can_follow() -> None:
    for settings, persistent in ((DIRECT, False), (DEVICE, True)):
        key = next(iter(settings)).replace("write-and-flush", "buffered-msg-count")
        b = broker({**settings, key: 50, "mqtt.max_inflight": 3})
        c, giver = taker(b, "c", 1, persistent=persistent), Station(b, "p", persistent=False)
        publish(giver, 2, 1)
        assert c.come() == []
        publish(giver, 2, 1, start=2)
        assert c.take() == [b"0", b"1", b"2"]
        b.advance(BOUND_MS)
        assert c.take() == [b"3"]


def test_the_cache_evicts_the_least_recently_used_with_a_line(path: Path) -> None:
    settings, qos, persistent = path
    b = broker({**settings, "mqtt.buffered-delivery.session-cache-max-size": 2})
    takers = [taker(b, f"c{i}", qos, filter=f"t/{i}", persistent=persistent) for i in range(3)]
    giver = Station(b, "p", persistent=False)
    giver.publish("t/0", b"0", qos)
    giver.publish("t/1", b"1", qos)
    giver.publish("t/0", b"2", qos)
    b.router.take_log()
    giver.publish("t/2", b"3", qos)
    assert [numbers(c.come()) for c in takers] == [[], [1], []]
    assert b.router.take_log() == ["Client session was evicted due to cache size limit: 2"]


def test_expiry_of_an_entry_flushes(path: Path) -> None:
    settings, qos, persistent = path
    times = {"session-cache-expiration-ms": 40, "idle-session-flush-timeout-ms": 60_000}
    b = broker({**settings, **{f"mqtt.buffered-delivery.{name}": ms for name, ms in times.items()}})
    c, giver = taker(b, "c", qos, persistent=persistent), Station(b, "p", persistent=False)
    publish(giver, 1, qos)
    b.advance(39)
    assert c.come() == []
    b.advance(1)
    assert numbers(c.come()) == [0]
    flush = core_of(b).flush
    assert flush is not None
    assert len(flush) == 0


def test_shutdown_flushes_all_of_it(path: Path) -> None:
    settings, qos, persistent = path
    for version in (4, 5):
        b = broker(settings)
        c, giver = taker(b, "c", qos, version, persistent=persistent), Station(b, "p", persistent=False)
        publish(giver, 3, qos)
        assert c.come() == []
        b.router.shutdown(b.now)
        b.pump()
        came = c.come()
        assert numbers(came) == [0, 1, 2]
        assert c.link.closed
        assert (came[-1].type == mqtt.DISCONNECT) == (version == 5)


def test_a_reconnect_leaves_no_dead_entry(path: Path) -> None:
    settings, qos, persistent = path
    b = broker(settings)
    c, giver = taker(b, "c", qos, persistent=persistent), Station(b, "p", persistent=False)
    flush = core_of(b).flush
    assert flush is not None
    for _ in range(3):
        publish(giver, 1, qos)
        assert len(flush) == 1
        c.drop()
        assert (len(flush), flush.due()) == (0, 0)
        c = taker(b, "c", qos, persistent=persistent)
    publish(giver, 1, qos)
    taker(b, "c", qos, persistent=persistent)  # takes over
    assert len(flush) == 0


@pytest.mark.parametrize("count", [0, 1])
def test_a_count_of_nothing_or_one_lets_nothing_wait(count: int) -> None:
    b = broker({**DIRECT, "mqtt.buffered-msg-count": count})
    c, giver = taker(b, "c", 0, persistent=False), Station(b, "p", persistent=False)
    publish(giver, 1)
    assert numbers(c.come()) == [0]


def test_what_waits_counts_for_congestion_which_flushes() -> None:
    b = broker({**DIRECT, "mqtt.buffered-msg-count": 1000})
    b.limits.out_high_bytes = 2000
    c, giver = taker(b, "c", 0, persistent=False), Station(b, "p", persistent=False)
    publish(giver, 1)
    assert c.come() == []
    giver.publish("t", b"1".zfill(2000))
    giver.publish("t", b"1".zfill(2000), 0)
    assert len(c.come()) >= 2
    assert not session_of(b, "c").client.congested  # type: ignore[union-attr]


def test_messages_of_one_turn_are_counted_one_by_one(path: Path) -> None:
    settings, qos, persistent = path
    b = broker(settings)
    c, giver = taker(b, "c", qos, persistent=persistent), Station(b, "p", persistent=False)
    giver.link.send(b"".join(mqtt.publish("t", b"%d" % n, qos, False, False, n + 1, 5, []) for n in range(7)))
    assert numbers(c.come()) == list(range(7))  # the turn's write takes all of it


# At once


def test_with_both_flags_true_there_is_no_cache_and_nothing_waits() -> None:
    assert flush_cache(Limits()) is None
    for persistent in (False, True):
        b = broker({})
        c, giver = taker(b, "c", 1, persistent=persistent), Station(b, "p", persistent=False)
        publish(giver, 1, 1)
        assert numbers(c.come()) == [0]
        assert core_of(b).flush is None


def test_each_path_has_its_own_flag() -> None:
    for settings, waits in ((DIRECT, [True, False]), (DEVICE, [False, True])):
        b = broker(settings)
        direct, device = taker(b, "a", 1, persistent=False), taker(b, "b", 1)
        publish(Station(b, "p", persistent=False), 1, 1)
        assert [not numbers(c.come()) for c in (direct, device)] == waits


def test_a_reload_flushes_and_counts_for_those_who_are_connected(path: Path) -> None:
    settings, qos, persistent = path
    b = broker(settings)
    c, giver = taker(b, "c", qos, persistent=persistent), Station(b, "p", persistent=False)
    publish(giver, 1, qos)
    b.router.reload(broker({}).limits, b.now)
    b.pump()
    publish(giver, 1, qos, start=1)
    assert numbers(c.come()) == [0, 1]
    assert core_of(b).flush is None
    b.router.reload(b.limits, b.now)
    publish(giver, 1, qos, start=2)
    assert c.come() == []
    b.advance(BOUND_MS)
    assert numbers(c.come()) == [2]


# The application path


def application(b: MemoryBroker, queued: int, qos: int = 1, **options: Any) -> Station:
    """One that comes back to a queue."""
    taker(b, "app", qos).disconnect()
    publish(Station(b, "p", persistent=False), queued, qos)
    return Station(b, "app", **options)


def test_the_end_of_a_batch_flushes_whatever_the_count_and_the_idle_time() -> None:
    quiet = {"mqtt.buffered-delivery.idle-session-flush-timeout-ms": 60_000}
    for count in (0, 1, 7, 50, 1000):
        key = "mqtt.persistent-session.app.persisted-messages.buffered-msg-count"
        b = broker({**APPLICATIONS, **DIRECT, **quiet, key: count})
        c = application(b, 25)
        assert numbers(c.early) == list(range(25))
        c.take()
        giver = Station(b, "p", persistent=False)
        publish(giver, 1, 1, start=25)
        publish(giver, 1, 0, start=26)  # QoS 0 is a batch of its own
        assert numbers(c.come()) == [25, 26]


def test_a_count_calls_for_a_flush_within_the_batch_and_begins_anew_with_the_next() -> None:
    core, c = Core(Limits(), 0, 0), Client(object(), "peer", 1000, 0)
    c.path = APPLICATION
    settle(core, c)
    calls = []
    for batch in range(2):
        c.in_batch, c.batch = True, 0
        for number in range(25 - batch * 10):
            gather_in_batch(core, c)
            if c.in_sends:
                calls.append(number)
            c.in_sends = False
    assert calls == [9, 19, 9]
    c.in_batch = False
    gather_in_batch(core, c)
    assert c.in_sends  # outside a batch it leaves with its turn


def writes(b: MemoryBroker, name: str) -> list[list[int]]:
    """The numbers in each write to this client, turn by turn; the first is that of its CONNACK."""
    batch, b.submitted = b.submitted, None
    assert batch is not None
    b.store.apply(batch)
    b.router.on_committed(batch.number, b.now)
    found = []
    for _ in range(10):
        for token, ids in b.router.take_reads():
            b.router.on_segments(token, b.store.read_now(ids), b.now)
        for client in b.router.take_sends():
            assert client is session_of(b, name).client
            data, numbers_in = client.take(), []
            while data:
                size = mqtt.frame_size(data)
                numbers_in += numbers([mqtt.parse(data[:size], 5)])
                data = data[size:]
            found.append(numbers_in)
            b.router.on_writable(client, 0, b.now)
    return found


def test_a_batch_holds_200_and_the_next_follows_behind_its_write() -> None:
    for settings, sizes in ((APPLICATIONS, [200, 200, 50]), ({}, [450])):
        b = broker({**settings, "mqtt.max_inflight": 65_535})
        taker(b, "app", 1).disconnect()
        publish(Station(b, "p", persistent=False), 450, 1)
        b.hold()
        Station(b, "app")
        found = writes(b, "app")
        assert [len(one) for one in found] == sizes
        assert [number for one in found for number in one] == list(range(450))


def test_pubrels_and_publishes_of_a_batch_share_a_write() -> None:
    b = broker(APPLICATIONS)
    c = application(b, 3, 2)
    first = [packet for packet in [*c.early, *c.come()] if packet.type == mqtt.PUBLISH]
    assert numbers(first) == [0, 1, 2]
    c.link.send(mqtt.ack(mqtt.PUBREC, first[0]["pid"], 5))
    assert [packet.type for packet in c.come()] == [mqtt.PUBREL]
    c.drop()
    back = Station(b, "app")
    kinds = [packet.type for packet in back.early]
    assert kinds == [mqtt.PUBREL, mqtt.PUBLISH, mqtt.PUBLISH]


# Types


def test_an_application_without_a_persistent_session_goes_the_direct_path() -> None:
    b = broker({**APPLICATIONS, **DIRECT})
    for persistent, shown in ((False, "direct"), (True, "application")):
        c = taker(b, "app", 0, persistent=persistent, clean=True)
        row = b.router.session("app", b.now)
        assert row is not None
        assert row["path"] == shown
        publish(Station(b, "p", persistent=False), 1)
        assert bool(numbers(c.come())) == persistent


def test_another_type_keeps_what_is_queued() -> None:
    b = broker({})
    taker(b, "c", 1).disconnect()
    giver = Station(b, "p", persistent=False)
    publish(giver, 3, 1)
    for rules, shown, queued in (
        ([ClientRule("c", "", True)], "application", 3),
        ([], "device", 4),
        ([ClientRule("c", "", True)], "application", 5),
    ):
        b.limits.client_types = rules
        back = Station(b, "c")
        row = b.router.session("c", b.now)
        assert row is not None
        assert row["path"] == shown
        assert numbers(back.early) == list(range(queued))
        back.drop()
        publish(giver, 1, 1, start=queued)


# What a device's queue keeps


def test_a_limit_keeps_the_newest_of_a_device_and_counts_the_rest() -> None:
    limit = {"mqtt.persistent-session.device.persisted-messages.limit": 4}
    for settings, kept in (({}, [6, 7, 8, 9]), (APPLICATIONS, list(range(10)))):
        b = broker({**limit, **settings})
        c = application(b, 10)
        assert numbers(c.early) == kept
        row = b.router.session("app", b.now)
        assert row is not None
        assert row["drops"] == ({"queue_full": 6} if len(kept) == 4 else {})


def test_a_limit_does_not_count_what_is_in_flight() -> None:
    b = broker({"mqtt.persistent-session.device.persisted-messages.limit": 2, "mqtt.max_inflight": 3})
    c, giver = taker(b, "c", 1), Station(b, "p", persistent=False)
    publish(giver, 8, 1)
    taken = c.take()
    while more := c.take():
        taken += more
    assert taken == [b"0", b"1", b"2", b"6", b"7"]


def test_a_time_to_live_ends_what_has_none_of_its_own() -> None:
    ttl = {"mqtt.persistent-session.device.persisted-messages.ttl": 60}
    for settings, kept in (({}, [1, 2]), (APPLICATIONS, [0, 1, 2])):
        b = broker({**ttl, **settings})
        taker(b, "app", 1).disconnect()
        giver = Station(b, "p", persistent=False)
        giver.publish("t", b"0")
        giver.publish("t", b"1", props=[(mqtt.MESSAGE_EXPIRY, 3600)])
        b.advance(50_000)
        giver.publish("t", b"2")
        b.advance(11_000)
        assert numbers(Station(b, "app").early) == kept
