"""Topic aliases, properties that are passed on, what a client may ask for and what CONNACK tells."""

from typing import Any

import pytest

from tests.conformance.peer import Peer

FORWARDED: dict[str, Any] = {
    "payload_format_indicator": 1,
    "content_type": "application/x-tést",
    "response_topic": "answers/here",
    "correlation_data": b"\x00\x01\xff",
    "user_property": [("b", "1"), ("a", "2"), ("b", "1"), ("", ""), ("ü", "\U0001f600")],
}


@pytest.mark.parametrize("alias", [0, "above", 65_535])
def test_an_alias_outside_the_range_is_0x94(peer: Peer, alias: int | str) -> None:
    """0, or more than the Topic Alias Maximum of CONNACK [MQTT-3.3.2-8], [MQTT-3.3.2-9]."""
    client = peer.connect("p")
    top = client.connack.props["topic_alias_maximum"]
    client.publish(peer.topic, b"x", topic_alias=top + 1 if alias == "above" else alias)
    client.expect_closed(0x94)


@pytest.mark.settings({"mqtt.max_topic_alias": 0})
def test_no_alias_is_allowed_where_none_is_offered(peer: Peer) -> None:
    """Topic Alias Maximum absent or 0 [MQTT-3.2.2-18]."""
    client = peer.connect("p")
    assert client.connack.props.get("topic_alias_maximum", 0) == 0
    client.publish(peer.topic, b"x", topic_alias=1)
    client.expect_closed(0x94)


def test_an_unknown_alias_is_a_protocol_error(peer: Peer) -> None:
    """An empty topic needs an alias that was set [MQTT-3.3.2.3.4]."""
    for props in ({"topic_alias": 3}, {}):
        client = peer.connect("p")
        client.publish("", b"x", **props)
        client.expect_closed(0x82)


def test_aliases_are_set_used_and_set_anew(peer: Peer) -> None:
    """All values up to the maximum are accepted; both QoS; the subscriber sees topics [MQTT-3.3.2-12]."""
    watcher = peer.connect("w")
    watcher.subscribe(f"{peer.topic}/#", qos=1)
    client = peer.connect("p")
    top = client.connack.props["topic_alias_maximum"]
    for alias in range(1, top + 1):
        client.publish(f"{peer.topic}/{alias}", b"first", topic_alias=alias)
        watcher.take(topic=f"{peer.topic}/{alias}", payload=b"first")
    for alias in (top, 1):
        client.put("", b"second", qos=1, topic_alias=alias)
        watcher.take(topic=f"{peer.topic}/{alias}", payload=b"second", props={})
    client.publish(f"{peer.topic}/new", b"third", topic_alias=1)
    watcher.take(topic=f"{peer.topic}/new")
    client.publish("", b"fourth", topic_alias=1)
    watcher.take(topic=f"{peer.topic}/new", payload=b"fourth")


def test_aliases_die_with_the_connection(peer: Peer) -> None:
    """Though the session lives on [MQTT-3.3.2-7]."""
    client = peer.connect("p", expiry=100)
    client.put(peer.topic, b"x", topic_alias=1)
    client.drop()
    back = peer.connect("p", clean=False, expiry=100)
    assert back.connack.session_present
    back.publish("", b"x", topic_alias=1)
    back.expect_closed(0x82)


def test_the_broker_assigns_aliases_when_the_client_offers_them(peer: Peer) -> None:
    """Set with the topic, then used instead of it; never above what was offered [MQTT-3.1.2-26]."""
    client = peer.connect("s", topic_alias_maximum=2)
    client.subscribe(f"{peer.topic}/#", qos=1)
    publisher = peer.connect("p")
    known: dict[int, str] = {}
    short = 0
    for name in ("a", "b", "a", "c", "b", "a", "c", "a"):
        publisher.put(f"{peer.topic}/{name}", name.encode())
        got = client.take(payload=name.encode())
        alias: int = got.props.get("topic_alias", 0)
        assert alias <= 2
        if alias and got.topic:
            known[alias] = got.topic
        short += not got.topic
        assert (got.topic or known[alias]) == f"{peer.topic}/{name}"
    assert short >= 4


def test_no_alias_is_sent_to_a_client_that_offers_none(peer: Peer) -> None:
    """Topic Alias Maximum absent or 0 in CONNECT [MQTT-3.1.2-27]."""
    for maximum in (None, 0):
        client = peer.connect(f"s{maximum}", topic_alias_maximum=maximum)
        client.subscribe(f"{peer.topic}/{maximum}", qos=0)
        publisher = peer.connect("p")
        for _ in range(3):
            publisher.put(f"{peer.topic}/{maximum}", b"x")
            client.take(topic=f"{peer.topic}/{maximum}", props={})


