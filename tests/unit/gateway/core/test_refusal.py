"""Reason codes of failure from the broker at the other end."""

import pytest

from gateway.core.refusal import BAD_MESSAGE, NOT_NOW, PAUSE_MS, PAUSE_MS_MAX
from gateway.core.uplink import OUT, Rule
from gateway.mqtt.packets import PUBCOMP, PUBREC, PUBREL, Ack, Disconnect, Publish
from gateway.mqtt.reasons import allowed
from tests.core_rig import fill, session_of
from tests.uplink_rig import Peer, dial, gateway, login, uplink

SESSION = "$uplink/up"
FAILURES = [code for code in range(0x80, 0x100) if allowed(4, code)]


def pause(b, peer: Peer, ms: int) -> list[Publish]:  # type: ignore[no-untyped-def]
    """What is sent when so much time has passed, and the second after it."""
    b.advance(ms - 1)
    peer.nothing()
    b.advance(1001)
    return peer.publishes()


def test_not_now_and_never_are_all() -> None:
    assert sorted(NOT_NOW) == [0x80, 0x83, 0x91, 0x97]
    assert sorted(set(FAILURES) - NOT_NOW) == [0x87, 0x90, 0x99]


@pytest.mark.parametrize("code", sorted(NOT_NOW))
@pytest.mark.parametrize("qos", [1, 2])
def test_not_now_is_sent_again_later_and_first(code: int, qos: int) -> None:
    b = gateway(uplink(Rule(OUT, "t", qos=2)))
    s = session_of(b, SESSION)
    peer = dial(b)
    peer.accept(receive_maximum=3)
    fill(b, "t", 5, qos=qos)
    sent = peer.publishes()
    kind = 4 if qos == 1 else PUBREC
    peer.send(Ack(kind, sent[0].packet_id, code))
    peer.send(Ack(kind, sent[1].packet_id, code))
    if qos == 1:
        peer.puback(sent[2].packet_id)
    else:
        peer.send(Ack(PUBREC, sent[2].packet_id))
        assert peer.expect(Ack).type == PUBREL
        peer.send(Ack(PUBCOMP, sent[2].packet_id))
    peer.nothing()
    assert s.owed() == 4
    row = b.router.uplinks.row("up", b.now)
    assert row is not None
    assert (row["pause_ms"], row["refused"]) == (PAUSE_MS, {f"0x{code:02X}": 2})
    again = pause(b, peer, PAUSE_MS)
    assert [(p.payload, p.dup) for p in again] == [(b"0", False), (b"1", False), (b"3", False)]
    assert not {p.packet_id for p in again} & {p.packet_id for p in sent}
    assert b.router.core.ledger.drops(s.sid) == {}


def test_pauses_grow_until_something_is_taken() -> None:
    b = gateway(uplink(Rule(OUT, "t")))
    peer = dial(b)
    peer.accept(receive_maximum=1)
    fill(b, "t", 2)
    wait = PAUSE_MS
    (p,) = peer.publishes()
    for _ in range(9):
        peer.puback(p.packet_id, 0x97)
        (p,) = pause(b, peer, wait)
        assert p.payload == b"0"
        wait = min(2 * wait, PAUSE_MS_MAX)
    assert wait == PAUSE_MS_MAX
    peer.puback(p.packet_id)
    (p,) = peer.publishes()
    peer.puback(p.packet_id, 0x97)
    assert [p.payload for p in pause(b, peer, PAUSE_MS)] == [b"1"]


def test_a_new_connection_does_not_wait() -> None:
    b = gateway(uplink(Rule(OUT, "t")))
    peer = dial(b)
    peer.accept()
    fill(b, "t", 1)
    peer.puback(peer.expect(Publish).packet_id, 0x80)
    peer.link.close()
    peer = dial(b)
    peer.accept(True)
    assert [(p.payload, p.dup) for p in peer.publishes()] == [(b"0", False)]


@pytest.mark.parametrize("code", sorted(set(FAILURES) - NOT_NOW))
@pytest.mark.parametrize("qos", [1, 2])
def test_never_is_counted_and_the_next_goes(code: int, qos: int) -> None:
    b = gateway(uplink(Rule(OUT, "t", qos=2)))
    s = session_of(b, SESSION)
    peer = dial(b)
    peer.accept(receive_maximum=1)
    fill(b, "t", 2, qos=qos)
    peer.send(Ack(4 if qos == 1 else PUBREC, peer.expect(Publish).packet_id, code))
    assert peer.take().payload == b"1"
    assert b.router.core.ledger.drops(s.sid) == {"refused": 1}
    assert (s.owed(), len(s.inflight), s.used) == (0, 0, 0)
    assert (s.matched, s.settled) == (2, 1)


