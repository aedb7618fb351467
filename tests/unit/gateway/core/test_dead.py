"""What a remote refuses for good is kept before it leaves the queue."""

import pytest

from gateway.core.origin import pair
from gateway.core.uplink import OUT, Rule, Uplink
from gateway.mqtt.packets import Publish
from tests.core_rig import backlog_of, broker, connect, fill, session_of
from tests.uplink_rig import configure, dial, gateway, uplink

SESSION = "$uplink/up"


def with_dead_letter() -> Uplink:
    up = uplink(Rule(OUT, "t/#"))
    up.dead_topic = "$uplink/up/dead"
    return up


def test_the_copy_is_kept_for_who_comes_for_it() -> None:
    b = gateway(with_dead_letter())
    peer = dial(b)
    peer.accept()
    connect(b, "p").put("t/1", b"bad", 1, content_type="text")
    peer.puback(peer.expect(Publish).packet_id, 0x99)
    s = session_of(b, SESSION)
    assert b.router.core.ledger.drops(s.sid) == {"refused": 1}
    assert s.owed() == 0
    b.crash()
    reader = connect(b, "$dead/up")
    assert reader.connack.session_present
    got = reader.take()
    assert (got.topic, got.payload, got.qos) == ("$uplink/up/dead/t/1", b"bad", 1)
    assert got.props["content_type"] == "text"
    assert ("uplink-refused", "0x99") in got.props["user_property"]
    assert ("uplink", "up") in got.props["user_property"]
    row = gateway(with_dead_letter()).router.uplinks.row("up", 0)
    assert row is not None
    assert (row["dead_topic"], row["dead_session"]) == ("$uplink/up/dead", "$dead/up")


def test_the_original_stays_until_the_copy_is_on_disk() -> None:
    b = gateway(with_dead_letter())
    peer = dial(b)
    peer.accept()
    fill(b, "t/1", 1)
    sent = peer.expect(Publish)
    b.hold()
    peer.puback(sent.packet_id, 0x87)
    s = session_of(b, SESSION)
    assert (s.owed(), len(s.inflight), backlog_of(b, "$dead/up").count) == (1, 0, 1)
    assert b.router.core.ledger.drops(s.sid) == {}
    b.crash()  # before that: it goes out again
    configure(b, with_dead_letter())
    assert backlog_of(b, "$dead/up").count == 0
    peer = dial(b)
    peer.accept(True)
    peer.puback(peer.expect(Publish).packet_id, 0x87)
    assert (session_of(b, SESSION).owed(), backlog_of(b, "$dead/up").count) == (0, 1)


def test_too_large_and_without_a_rule_are_kept_too() -> None:
    b = gateway(with_dead_letter())
    connect(b, "p").put("t/big", b"x" * 500, 1)
    fill(b, "t/1", 1)
    peer = dial(b)
    peer.accept(maximum_packet_size=300)
    assert [p.payload for p in peer.publishes()] == [b"0"]
    reader = connect(b, "$dead/up")
    got = reader.take()
    assert (got.topic, len(got.payload)) == ("$uplink/up/dead/t/big", 500)
    assert ("uplink-refused", "too_large") in got.props["user_property"]


def test_a_full_disk_puts_it_off() -> None:
    b = gateway(with_dead_letter())
    peer = dial(b)
    peer.accept(receive_maximum=1)
    fill(b, "t/1", 3)
    b.router.core.limits.store_bytes_max = 1
    peer.puback(peer.expect(Publish).packet_id, 0x99)
    peer.nothing()
    s = session_of(b, SESSION)
    assert s.owed() == 3
    b.router.core.limits.store_bytes_max = 0
    b.advance(3000)
    assert peer.take().payload == b"1"
    b.advance(3000)
    assert backlog_of(b, "$dead/up").count == 1
    assert b.router.core.ledger.drops(s.sid) == {"refused": 1}


