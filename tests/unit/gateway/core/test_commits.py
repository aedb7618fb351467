"""One commit: target sets once, messages that must wait, only what somebody still needs."""

import random

import pytest

from gateway.core.batch import Batch
from gateway.core.commits import pack_targets
from gateway.core.model import Session, Target
from gateway.core.record import unpack_segment_targets, unpack_state, unpack_targets
from gateway.core.stall import take_batch
from tests.core_rig import backlog_of, broker, connect, core_of, fill, session_of
from tests.memory import entries


def test_a_target_set_is_written_once_however_many_messages_it_has() -> None:
    b = broker()
    for name in ("one", "two"):
        connect(b, name).subscribe("t/#", qos=1)
    connect(b, "three").subscribe("t/b", qos=1)
    publisher = connect(b, "p", clean=True)
    b.hold()
    publisher.publish("t/first", b"", 1)  # a commit of its own, under way
    for topic in ("t/a", "t/b", "t/a", "t/c"):
        publisher.publish(topic, b"x", 1)
    b.release_one()
    batch = b.submitted
    assert batch is not None
    _, _, _, sets = unpack_segment_targets(batch.targets)
    assert sorted((s.messages, len(s.targets)) for s in sets) == [(1, 3), (3, 2)]
    assert [e.message.topic for e in entries(batch.records)] == [b"t/a", b"t/b", b"t/a", b"t/c"]


def test_a_commit_that_failed_goes_on_without_its_messages_and_these_are_tried_again() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    publisher = connect(b, "p", clean=True)
    b.hold()
    publisher.publish("t", b"x", 1)
    first = b.submitted
    assert first is not None
    b.fail()
    publisher.publish("t", b"later", 1)
    rest = b.submitted
    assert rest is not None
    assert (rest.number, rest.segment_id, rest.records) == (first.number, 0, b"")
    assert rest.dead_segments == [first.segment_id], "a sync that failed may have left it on disk"
    for name in ("sessions", "counters", "meta"):
        assert getattr(rest, name) == getattr(first, name), name
    b.release_one()
    assert take_batch(core_of(b), b.now + 499) is None
    again = take_batch(core_of(b), b.now + 500)
    assert again is not None
    assert again.segment_id > first.segment_id
    assert again.records == first.records


def test_what_is_acknowledged_before_its_commit_is_closed_is_not_written() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    publisher = connect(b, "p", clean=True)
    b.hold()
    publisher.publish("t", b"0", 1)
    pid = publisher.publish("t", b"1", 1)
    client.take()
    client.take()
    publisher.expect_nothing()  # the first is on its way to the disk, and the second is answered after it
    b.release_one()
    publisher.expect("PUBACK", pid=pid - 1)
    publisher.expect("PUBACK", pid=pid)
    assert b.submitted is None or not b.submitted.segment_id
    b.release()
    b.advance(2000)
    assert not b.store.segments
    assert backlog_of(b, "s").count == 0


def test_the_state_row_says_what_is_settled() -> None:
    b = broker()
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    fill(b, "t", 3)
    got = [client.expect("PUBLISH") for _ in range(3)]
    client.ack("PUBACK", got[1].pid)
    b.advance(2000)
    s = session_of(b, "s")
    state = unpack_state(b.store.cursors[s.sid])
    assert len(state.ahead) == 1
    assert state.cursor == state.ahead[0] - 2
    assert state.id_end >= s.next_id


def test_targets_are_packed_with_their_owner() -> None:
    one = Target(Session(300, "a"), None, 1, False, True, [7])
    assert pack_targets([one]) == b"\xac\x02\x0d\x01\x07"


@pytest.mark.parametrize("seed", range(20))
def test_neighbours_with_the_same_options_are_packed_as_one(seed: int) -> None:
    chance = random.Random(seed)
    sids = chance.sample(range(1, 400), chance.choice([2, 50, 300]))
    made = [
        Target(Session(sid, str(sid)), None, chance.choice([1, 1, 1, 2]), False, chance.random() < 0.1, ids)
        for sid in sids
        for ids in [[sid] if chance.random() < 0.1 else None]
    ]
    wanted = sorted([(t.owner.sid, t.qos, t.retain_as_published, t.identifiers) for t in made if t.owner is not None])
    found = [(t.sid, t.qos, t.retain_as_published, t.identifiers) for t in unpack_targets(pack_targets(made))]
    assert found == wanted


def test_many_readers_of_a_stream_cost_as_much_as_one() -> None:
    readers = [Target(Session(sid, str(sid)), None, 1, False, False, None) for sid in range(200, 250)]
    assert len(pack_targets(readers)) == len(pack_targets(readers[:1])) + 1


def test_drops_of_memory_sessions_are_not_stored() -> None:
    """Their sids are given anew after a crash."""
    b = broker(max_mqueue_len=1, counter_commit_ms=0)
    client = connect(b, "m", clean=True, expiry=0, receive_maximum=1)
    client.subscribe("t", qos=1)
    fill(b, "t", 5)
    b.advance(3000)
    assert core_of(b).ledger.dropped(session_of(b, "m").sid) > 0
    assert [key for key in b.store.counters if key[0]] == []
    assert b.store.counters[0, "dropped.queue_full"] > 0


def test_a_cursor_is_written_once_a_second_and_not_with_each_commit() -> None:
    b = broker(sys_interval_ms=0)
    client = connect(b, "s")
    client.subscribe("t", qos=1)
    b.advance(3000)
    sid = session_of(b, "s").sid
    giver = connect(b, "giver", clean=True, expiry=0)
    rows = []
    real = b.store.apply

    def watching(batch: Batch) -> None:
        rows.append(sid in batch.cursors)
        real(batch)

    b.store.apply = watching  # type: ignore[method-assign]
    for number in range(20):
        giver.put("t", b"%d" % number)
        client.take()
    assert len(rows) >= 20
    assert not any(rows)
    b.advance(1000)
    assert rows[-1]
    b.crash()
    connect(b, "s").expect_nothing()


def test_a_drop_is_counted_with_the_cursor_that_passed_it() -> None:
    b = broker(sys_interval_ms=0)
    client = connect(b, "s", maximum_packet_size=60)
    client.subscribe("t", qos=1)
    giver = connect(b, "giver", clean=True, expiry=0)
    giver.put("t", bytes(100))  # too large for it: dropped
    giver.put("t", b"x")
    client.take()
    b.crash()
    connect(b, "s", maximum_packet_size=60)
    row = b.router.session("s", b.now)
    assert row is not None
    assert row["drops"] == {"too_large": 1}
