"""A new APPLICATION that begins with the earliest message which the log still has for it."""

import pytest

from gateway.core.limits import ClientRule
from tests import wire_format as mqtt
from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of
from tests.memory import MemoryBroker
from tests.property.audit import audit, audit_idle
from tests.station import Station


def rig(**limits: object) -> MemoryBroker:
    rules = [ClientRule("app*", "", True, 1)]
    return broker(client_types=rules, sys_interval_ms=0, **limits)


def away(b: MemoryBroker, name: str, filter: str = "t") -> None:
    client = connect(b, name)
    client.subscribe(filter, qos=1)
    client.drop()


def begun(b: MemoryBroker, name: str, *filters: str, qos: int = 1) -> Station:
    client = Station(b, name)
    client.link.send(mqtt.subscribe([(filter, qos) for filter in filters or ("t",)], client.pid(), 5))
    return client


def taken(client: Station) -> list[int]:
    got: list[int] = []
    while more := client.take():
        got += [int(payload) for payload in more]
    return got


def test_it_gets_what_the_log_has_and_then_what_comes_in_one_order() -> None:
    b = rig(window_messages=8)
    away(b, "device")
    fill(b, "t", 50)
    app = begun(b, "app")
    fill(b, "t", 10, start=50)
    assert taken(app) == list(range(60))
    audit(core_of(b), b.store)
    row = b.router.session("app", b.now)
    assert row is not None
    assert (row["matched"], row["acknowledged"], row["queue_messages"], row["drops"]) == (60, 60, 0, {})
    assert taken(Station(b, "device")) == list(range(60))
    b.advance(2000)
    audit_idle(core_of(b), b.store)


def test_others_begin_at_the_end() -> None:
    b = rig()
    away(b, "device")
    fill(b, "t", 5)
    late = begun(b, "late")
    assert taken(late) == []
    b.limits.client_types = [ClientRule("*", "", True)]
    assert taken(begun(b, "other")) == []
    b.limits.app_start = 1
    assert taken(begun(b, "third")) == list(range(5))


def test_only_its_first_subscribe_reaches_back_and_only_for_a_new_session() -> None:
    b = rig()
    away(b, "device", "#")
    fill(b, "t", 3)
    fill(b, "u", 3, start=3)
    app = begun(b, "app", "t")
    assert taken(app) == [0, 1, 2]
    app.subscribe("u")
    assert taken(app) == []
    app.drop()
    fill(b, "t", 1, start=6)
    app = Station(b, "app")
    assert taken(app) == [6]


def test_messages_that_are_not_on_disk_yet_belong_to_it() -> None:
    b = rig(commit_window_ms=20)
    device = Station(b, "device")
    device.subscribe("t")
    giver = Station(b, "giver", persistent=False)
    b.hold()
    for number in range(4):  # held back: the device has not answered yet
        giver.publish("t", b"%d" % number)
    app = Station(b, "app2")
    b.release()
    assert len(core_of(b).hold) == 4
    app = begun(b, "app")
    for number in range(4, 8):
        giver.publish("t", b"%d" % number)
    assert taken(app) == list(range(8))
    assert taken(device) == list(range(8))
    b.advance(2000)
    audit_idle(core_of(b), b.store)


@pytest.mark.parametrize("when", ["before counting", "in the middle", "twice"])
def test_a_crash_changes_nothing(when: str) -> None:
    b = rig(window_messages=8)
    away(b, "device")
    fill(b, "t", 60)
    app = begun(b, "app")
    got: list[int] = []
    if when != "before counting":
        got = [int(payload) for payload in app.take()]
        b.advance(1500)
    fill(b, "t", 5, start=60)
    b.crash()
    if when == "twice":
        b.crash()
    app = Station(b, "app")
    rest = taken(app)
    assert rest == list(range(rest[0], 65))
    assert set(got) | set(rest) == set(range(65))
    row = b.router.session("app", b.now)
    assert row is not None
    assert row["queue_messages"] == 0
    assert taken(Station(b, "device")) == list(range(65))
    b.advance(2000)
    audit_idle(core_of(b), b.store)
    assert backlog_of(b, "app").history is None


