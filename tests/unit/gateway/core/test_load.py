"""The way back from the disk, also from a damaged one: what can be read lives on, the rest is said."""

from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of
from tests.memory import MemoryBroker


def filled() -> MemoryBroker:
    b = broker()
    for name in ("a", "b"):
        client = connect(b, name)
        client.subscribe("t", qos=1)
        client.drop()
    fill(b, "t", 3)
    return b


def read(b: MemoryBroker, name: str) -> list[bytes]:
    return [got.payload for got in connect(b, name).take_all()]


def test_all_comes_back() -> None:
    b = filled()
    b.crash()
    assert backlog_of(b, "a").count == 3
    assert read(b, "a") == [b"0", b"1", b"2"]
    assert read(b, "b") == [b"0", b"1", b"2"]
    b.advance(2000)
    assert not b.store.segments


def test_a_damaged_state_row_means_that_all_is_sent_again() -> None:
    b = filled()
    sid = session_of(b, "a").sid
    b.store.cursors[sid] = b.store.cursors[sid][:-1]
    b.crash()
    assert read(b, "a") == [b"0", b"1", b"2"]
    assert any("damaged" in line for line in b.router.take_log() + b.router.take_alarms())


def test_damaged_targets_are_read_from_the_records() -> None:
    b = filled()
    id = next(iter(b.store.segments))
    last, targets, records = b.store.segments[id]
    b.store.segments[id] = last, targets[:-1], records
    b.crash()
    assert read(b, "a") == [b"0", b"1", b"2"]
    assert read(b, "b") == [b"0", b"1", b"2"]


def test_a_segment_that_is_damaged_in_both_is_said_and_let_go() -> None:
    b = filled()
    id = next(iter(b.store.segments))
    last, targets, records = b.store.segments[id]
    b.store.segments[id] = last, targets[:-1], records[:-1]
    b.crash()
    assert any("damaged" in line for line in b.router.take_log() + b.router.take_alarms())
    assert read(b, "a") == [b"1", b"2"]
    b.advance(2000)
    assert id not in b.store.segments


def test_a_damaged_retained_message_and_will_are_left_out() -> None:
    b = broker()
    connect(b, "p").put("r", b"kept", 1, retain=True)
    connect(b, "s", will=("w", b"gone", 1, False))
    b.store.retained["r"] = b.store.retained["r"][:-1]
    b.store.wills["s"] = b"\x00"
    b.crash()
    assert core_of(b).retained.get("r") is None
    assert not core_of(b).stored_wills
    log = b.router.take_log() + b.router.take_alarms()
    assert len([line for line in log if "damaged" in line]) == 2


def test_a_group_without_members_ends_with_the_start() -> None:
    """Its only durable member was there in memory: nobody can ever take from it."""
    b = broker()
    client = connect(b, "s")
    client.subscribe("$share/g/t", qos=1)
    client.drop()
    fill(b, "t", 2)
    for key in list(b.store.subscriptions):
        del b.store.subscriptions[key]
    b.crash()
    b.advance(2000)
    assert not core_of(b).groups
    assert not b.store.segments


def test_a_group_whose_row_is_lost_is_made_anew() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("$share/g/t", qos=1)
    client.drop()
    sid = core_of(b).groups["$share/g/t"].sid
    del b.store.sessions[sid]
    b.store.cursors.pop(sid, None)
    b.crash()
    fill(b, "t", 2)
    b.crash()
    assert read(b, "s") == [b"0", b"1"]


def test_sids_and_positions_are_never_given_twice() -> None:
    b = filled()
    sids = set(b.store.sessions)
    b.crash()
    fill(b, "t", 1, start=3)
    connect(b, "c")
    assert session_of(b, "c").sid not in sids
    assert read(b, "a") == [b"0", b"1", b"2", b"3"]
