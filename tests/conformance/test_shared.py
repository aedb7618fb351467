"""Shared subscriptions: one receiver for each message, and what happens when it goes away."""

import itertools

import pytest

from tests.conformance.client import Client
from tests.conformance.peer import Peer


def member(peer: Peer, name: str, qos: int = 1, expiry: int | None = 1000, **options: int) -> Client:
    client = peer.connect(name, clean=False, expiry=expiry, **options)
    if not client.connack.session_present:
        client.subscribe(f"$share/g/{peer.topic}", qos=qos)
    return client


def payloads(client: Client) -> list[bytes]:
    """What has come, each acknowledged."""
    return [got.payload for got in client.take_all()]


@pytest.mark.parametrize("expiry", [None, 1000])
def test_each_message_goes_to_one_member(peer: Peer, expiry: int | None) -> None:
    """And every member gets some; another group and a plain subscription get them all [MQTT-4.8.2-1]."""
    members = [member(peer, name, expiry=expiry) for name in "abc"]
    other = peer.connect("other")
    other.subscribe(f"$share/h/{peer.topic}", qos=1)
    plain = peer.connect("plain")
    plain.subscribe(peer.topic, qos=1)
    publisher = peer.connect("p")
    sent = [str(n).encode() for n in range(30)]
    for payload in sent:
        publisher.put(peer.topic, payload)
    got = [payloads(client) for client in members]
    assert sorted(itertools.chain.from_iterable(got)) == sorted(sent)
    assert all(got)
    assert payloads(other) == sent
    assert payloads(plain) == sent


def test_the_granted_qos_of_the_member_counts(peer: Peer) -> None:
    """[MQTT-4.8.2-3]."""
    client = member(peer, "a", qos=0)
    peer.connect("p").put(peer.topic, b"x", qos=1)
    client.expect("PUBLISH", payload=b"x", qos=0)


@pytest.mark.parametrize("expiry", [None, 1000])
@pytest.mark.parametrize("flag", [False, True])
def test_the_options_of_the_member_count(peer: Peer, flag: bool, expiry: int | None) -> None:
    """Retain As Published and the identifier are the member's own [MQTT-3.3.1-12], [MQTT-3.3.1-13]."""
    client = peer.connect("a", expiry=expiry)
    client.subscribe(f"$share/g/{peer.topic}", qos=1, as_published=flag, identifier=12)
    peer.connect("p").put(peer.topic, b"x", retain=True)
    client.take(payload=b"x", retain=flag, props={"subscription_identifier": [12]})


def test_connected_members_come_first(peer: Peer) -> None:
    """Nothing waits for one that is away while another is there."""
    member(peer, "away").disconnect()
    here = member(peer, "here")
    publisher = peer.connect("p")
    for number in range(10):
        publisher.put(peer.topic, str(number).encode())
    assert payloads(here) == [str(n).encode() for n in range(10)]


@pytest.mark.parametrize("restart", [False, True])
def test_messages_are_kept_while_all_members_are_away(peer: Peer, restart: bool) -> None:
    """A group with a persistent member is durable; the first that comes back gets them."""
    member(peer, "a").disconnect()
    member(peer, "b").disconnect()
    publisher = peer.connect("p")
    sent = [str(n).encode() for n in range(10)]
    for payload in sent:
        publisher.put(peer.topic, payload)
    if restart:
        peer.restart()
    back = member(peer, "b")
    assert payloads(back) == sent
    assert payloads(member(peer, "a")) == []


def test_nothing_is_kept_when_only_memory_members_went_away(peer: Peer) -> None:
    """Their sessions are over, the subscription with them."""
    member(peer, "a", expiry=None).disconnect()
    peer.connect("p").put(peer.topic, b"x")
    member(peer, "a", expiry=None).expect_nothing()


def test_a_mere_disconnect_keeps_the_delivery_with_its_member(peer: Peer) -> None:
    """QoS 2 that was sent is completed with that client when it reconnects [MQTT-4.8.2-4]."""
    first = member(peer, "a", qos=2)
    peer.connect("p").put(peer.topic, b"x", qos=2)
    pid = first.expect("PUBLISH", qos=2).pid
    second = member(peer, "b", qos=2)
    first.drop()
    second.expect_nothing()
    back = member(peer, "a", qos=2)
    back.expect("PUBLISH", payload=b"x", pid=pid, dup=True)


def test_a_takeover_keeps_the_delivery_with_its_member(peer: Peer) -> None:
    """The session goes on."""
    first = member(peer, "a")
    peer.connect("p").put(peer.topic, b"x")
    pid = first.expect("PUBLISH").pid
    second = member(peer, "b")
    again = member(peer, "a")
    again.expect("PUBLISH", payload=b"x", pid=pid, dup=True)
    second.expect_nothing()


