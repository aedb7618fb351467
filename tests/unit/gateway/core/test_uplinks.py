"""Uplinks as they are configured: their sessions and what those subscribe to; and two gateways joined by them."""

import pytest

from gateway.core.uplink import BOTH, CONNECTED, FORGOTTEN, IN, LOST, OUT, Rule, Uplink
from gateway.mqtt.packets import PUBCOMP, PUBREC, PUBREL, Ack, Disconnect, Unsuback, Unsubscribe
from tests.conformance.client import Client
from tests.core_rig import broker, connect, fill, session_of
from tests.memory import MemoryBroker
from tests.uplink_rig import Joined, configure, dial, events, gateway, kinds, login, settle, uplink

SESSION = "$uplink/up"


def subscribed(b: MemoryBroker) -> list[tuple[str, int, bool, bool]]:
    found = session_of(b, SESSION).subscriptions.values()
    return sorted((sub.filter, sub.qos, sub.no_local, sub.retain_as_published) for sub in found)


def test_a_session_queues_from_the_first_moment_and_over_a_crash() -> None:
    b = gateway(uplink(Rule(OUT, "t", "l/", "r/")))
    fill(b, "l/t", 2)
    b.crash()
    assert session_of(b, SESSION).owed() == 2
    fill(b, "l/t", 1, start=2)
    configure(b, uplink(Rule(OUT, "t", "l/", "r/")))
    peer = dial(b)
    peer.accept()
    assert [peer.take().payload for _ in range(3)] == [b"0", b"1", b"2"]


def test_rules_become_subscriptions_and_change_with_them() -> None:
    b = gateway(uplink(Rule(OUT, "a", "l/"), Rule(OUT, "a", "l/", "x/", 2), Rule(IN, "i"), Rule(BOTH, "b")))
    assert subscribed(b) == [("b", 1, True, True), ("l/a", 2, True, True)]
    b.crash()
    configure(b, uplink(Rule(OUT, "a", "l/", qos=0), Rule(OUT, "c")))
    assert subscribed(b) == [("c", 1, False, True), ("l/a", 0, False, True)]
    b.crash()
    assert subscribed(b) == [("c", 1, False, True), ("l/a", 0, False, True)]


def test_a_rule_that_is_no_filter_is_named_and_the_others_hold() -> None:
    b = gateway(uplink(Rule(OUT, "a/#/b"), Rule(OUT, "c")))
    assert subscribed(b) == [("c", 1, False, True)]
    assert [line for line in b.router.take_alarms() if "a/#/b" in line]


def test_limits_are_those_of_the_session() -> None:
    up = uplink(Rule(OUT, "t"))
    up.max_bytes, up.max_age_s, up.max_rate, up.max_bytes_s = 1000, 60, 5, 700
    b = gateway(up)
    s = session_of(b, SESSION)
    assert (s.max_bytes, s.max_age_ms, s.drain_rate, s.drain_bytes, s.paced) == (1000, 60_000, 5, 700, True)
    b.router.reload(b.limits, b.now)
    assert (s.max_bytes, s.max_age_ms, s.drain_rate, s.drain_bytes, s.paced) == (1000, 60_000, 5, 700, True)
    configure(b, uplink(Rule(OUT, "t")))
    assert (s.max_bytes, s.max_age_ms, s.drain_rate, s.drain_bytes, s.paced) == (0, 0, 0, 0, False)


def test_a_crash_repeats_what_was_settled_last_and_the_window() -> None:
    """Who drains fast must not get a second's worth once more."""
    up = uplink(Rule(OUT, "t"))
    b = gateway(up)
    fill(b, "t", 100)
    peer = dial(b)
    peer.accept(receive_maximum=10)
    got = []
    for _ in range(57):
        got.append(int(peer.take().payload))
        b.advance(1)
    b.crash()
    configure(b, up)
    peer = dial(b)
    peer.accept(True, receive_maximum=10)
    again: list[int] = []
    while not again or again[-1] != 99:
        again.append(int(peer.take().payload))
    assert got == list(range(57))
    assert 57 - again[0] <= 16


def test_what_waits_too_long_falls_off_and_is_counted() -> None:
    up = uplink(Rule(OUT, "t"))
    up.max_age_s = 10
    b = gateway(up)
    fill(b, "t", 3)
    b.advance(30_000)
    fill(b, "t", 1, start=3)
    peer = dial(b)
    peer.accept()
    assert peer.take().payload == b"3"
    assert b.router.core.ledger.drops(session_of(b, SESSION).sid) == {"retention": 3}