def test_a_session_that_ends_meanwhile_counts_once() -> None:
    b = gateway(with_dead_letter())
    peer = dial(b)
    peer.accept()
    fill(b, "t/1", 1)
    sent = peer.expect(Publish)
    b.hold()
    peer.puback(sent.packet_id, 0x87)
    sid = session_of(b, SESSION).sid
    b.router.remove_session(SESSION, b.now)
    b.release()
    assert b.router.core.ledger.drops(0).get("refused") is None
    assert b.router.core.ledger.drops(0)["session_end"] == 1
    assert b.router.core.ledger.drops(sid) == {}
    assert not b.router.core.uplinks.buried


def test_a_publisher_that_waits_is_answered_when_the_copy_is_kept() -> None:
    """Delivered before durable: nothing of it is on disk when the remote refuses it."""
    b = gateway(with_dead_letter(), commit_window_ms=20)
    peer = dial(b)
    peer.accept()
    publisher = connect(b, "p", clean=True, expiry=0)
    pid = publisher.publish("t/1", b"x", 1)
    sent = peer.expect(Publish)
    b.hold()
    peer.puback(sent.packet_id, 0x99)
    assert publisher.link.inbox == b""  # type: ignore[attr-defined]
    b.release()
    publisher.expect("PUBACK", pid=pid, reason=0)
    assert backlog_of(b, "$dead/up").count == 1


def test_a_reader_that_ends_the_session_does_not_end_the_dead_letter() -> None:
    b = gateway(with_dead_letter())
    peer = dial(b)
    peer.accept()
    for end in ("expiry", "unsubscribe", "remove"):
        reader = connect(b, "$dead/up", expiry=0 if end == "expiry" else 100)
        if end == "unsubscribe":
            reader.unsubscribe("$uplink/up/dead/#")
        reader.drop()
        if end == "remove":
            b.router.remove_session("$dead/up", b.now)
        fill(b, "t/1", 1)
        peer.puback(peer.expect(Publish).packet_id, 0x99)
        assert backlog_of(b, "$dead/up").count == 1
        connect(b, "$dead/up").take()


def test_the_name_of_a_copy_may_become_too_long() -> None:
    b = gateway(with_dead_letter())
    peer = dial(b)
    peer.accept()
    connect(b, "p").put("t/" + "x" * 65_533, b"", 1)
    peer.puback(peer.expect(Publish).packet_id, 0x99)
    assert backlog_of(b, "$dead/up").count == 0
    assert b.router.core.ledger.drops(session_of(b, SESSION).sid) == {"refused": 1}


def test_pairs_are_user_properties() -> None:
    assert pair(b"k", b"v") == b"\x26\x00\x01k\x00\x01v"
    assert broker().router.core.uplinks.dead == []


@pytest.mark.parametrize("others", [False, True])
def test_a_copy_that_is_refused_as_well_is_counted_and_copied_no_more(others: bool) -> None:
    """The rules lead the dead letters to the remote too; with two uplinks each sends the other's."""
    ups = [uplink(Rule(OUT, "#"), name=name) for name in (("up", "second") if others else ("up",))]
    for up in ups:
        up.dead_topic = f"dead/{up.name}"
    b = gateway(*ups)
    peers = [dial(b, up.name) for up in ups]
    for peer in peers:
        peer.accept()
    connect(b, "p").put("t", b"bad", 1)
    topics = []
    for _ in range(20):
        for peer in peers:
            for p in peer.publishes():
                topics.append(p.topic.decode())
                peer.puback(p.packet_id, 0x99)
    if others:
        assert max(topics, key=len) in ("dead/up/dead/second/t", "dead/second/dead/up/t")
    else:
        assert topics == ["t", "dead/up/t"]
    assert session_of(b, SESSION).owed() == 0
    assert b.router.core.ledger.drops(session_of(b, SESSION).sid) == {"refused": len(topics) // len(ups)}
