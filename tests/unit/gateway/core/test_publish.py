"""What a publisher gets for its PUBLISH: an answer in time, a pause, or a refusal; and that ids are free again."""

import pytest

from gateway.core.limits import PUSH_BACK
from tests.conformance.client import Client
from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of


@pytest.mark.parametrize("version", [4, 5])
def test_a_full_disk_pauses_and_room_resumes_in_order(version: int) -> None:
    b = broker(store_bytes_max=10_000)
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    publisher = connect(b, "p", version, clean=True)
    b.router.on_store_usage(10_000, b.now)
    for n in range(3):
        publisher.publish("t", str(n).encode(), 1)
    assert len(core_of(b).parked) == 1
    client.expect_nothing()
    b.router.on_store_usage(9_000, b.now)
    b.pump()
    assert [client.take().payload for _ in range(3)] == [b"0", b"1", b"2"]
    assert [publisher.expect("PUBACK").pid for _ in range(3)] == [1, 2, 3]
    assert not core_of(b).parked


def test_a_publisher_may_be_paused_again_and_again() -> None:
    b = broker(store_bytes_max=10_000)
    connect(b, "s").subscribe("t", qos=1)
    publisher = connect(b, "p", clean=True)
    b.router.on_store_usage(10_000, b.now)
    publisher.publish("t", b"x", 1)
    for used in (9_999, 20_000, 10_001, 10_000):
        core_of(b).retry = True
        b.router.on_store_usage(used if used > 9_999 else 10_002, b.now)
        b.pump()
        assert len(core_of(b).parked) == 1
    b.router.on_store_usage(0, b.now)
    b.pump()
    publisher.expect("PUBACK")


def test_who_is_not_read_is_not_silent() -> None:
    b = broker(store_bytes_max=10_000)
    connect(b, "s").subscribe("t", qos=1)
    publisher = connect(b, "p", keep_alive=2)
    b.router.on_store_usage(10_000, b.now)
    publisher.publish("t", b"x", 1)
    b.advance(10_000)
    b.router.on_store_usage(0, b.now)
    b.pump()
    publisher.expect("PUBACK")
    b.advance(5_000)
    publisher.expect_closed(0x8D)


@pytest.mark.parametrize("end", ["drain", "leave"])
def test_a_full_memory_queue_pushes_back_until_it_drains_or_ends(end: str) -> None:
    b = broker(mqueue_policy=PUSH_BACK, max_mqueue_len=1, out_high_bytes=20)
    client = connect(b, "s", clean=True, expiry=0, receive_maximum=1)
    client.subscribe("t", qos=1)
    client.stall()
    publisher = connect(b, "p", clean=True)
    for n in range(4):
        publisher.publish("t", str(n).encode(), 1)
    assert core_of(b).parked
    if end == "leave":
        client.drop()
    else:
        link = client.link
        assert hasattr(link, "read_on")
        link.read_on()
        client.take_all()
    assert [publisher.expect("PUBACK").pid for _ in range(4)] == [1, 2, 3, 4]


def test_a_queue_of_qos_0_that_drains_lets_publishers_go_on() -> None:
    b = broker(mqueue_policy=PUSH_BACK, max_mqueue_len=1, out_high_bytes=20)
    client = connect(b, "s", clean=True, expiry=0)
    client.subscribe("t", qos=0)
    client.stall()
    publisher = connect(b, "p", clean=True)
    for n in range(6):
        publisher.publish("t", str(n).encode(), 1)
    assert core_of(b).parked
    link = client.link
    assert hasattr(link, "read_on")
    link.read_on()
    assert len([publisher.expect("PUBACK") for _ in range(6)]) == 6


def test_pubcomp_waits_for_the_removal_also_on_another_connection() -> None:
    """Else the id is taken for a duplicate after a crash, and the next message is lost."""
    b = broker()
    connect(b, "s").subscribe("t", qos=2)
    publisher = connect(b, "p")
    publisher.publish("t", b"first", 2, pid=7)
    publisher.expect("PUBREC", pid=7)
    again = Client(b.open(), 5)
    b.hold()
    publisher.ack("PUBREL", 7)  # its removal is under way when the connection goes
    publisher.drop()
    again.send_connect("p", clean=False, expiry=1000)
    b.release_one()  # the removal
    b.release_one()  # the CONNACK
    again.expect("CONNACK")
    again.publish("t", b"second", 2, pid=7)
    again.expect_nothing()
    b.release()
    again.expect("PUBREC", pid=7)
    assert backlog_of(b, "s").count == 2


