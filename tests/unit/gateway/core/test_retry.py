"""What is sent again on a live connection, and incoming ids that are given up."""

import pytest

from gateway.core.state import Core
from tests.conformance.client import Client
from tests.core_rig import broker, connect, core_of, fill, session_of


@pytest.mark.parametrize("clean", [True, False], ids=["memory", "persistent"])
def test_311_is_sent_again_what_it_does_not_acknowledge(clean: bool) -> None:
    b = broker(retry_ms=5000)
    client = connect(b, "s", 4, clean=clean)
    client.subscribe("t", qos=2)
    fill(b, "t", 1, qos=1)
    fill(b, "t", 1, qos=2, start=1)
    first = [client.expect("PUBLISH", dup=False) for _ in range(2)]
    b.advance(4000)
    client.expect_nothing()
    b.advance(2100)
    for got in first:
        client.expect("PUBLISH", dup=True, pid=got.pid, payload=got.payload, qos=got.qos)
    client.expect_nothing()
    client.ack("PUBACK", first[0].pid)
    client.ack("PUBREC", first[1].pid)
    client.expect("PUBREL", pid=first[1].pid)
    b.advance(6100)
    client.expect("PUBREL", pid=first[1].pid)
    client.expect_nothing()
    client.ack("PUBCOMP", first[1].pid)
    b.advance(20_000)
    client.expect_nothing()


@pytest.mark.parametrize(("version", "interval"), [(5, 5000), (4, 0)])
def test_5_0_never_and_nobody_unless_asked(version: int, interval: int) -> None:
    """[MQTT-4.4.0-1]"""
    b = broker(retry_ms=interval)
    client = connect(b, "s", version)
    client.subscribe("t", qos=2)
    fill(b, "t", 2, qos=1)
    client.recv_many("PUBLISH", 2)
    b.advance(60_000)
    client.expect_nothing()


def test_who_has_not_read_the_first_copy_gets_no_second() -> None:
    b = broker(retry_ms=2000)
    client = connect(b, "s", 4)
    client.subscribe("t", qos=1)
    client.stall()
    fill(b, "t", 1)
    b.advance(10_000)
    link = client.link
    assert hasattr(link, "read_on")
    link.read_on()
    client.expect("PUBLISH", dup=False)
    client.expect_nothing()
    b.advance(2000)
    client.expect("PUBLISH", dup=True)


def test_a_new_connection_begins_anew() -> None:
    b = broker(retry_ms=5000)
    client = connect(b, "s", 4)
    client.subscribe("t", qos=1)
    fill(b, "t", 1)
    client.expect("PUBLISH")
    client.drop()
    b.advance(60_000)
    client = connect(b, "s", 4)
    client.expect("PUBLISH", dup=True)
    b.advance(4000)
    client.expect_nothing()
    b.advance(2100)
    client.expect("PUBLISH", dup=True)


def awaiting(b_core: Core, client: Client) -> list[int]:
    return list(b_core.sessions[client.client_id].awaiting)


@pytest.mark.parametrize("clean", [True, False], ids=["memory", "persistent"])
def test_an_incoming_id_is_given_up_when_its_pubrel_does_not_come(clean: bool) -> None:
    b = broker(await_rel_ms=5000)
    sub = connect(b, "s")
    sub.subscribe("t", qos=1)
    client = connect(b, "p", clean=clean)
    client.publish("t", b"x", 2, pid=7)
    client.expect("PUBREC", pid=7)
    sub.take(payload=b"x")
    b.advance(4000)
    client.publish("t", b"x", 2, pid=7, dup=True)
    client.expect("PUBREC", pid=7)
    sub.expect_nothing()
    b.advance(2100)
    assert awaiting(core_of(b), client) == []
    assert session_of(b, "p").awaiting_since == {}
    client.ack("PUBREL", 7)
    client.expect("PUBCOMP", pid=7, reason=0x92)
    client.publish("t", b"x", 2, pid=7, dup=True)  # an unknown id is a new message
    client.expect("PUBREC", pid=7)
    sub.take(payload=b"x")
    client.ack("PUBREL", 7)
    client.expect("PUBCOMP", pid=7, reason=0)
    assert session_of(b, "p").awaiting_since == {}


def test_ids_of_before_a_restart_have_all_of_their_time_again() -> None:
    b = broker(await_rel_ms=5000)
    client = connect(b, "p")
    client.publish("t", b"x", 2, pid=7)
    client.expect("PUBREC", pid=7)
    b.advance(4000)
    b.crash()
    b.advance(3000)
    client = connect(b, "p")
    assert awaiting(core_of(b), client) == [7]
    b.advance(4000)
    assert awaiting(core_of(b), client) == []


def test_without_the_setting_it_is_kept() -> None:
    b = broker()
    client = connect(b, "p")
    client.publish("t", b"x", 2, pid=7)
    client.expect("PUBREC", pid=7)
    b.advance(1_000_000)
    assert awaiting(core_of(b), client) == [7]
