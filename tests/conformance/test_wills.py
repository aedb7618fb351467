"""Wills: when they are sent, when not, and that a pending one is kept."""

from typing import Any

import pytest

from tests.conformance.client import Client
from tests.conformance.peer import Peer


def watch(peer: Peer) -> Client:
    client = peer.connect("w", clean=False, expiry=1000)
    if not client.connack.session_present:
        client.subscribe(f"{peer.topic}/#", qos=2)
    return client


def mortal(peer: Peer, *, qos: int = 1, retain: bool = False, **options: Any) -> Client:
    """A client with the will "gone"; ``delay`` in seconds and other will properties in ``will``."""
    props = options.pop("will", {})
    return peer.connect("m", will=(f"{peer.topic}/will", b"gone", qos, retain, props), **options)


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_lost_connection_sends_the_will(peer: Peer, version: int, qos: int) -> None:
    """[MQTT-3.1.2-8]."""
    watcher = watch(peer)
    mortal(peer, version=version, qos=qos).drop()
    watcher.take(payload=b"gone", qos=qos, retain=False)
    watcher.expect_nothing()


@pytest.mark.parametrize("version", [4, 5])
def test_a_normal_disconnect_drops_the_will(peer: Peer, version: int) -> None:
    """[MQTT-3.14.4-3]."""
    watcher = watch(peer)
    mortal(peer, version=version).disconnect()
    watcher.expect_nothing()


@pytest.mark.parametrize("reason", [0x04, 0x80, 0x81, 0x93])
def test_a_disconnect_with_another_reason_sends_the_will(peer: Peer, reason: int) -> None:
    """0x04 asks for it, and only 0x00 drops it [MQTT-3.14.4-3], [MQTT-3.1.2-8]."""
    watcher = watch(peer)
    mortal(peer).disconnect(reason)
    watcher.take(payload=b"gone")


def test_a_protocol_error_sends_the_will(peer: Peer) -> None:
    """The broker closed the connection, not the client [MQTT-3.1.2-8]."""
    watcher = watch(peer)
    client = mortal(peer)
    client.send(b"\x00\x00")
    client.expect_closed((0x81, 0x82))
    watcher.take(payload=b"gone")


def test_a_will_is_retained_and_expires_as_asked(peer: Peer) -> None:
    """[MQTT-3.1.2-15], [MQTT-3.1.2-16] of the will flags; its properties go along (section 3.1.3.2)."""
    watcher = watch(peer)
    properties = {"message_expiry_interval": 1, "content_type": "c", "user_property": [("k", "v"), ("k", "v")]}
    mortal(peer, retain=True, will=properties).drop()
    got = watcher.take(payload=b"gone", retain=False)
    assert got.props.pop("message_expiry_interval") in (0, 1)
    assert got.props == {"content_type": "c", "user_property": [("k", "v"), ("k", "v")]}
    reader = peer.connect("r")
    reader.subscribe(f"{peer.topic}/will", qos=1)
    reader.take(payload=b"gone", retain=True)
    peer.advance(1.6)
    late = peer.connect("late")
    late.subscribe(f"{peer.topic}/will", qos=1)
    late.expect_nothing()


def test_the_delay_is_waited_for(peer: Peer) -> None:
    """Not before, and then without being asked [MQTT-3.1.3.2.2]."""
    watcher = watch(peer)
    mortal(peer, expiry=100, will={"will_delay_interval": 1}).drop()
    peer.advance(0.6)
    watcher.expect_nothing()
    peer.advance(0.8)
    watcher.take(payload=b"gone")
    watcher.expect_nothing()


def test_a_reconnect_cancels_a_delayed_will(peer: Peer) -> None:
    """Within the delay, and for good [MQTT-3.1.3-9]."""
    watcher = watch(peer)
    mortal(peer, expiry=100, will={"will_delay_interval": 1}).drop()
    peer.advance(0.4)
    peer.connect("m", clean=False, expiry=100)
    peer.advance(1.2)
    watcher.expect_nothing()


def test_the_end_of_the_session_ends_the_delay(peer: Peer) -> None:
    """The earlier of the two counts; expiry 0 is at once [MQTT-3.1.2-8]."""
    watcher = watch(peer)
    mortal(peer, expiry=0, will={"will_delay_interval": 100}).drop()
    watcher.take(payload=b"gone")
    mortal(peer, expiry=1, will={"will_delay_interval": 100}).drop()
    peer.advance(0.5)
    watcher.expect_nothing()
    peer.advance(1.0)
    watcher.take(payload=b"gone")


