"""Filters and matching, subscription options, retained messages, message expiry."""

import pytest

from tests.conformance.client import Client
from tests.conformance.peer import Peer


@pytest.mark.parametrize("filter", ["#", "+/x", "+/broker/#", "+/#"])
def test_a_leading_wildcard_does_not_match_dollar_topics(peer: Peer, filter: str) -> None:
    """[MQTT-4.7.2-1], for live and for retained messages."""
    client = peer.connect("s")
    client.subscribe(filter, qos=0)
    publisher = peer.connect("p")
    publisher.put(f"${peer.prefix}/x", b"hidden", qos=0)
    publisher.put("z/x", b"seen", qos=0)
    publisher.put("z/broker/x", b"seen", qos=0)
    got = [packet for packet in client.drain() if packet.type == "PUBLISH"]
    assert not [packet.topic for packet in got if packet.topic.startswith("$")]
    assert [packet for packet in got if packet.payload == b"seen"]


def test_sys_is_there_for_those_who_ask(peer: Peer) -> None:
    """$SYS/broker/... is retained and matched by a filter that names it [MQTT-4.7.2-1]."""
    client = peer.connect("s")
    client.subscribe("$SYS/broker/version")
    client.subscribe("$SYS/#")
    peer.advance(11, tcp=0)
    topics = {packet.topic for packet in client.drain()}
    assert "$SYS/broker/version" in topics
    assert all(topic.startswith("$SYS/") for topic in topics)


def test_a_client_cannot_write_sys(peer: Peer) -> None:
    """The broker's own figures cannot be forged; the connection is kept."""
    watcher = peer.connect("w")
    watcher.subscribe(f"$SYS/{peer.prefix}", qos=0)
    client = peer.connect("p")
    client.put(f"$SYS/{peer.prefix}", b"forged", qos=0)
    client.publish(f"$SYS/{peer.prefix}", b"forged", qos=1)
    client.expect("PUBACK")
    client.ping()
    watcher.expect_nothing()


