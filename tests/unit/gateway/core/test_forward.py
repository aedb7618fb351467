"""A PUBLISH as it leaves over an uplink."""

from gateway.core.origin import first_mark, handed_on, pair
from gateway.core.uplink import OUT, Rule, Uplink
from gateway.mqtt.packets import Publish
from tests.core_rig import connect, session_of
from tests.memory import MemoryBroker
from tests.uplink_rig import Peer, dial, gateway, uplink

MARK = first_mark("g1")


def connected(*rules: Rule, version: int = 5, **allowed: int) -> tuple[MemoryBroker, Peer]:
    b = gateway(uplink(*rules))
    peer = dial(b, version=version)
    peer.accept(False, **allowed)
    return b, peer


def test_topic_payload_and_mark() -> None:
    b, peer = connected(Rule(OUT, "a/#", "l/", "r/"))
    publisher = connect(b, "p")
    publisher.put("l/a/1", b"one", 1)
    publisher.put("l/b", b"two", 1)
    publisher.put("l/a/1", b"three", 0)
    found = peer.publishes()
    assert [(p.topic, p.payload, p.qos, p.props) for p in found] == [
        (b"r/a/1", b"one", 1, MARK),
        (b"r/a/1", b"three", 0, MARK),
    ]


def test_qos_is_capped_by_the_rule_and_by_the_remote() -> None:
    for qos, most, got in ((2, 2, [0, 1, 2]), (1, 2, [0, 1, 1]), (0, 2, [0, 0, 0]), (2, 1, [0, 1, 1])):
        allowed = {"maximum_qos": most} if most < 2 else {}
        b, peer = connected(Rule(OUT, "t", qos=qos), **allowed)
        publisher = connect(b, "p")
        for sent in range(3):
            publisher.put("t", b"", sent)
        assert [p.qos for p in peer.publishes()] == got, (qos, most)
        assert len(session_of(b, "$uplink/up").inflight) == len([one for one in got if one])


def test_the_properties_of_the_publisher_and_the_rest_of_the_expiry_go_along() -> None:
    b, peer = connected(Rule(OUT, "t"))
    connect(b, "p").put("t", b"x", 1, content_type="text", message_expiry_interval=100, user_property=("k", "v"))
    p = peer.take()
    assert p.expiry == 100
    assert p.props == b"\x03\x00\x04text" + pair(b"k", b"v") + MARK
    peer.link.close()
    connect(b, "p").put("t", b"y", 1, message_expiry_interval=100)
    b.advance(40_000)
    peer = dial(b)
    peer.accept(True)
    assert peer.take().expiry == 60


def test_3_1_1_gets_the_bare_message() -> None:
    b, peer = connected(Rule(OUT, "t", "", "r/"), version=4)
    connect(b, "p").put("t", b"x", 1, content_type="text", user_property=("k", "v"))
    p = peer.expect(Publish)
    assert (p.topic, p.payload, p.props) == (b"r/t", b"x", b"")


def test_retained_messages_stay_retained_where_that_can_be() -> None:
    for own, allowed, kept in ((True, {}, True), (True, {"retain_available": 0}, False), (False, {}, False)):
        up = uplink(Rule(OUT, "t"))
        up.retain = own
        b = gateway(up)
        peer = dial(b)
        peer.accept(False, **allowed)
        connect(b, "p").put("t", b"x", 1, retain=True)
        assert peer.expect(Publish).retain is kept


def test_what_was_retained_before_the_rule_is_sent_once() -> None:
    b = gateway()
    connect(b, "p").put("t", b"old", 1, retain=True)
    b.router.uplinks.configure([uplink(Rule(OUT, "t"))], "g1", 8, b.now)
    b.pump()
    for expected in ([b"old"], []):
        peer = dial(b)
        peer.accept(True)
        found = [peer.take()] if expected else peer.publishes()
        assert [(p.payload, p.retain) for p in found] == [(payload, True) for payload in expected]
        peer.link.close()
        b.router.uplinks.configure([uplink(Rule(OUT, "t"))], "g1", 8, b.now)


def test_too_large_for_the_remote_by_a_byte() -> None:
    for version, props in ((5, len(MARK) + 1), (4, 0)):
        frame = 2 + 2 + 3 + 2 + props  # header, topic, id, properties
        up = uplink(Rule(OUT, "t", "", "r/"))
        b = gateway(up)
        peer = dial(b, version=version)
        if version == 5:
            peer.accept(maximum_packet_size=frame + 10)
        else:
            peer.accept()
            peer.link.client.max_packet = frame + 10
        publisher = connect(b, "p")
        publisher.put("t", b"x" * 11, 1)
        publisher.put("t", b"x" * 10, 1)
        publisher.put("t", b"x" * 13, 0)
        assert [p.payload for p in peer.publishes()] == [b"x" * 10]
        s = session_of(b, "$uplink/up")
        assert b.router.core.ledger.drops(s.sid) == {"too_large": 2}
        assert s.owed() == 1


def test_what_has_come_a_long_way_goes_no_further() -> None:
    b = gateway(uplink(Rule(OUT, "t")), hops_max=2)
    peer = dial(b)
    peer.accept()
    publisher = connect(b, "p")
    for qos in (0, 1):
        for n in (1, 2, 3):
            value = [("uplink-origin", "g0"), ("uplink-hops", str(n))]
            publisher.put("t", b"%d" % n, qos, user_property=value)
    found = peer.publishes()
    props = pair(b"uplink-origin", b"g0") + pair(b"uplink-hops", b"1")
    assert [(p.payload, p.qos, p.props) for p in found] == [(b"1", qos, handed_on(props, MARK)) for qos in (0, 1)]
    assert b.router.core.ledger.drops(session_of(b, "$uplink/up").sid) == {"loop": 4}


def test_a_topic_that_no_rule_covers_any_more() -> None:
    b = gateway(uplink(Rule(OUT, "a"), Rule(OUT, "b")))
    publisher = connect(b, "p")
    publisher.put("a", b"1", 1)
    publisher.put("b", b"2", 1)
    b.router.uplinks.configure([Uplink("up", [Rule(OUT, "b")])], "g1", 8, b.now)
    peer = dial(b)
    peer.accept()
    assert [p.payload for p in peer.publishes()] == [b"2"]
    s = session_of(b, "$uplink/up")
    assert b.router.core.ledger.drops(s.sid) == {"no_rule": 1}
    assert s.owed() == 1
