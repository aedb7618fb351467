"""What stays of the log when all of it is settled."""

from gateway.core.limits import ClientRule
from tests import wire_format as mqtt
from tests.core_rig import broker, connect, core_of, fill
from tests.memory import MemoryBroker
from tests.property.audit import audit
from tests.station import Station


def rig(**limits: object) -> MemoryBroker:
    b = broker(client_types=[ClientRule("app*", "", True, 1)], sys_interval_ms=0, **limits)
    device = connect(b, "device")
    device.subscribe("t", qos=1)
    device.drop()
    return b


def settle(b: MemoryBroker, count: int, start: int = 0) -> None:
    fill(b, "t", count, start=start)
    device = Station(b, "device")
    while device.take():
        pass
    device.drop()
    b.advance(2000)


def earliest(b: MemoryBroker, name: str) -> list[int]:
    app = Station(b, name)
    app.link.send(mqtt.subscribe([("t", 1)], 1, 5))
    got: list[int] = []
    while more := app.take():
        got += [int(payload) for payload in more]
    app.drop()
    return got


def test_without_it_what_is_settled_is_gone() -> None:
    b = rig()
    settle(b, 10)
    assert not b.store.segments
    assert earliest(b, "app") == []


def test_settled_messages_stay_for_who_begins_with_them() -> None:
    b = rig(log_keep_bytes=1_000_000)
    settle(b, 10)
    assert not core_of(b).segments
    assert core_of(b).kept.bytes
    assert earliest(b, "app1") == list(range(10))
    b.advance(2000)
    b.crash()
    assert earliest(b, "app2") == list(range(10))
    assert b.router.status(b.now)["store"]["kept_bytes"] == core_of(b).kept.bytes  # type: ignore[index]


def test_then_prompt_receivers_do_not_spare_the_disk() -> None:
    b = rig(log_keep_bytes=1_000_000, commit_window_ms=20)
    device = Station(b, "device")
    giver = Station(b, "giver", persistent=False)
    for number in range(5):
        giver.publish("t", b"%d" % number)
        assert device.take() == [b"%d" % number]
    b.advance(2000)
    assert earliest(b, "app") == list(range(5))


def test_what_everybody_has_before_its_commit_is_written_all_the_same() -> None:
    b = rig(log_keep_bytes=1_000_000)
    device, giver = Station(b, "device"), Station(b, "giver", persistent=False)
    b.hold()
    for number in range(4):  # the first is under way to the disk, the others wait behind it
        giver.publish("t", b"%d" % number)
    assert device.take() == [b"0", b"1", b"2", b"3"]
    b.release()
    b.advance(2000)
    audit(core_of(b), b.store)
    assert not core_of(b).segments
    assert earliest(b, "app1") == [0, 1, 2, 3]
    b.crash()
    assert earliest(b, "app2") == [0, 1, 2, 3]


def test_the_oldest_go_by_bytes() -> None:
    b = rig(log_keep_bytes=2_000, store_bytes_max=30_000)
    for turn in range(20):
        settle(b, 5, start=5 * turn)
    assert core_of(b).kept.bytes <= 2_000
    assert b.store.used_bytes() <= 2_000
    got = earliest(b, "app")
    assert 0 < len(got) < 100
    assert got == list(range(100))[-len(got) :]


def test_the_oldest_go_by_age() -> None:
    b = rig(log_keep_bytes=1_000_000, log_keep_age_s=100)
    settle(b, 5)
    b.advance(60_000)
    settle(b, 5, start=5)
    b.advance(50_000)
    assert earliest(b, "app") == [5, 6, 7, 8, 9]


def test_it_gives_way_before_publishers_are_held_back() -> None:
    b = rig(log_keep_bytes=1_000_000, store_bytes_max=10_000)
    for turn in range(40):
        settle(b, 20, start=20 * turn)
        assert not core_of(b).parked
        assert not core_of(b).full_since
    assert core_of(b).kept.bytes <= 9_000


def test_a_reload_that_keeps_nothing_empties_it() -> None:
    b = rig(log_keep_bytes=1_000_000)
    settle(b, 5)
    b.limits.log_keep_bytes = 0
    b.router.reload(b.limits, b.now)
    b.advance(3000)
    assert not b.store.segments
    assert not core_of(b).kept.segments


def test_a_message_settled_ahead_of_others_stays_settled_over_a_crash() -> None:
    b = rig(log_keep_bytes=1_000_000)
    fill(b, "t", 30)
    device = Station(b, "device", props=[(mqtt.RECEIVE_MAXIMUM, 30)])
    pids = [packet["pid"] for packet in [*device.early, *device.come()] if packet.type == mqtt.PUBLISH]
    device.puback(*pids[1:])
    b.advance(2000)
    b.crash()
    device = Station(b, "device")
    assert device.take() == [b"0"]
