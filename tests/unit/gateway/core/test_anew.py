"""A broker at the other end that does not know the session."""

import pytest

from gateway.core.model import RELEASED, SENT, STAGED
from gateway.core.uplink import IN, OUT, Rule
from gateway.mqtt.packets import PUBCOMP, PUBREC, PUBREL, Ack
from tests.core_rig import connect, fill, session_of
from tests.uplink_rig import dial, gateway, uplink

SESSION = "$uplink/up"


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_was_in_flight_goes_again_as_new(qos: int, elsewhere: bool, crash: bool) -> None:
    """Also where another broker takes over that knows the client id from another time."""
    up = uplink(Rule(OUT, "t", qos=2))
    b = gateway(up)
    peer = dial(b)
    peer.accept(receive_maximum=3)
    fill(b, "t", 6, qos=qos)
    sent = peer.publishes()
    assert [p.payload for p in sent] == [b"0", b"1", b"2"]
    if crash:
        b.crash()
        b.router.uplinks.configure([up], "g1", 8, b.now)
    else:
        peer.link.close()
    peer = dial(b, remote="other:1883" if elsewhere else "there:1883")
    peer.accept(elsewhere)
    again = []
    while found := peer.publishes():
        assert not any(p.dup for p in found)
        again += found
        for p in found:
            assert p.packet_id not in [one.packet_id for one in sent]
            if qos == 1:
                peer.puback(p.packet_id)
            else:
                peer.send(Ack(PUBREC, p.packet_id))
                assert peer.expect(Ack).type == PUBREL
                peer.send(Ack(PUBCOMP, p.packet_id))
    assert [p.payload for p in again] == [b"%d" % n for n in range(6)]
    s = session_of(b, SESSION)
    assert (s.owed(), len(s.inflight), s.used, s.staged) == (0, 0, 0, 0)
    assert s.matched == s.settled == 6


def test_each_state_of_a_qos_2_delivery() -> None:
    """Received there: over. On its way to the disk, or sent: again, in its place."""
    b = gateway(uplink(Rule(OUT, "t", qos=2)))
    peer = dial(b)
    peer.accept()
    fill(b, "t", 2, qos=2)
    first, second = peer.publishes()
    peer.send(Ack(PUBREC, first.packet_id))
    peer.expect(Ack)
    s = session_of(b, SESSION)
    assert [d.state for d in s.inflight.values()] == [RELEASED, SENT]
    peer.link.close()
    peer = dial(b)
    peer.accept(False)
    found = peer.publishes()
    assert [(p.payload, p.dup) for p in found] == [(b"1", False)]
    assert found[0].packet_id != second.packet_id
    assert (s.settled, s.matched) == (1, 2)


def test_staged_when_the_connection_went() -> None:
    b = gateway(uplink(Rule(OUT, "t", qos=2)))
    peer = dial(b)
    peer.accept()
    b.hold()
    publisher = connect(b, "p", clean=True, expiry=0)
    publisher.publish("t", b"x", 2)
    s = session_of(b, SESSION)
    assert [d.state for d in s.inflight.values()] == [STAGED]
    ids = set(s.inflight)
    peer.link.close()
    peer = dial(b)
    peer.accept(False)
    assert (s.staged, len(s.inflight)) == (1, 1)  # with another id
    assert not ids & set(s.inflight)
    b.release()
    p = peer.take()
    assert (p.payload, p.dup, p.qos) == (b"x", False, 2)
    assert (s.owed(), len(s.inflight), s.used, s.staged) == (0, 0, 0, 0)


def test_ids_that_came_from_the_remote_mean_nothing_any_more() -> None:
    b = gateway(uplink(Rule(IN, "t")))
    reader = connect(b, "r")
    reader.subscribe("t", qos=2)
    for present, new in ((False, True), (True, False), (False, True)):
        peer = dial(b)
        peer.accept(present)
        peer.grant()
        peer.publish("t", b"x", 2, 5)
        assert peer.expect(Ack).type == PUBREC
        if new:
            assert reader.take().payload == b"x"
        else:
            reader.expect_nothing()
        peer.link.close()