@pytest.mark.parametrize(
    ("filter", "topic", "matches"),
    [
        ("a/#", "a", True),
        ("a/#", "a/", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("a/+", "a/", True),
        ("a/+", "a", False),
        ("a/+", "a/b/c", False),
        ("a/+/c", "a//c", True),
        ("a/+/+", "a//", True),
        ("a//c", "a/c", False),
        ("a/", "a", False),
        ("a", "A", False),
        ("a/+/#", "a/b", True),
        ("a/+/#", "a", False),
        ("a/é", "a/e\u0301", False),
        ("a/\ufeff", "a/\ufeff", True),
        ("a/\ufeff", "a/", False),
    ],
)
def test_matching(peer: Peer, filter: str, topic: str, matches: bool) -> None:
    """Levels, empty levels, parents of #, no normalisation [MQTT-4.7.1-1], [MQTT-4.7.1-2], [MQTT-4.7.3-4]."""
    client = peer.connect("s")
    client.subscribe(f"{peer.prefix}/{filter}", qos=0)
    peer.connect("p").put(f"{peer.prefix}/{topic}", b"x", qos=0)
    if matches:
        client.expect("PUBLISH", topic=f"{peer.prefix}/{topic}")
    client.expect_nothing()


@pytest.mark.parametrize("filter", ["/+", "+/+", "/#"])
def test_a_leading_separator_is_an_empty_level(peer: Peer, filter: str) -> None:
    """[MQTT-4.7.1.3]."""
    client = peer.connect("s")
    client.subscribe(filter, qos=0, handling=2)
    peer.connect("p").put(f"/{peer.prefix}", b"x", qos=0)
    client.expect("PUBLISH", topic=f"/{peer.prefix}")


def test_overlapping_subscriptions_are_one_copy(peer: Peer) -> None:
    """With the highest QoS and every identifier [MQTT-3.3.4-2], [MQTT-3.3.4-3], [MQTT-3.3.4-4]."""
    client = peer.connect("s")
    client.subscribe(f"{peer.topic}/#", qos=1, identifier=1)
    client.subscribe(f"{peer.topic}/+", qos=2, identifier=268_435_455)
    client.subscribe(f"{peer.topic}/a", qos=0)
    client.subscribe(f"{peer.topic}/+/#", qos=0, identifier=200)
    client.subscribe("unrelated", qos=2, identifier=5)
    peer.connect("p").put(f"{peer.topic}/a", b"x", qos=2)
    got = client.take(payload=b"x", qos=2)
    assert sorted(got.props["subscription_identifier"]) == [1, 200, 268_435_455]
    client.expect_nothing()


def test_identifiers_are_kept_with_queue_and_restart(peer: Peer) -> None:
    """They belong to the subscription, and go along with queued messages [MQTT-3.3.4-3]."""
    client = peer.connect("s", expiry=100)
    client.subscribe(f"{peer.topic}/#", qos=1, identifier=7)
    client.subscribe(f"{peer.topic}/a", qos=1, identifier=9)
    client.disconnect()
    peer.connect("p").put(f"{peer.topic}/a", b"before")
    peer.restart()
    peer.connect("p").put(f"{peer.topic}/b", b"after")
    back = peer.connect("s", clean=False, expiry=100)
    assert sorted(back.take(payload=b"before").props["subscription_identifier"]) == [7, 9]
    assert back.take(payload=b"after").props["subscription_identifier"] == [7]


def test_retained_messages_carry_the_identifier(peer: Peer) -> None:
    """[MQTT-3.3.4-3]; and those of the subscription that asked for them."""
    peer.connect("p").put(peer.topic, b"kept", retain=True)
    client = peer.connect("s")
    client.subscribe(peer.topic, qos=1, identifier=3)
    assert client.take(payload=b"kept", retain=True).props["subscription_identifier"] == [3]


def test_a_new_subscription_replaces_the_old_one(peer: Peer) -> None:
    """QoS, options and identifier; over a restart too [MQTT-3.8.4-3]."""
    client = peer.connect("s", expiry=100)
    client.subscribe(peer.topic, qos=2, identifier=1, as_published=True)
    client.subscribe(peer.topic, qos=1, identifier=2)
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"x", qos=2, retain=True)
    client.take(payload=b"x", qos=1, retain=False, props={"subscription_identifier": [2]})
    client.subscribe(peer.topic, qos=1, handling=2)
    peer.restart()
    peer.connect("p").put(peer.topic, b"y", qos=2)
    back = peer.connect("s", clean=False, expiry=100)
    back.take(payload=b"y", qos=1, props={})
    back.expect_nothing()


def test_no_message_is_lost_while_a_subscription_is_replaced(peer: Peer) -> None:
    """[MQTT-3.8.4-4]."""
    client = peer.connect("s")
    client.subscribe(peer.topic, qos=1, handling=2)
    publisher = peer.connect("p")
    for number in range(20):
        publisher.publish(peer.topic, str(number).encode(), qos=1)
        client.send(bytes.fromhex("82") + bytes([3 + 2 + len(peer.topic) + 1]))
        client.send((1000 + number).to_bytes(2, "big") + b"\x00")
        client.send(len(peer.topic).to_bytes(2, "big") + peer.topic.encode() + bytes([0x21]))
        client.wait_for("SUBACK", pid=1000 + number)
    publisher.recv_many("PUBACK", 20)
    assert [client.take().payload for _ in range(20)] == [str(n).encode() for n in range(20)]
    client.expect_nothing()


def test_unsubscribe_stops_new_and_completes_what_was_sent(peer: Peer) -> None:
    """0x11 for what was not there [MQTT-3.10.4-2], [MQTT-3.10.4-3], [MQTT-3.11.3-1]."""
    client = peer.connect("s", receive_maximum=10)
    client.subscribe(f"{peer.topic}/a", f"{peer.topic}/+", qos=2)
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"sent", qos=2)
    pid = client.expect("PUBLISH").pid
    assert client.unsubscribe(f"{peer.topic}/a", f"{peer.topic}/never", f"{peer.topic}/+") == [0, 0x11, 0]
    publisher.put(f"{peer.topic}/a", b"late", qos=2)
    client.ack("PUBREC", pid)
    client.expect("PUBREL", pid=pid)
    client.ack("PUBCOMP", pid)
    client.expect_nothing()