@pytest.mark.parametrize("expiry", [None, 1000])
def test_qos_1_of_a_session_that_ended_goes_to_another_member(peer: Peer, expiry: int | None) -> None:
    """Section 4.8.2: a SHOULD that the broker keeps."""
    first = member(peer, "a", expiry=expiry)
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"1")
    publisher.put(peer.topic, b"2")
    first.recv_many("PUBLISH", 2)
    second = member(peer, "b")
    if expiry is None:
        first.drop()
    else:
        first.disconnect(expiry=0)
    assert sorted(payloads(second)) == [b"1", b"2"]


def test_qos_2_of_a_session_that_ended_goes_to_nobody(peer: Peer) -> None:
    """Sent and not received by PUBREC: no other member gets it [MQTT-4.8.2-5]."""
    first = member(peer, "a", qos=2)
    peer.connect("p").put(peer.topic, b"x", qos=2)
    first.expect("PUBLISH", qos=2)
    second = member(peer, "b", qos=2)
    first.disconnect(expiry=0)
    second.expect_nothing()


@pytest.mark.parametrize(("qos", "answer"), [(1, "PUBACK"), (2, "PUBREC")])
def test_a_refused_message_is_discarded(peer: Peer, qos: int, answer: str) -> None:
    """A reason of 0x80 or more: no other member gets it, nor this one again [MQTT-4.8.2-6]."""
    first = member(peer, "a", qos=qos)
    peer.connect("p").put(peer.topic, b"x", qos=qos)
    first.ack(answer, first.expect("PUBLISH").pid, reason=0x83)
    second = member(peer, "b", qos=qos)
    first.ping()
    first.disconnect(expiry=0)
    second.expect_nothing()


def test_a_durable_group_keeps_what_a_memory_member_did_not_acknowledge(peer: Peer) -> None:
    """A message given to a non-persistent member stays until that member acknowledges: over its end and a crash."""
    memory = member(peer, "memory", expiry=None)
    member(peer, "persistent").disconnect()
    publisher = peer.connect("p")
    publisher.put(peer.topic, b"acknowledged")
    memory.take(payload=b"acknowledged")
    publisher.put(peer.topic, b"not")
    memory.expect("PUBLISH", payload=b"not")
    memory.ping()
    peer.advance(1.5, tcp=1.3)
    peer.restart()
    assert payloads(member(peer, "persistent")) == [b"not"]


def test_an_overlap_of_shared_and_plain_is_two_copies(peer: Peer) -> None:
    """A shared subscription is of its own, beside the client's others (section 4.8.2)."""
    client = peer.connect("s")
    client.subscribe(peer.topic, qos=1, identifier=1)
    client.subscribe(f"$share/g/{peer.topic}", qos=1, identifier=2)
    peer.connect("p").put(peer.topic, b"x")
    got = [client.take(payload=b"x") for _ in range(2)]
    assert sorted(identifier for packet in got for identifier in packet.props["subscription_identifier"]) == [1, 2]
    client.expect_nothing()


@pytest.mark.parametrize("name", ["$share/g", "$share//x", "$share/a+b/x", "$share/a#/x", "$share/g/"])
def test_a_bad_share_name_is_refused(peer: Peer, name: str) -> None:
    """One character at least, no wildcard, a filter behind it [MQTT-4.8.2-1], [MQTT-4.8.2-2]."""
    client = peer.connect("s")
    data = name.encode()
    body = b"\x00\x01\x00" + len(data).to_bytes(2, "big") + data + b"\x01"
    client.send(bytes([0x82, len(body)]) + body)
    got = client.recv()
    if got.type == "SUBACK":
        assert got.reasons == [0x8F]
        client.ping()
    else:
        assert got.type == "DISCONNECT"
        assert got.reason in (0x81, 0x82, 0x8F)


def test_leaving_the_group_ends_the_share(peer: Peer) -> None:
    """UNSUBSCRIBE names the whole $share filter [MQTT-3.10.4-1]."""
    first, second = member(peer, "a"), member(peer, "b")
    assert first.unsubscribe(f"$share/g/{peer.topic}") == [0]
    publisher = peer.connect("p")
    for number in range(6):
        publisher.put(peer.topic, str(number).encode())
    assert len(payloads(second)) == 6
    first.expect_nothing()


def test_a_member_with_a_full_window_does_not_hold_the_group_up(peer: Peer) -> None:
    """What it cannot take goes to the others."""
    slow = member(peer, "slow", receive_maximum=1)
    quick = member(peer, "quick")
    publisher = peer.connect("p")
    for number in range(20):
        publisher.put(peer.topic, str(number).encode())
    waiting = slow.drain()
    assert len(waiting) == 1
    assert len(payloads(quick)) == 19