def test_pubcomp_of_an_unknown_id_waits_while_a_removal_is_under_way() -> None:
    b = broker()
    connect(b, "s").subscribe("t", qos=2)
    publisher = connect(b, "p")
    publisher.publish("t", b"first", 2, pid=7)
    publisher.expect("PUBREC", pid=7)
    b.hold()
    publisher.ack("PUBREL", 7)
    publisher.ack("PUBREL", 7)
    publisher.expect_nothing()
    b.release()
    assert [publisher.expect("PUBCOMP", pid=7).reason for _ in range(2)] == [0, 0x92]


def test_a_duplicate_waits_for_the_same_commit_as_the_first() -> None:
    b = broker()
    connect(b, "s").subscribe("t", qos=2)
    publisher = connect(b, "p")
    b.hold()
    publisher.publish("t", b"x", 2, pid=7)
    publisher.publish("t", b"x", 2, pid=7, dup=True)
    publisher.expect_nothing()
    b.release()
    assert [publisher.expect("PUBREC").pid for _ in range(2)] == [7, 7]
    assert backlog_of(b, "s").count == 1


def test_qos_0_for_some_offline_sessions_has_a_copy_each() -> None:
    b = broker(mqueue_store_qos0_persistent=True)
    for name in ("one", "two", "three"):
        client = connect(b, name)
        client.subscribe("t", qos=1)
        if name != "two":
            client.drop()
    fill(b, "t", 1, qos=0)
    core = core_of(b)
    queues = [q for name in ("one", "two", "three") for q in session_of(b, name).backlogs()]
    owed = sum(n for q in queues for n in q.owed.values())
    assert sum(s.pending for s in core.segments.values()) == owed == 2
    for name in ("one", "three"):
        assert connect(b, name).expect("PUBLISH").qos == 0
    b.advance(2000)
    assert not core.segments


def test_upgraded_messages_are_kept_for_durable_sessions() -> None:
    b = broker(upgrade_qos=True)
    connect(b, "s").subscribe("t", qos=0)
    connect(b, "s").drop()
    fill(b, "t", 1, qos=1)
    b.crash()
    assert connect(b, "s").take().qos == 1


def test_nobody_publishes_what_the_broker_says_of_itself() -> None:
    b = broker()
    publisher = connect(b, "p")
    assert publisher.put("$SYS/x", b"", 1).reason == 0x87
    assert core_of(b).ledger.drops(0) == {"acl": 1}
    assert session_of(b, "p").awaiting == {}


def test_on_a_full_disk_qos_0_goes_on_but_is_not_retained() -> None:
    b = broker(store_bytes_max=10_000)
    client = connect(b, "s")
    client.subscribe("t", qos=0)
    publisher = connect(b, "p", clean=True)
    publisher.publish("t", b"old", 0, retain=True)
    b.router.on_store_usage(10_000, b.now)
    publisher.publish("t", b"new", 0, retain=True)
    assert [client.take().payload for _ in range(2)] == [b"old", b"new"]
    assert core_of(b).retained.get("t") is None
    assert core_of(b).ledger.drops(0) == {"disk": 1}
    publisher.publish("t", b"", 0, retain=True)
    assert core_of(b).ledger.drops(0) == {"disk": 1}, "clearing needs no room"


def test_retained_messages_wait_for_the_disk_at_qos_0_too() -> None:
    b = broker(pending_bytes_max=1_000)
    publisher = connect(b, "p", clean=True)
    b.hold()
    for n in range(9):
        publisher.publish(f"t/{n}", b"x" * 400, 0, retain=True)
    assert len(core_of(b).parked) == 1
    assert len(core_of(b).retained.match("t/#")) < 9
    b.release()
    b.pump()
    b.advance(2_000)
    assert not core_of(b).parked
    assert len(core_of(b).retained.match("t/#")) == 9