@pytest.mark.parametrize("online", [False, True])
def test_what_comes_is_dropped_when_that_is_asked_for(online: bool) -> None:
    up = uplink(Rule(OUT, "t"))
    up.max_bytes, up.drop_newest = 1000, True
    b = gateway(up)
    s = session_of(b, SESSION)
    peer = dial(b)
    peer.accept(receive_maximum=1)
    if not online:
        peer.link.close()
    other = connect(b, "other")
    other.subscribe("t", qos=1)
    publisher = connect(b, "p")
    for n in range(15):
        publisher.put("t", b"%03d" % n + b"x" * 96, 1)
    assert (s.owed(), b.router.core.ledger.drops(s.sid)) == (10, {"queue_full": 5})
    assert len(other.take_all()) == 15
    b.crash()
    configure(b, up)
    fill(b, "t", 1)  # there is no room for it either
    peer = dial(b)
    peer.accept(True, receive_maximum=1)
    assert [int(peer.take().payload[:3]) for _ in range(10)] == list(range(10))
    assert (s.owed(), session_of(b, SESSION).owed()) == (10, 0)
    fill(b, "t", 1, start=99)
    assert peer.take().payload == b"99"


def test_bytes_per_second_of_the_queue() -> None:
    up = uplink(Rule(OUT, "t"))
    up.max_bytes_s = 1000
    b = gateway(up)
    publisher = connect(b, "p")
    for _ in range(20):
        publisher.put("t", b"x" * 499, 1)
    peer = dial(b)
    peer.accept()
    got = len(peer.publishes())
    b.advance(5000)
    later = len(peer.publishes())
    assert 1 <= got <= 2
    assert 9 <= later <= 11


def test_what_comes_overtakes_what_waits_where_the_rule_says_so() -> None:
    rules = [Rule(OUT, "now/#", live_first=True), Rule(OUT, "t")]
    b = gateway(uplink(*rules))
    s = session_of(b, SESSION)
    fill(b, "now/1", 2)
    fill(b, "t", 2, start=2)
    assert s.ranks is None
    peer = dial(b)
    peer.accept(receive_maximum=1)
    fill(b, "now/1", 2, start=4)
    fill(b, "t", 1, start=6)
    got = [peer.take().payload for _ in range(3)]
    assert got == [b"0", b"4", b"5"]
    peer.link.close()
    b.advance(2000)
    fill(b, "now/1", 1, start=7)  # nobody is there: it waits as all do
    b.crash()
    configure(b, uplink(*rules))
    peer = dial(b)
    peer.accept(True, receive_maximum=1)
    fill(b, "now/1", 1, start=8)
    got = [peer.take().payload for _ in range(6)]
    assert got == [b"1", b"8", b"2", b"3", b"6", b"7"]
    assert session_of(b, SESSION).owed() == 0


def test_a_changed_rule_ends_the_connection_a_changed_limit_does_not() -> None:
    b = gateway(uplink(Rule(OUT, "t")))
    peer = dial(b)
    peer.accept()
    up = uplink(Rule(OUT, "t"))
    up.max_rate = 5
    configure(b, up)
    peer.nothing()
    configure(b, uplink(Rule(OUT, "t", "", "x/")))
    assert peer.link.closed
    assert kinds(b) == [CONNECTED, LOST]


def test_an_uplink_that_is_configured_no_more() -> None:
    b = gateway(uplink(Rule(OUT, "t")), uplink(Rule(OUT, "t"), name="idle"))
    fill(b, "t", 1)
    peer = dial(b, "idle")
    peer.accept()
    peer.take()
    configure(b)
    assert peer.link.closed
    assert "$uplink/idle" not in b.router.core.sessions
    fill(b, "t", 1)
    assert session_of(b, SESSION).owed() == 1
    assert [line for line in b.router.take_alarms() if "uplink up is configured no more: 1 messages" in line]
    assert b.router.uplinks.row("up", b.now) is None
    with pytest.raises(KeyError):
        b.dial(login())
    assert b.router.core.uplinks.mark == b""
    b.crash()
    configure(b, uplink(Rule(OUT, "t")))
    peer = dial(b)
    peer.accept()
    assert peer.take().payload == b"0"


def test_a_session_that_was_removed_begins_anew_at_once() -> None:
    b = gateway(uplink(Rule(OUT, "t")))
    peer = dial(b)
    peer.accept()
    fill(b, "t", 1)
    assert b.router.remove_session(SESSION, b.now)
    b.pump()
    assert peer.link.closed
    assert session_of(b, SESSION).owed() == 0
    fill(b, "t", 1, start=1)
    peer = dial(b)
    peer.accept(True)
    assert peer.take().payload == b"1"


