"""Repetition on a living connection, where an operator asks for it; never for 5.0."""

import pytest

from tests.conformance.peer import Peer


@pytest.mark.settings({"mqtt.retry_interval": "1s", "mqtt.await_rel_timeout": "1s"})
def test_only_311_is_sent_again_what_it_does_not_answer(peer: Peer) -> None:
    """PUBLISH with DUP until PUBREC, then PUBREL; a 5.0 client gets each once [MQTT-4.4.0-1]."""
    old, new = peer.connect("old", version=4), peer.connect("new", version=5)
    for client in (old, new):
        client.subscribe(peer.topic, qos=2)
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"x", 2)
    first = old.expect("PUBLISH", dup=False)
    new.expect("PUBLISH", dup=False)
    peer.advance(2.1)
    again = old.drain()
    assert {(one.type, one.dup, one.pid, one.payload) for one in again} == {("PUBLISH", True, first.pid, b"x")}
    old.ack("PUBREC", first.pid)
    old.wait_for("PUBREL", pid=first.pid)
    old.drain()
    peer.advance(2.1)
    again = old.drain()
    assert {(one.type, one.pid) for one in again} == {("PUBREL", first.pid)}
    old.ack("PUBCOMP", first.pid)
    old.ping()
    new.expect_nothing()
    publisher.publish(peer.topic, b"y", 2, pid=77)
    publisher.expect("PUBREC", pid=77)
    assert peer.session("p")["awaiting_rel"] == 1
    peer.advance(2.1)
    assert peer.session("p")["awaiting_rel"] == 0