def test_qos_2_of_the_time_before_keeps_its_id_over_a_crash() -> None:
    b = rig()
    client = connect(b, "device")
    client.subscribe("t", qos=2)
    client.drop()
    fill(b, "t", 3, qos=2)
    app = begun(b, "app", qos=2)
    before = [(packet["pid"], packet["payload"]) for packet in app.come() if packet.type == mqtt.PUBLISH]
    assert len(before) == 3
    b.advance(2000)
    b.crash()
    app = Station(b, "app")
    again = [(packet["pid"], packet["payload"]) for packet in [*app.early, *app.come()] if packet.type == mqtt.PUBLISH]
    assert again == before
    audit(core_of(b), b.store)


def test_a_session_that_ends_lets_go_of_the_log() -> None:
    b = rig()
    away(b, "device")
    fill(b, "t", 20)
    begun(b, "app").drop()
    assert b.router.remove_session("app", b.now)
    b.pump()
    assert taken(Station(b, "device")) == list(range(20))
    b.advance(2000)
    audit_idle(core_of(b), b.store)


def test_a_session_that_ends_while_it_is_counted_lets_go_of_the_log() -> None:
    b = rig()
    away(b, "device")
    fill(b, "t", 20)
    app = Station(b, "app")
    router = b.router
    app.link.client.decoder.feed(mqtt.subscribe([("t", 1)], 1, 5))
    b.decode(app.link)
    batch = router.take_batch(b.now)
    assert batch is not None
    b.store.apply(batch)
    router.on_committed(batch.number, b.now)
    ((token, ids),) = router.take_reads()
    assert backlog_of(b, "app").history is not None
    assert router.remove_session("app", b.now)
    router.on_segments(token, b.store.read_now(ids), b.now)
    b.pump()
    assert taken(Station(b, "device")) == list(range(20))
    b.advance(2000)
    audit_idle(core_of(b), b.store)


def test_retention_holds_for_the_time_before_too() -> None:
    b = rig(app_max_bytes=6)
    away(b, "device")
    fill(b, "t", 9)
    begun(b, "app").drop()
    b.advance(3000)
    session = session_of(b, "app")
    assert core_of(b).ledger.drops(session.sid) == {} or backlog_of(b, "app").bytes <= 6
    app = Station(b, "app")
    rest = taken(app)
    assert rest
    assert core_of(b).ledger.unaccounted(session.sid, session.matched, session.settled, 0) == 0


def test_shared_subscriptions_alone_reach_nowhere() -> None:
    b = rig()
    away(b, "device")
    fill(b, "t", 3)
    app = begun(b, "app", "$share/g/t")
    assert taken(app) == []
    assert backlog_of(b, "app").history is None


def test_a_full_store_takes_from_the_time_before_too() -> None:
    b = rig(max_inflight=10)
    away(b, "device")
    fill(b, "t", 50)
    begun(b, "app").drop()
    core = core_of(b)
    core.limits.push_back_ms = 0
    most = core.limits.store_bytes_max
    b.router.on_store_usage(most, b.now)
    b.store.used_bytes = lambda: most  # type: ignore[method-assign]
    b.advance(3000)
    assert core.ledger.drops(session_of(b, "app").sid) == {"evicted": 40}  # ten are in flight
    assert core.ledger.drops(session_of(b, "device").sid) == {"evicted": 50}
    audit(core, b.store)


def test_retained_messages_that_others_got_are_no_part_of_it() -> None:
    b = rig()
    away(b, "device")
    giver = connect(b, "giver", clean=True, expiry=0)
    giver.put("t", b"0", 1, retain=True)
    for name in ("one", "two"):
        away(b, name)  # each gets a copy of its own through the log
    app = begun(b, "app")
    got = [(packet["payload"], packet["retain"]) for packet in app.come() if packet.type == mqtt.PUBLISH]
    assert got == [(b"0", False), (b"0", True)]  # as it was published, and as a retained message