def test_0x10_is_success() -> None:
    b = gateway(uplink(Rule(OUT, "t")))
    peer = dial(b)
    peer.accept()
    fill(b, "t", 1)
    peer.puback(peer.expect(Publish).packet_id, 0x10)
    s = session_of(b, SESSION)
    assert (s.owed(), s.settled) == (0, 1)


@pytest.mark.parametrize("code", sorted(BAD_MESSAGE))
def test_the_one_for_which_the_connection_ends_is_found(code: int) -> None:
    b = gateway(uplink(Rule(OUT, "t")))
    s = session_of(b, SESSION)
    fill(b, "t", 7)
    got: list[bytes] = []
    for window in (3, 1, 3):
        peer = dial(b)
        peer.accept(len(got) > 0, receive_maximum=3)
        while found := peer.publishes():
            assert len(found) <= window
            if b"2" in [p.payload for p in found]:
                peer.send(Disconnect(code))
                break
            for p in found:
                got.append(p.payload)
                peer.puback(p.packet_id)
    assert got == [b"%d" % n for n in (0, 1, 3, 4, 5, 6)]
    assert b.router.core.ledger.drops(s.sid) == {"refused": 1}
    assert not b.router.core.uplinks.careful


def test_a_window_opens_again_when_none_was_bad() -> None:
    b = gateway(uplink(Rule(OUT, "t")))
    fill(b, "t", 9)
    peer = dial(b)
    peer.accept(receive_maximum=3)
    assert len(peer.publishes()) == 3
    peer.send(Disconnect(0x95))
    peer = dial(b)
    peer.accept(True, receive_maximum=3)
    for n in range(3):
        assert peer.take().payload == b"%d" % n
    b.advance(2000)
    assert len(peer.publishes()) == 3


def test_a_server_that_leaves_for_another_reason_blames_no_message() -> None:
    b = gateway(uplink(Rule(OUT, "t")))
    fill(b, "t", 1)
    peer = dial(b)
    peer.accept()
    peer.expect(Publish)
    peer.send(Disconnect(0x8B))
    assert session_of(b, SESSION).owed() == 1
    assert b.router.core.ledger.drops(session_of(b, SESSION).sid) == {}


def test_refused_while_it_is_held_back_from_the_disk() -> None:
    """Its publisher is answered when the disk has it, and it is sent again."""
    b = gateway(uplink(Rule(OUT, "t")), commit_window_ms=20)
    peer = dial(b)
    peer.accept()
    fill(b, "t", 1)  # returns when it is acknowledged: time passes for that
    peer.puback(peer.expect(Publish).packet_id, 0x97)
    assert [p.payload for p in pause(b, peer, PAUSE_MS)] == [b"0"]


def test_no_message_is_refused_for_a_status_or_heartbeat_that_ends_the_connection() -> None:
    """A remote may end it for who publishes below $SYS, or for a status topic that is too long for it."""
    b = gateway(uplink(Rule(OUT, "t")))
    s = session_of(b, SESSION)
    fill(b, "t", 5)
    made = login()
    made.status_topic, made.beat_topic = "$SYS/status", "beat"
    got: list[bytes] = []
    while s.owed():
        peer = Peer(b.dial(made))
        peer.accept(True, receive_maximum=1)
        b.router.uplinks.beat("up", b"1", b.now)
        peer.grant()
        for p in peer.publishes():
            if p.topic != b"t":
                peer.send(Disconnect(0x90))
                break
            got.append(p.payload)
            peer.puback(p.packet_id)
    assert got == [b"%d" % n for n in range(5)]
    assert b.router.core.ledger.drops(s.sid) == {}


def test_the_status_is_told_when_none_was_bad() -> None:
    b = gateway(uplink(Rule(OUT, "t")))
    fill(b, "t", 1)
    made = login()
    made.status_topic = "status"
    peer = Peer(b.dial(made))
    peer.accept()
    assert [p.topic for p in peer.publishes()] == [b"status", b"t"]
    peer.send(Disconnect(0x90))
    peer = Peer(b.dial(made))
    peer.accept(True)
    assert peer.take().topic == b"t"
    b.advance(2000)
    assert [(p.topic, p.payload) for p in peer.publishes()] == [(b"status", b"1")]
