"""Sessions: takeover, clean start, session present, expiry, client identifiers."""

import pytest

from tests.conformance.peer import Peer

YEAR = 365 * 86_400


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_second_connect_takes_over(peer: Peer, version: int) -> None:
    """The old connection is closed, with a DISCONNECT 0x8E for 5.0 [MQTT-3.1.4-3]."""
    old = peer.connect("same", version=version)
    new = peer.connect("same", version=version)
    old.expect_closed(0x8E if version == 5 else None)
    new.ping()


def test_takeover_resends_what_was_not_acknowledged(peer: Peer) -> None:
    """Neither what was in flight nor what arrives around the takeover is lost [MQTT-4.4.0-1], [MQTT-4.5.0-1]."""
    old = peer.connect("s", expiry=100)
    old.subscribe(f"{peer.topic}/#", qos=1)
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"1")
    publisher.put(f"{peer.topic}/a", b"2")
    first, second = old.expect("PUBLISH", payload=b"1"), old.expect("PUBLISH", payload=b"2")

    new = peer.open(version=5)
    publisher.publish(f"{peer.topic}/a", b"3", qos=1)
    new.send_connect(old.client_id, clean=False, expiry=100)
    publisher.publish(f"{peer.topic}/a", b"4", qos=1)
    new.expect("CONNACK", reason=0, session_present=True)
    again = [new.expect("PUBLISH") for _ in range(4)]
    assert [p.payload for p in again] == [b"1", b"2", b"3", b"4"]
    assert [p.pid for p in again[:2]] == [first.pid, second.pid]
    assert [p.dup for p in again[:2]] == [True, True]
    new.expect_nothing()


def test_takeover_with_clean_start_drops_the_session(peer: Peer) -> None:
    """Clean Start 1 discards what was held: queue, subscriptions, window [MQTT-3.1.2-4], [MQTT-3.2.2-2]."""
    old = peer.connect("s", expiry=100)
    old.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"unacknowledged")
    old.expect("PUBLISH")
    new = peer.connect("s", clean=True, expiry=100)
    assert not new.connack.session_present
    old.expect_closed(0x8E)
    publisher.put(peer.topic, b"after")
    new.expect_nothing()


def test_session_present_only_when_state_is_held(peer: Peer) -> None:
    """Also over a restart of the broker [MQTT-3.2.2-3], [MQTT-3.1.2-5], [MQTT-3.1.2-6]."""
    kept = peer.connect("kept", clean=False, expiry=1000)
    assert not kept.connack.session_present
    gone = peer.connect("gone", clean=False, expiry=0)
    gone.disconnect()
    kept.disconnect()
    again = peer.connect("kept", clean=False, expiry=1000)
    assert again.connack.session_present
    again.subscribe(peer.topic, qos=1)
    again.disconnect()
    peer.restart()
    assert not peer.connect("gone", clean=False).connack.session_present
    again = peer.connect("kept", clean=False, expiry=1000)
    assert again.connack.session_present
    peer.connect("p").put(peer.topic, b"still subscribed")
    again.take(payload=b"still subscribed")


@pytest.mark.parametrize("expiry", [None, 0])
def test_a_session_without_expiry_ends_at_the_close(peer: Peer, expiry: int | None) -> None:
    """Session Expiry Interval absent or 0 [MQTT-3.1.2.11.2]."""
    client = peer.connect("s", clean=False, expiry=expiry)
    client.subscribe(peer.topic, qos=1)
    client.drop()
    peer.settle()
    assert not peer.connect("s", clean=False, expiry=expiry).connack.session_present


def test_a_311_clean_session_ends_at_the_close(peer: Peer) -> None:
    """Clean Session 1 leaves nothing behind, 0 keeps [MQTT-3.1.2-6] of 3.1.1."""
    for clean, present in ((True, False), (False, True)):
        name = f"s{clean}"
        first = peer.connect(name, version=4, clean=clean)
        first.subscribe(peer.topic, qos=1)
        first.disconnect()
        assert peer.connect(name, version=4, clean=False).connack.session_present is present


def test_expiry_of_all_ones_never_ends(peer: Peer) -> None:
    """0xFFFFFFFF is no number of seconds [MQTT-3.1.2.11.2]."""
    client = peer.connect("s", expiry=0xFFFFFFFF)
    client.subscribe(peer.topic, qos=1)
    client.disconnect()
    peer.advance(200 * YEAR, tcp=0.2)
    peer.restart()
    peer.advance(200 * YEAR, tcp=0.2)
    assert peer.connect("s", clean=False, expiry=0xFFFFFFFF).connack.session_present