@pytest.mark.parametrize("version", [3, 4, 5])
def test_suback_answers_each_filter_in_order(peer: Peer, version: int) -> None:
    """[MQTT-3.8.4-6], [MQTT-3.9.3-1]."""
    client = peer.connect("s", version=version)
    names = [f"{peer.topic}/{n}" for n in range(3)]
    assert [client.subscribe(name, qos=qos) for name, qos in zip(names, (2, 0, 1), strict=True)] == [[2], [0], [1]]
    assert client.subscribe(*names, qos=1) == [1, 1, 1]


def test_retain_handling(peer: Peer) -> None:
    """0 always, 1 only for a new subscription, 2 never [MQTT-3.3.1-9], [-10], [-11]."""
    peer.connect("p").put(peer.topic, b"kept", retain=True)
    client = peer.connect("s")
    client.subscribe(peer.topic, qos=1, handling=2)
    client.expect_nothing()
    client.subscribe(peer.topic, qos=1, handling=1)
    client.expect_nothing()
    client.subscribe(peer.topic, qos=1, handling=0)
    client.take(payload=b"kept", retain=True)
    client.subscribe(peer.topic, qos=1, handling=0)
    client.take(payload=b"kept", retain=True)
    client.unsubscribe(peer.topic)
    client.subscribe(peer.topic, qos=1, handling=1)
    client.take(payload=b"kept", retain=True)
    client.expect_nothing()


def test_retain_handling_1_knows_subscriptions_of_before_the_restart(peer: Peer) -> None:
    """The subscription did exist [MQTT-3.3.1-10]."""
    peer.connect("p").put(peer.topic, b"kept", retain=True)
    client = peer.connect("s", expiry=100)
    client.subscribe(peer.topic, qos=1, handling=2)
    peer.restart()
    back = peer.connect("s", clean=False, expiry=100)
    back.subscribe(peer.topic, qos=1, handling=1)
    back.expect_nothing()


def test_shared_subscriptions_get_no_retained_messages(peer: Peer) -> None:
    """Section 4.8.2."""
    peer.connect("p").put(peer.topic, b"kept", retain=True)
    client = peer.connect("s")
    client.subscribe(f"$share/g/{peer.topic}", qos=1, handling=0)
    client.expect_nothing()


def test_retained_messages_match_every_kind_of_filter(peer: Peer) -> None:
    """One copy for each matching topic, at the lower QoS [MQTT-3.3.1-9]."""
    publisher = peer.connect("p")
    for name in ("a", "a/b", "a/b/c", "b"):
        publisher.put(f"{peer.topic}/{name}", name.encode(), qos=2, retain=True)
    for filter, want in (("#", 4), ("a/#", 3), ("+", 2), ("a/+/c", 1), ("+/+", 1), ("c", 0), ("a/b", 1)):
        client = peer.connect("s")
        client.subscribe(f"{peer.topic}/{filter}", qos=1)
        assert len([client.take(retain=True, qos=1) for _ in range(want)]) == want
        client.expect_nothing()


@pytest.mark.parametrize("qos", [0, 1])
def test_no_local(peer: Peer, qos: int) -> None:
    """Nothing of its own comes back, of others it does [MQTT-3.8.3-3]."""
    client = peer.connect("s")
    client.subscribe(peer.topic, qos=qos, no_local=True)
    client.put(peer.topic, b"own", qos=qos)
    peer.connect("p").put(peer.topic, b"other", qos=qos)
    client.take(payload=b"other")
    client.expect_nothing()


