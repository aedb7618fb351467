"""What an APPLICATION has not read falls off its log by bytes and by age, counted; all else stays."""

from gateway.core.limits import ClientRule
from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of
from tests.memory import MemoryBroker
from tests.property.audit import audit

SIZE = 2  # of a message of fill(): topic and one digit


def rig(**limits: object) -> MemoryBroker:
    return broker(client_types=[ClientRule("app*", "", True)], sys_interval_ms=0, **limits)


def away(b: MemoryBroker, name: str) -> None:
    client = connect(b, name)
    client.subscribe("t", qos=1)
    client.drop()


def numbers(b: MemoryBroker, name: str) -> list[int]:
    client = connect(b, name)
    found = [int(got.payload) for got in client.take_all()]
    client.drop()
    return found


def test_the_oldest_above_the_bytes_fall_off_and_are_counted() -> None:
    b = rig(app_max_bytes=4 * SIZE)
    away(b, "app")
    away(b, "device")
    fill(b, "t", 10)
    b.advance(1000)
    queue = backlog_of(b, "app")
    assert (queue.count, queue.bytes) == (4, 4 * SIZE)
    row = b.router.session("app", b.now)
    assert row is not None
    assert row["drops"] == {"retention": 6}
    assert row["matched"] == 10
    assert "unread messages of app fell off its log: 6" in b.router.take_log()
    assert numbers(b, "app") == [6, 7, 8, 9]
    assert numbers(b, "device") == list(range(10))
    audit(core_of(b), b.store)


def test_what_fell_off_leaves_the_disk_when_nobody_else_needs_it() -> None:
    b = rig(app_max_bytes=3 * SIZE, store_bytes_max=30_000)  # so that about three commits are one segment
    away(b, "app")
    fill(b, "t", 9)
    assert len(b.store.segments) == 9
    b.advance(3000)
    assert 3 <= len(b.store.segments) <= 6
    b.crash()
    assert session_of(b, "app").matched == 9
    assert core_of(b).ledger.drops(0)["retention"] == 6
    assert numbers(b, "app") == [6, 7, 8]


def test_age_counts_from_the_commit() -> None:
    b = rig(app_max_age_s=60)
    away(b, "app")
    fill(b, "t", 3)
    b.advance(59_000)
    fill(b, "t", 3, start=3)
    assert backlog_of(b, "app").count == 6
    b.advance(3000)
    assert backlog_of(b, "app").count == 3
    assert numbers(b, "app") == [3, 4, 5]


def test_what_is_in_flight_stays_and_what_waits_in_ram_goes() -> None:
    b = rig(app_max_bytes=2 * SIZE)
    client = connect(b, "app", receive_maximum=2)
    client.subscribe("t", qos=1)
    fill(b, "t", 9)
    b.advance(2000)
    audit(core_of(b), b.store)
    assert backlog_of(b, "app").count == 2 + 0
    assert [int(got.payload) for got in client.take_all()] == [0, 1]
    b.advance(2000)
    fill(b, "t", 1, start=9)
    assert int(client.take().payload) == 9
    assert core_of(b).ledger.drops(session_of(b, "app").sid) == {"retention": 7}


def test_a_long_outage_costs_no_memory_for_what_fell_off() -> None:
    b = rig(app_max_bytes=5 * SIZE)
    away(b, "app")
    away(b, "other")  # so that the segments stay
    for turn in range(20):
        fill(b, "t", 10, start=10 * turn)
        b.advance(1000)
    assert len(backlog_of(b, "app").ahead) < 30
    assert numbers(b, "app")[-1] == 199
    audit(core_of(b), b.store)


def test_a_damaged_segment_does_not_stop_it() -> None:
    b = rig(app_max_bytes=2 * SIZE)
    away(b, "app")
    fill(b, "t", 6)
    first = min(b.store.segments)
    last, targets, _ = b.store.segments[first]
    b.store.segments[first] = last, targets, b""
    b.advance(2000)
    assert numbers(b, "app") == [5]
    assert core_of(b).ledger.drops(session_of(b, "app").sid) == {"damaged": 1, "retention": 4}


def test_a_device_keeps_everything() -> None:
    b = rig(app_max_bytes=1, app_max_age_s=1)
    away(b, "device")
    fill(b, "t", 5)
    b.advance(10_000)
    assert numbers(b, "device") == list(range(5))


def test_a_session_that_ends_while_it_is_trimmed() -> None:
    b = rig(app_max_bytes=1)
    away(b, "app")
    fill(b, "t", 5)
    core = core_of(b)
    b.now += 1000
    b.router.on_tick(b.now)
    ((token, ids),) = b.router.take_reads()
    assert b.router.remove_session("app", b.now)
    b.router.on_segments(token, b.store.read_now(ids), b.now)
    b.pump()
    assert core.ledger.drops(0) == {"session_end": 5}


def test_with_priorities_the_oldest_of_all_go_first() -> None:
    b = rig(app_max_bytes=6 * SIZE, mqueue_priorities=[("u", 9)])
    client = connect(b, "app")
    client.subscribe("t", "u", qos=1)
    client.drop()
    for number in range(10):
        fill(b, "tu"[number % 2], 1, start=number)
        b.advance(11_000)  # so that each has a segment of its own
    session = session_of(b, "app")
    assert sum(queue.count for queue in session.backlogs()) == 6
    assert sorted(numbers(b, "app")) == [4, 5, 6, 7, 8, 9]
    row = b.router.session("app", b.now)
    assert row is not None
    assert row["drops"] == {"retention": 4}