def test_a_session_expires_on_time(peer: Peer) -> None:
    """Not before its interval has passed and not after [MQTT-4.1.0-2]."""
    peer.connect("short", expiry=1).drop()
    peer.connect("long", expiry=100).drop()
    peer.advance(0.6)
    present = peer.connect("short", clean=False, expiry=1)
    assert present.connack.session_present
    present.drop()
    peer.advance(1.4)
    assert not peer.connect("short", clean=False).connack.session_present
    assert peer.connect("long", clean=False).connack.session_present


def test_disconnect_must_not_raise_expiry_from_zero(peer: Peer) -> None:
    """A non-zero interval in DISCONNECT after 0 in CONNECT is a protocol error [MQTT-3.14.2.2.2]."""
    client = peer.connect("s", clean=True, expiry=0)
    client.disconnect(expiry=100)
    client.expect_closed(0x82)
    assert not peer.connect("s", clean=False).connack.session_present


def test_disconnect_changes_expiry(peer: Peer) -> None:
    """Shorter and longer, and 0 ends the session at once [MQTT-3.14.2.2.2]."""
    peer.connect("longer", expiry=1).disconnect(expiry=100)
    peer.connect("shorter", expiry=100).disconnect(expiry=1)
    peer.connect("ended", expiry=100).disconnect(expiry=0)
    assert not peer.connect("ended", clean=False).connack.session_present
    peer.advance(1.5)
    assert peer.connect("longer", clean=False).connack.session_present
    assert not peer.connect("shorter", clean=False).connack.session_present


def test_expiry_runs_on_over_a_restart(peer: Peer) -> None:
    """The interval counts from the close of the connection, not from the start of the broker [MQTT-4.1.0-2]."""
    peer.connect("short", expiry=2).disconnect()
    peer.connect("long", expiry=100).disconnect()
    peer.advance(1.3)
    peer.restart()
    peer.advance(1.1)
    assert not peer.connect("short", clean=False).connack.session_present
    assert peer.connect("long", clean=False).connack.session_present


def test_a_session_that_was_connected_at_the_crash_expires_after_it(peer: Peer) -> None:
    """A crash closes the connection: the interval begins there, it neither ends at once nor never [MQTT-4.1.0-2]."""
    peer.connect("short", expiry=1)
    peer.connect("long", expiry=100)
    peer.restart()
    peer.advance(2.2)
    assert not peer.connect("short", clean=False).connack.session_present
    assert peer.connect("long", clean=False).connack.session_present


def test_a_session_lowered_to_zero_ends_at_the_crash(peer: Peer) -> None:
    """The client resumed it with expiry 0: with the connection it is over [MQTT-3.1.2.11.2]."""
    peer.connect("s", expiry=100).disconnect()
    again = peer.connect("s", clean=False, expiry=0)
    assert again.connack.session_present
    peer.restart()
    assert not peer.connect("s", clean=False).connack.session_present


@pytest.mark.parametrize(("before", "after"), [(4, 5), (5, 4), (3, 5)])
def test_a_session_moves_between_versions(peer: Peer, before: int, after: int) -> None:
    """Subscriptions and queue are kept when the client comes back with another protocol version [MQTT-3.1.2-5]."""
    first = peer.connect("s", version=before, clean=False, expiry=1000 if before == 5 else None)
    first.subscribe(f"{peer.topic}/+", qos=1)
    first.disconnect()
    publisher = peer.connect("p")
    publisher.put(f"{peer.topic}/a", b"queued", content_type="text/plain")
    second = peer.connect("s", version=after, clean=False, expiry=1000 if after == 5 else None)
    assert second.connack.session_present
    got = second.take(topic=f"{peer.topic}/a", payload=b"queued")
    assert got.props.get("content_type") == ("text/plain" if after == 5 else None)
    publisher.put(f"{peer.topic}/b", b"live")
    second.take(topic=f"{peer.topic}/b", payload=b"live")