def test_no_local_survives_takeover_and_restart(peer: Peer) -> None:
    """It goes by the client id, not by the connection [MQTT-3.8.3-3]."""
    client = peer.connect("s", expiry=100)
    client.subscribe(peer.topic, qos=1, no_local=True)
    peer.restart()
    back = peer.connect("s", clean=False, expiry=100)
    back.put(peer.topic, b"own")
    again = peer.connect("s", clean=False, expiry=100)
    again.put(peer.topic, b"own")
    peer.connect("p").put(peer.topic, b"other")
    again.take(payload=b"other")
    again.expect_nothing()


def test_no_local_holds_in_the_stored_queue(peer: Peer) -> None:
    """A message of its own is not kept for it either: nothing comes after a crash [MQTT-3.8.3-3]."""
    client = peer.connect("s", expiry=100)
    client.subscribe(peer.topic, qos=1, no_local=True)
    client.put(peer.topic, b"own")
    peer.restart()
    peer.connect("s", clean=False, expiry=100).expect_nothing()


def test_no_local_with_a_shared_subscription_is_a_protocol_error(peer: Peer) -> None:
    """[MQTT-3.8.3-4]."""
    client = peer.connect("s")
    topic = f"$share/g/{peer.topic}".encode()
    body = b"\x00\x01\x00" + len(topic).to_bytes(2, "big") + topic + b"\x05"
    client.send(bytes([0x82, len(body)]) + body)
    client.expect_closed(0x82)


@pytest.mark.parametrize("way", ["live", "queued", "restart"])
def test_retain_as_published(peer: Peer, way: str) -> None:
    """1 keeps the flag, 0 clears it, for queued messages too [MQTT-3.3.1-12], [MQTT-3.3.1-13]."""
    names = {True: "as", False: "cleared"}
    clients: dict[bool, Client] = {}
    for flag, name in names.items():
        clients[flag] = peer.connect(name, expiry=100)
        clients[flag].subscribe(peer.topic, qos=1, as_published=flag)
        if way != "live":
            clients[flag].drop()
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"retained", retain=True)
    publisher.put(peer.topic, b"plain")
    if way == "restart":
        peer.restart()
    for flag, name in names.items():
        client = clients[flag] if way == "live" else peer.connect(name, clean=False, expiry=100)
        client.take(payload=b"retained", retain=flag)
        client.take(payload=b"plain", retain=False)


def test_an_empty_retained_payload_clears(peer: Peer) -> None:
    """It is passed on as any message, and is itself not kept; so over a restart [MQTT-3.3.1-6], [MQTT-3.3.1-7]."""
    watcher = peer.connect("w")
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"old", retain=True)
    publisher.put(f"{peer.topic}/a", b"new", retain=True)
    publisher.put(f"{peer.topic}/b", b"kept", retain=True)
    publisher.put(f"{peer.topic}/b", b"not retained", retain=False)
    watcher.subscribe(f"{peer.topic}/#", qos=1)
    assert {watcher.take(retain=True).payload for _ in range(2)} == {b"new", b"kept"}
    publisher.put(f"{peer.topic}/a", b"", retain=True)
    watcher.take(topic=f"{peer.topic}/a", payload=b"", retain=False)
    for restart in (False, True):
        if restart:
            peer.restart()
        late = peer.connect("late")
        late.subscribe(f"{peer.topic}/#", qos=1)
        late.take(topic=f"{peer.topic}/b", payload=b"kept", retain=True)
        late.expect_nothing()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_retained_messages_survive_a_crash(peer: Peer, qos: int) -> None:
    """At QoS > 0 from the acknowledgement on; nobody needs to subscribe [MQTT-3.3.1-5]."""
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"kept", qos=qos, retain=True)
    peer.advance(2, tcp=1.5 if qos == 0 else 0)
    peer.restart()
    client = peer.connect("s")
    client.subscribe(peer.topic, qos=2)
    client.take(payload=b"kept", qos=qos, retain=True)