def test_nobody_comes_in_with_the_client_id_of_an_uplink() -> None:
    b = gateway(uplink(Rule(OUT, "t")))
    client = Client(b.open(), 5)
    client.send_connect(SESSION)
    client.expect_refused(0x85)


# what it brings


def test_what_a_rule_brings_is_kept_before_it_is_acknowledged() -> None:
    b = gateway(uplink(Rule(IN, "c/#", "l/", "r/", 2)))
    reader = connect(b, "r")
    reader.subscribe("l/c/#", qos=2)
    peer = dial(b)
    peer.accept()
    peer.grant()
    b.hold()
    peer.publish("r/c/1", b"x", 1, 9)
    assert peer.packets() == []
    b.release()
    assert peer.expect(Ack).packet_id == 9
    got = reader.take()
    assert (got.topic, got.payload, got.qos) == ("l/c/1", b"x", 1)
    peer.publish("r/c/2", b"y", 0)
    assert reader.take(topic="l/c/2", qos=0).payload == b"y"
    peer.publish("r/c/3", b"z", 0, retain=True)
    assert reader.take(topic="l/c/3").payload == b"z"
    late = connect(b, "late")
    late.subscribe("l/c/3", qos=1)
    assert late.take(topic="l/c/3", retain=True).payload == b"z"


def test_what_no_rule_brings_is_turned_away() -> None:
    b = gateway(uplink(Rule(IN, "c", "l/")))
    reader = connect(b, "r")
    reader.subscribe("#", qos=2)
    peer = dial(b)
    peer.accept()
    peer.grant()
    peer.publish("d", b"x", 1, 9)
    assert peer.expect(Ack).reason == 0x87
    peer.publish("d", b"x", 0)
    reader.expect_nothing()
    assert b.router.core.ledger.drops(0) == {"acl": 2}


def test_a_rule_cannot_bring_what_is_the_brokers_own() -> None:
    b = gateway(uplink(Rule(IN, "#", "$SYS/")))
    peer = dial(b)
    peer.accept()
    peer.grant()
    peer.publish("broker/version", b"x", 1, 9)
    assert peer.expect(Ack).reason == 0x87


def test_both_ways_nothing_goes_back_where_it_came_from() -> None:
    for prefix in ("", "r/"):
        b = gateway(uplink(Rule(BOTH, "t", "", prefix)))
        reader = connect(b, "reader")
        reader.subscribe("t", qos=1)
        peer = dial(b)
        peer.accept()
        peer.grant()
        for qos in (0, 1):
            peer.publish(prefix + "t", b"x", qos, qos)
            assert reader.take().payload == b"x"
        assert all(isinstance(p, Ack) for p in peer.packets())
        connect(b, "p").put("t", b"y", 1)
        assert peer.take().payload == b"y"


# gateways joined


def ends(b: MemoryBroker, topic: str) -> Client:
    reader = connect(b, "reader")
    reader.subscribe(topic, qos=2)
    return reader


def test_two_gateways_hand_on_and_pick_up_where_they_were() -> None:
    here, there = gateway(uplink(Rule(OUT, "t", "", "site/", 2))), broker()
    reader = ends(there, "site/#")
    one = Joined(here, there, login())
    settle(one)
    fill(here, "t", 50, qos=1)
    one.carry()
    one.cut()
    fill(here, "t", 50, qos=1, start=50)
    here.crash()
    configure(here, uplink(Rule(OUT, "t", "", "site/", 2)))
    for _ in range(3):
        one = Joined(here, there, login())
        settle(one)
        one.cut()
    assert [event.present for event in events(here) if event.kind == CONNECTED] == [True, True, True]
    got = [int(p.payload) for p in reader.take_all()]
    assert sorted(set(got)) == list(range(100))
    assert [n for n in got if n >= 50] == list(range(50, 100))
    assert session_of(here, SESSION).owed() == 0