def test_a_clean_session_between_two_persistent_ones_leaves_nothing(peer: Peer) -> None:
    """No stale queue, no stale window, packet ids start at 1 again [MQTT-3.1.2-4]."""
    publisher = peer.connect("p")
    first = peer.connect("s", expiry=1000, receive_maximum=2)
    first.subscribe(peer.topic, qos=1)
    for payload in (b"1", b"2", b"3"):
        publisher.put(peer.topic, payload)
    first.expect("PUBLISH", payload=b"1")
    first.expect("PUBLISH", payload=b"2")
    first.disconnect()
    peer.connect("s", clean=True).disconnect()
    second = peer.connect("s", clean=False, expiry=1000, receive_maximum=2)
    assert not second.connack.session_present
    second.expect_nothing()
    second.subscribe(peer.topic, qos=1)
    publisher.put(peer.topic, b"4")
    publisher.put(peer.topic, b"5")
    assert [(p.payload, p.pid, p.dup) for p in (second.expect("PUBLISH"), second.expect("PUBLISH"))] == [
        (b"4", 1, False),
        (b"5", 2, False),
    ]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_second_connect_on_one_connection_closes_it(peer: Peer, version: int) -> None:
    """[MQTT-3.1.0-2]."""
    client = peer.connect("s", version=version)
    client.send_connect("other", clean=True)
    client.expect_closed(0x82 if version == 5 else None)


def test_311_refuses_an_empty_identifier_without_clean_session(peer: Peer) -> None:
    """CONNACK 0x02 and close [MQTT-3.1.3-8] of 3.1.1."""
    client = peer.open(version=4)
    client.send_connect("", clean=False)
    client.expect("CONNACK", reason=2, session_present=False)
    client.expect_closed()


def test_311_accepts_an_empty_identifier_with_clean_session(peer: Peer) -> None:
    """[MQTT-3.1.3-6] of 3.1.1."""
    one, two = peer.connect_raw("", version=4, clean=True), peer.connect_raw("", version=4, clean=True)
    one.ping()
    two.ping()


def test_5_is_given_an_identifier(peer: Peer) -> None:
    """An Assigned Client Identifier that is new and works as one [MQTT-3.2.2-16], [MQTT-3.1.3-7]."""
    one = peer.connect_raw("", version=5, clean=True, expiry=100)
    two = peer.connect_raw("", version=5, clean=True, expiry=100)
    assigned = [str(c.connack.props["assigned_client_identifier"]) for c in (one, two)]
    assert all(assigned)
    assert assigned[0] != assigned[1]
    one.subscribe(peer.topic, qos=1)
    again = peer.connect_raw(assigned[0], version=5, clean=False, expiry=100)
    assert again.connack.session_present
    assert "assigned_client_identifier" not in again.connack.props
    one.expect_closed(0x8E)


def test_assigned_identifiers_stay_unique_over_a_restart(peer: Peer) -> None:
    """A broker that counts from one again would hand out the id of a session that it still holds [MQTT-3.2.2-16]."""
    before = [str(peer.connect_raw("", expiry=1000).connack.props["assigned_client_identifier"]) for _ in range(3)]
    peer.restart()
    after = [str(peer.connect_raw("", expiry=1000).connack.props["assigned_client_identifier"]) for _ in range(3)]
    assert len({*before, *after}) == 6


def test_the_first_packet_must_be_connect(peer: Peer) -> None:
    """Anything else closes without an answer [MQTT-3.1.0-1], [MQTT-3.14.0-1]."""
    for packet in ("c000", "8206000100016101", "300500016178" + "78", "e000"):
        client = peer.open(version=5)
        client.send(bytes.fromhex(packet))
        client.expect_closed(silent=True)


def test_nothing_is_processed_after_a_refused_connect(peer: Peer) -> None:
    """Data behind a CONNECT that was refused is not acted upon [MQTT-3.1.4-6]."""
    watcher = peer.connect("w")
    watcher.subscribe(peer.topic, qos=0)
    client = peer.open(version=4)
    client.send(client.wire.connect("", clean=False) + client.wire.publish(peer.topic, b"x"))
    client.expect("CONNACK", reason=2)
    client.expect_closed()
    watcher.expect_nothing()