def test_message_expiry_counts_down_in_the_queue(peer: Peer) -> None:
    """The time waited is taken off; what is over is not delivered [MQTT-3.3.2-5], [MQTT-3.3.2-6]."""
    client = peer.connect("s", expiry=1000)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"live", message_expiry_interval=100)
    assert client.take(payload=b"live").props["message_expiry_interval"] == 100
    client.drop()
    publisher.put(peer.topic, b"short", message_expiry_interval=1)
    publisher.put(peer.topic, b"long", message_expiry_interval=100)
    publisher.put(peer.topic, b"for ever")
    peer.advance(2.2)
    back = peer.connect("s", clean=False, expiry=1000)
    assert back.take(payload=b"long").props["message_expiry_interval"] in (97, 98)
    assert "message_expiry_interval" not in back.take(payload=b"for ever").props
    back.expect_nothing()


def test_message_expiry_behind_a_full_window(peer: Peer) -> None:
    """Also while the client is connected and busy [MQTT-3.3.2-5]."""
    client = peer.connect("s", receive_maximum=1)
    client.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"1")
    publisher.put(peer.topic, b"2", message_expiry_interval=1)
    publisher.put(peer.topic, b"3", message_expiry_interval=50)
    peer.advance(1.6)
    client.take(payload=b"1")
    assert client.take(payload=b"3").props["message_expiry_interval"] in (48, 49)
    client.expect_nothing()


def test_message_expiry_runs_on_over_a_restart(peer: Peer) -> None:
    """In the queue and in the retained store [MQTT-3.3.2-6]."""
    client = peer.connect("s", expiry=1000)
    client.subscribe(f"{peer.topic}/#", qos=1)
    client.disconnect()
    publisher = peer.connect("p")
    for name, seconds in (("short", 2), ("long", 100)):
        publisher.put(f"{peer.topic}/{name}", name.encode(), retain=True, message_expiry_interval=seconds)
    peer.advance(1.3)
    peer.restart()
    peer.advance(1.1)
    back = peer.connect("s", clean=False, expiry=1000)
    assert 90 < back.take(payload=b"long").props["message_expiry_interval"] <= 98
    back.expect_nothing()
    reader = peer.connect("r")
    reader.subscribe(f"{peer.topic}/#", qos=1)
    assert 90 < reader.take(payload=b"long", retain=True).props["message_expiry_interval"] <= 98
    reader.expect_nothing()


def test_message_expiry_of_retained_messages(peer: Peer) -> None:
    """[MQTT-3.3.2-6]."""
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/short", b"short", retain=True, message_expiry_interval=1)
    publisher.put(f"{peer.topic}/long", b"long", retain=True, message_expiry_interval=100)
    peer.advance(1.6)
    client = peer.connect("s")
    client.subscribe(f"{peer.topic}/#", qos=1)
    assert client.take(payload=b"long").props["message_expiry_interval"] in (98, 99)
    client.expect_nothing()


def test_message_expiry_of_zero_is_never_queued(peer: Peer) -> None:
    """To connected clients at once; 0 seconds are over when a client comes back [MQTT-3.3.2-5]."""
    client = peer.connect("s", expiry=100)
    client.subscribe(peer.topic, qos=1)
    client.drop()
    peer.connect("p").put(peer.topic, b"x", message_expiry_interval=0)
    peer.advance(0.3)
    peer.connect("s", clean=False, expiry=100).expect_nothing()


@pytest.mark.settings({"mqtt.message_expiry_interval": 1})
def test_messages_without_an_expiry_get_the_broker_s(peer: Peer) -> None:
    """mqtt.message_expiry_interval; a message's own stands."""
    client = peer.connect("s", expiry=100)
    client.subscribe(peer.topic, qos=1)
    client.drop()
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"none")
    publisher.put(peer.topic, b"own", message_expiry_interval=50)
    peer.advance(1.5)
    back = peer.connect("s", clean=False, expiry=100)
    back.take(payload=b"own")
    back.expect_nothing()