def test_what_is_resent_or_queued_has_its_topic_on_a_new_connection(peer: Peer) -> None:
    """The alias state of the old connection is gone [MQTT-3.3.2-7]."""
    client = peer.connect("s", expiry=100, topic_alias_maximum=5)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"1")
    client.take(payload=b"1")
    publisher.put(peer.topic, b"2")
    publisher.put(peer.topic, b"3")
    client.recv_many("PUBLISH", 2)
    client.drop()
    peer.settle()
    publisher.put(peer.topic, b"4")
    back = peer.connect("s", clean=False, expiry=100, topic_alias_maximum=5)
    topics: dict[int, str] = {}
    for payload in (b"2", b"3", b"4"):
        got = back.take(payload=payload)
        alias = got.props.get("topic_alias", 0)
        if got.topic:
            topics[alias] = got.topic
        assert (got.topic or topics[alias]) == peer.topic
        assert payload != b"2" or got.topic
    back.drop()
    publisher.put(peer.topic, b"5")
    none = peer.connect("s", clean=False, expiry=100)
    none.take(topic=peer.topic, payload=b"5", props={})


@pytest.mark.parametrize("way", ["live", "queued", "retained", "restart"])
def test_properties_are_passed_on_unaltered(peer: Peer, way: str) -> None:
    """Order and repeats of user properties too [MQTT-3.3.2-4], [-15], [-16], [-17], [-18], [-20]."""
    client = peer.connect("s", expiry=100)
    client.subscribe(peer.topic, qos=2)
    if way in ("queued", "restart"):
        client.drop()
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"\xff\x00", qos=2, retain=way == "retained", **FORWARDED)
    if way == "restart":
        peer.restart()
    if way in ("queued", "restart"):
        client = peer.connect("s", clean=False, expiry=100)
    if way == "retained":
        client.take()
        client = peer.connect("r")
        client.subscribe(peer.topic, qos=2)
    client.take(payload=b"\xff\x00", qos=2, props=FORWARDED)


def test_properties_do_not_reach_a_311_client(peer: Peer) -> None:
    """And its own messages reach a 5.0 client with none."""
    old, new = peer.connect("old", version=4), peer.connect("new")
    for client in (old, new):
        client.subscribe(peer.topic, qos=1)
    new.put(peer.topic, b"from 5", **FORWARDED)
    old.take(payload=b"from 5")
    new.take(payload=b"from 5", props=FORWARDED)
    old.put(peer.topic, b"from 4")
    old.take(payload=b"from 4")
    new.take(payload=b"from 4", props={})


def test_no_problem_information_where_it_is_not_wanted(peer: Peer) -> None:
    """No reason string or user property outside CONNACK, DISCONNECT and PUBLISH [MQTT-3.1.2-29]."""
    client = peer.connect("s", request_problem_information=0)
    for packet in (
        client.wire.ack("PUBREL", 77),
        client.wire.ack("PUBREC", 78),
        client.wire.publish(peer.topic, b"x", 1, pid=5),
        client.wire.publish(peer.topic, b"x", 2, pid=6),
    ):
        client.send(packet)
        assert client.recv().props == {}
    client.unsubscribe("never/subscribed")
    client.subscribe(peer.topic, "$share/bad", "$share//x", qos=1)
    raw = client.history[-1]
    assert "props=[]" in raw
    client.put(peer.topic, b"user", qos=1, user_property=[("a", "b")])
    client.take(payload=b"user", props={"user_property": [("a", "b")]})


def test_no_response_information_where_it_was_not_asked_for(peer: Peer) -> None:
    """Absent or 0 [MQTT-3.1.2-28]."""
    for asked in (None, 0):
        assert "response_information" not in peer.connect("s", request_response_information=asked).connack.props


@pytest.mark.parametrize("name", ["request_problem_information", "request_response_information"])
def test_a_request_flag_is_0_or_1(peer: Peer, name: str) -> None:
    """Another value is a protocol error [MQTT-3.1.2.11.6], [MQTT-3.1.2.11.7]."""
    client = peer.open()
    client.send_connect(f"{peer.prefix}-s", **{name: 2})
    client.expect_refused(0x82)


def test_connack_tells_what_is_there(peer: Peer) -> None:
    """Nothing is withheld: everything is available, so no property says that it is not [MQTT-3.2.2.3]."""
    props = peer.connect("s").connack.props
    assert props.get("maximum_qos", 2) == 2
    for name in ("retain_available", "wildcard_subscription_available", "shared_subscription_available"):
        assert props.get(name, 1) == 1
    assert props.get("subscription_identifiers_available", 1) == 1
    assert props["receive_maximum"] > 0
    assert props["topic_alias_maximum"] > 0
    assert "session_expiry_interval" not in props


def test_an_unknown_authentication_method_is_refused(peer: Peer) -> None:
    """CONNACK 0x8C and close [MQTT-4.12.0-1]."""
    client = peer.open()
    client.send_connect(f"{peer.prefix}-s", authentication_method="SCRAM-SHA-1", authentication_data=b"x")
    client.expect_refused(0x8C)


def test_auth_without_a_method_is_a_protocol_error(peer: Peer) -> None:
    """[MQTT-4.12.0-7]."""
    client = peer.connect("s")
    client.send(b"\xf0\x00")
    client.expect_closed(0x82)