def test_31_clients_are_welcome(peer: Peer) -> None:
    """MQIsdp, protocol level 3: a persistent session, both QoS handshakes, a will."""
    watcher = peer.connect("w")
    watcher.subscribe(f"{peer.topic}/will", qos=1)
    client = peer.connect("old", version=3, clean=False, will=(f"{peer.topic}/will", b"gone", 1, False))
    assert client.subscribe(f"{peer.topic}/a", qos=2) == [2]
    client.put(f"{peer.topic}/a", b"two", qos=2)
    client.take(payload=b"two", qos=2)
    client.put(f"{peer.topic}/a", b"one", qos=1)
    client.take(payload=b"one", qos=1)
    client.drop()
    watcher.take(payload=b"gone")
    peer.connect("p").put(f"{peer.topic}/a", b"queued")
    back = peer.connect("old", version=3, clean=False)
    back.take(payload=b"queued")
    back.ping()


def test_a_31_connack_carries_no_session_present(peer: Peer) -> None:
    """Byte 1 is reserved in MQTT 3.1, table 'CONNACK variable header': 0."""
    peer.connect("old", version=3, clean=False).disconnect()
    assert not peer.connect("old", version=3, clean=False).connack.session_present


@pytest.mark.settings({"mqtt.session_expiry_interval": 1})
def test_311_sessions_expire_by_the_setting(peer: Peer) -> None:
    """3.1.1 has no expiry of its own, the broker's setting ends what nobody fetches."""
    client = peer.connect("s", version=4, clean=False)
    client.subscribe(peer.topic, qos=1)
    client.disconnect()
    peer.advance(1.5)
    assert not peer.connect("s", version=4, clean=False).connack.session_present


@pytest.mark.settings({"mqtt.max_session_expiry_interval": 50})
def test_the_longest_expiry_is_told_in_connack(peer: Peer) -> None:
    """The server may use another value than asked, and says so [MQTT-3.2.2.3.2]."""
    assert peer.connect("a", expiry=100).connack.props["session_expiry_interval"] == 50
    assert "session_expiry_interval" not in peer.connect("b", expiry=20).connack.props


@pytest.mark.settings({"min_session_expiry": "*-collector-?=600"})
def test_min_session_expiry_gives_a_collector_a_session(peer: Peer) -> None:
    """For clients that resume (Clean Start 0) but cannot ask; told in CONNACK; DISCONNECT with 0 does not undo it."""
    got = peer.connect("collector-1", clean=False, expiry=None)
    assert got.connack.props["session_expiry_interval"] == 600
    got.subscribe(peer.topic, qos=1)
    got.disconnect(expiry=0)
    peer.connect("p").put(peer.topic, b"kept")
    back = peer.connect("collector-1", clean=False, expiry=None)
    assert back.connack.session_present
    back.take(payload=b"kept")
    assert peer.connect("collector-2", clean=False, expiry=100).connack.props["session_expiry_interval"] == 600


@pytest.mark.settings({"min_session_expiry": "*-collector-?=600"})
def test_min_session_expiry_leaves_others_alone(peer: Peer) -> None:
    """Another id, a clean start, and a client that asks for more keep what they asked for."""
    other = peer.connect("other", clean=False, expiry=None)
    assert "session_expiry_interval" not in other.connack.props
    other.disconnect()
    assert not peer.connect("other", clean=False).connack.session_present
    clean = peer.connect("collector-1", clean=True, expiry=None)
    assert "session_expiry_interval" not in clean.connack.props
    clean.disconnect()
    assert not peer.connect("collector-1", clean=False).connack.session_present
    asked = peer.connect("collector-3", clean=False, expiry=1000)
    assert asked.connack.props.get("session_expiry_interval", 1000) == 1000


@pytest.mark.settings({"mqtt.session_expiry_interval": 1, "min_session_expiry": "*-collector-?=600"})
def test_min_session_expiry_holds_for_311(peer: Peer) -> None:
    """A 3.1.1 collector outlives the general expiry of 3.1.1 sessions."""
    client = peer.connect("collector-1", version=4, clean=False)
    client.subscribe(peer.topic, qos=1)
    client.disconnect()
    peer.advance(1.5)
    assert peer.connect("collector-1", version=4, clean=False).connack.session_present


@pytest.mark.settings({"mqtt.connect_timeout": "500ms"})
def test_a_silent_connection_is_cut(peer: Peer) -> None:
    """No CONNECT, or half of one, within the connect timeout: closed without a word [MQTT-3.1.4]."""
    silent, half = peer.open(version=5), peer.open(version=5)
    half.send(b"\x10\x20\x00\x04MQTT")
    peer.advance(2)
    silent.expect_closed(silent=True)
    half.expect_closed(silent=True)