def test_disconnect_with_expiry_0_sends_a_delayed_will_at_once(peer: Peer) -> None:
    """Reason 0x04 and the session ends with the connection [MQTT-3.1.2-8]."""
    watcher = watch(peer)
    mortal(peer, expiry=100, will={"will_delay_interval": 100}).disconnect(0x04, expiry=0)
    watcher.take(payload=b"gone")


@pytest.mark.parametrize("version", [4, 5])
def test_a_takeover_sends_the_will_of_the_old_connection(peer: Peer, version: int) -> None:
    """Without a delay: the connection was closed, not by the client (section 3.1.4)."""
    watcher = watch(peer)
    mortal(peer, version=version, clean=False, expiry=100)
    peer.connect("m", version=version, clean=False, expiry=100)
    watcher.take(payload=b"gone")
    watcher.expect_nothing()


def test_a_takeover_within_the_delay_sends_no_will(peer: Peer) -> None:
    """The new connection is there before the delay has passed [MQTT-3.1.3-9]."""
    watcher = watch(peer)
    mortal(peer, clean=False, expiry=100, will={"will_delay_interval": 1})
    peer.connect("m", clean=False, expiry=100)
    peer.advance(1.3)
    watcher.expect_nothing()


@pytest.mark.parametrize("connected", [True, False])
def test_a_clean_start_sends_a_delayed_will_at_once(peer: Peer, connected: bool) -> None:
    """The session ends with it, taken over or pending [MQTT-3.1.2-8], [MQTT-3.1.2-4]."""
    watcher = watch(peer)
    client = mortal(peer, clean=False, expiry=100, will={"will_delay_interval": 100})
    if not connected:
        client.drop()
    peer.connect("m", clean=True, expiry=100)
    watcher.take(payload=b"gone")
    watcher.expect_nothing()


def test_the_new_connection_has_its_own_will(peer: Peer) -> None:
    """Or none: that of the old connection does not come back [MQTT-3.1.2-10]."""
    watcher = watch(peer)
    mortal(peer, clean=False, expiry=100).disconnect()
    peer.connect("m", clean=False, expiry=100).drop()
    watcher.expect_nothing()


def test_a_pending_will_survives_a_restart(peer: Peer) -> None:
    """And its delay runs on meanwhile [MQTT-3.1.2-8]."""
    watcher = watch(peer)
    mortal(peer, expiry=100, will={"will_delay_interval": 2}).drop()
    watcher.expect_nothing()
    watcher.disconnect()
    peer.advance(1.3)
    peer.restart()
    watcher = watch(peer)
    peer.advance(1.3)
    watcher.take(payload=b"gone")
    watcher.expect_nothing()


def test_a_cancelled_will_stays_cancelled_after_a_restart(peer: Peer) -> None:
    """The reconnect is as durable as the will was [MQTT-3.1.3-9]."""
    watch(peer).disconnect()
    mortal(peer, expiry=100, will={"will_delay_interval": 1}).drop()
    peer.connect("m", clean=False, expiry=100).disconnect()
    peer.restart()
    peer.advance(1.5)
    watch(peer).expect_nothing()


@pytest.mark.parametrize(("expiry", "delay"), [(100, 1), (100, 0), (0, 0)])
def test_a_crash_of_the_broker_sends_the_will(peer: Peer, expiry: int, delay: int) -> None:
    """It closed the connection, and the client may never come back; exactly one is sent [MQTT-3.1.2-8]."""
    watch(peer).disconnect()
    mortal(peer, clean=False, expiry=expiry, will={"will_delay_interval": delay})
    peer.restart()
    peer.advance(1.5)
    watcher = watch(peer)
    watcher.take(payload=b"gone")
    watcher.expect_nothing()


def test_a_will_reaches_a_persistent_session_that_is_away(peer: Peer) -> None:
    """It is a message like any other: kept until its receiver comes [MQTT-4.5.0-1]."""
    watch(peer).disconnect()
    mortal(peer, qos=1).drop()
    peer.advance(1.5, tcp=0.3)
    peer.restart()
    watcher = watch(peer)
    watcher.take(payload=b"gone")
    watcher.expect_nothing()


def test_no_local_holds_for_the_will(peer: Peer) -> None:
    """The client's own will does not come to its own subscription [MQTT-3.8.3-3]."""
    client = peer.connect("m", expiry=100, will=(f"{peer.topic}/will", b"gone", 1, False))
    client.subscribe(f"{peer.topic}/#", qos=1, no_local=True)
    client.drop()
    back = peer.connect("m", clean=False, expiry=100)
    assert back.connack.session_present
    back.expect_nothing()