def ring(count: int, rule: Rule) -> tuple[list[MemoryBroker], list[Joined]]:
    gateways = [gateway(uplink(rule), origin=f"g{n}") for n in range(count)]
    joined = [Joined(b, gateways[(n + 1) % count], login(remote=f"g{(n + 1) % count}")) for n, b in enumerate(gateways)]
    settle(*joined)
    return gateways, joined


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("count", [2, 3])
def test_a_ring_of_gateways_does_not_turn(count: int, qos: int) -> None:
    gateways, joined = ring(count, Rule(OUT, "t/#", qos=2))
    readers = [ends(b, "t/#") for b in gateways]
    connect(gateways[0], "p").put("t/1", b"x", qos)
    settle(*joined)
    assert [[p.payload for p in reader.take_all()] for reader in readers] == [[b"x"]] * count
    assert gateways[0].router.core.ledger.drops(0) == {"loop": 1}


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("count", [2, 3])
def test_a_ring_of_both_ways_uplinks_ends(count: int, qos: int) -> None:
    """There are two ways to each, so that some get it twice: but it does not go round."""
    gateways, joined = ring(count, Rule(BOTH, "t/#", qos=2))
    readers = [ends(b, "t/#") for b in gateways]
    connect(gateways[0], "p").put("t/1", b"x", qos)
    settle(*joined)
    got = [len(reader.take_all()) for reader in readers]
    assert got[0] == 1
    assert all(1 <= n <= 2 for n in got[1:]), got


def test_uplinks_of_one_gateway_share_what_is_on_disk() -> None:
    sizes = []
    for count in (1, 3):
        b = gateway(*[uplink(Rule(OUT, "t"), name=f"u{n}") for n in range(count)])
        publisher = connect(b, "p", clean=True, expiry=0)
        b.hold()
        for n in range(500):
            publisher.publish("t", b"%d" % n, 1)
        b.release()
        sizes.append(b.store.used_bytes())
        assert [session_of(b, f"$uplink/u{n}").owed() for n in range(count)] == [500] * count
    assert sizes[1] <= sizes[0] * 1.1


def test_names_of_sessions() -> None:
    assert Uplink("a", []).client_id == "$uplink/a"


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_a_3_1_1_remote_sends_above_our_limit_is_set_aside_and_told(qos: int) -> None:
    """It cannot be told of the limit: an end of the connection would bring it again for ever."""
    b = gateway(uplink(Rule(IN, "c/#", "l/")), max_packet_bytes=1000)
    reader = connect(b, "r")
    reader.subscribe("#", qos=2)
    peer = dial(b, version=4)
    peer.accept()
    peer.grant()
    for number in range(1, 13):
        peer.publish("c/big", bytes(5000), qos, number if qos else 0)
        if qos:
            assert peer.expect(Ack).packet_id == number
        if qos == 2:
            peer.publish("c/big", bytes(5000), qos, number)
            assert peer.expect(Ack).type == PUBREC, "sent again it counts once"
            peer.send(Ack(PUBREL, number))
            assert peer.expect(Ack).type == PUBCOMP
    reader.expect_nothing()
    peer.publish("c/small", b"x", 1, 99)
    assert reader.expect("PUBLISH").topic == "l/c/small"
    assert not peer.link.closed
    assert b.router.core.ledger.drops(0) == {"too_large": 12}
    row = b.router.uplinks.row("up", b.now)
    assert row is not None and row["too_large"] == 12
    alarms = b.router.take_alarms()
    assert len(alarms) == 2, "the first and the tenth"
    assert "uplink up: a message to c/big of 50" in alarms[0]
    assert "mqtt.max_packet_size (1000): dropped, the 1. of this uplink" in alarms[0]


def test_by_5_0_the_remote_knows_the_limit_and_is_closed() -> None:
    b = gateway(uplink(Rule(IN, "c/#")), max_packet_bytes=1000)
    peer = dial(b)
    peer.accept()
    peer.grant()
    peer.publish("c/big", bytes(5000), 1, 7)
    assert peer.expect(Disconnect).reason == 0x95
    assert peer.link.closed


def test_subscriptions_that_no_rule_asks_for_are_ended() -> None:
    b = gateway(uplink(Rule(IN, "c/#")))
    b.router.uplinks.unsubscribe("up", ["gone"], b.now)
    peer = dial(b)
    peer.accept(True)
    peer.grant()
    b.router.uplinks.unsubscribe("up", ["gone", "d/#"], b.now)
    b.router.uplinks.unsubscribe("up", [], b.now)
    b.pump()
    asked = peer.expect(Unsubscribe)
    assert asked.filters == ["gone", "d/#"]
    events(b)
    peer.send(Unsuback(asked.packet_id + 1, [0]))
    assert events(b) == []
    peer.send(Unsuback(asked.packet_id, [0, 0x11]))
    assert [event.kind for event in events(b)] == [FORGOTTEN]
