"""The handshake of a dialled connection, and what only a client does."""

import pytest

from gateway.core.limits import NEVER
from gateway.core.uplink import BEAT, BOTH, CONNECTED, DENIED, IN, LOST, OUT, REFUSED, Rule
from gateway.mqtt.encode import encode
from gateway.mqtt.packets import (
    Ack,
    Connack,
    Connect,
    Disconnect,
    Filter,
    Pingreq,
    Pingresp,
    Publish,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from tests.core_rig import connect, fill, session_of
from tests.uplink_rig import Joined, Peer, configure, dial, events, gateway, kinds, login, settle, uplink

SESSION = "$uplink/up"
ALL = Rule(OUT, "#", "", "site/")


def test_connect_asks_for_a_session_that_stays() -> None:
    b = gateway(uplink(ALL), receive_maximum=77, max_packet_bytes=9999)
    peer = Peer(b.dial(login(keep_alive_s=60)))
    connect = peer.expect(Connect)
    assert (connect.version, connect.client_id, connect.clean_start, connect.keep_alive) == (5, "gateway-up", False, 60)
    assert (connect.username, connect.password, connect.will) == (None, None, None)
    properties = connect.properties
    assert properties is not None
    assert properties.session_expiry_interval == NEVER
    assert (properties.receive_maximum, properties.maximum_packet_size) == (77, 9999)
    assert properties.user_properties == [("uplink-origin", "g1")]


def test_connect_of_3_1_1_with_user_and_will() -> None:
    b = gateway(uplink(ALL))
    made = login(version=4)
    made.username, made.password, made.status_topic, made.keep_alive_s = "u", b"\xff\x00", "status", 7
    peer = Peer(b.dial(made))
    connect = peer.accept()
    assert (connect.version, connect.clean_start, connect.keep_alive) == (4, False, 7)
    assert (connect.username, connect.password) == ("u", b"\xff\x00")
    assert connect.will is not None
    assert (connect.will.topic, connect.will.payload, connect.will.qos, connect.will.retain) == (
        b"status",
        b"0",
        1,
        True,
    )
    up = peer.expect(Publish)
    assert (up.topic, up.payload, up.qos, up.retain) == (b"status", b"1", 0, True)
    peer.nothing()


@pytest.mark.parametrize("present", [False, True])
def test_accepted(present: bool) -> None:
    b = gateway(uplink(ALL))
    peer = dial(b)
    peer.accept(False)
    peer.link.close()
    assert kinds(b) == [CONNECTED, LOST]
    peer = dial(b)
    assert not session_of(b, SESSION).client
    peer.accept(present)
    (event,) = events(b)
    assert (event.kind, event.uplink, event.present) == (CONNECTED, "up", present)
    assert session_of(b, SESSION).client is peer.link.client
    row = b.router.uplinks.row("up", b.now)
    assert row is not None
    assert (row["connected"], row["session_present"], row["remote"]) == (True, present, "there:1883")


@pytest.mark.parametrize(("version", "code", "text"), [(5, 0x87, "not authorized"), (4, 5, "not authorized")])
def test_refused(version: int, code: int, text: str) -> None:
    b = gateway(uplink(ALL))
    peer = dial(b, version=version)
    peer.expect(Connect)
    peer.send(Connack(False, code))
    (event,) = events(b)
    assert (event.kind, event.code, event.text) == (REFUSED, code, text)
    assert peer.link.closed
    assert b.router.core.uplinks.calls == {}
    assert b.router.core.clients == {}


def test_a_remote_that_cannot_keep_the_promise_is_none() -> None:
    b = gateway(uplink(ALL))
    peer = dial(b)
    peer.accept(maximum_qos=0)
    assert [(event.kind, event.code) for event in events(b)] == [(REFUSED, 0x9B)]
    configure(b, uplink(ALL._replace(qos=0)))
    dial(b).accept(maximum_qos=0)
    assert kinds(b) == [CONNECTED]


def test_the_first_word_is_connack() -> None:
    b = gateway(uplink(ALL))
    peer = dial(b)
    peer.expect(Connect)
    peer.publish("t", b"x")
    assert peer.link.closed
    (event,) = events(b)
    assert (event.kind, event.text) == (LOST, "the first packet of a server is CONNACK")
    assert peer.packets() == []


def test_no_answer() -> None:
    b = gateway(uplink(ALL))
    peer = dial(b)
    peer.expect(Connect)
    b.advance(b.limits.connect_timeout_ms + 2000)
    assert peer.link.closed
    (event,) = events(b)
    assert (event.kind, event.text) == (LOST, "no answer to the CONNECT")


@pytest.mark.parametrize("packet", [Pingreq(), Connect(5, "x", True, 0), Connack(False, 0)])
def test_what_a_server_must_not_send_ends_the_connection(packet: Pingreq) -> None:
    b = gateway(uplink(ALL))
    peer = dial(b)
    peer.accept()
    peer.send(packet)
    said = peer.expect(Disconnect)
    assert said.reason == 0x82
    assert peer.link.closed
    assert kinds(b) == [CONNECTED, LOST]


@pytest.mark.parametrize("packet", [Subscribe(1, [Filter("#", 1)]), Unsubscribe(1, ["#"])])
def test_a_server_cannot_subscribe(packet: Subscribe) -> None:
    b = gateway(uplink(ALL._replace(filter="a/#")))
    peer = dial(b)
    peer.accept()
    peer.send(packet)
    assert peer.link.closed
    assert list(session_of(b, SESSION).subscriptions) == ["a/#"]


def test_the_window_is_the_smaller_one() -> None:
    for asked, own, window in ((5, 0, 5), (100, 0, 32), (100, 7, 7), (1, 7, 1)):
        up = uplink(ALL)
        up.window = own
        b = gateway(up)
        peer = dial(b)
        peer.accept(receive_maximum=asked)
        fill(b, "t", 150)
        assert len(peer.publishes()) == window, (asked, own)


def test_subscribes_to_what_it_is_to_bring() -> None:
    b = gateway(uplink(Rule(OUT, "o"), Rule(IN, "i/#", "l/", "r/", 2), Rule(BOTH, "b")))
    peer = dial(b)
    peer.accept()
    filters = peer.grant(2, 0x87).filters
    assert [(f.filter, f.qos, f.no_local, f.retain_as_published, f.retain_handling) for f in filters] == [
        ("r/i/#", 2, True, True, 0),
        ("b", 1, True, True, 0),
    ]
    found = events(b)
    assert [event.kind for event in found] == [CONNECTED, DENIED]
    assert (found[1].code, found[1].text) == (0x87, "b")
    peer.link.close()
    peer = dial(b)
    peer.accept(True)
    assert [f.retain_handling for f in peer.grant().filters] == [1, 1]


def test_subscribes_in_3_1_1() -> None:
    b = gateway(uplink(Rule(IN, "i")))
    peer = dial(b, version=4)
    peer.accept()
    assert [(f.filter, f.qos, f.no_local) for f in peer.grant(0x80).filters] == [("i", 1, False)]
    assert kinds(b) == [CONNECTED, DENIED]


def test_the_id_of_the_subscribe_is_none_that_is_in_flight() -> None:
    b = gateway(uplink(ALL, Rule(IN, "i")))
    s = session_of(b, SESSION)
    peer = dial(b)
    peer.accept()
    first = peer.grant().packet_id
    fill(b, "t", 1)
    (d,) = s.inflight.values()
    peer.link.close()
    del s.inflight[d.packet_id]
    d.packet_id = (s.next_id + 32_768) % 65_535 + 1
    s.inflight[d.packet_id] = d
    peer = dial(b)
    peer.accept(True)
    assert peer.expect(Subscribe).packet_id == d.packet_id + 1
    assert first != d.packet_id


def test_a_suback_that_answers_nothing_is_an_error() -> None:
    b = gateway(uplink(Rule(IN, "i")))
    peer = dial(b)
    peer.accept()
    peer.grant(1, 1)
    assert peer.link.closed


def test_pings_and_notices_when_none_is_answered() -> None:
    b = gateway(uplink(ALL))
    made = login()
    made.keep_alive_s = 10
    peer = Peer(b.dial(made))
    peer.accept()
    for _ in range(4):
        b.advance(6_000)
        peer.expect(Pingreq)
        peer.send(Pingresp())
    b.advance(17_000)
    assert isinstance(peer.packets()[-1], Disconnect)
    assert peer.link.closed
    found = events(b)
    assert (found[-1].kind, found[-1].text) == (LOST, "silent for longer than the keep alive allows")


def test_the_keep_alive_of_the_server_wins() -> None:
    b = gateway(uplink(ALL))
    peer = dial(b)
    peer.accept(server_keep_alive=4)
    b.advance(3_000)
    peer.expect(Pingreq)


def test_heartbeats_come_back_as_events_and_go_nowhere_else() -> None:
    b = gateway(uplink(ALL))
    made = login()
    made.beat_topic = "hb"
    assert not b.router.uplinks.beat("up", b"1", b.now)
    peer = Peer(b.dial(made))
    assert not b.router.uplinks.beat("up", b"1", b.now)
    peer.accept()
    (f,) = peer.grant().filters
    assert (f.filter, f.qos, f.no_local) == ("hb", 0, False)
    assert b.router.uplinks.beat("up", b"1", b.now)
    b.pump()
    sent = peer.expect(Publish)
    assert (sent.topic, sent.payload, sent.qos, sent.retain) == (b"hb", b"1", 0, False)
    peer.publish("hb", b"1")
    found = events(b)
    assert [event.kind for event in found] == [CONNECTED, BEAT]
    assert found[1].data == b"1"
    assert b.router.core.ledger.dropped(0) == 0
    assert b.router.uplinks.received("up") == 1
    peer.nothing()


def test_the_remote_says_why_it_leaves() -> None:
    b = gateway(uplink(ALL))
    peer = dial(b)
    peer.accept()
    peer.send(Disconnect(0x8B))
    assert peer.link.closed
    found = events(b)
    assert [(event.kind, event.code, event.text) for event in found[1:]] == [(LOST, 0x8B, "server shutting down")]


def test_closing_leaves_the_will_to_the_remote() -> None:
    """5.0 says so; 3.1.1 has no word for it but the close."""
    for version, said in ((5, [0x04]), (4, [])):
        b = gateway(uplink(ALL))
        peer = dial(b, version=version)
        peer.accept()
        b.router.uplinks.close("up", b.now)
        b.pump()
        assert [p.reason for p in peer.packets() if isinstance(p, Disconnect)] == said
        assert peer.link.closed
        assert kinds(b) == [CONNECTED, LOST]


def test_another_connection_takes_the_place_of_the_first() -> None:
    b = gateway(uplink(ALL))
    first = dial(b)
    first.accept()
    second = dial(b)
    assert first.link.closed
    second.accept()
    third = dial(b)
    assert second.link.closed
    third.accept()
    assert session_of(b, SESSION).client is third.link.client
    assert kinds(b) == [CONNECTED, LOST, CONNECTED, LOST, CONNECTED]


def test_what_was_in_flight_goes_again_with_its_id() -> None:
    b = gateway(uplink(ALL))
    peer = dial(b)
    peer.accept(receive_maximum=2)
    fill(b, "t", 4)
    sent = peer.publishes()
    assert [(p.payload, p.dup) for p in sent] == [(b"0", False), (b"1", False)]
    peer.puback(sent[0].packet_id)
    peer.publishes()
    peer.link.close()
    fill(b, "t", 1, start=4)
    peer = dial(b)
    peer.accept(True, receive_maximum=10)
    again = peer.publishes()
    assert [(p.payload, p.dup) for p in again] == [(b"1", True), (b"2", True), (b"3", False), (b"4", False)]
    assert again[0].packet_id == sent[1].packet_id
    for p in again:
        peer.puback(p.packet_id)
    assert session_of(b, SESSION).owed() == 0


def test_acknowledgements_of_a_gateway_that_brings() -> None:
    """Nobody subscribes: a client has no reason code for that."""
    b = gateway(uplink(Rule(IN, "#", "l/")))
    peer = dial(b)
    peer.accept()
    peer.grant()
    peer.publish("t", b"x", 1, 7)
    ack = peer.expect(Ack)
    assert (ack.packet_id, ack.reason) == (7, 0)


@pytest.mark.parametrize("version", [5, 4])
def test_what_has_too_many_levels_for_here_does_not_end_the_connection(version: int) -> None:
    """The remote would send it again on every one."""
    b = gateway(uplink(Rule(IN, "r/#")), max_topic_levels=4)
    peer = dial(b, version=version)
    peer.accept()
    peer.grant()
    peer.publish("r/a/b/c/d", b"deep", 1, packet_id=7)
    assert peer.expect(Ack).packet_id == 7
    peer.publish("r/a/b/c/d", b"deep")
    peer.nothing()
    assert b.router.core.ledger.drops(0) == {"acl": 2}


def test_by_3_1_1_a_gateway_is_no_remote_of_its_own() -> None:
    b = gateway(uplink(Rule(OUT, "a/#")))
    joined = Joined(b, b, login(version=4))
    settle(joined)
    assert joined.near.closed
    refused = [event.code for event in events(b) if event.kind == REFUSED]
    assert refused == [2]
    assert "leads to this gateway itself" in "".join(b.router.take_log())
    connect(b, "gateway-up", version=4)  # as which nobody dials any more


def test_subscriptions_come_in_packets_that_the_remote_takes() -> None:
    rules = [Rule(IN, f"topic/{number:02}/#") for number in range(20)] + [Rule(IN, "x" * 80)]
    b = gateway(uplink(*rules))
    peer = dial(b)
    peer.accept(maximum_packet_size=60)
    found: list[str] = []
    ids = set()
    while len(found) < 20:
        asked = peer.grant()
        assert len(encode(asked, 5)) <= 60
        found += [one.filter for one in asked.filters]
        ids.add(asked.packet_id)
    assert sorted(found) == [rule.filter for rule in rules[:20]]
    assert 6 <= len(ids) < 20
    peer.nothing()
    (denied,) = [event for event in events(b) if event.kind == DENIED]
    assert (denied.text, denied.code) == ("x" * 80, 0x95)
    b.router.uplinks.unsubscribe("up", [rule.filter for rule in rules], b.now)
    b.pump()
    gone: list[str] = []
    while len(gone) < 20:
        assert kinds(b) == []
        ended = peer.expect(Unsubscribe)
        assert len(encode(ended, 5)) <= 60
        gone += ended.filters
        peer.send(Unsuback(ended.packet_id, [0] * len(ended.filters)))
    assert sorted(gone) == sorted(found)
    assert kinds(b) == ["forgotten"], "once, when all are answered"
