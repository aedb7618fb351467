"""The Sparkplug bridge: QoS 0 in, kept, QoS 1 out in order; commands; certificates."""

import pytest

from tests.conformance.client import Client, Got
from tests.conformance.peer import Peer
from tests.spb_bytes import data, metric, nbirth, ndeath, payload, varint

T = 1_700_000_000_000


def topic(peer: Peer, kind: str, device: str = "") -> str:
    return f"spBv1.0/{peer.prefix}/{kind}/e" + (f"/{device}" if device else "")


def node(peer: Peer, bd_seq: int = 0, qos: int = 0, **options: int) -> Client:
    """A node that has said its birth."""
    will = (topic(peer, "NDEATH"), ndeath(bd_seq), 1, False)
    client = peer.connect("edge", version=4, clean=True, will=will, **options)
    client.publish(topic(peer, "NBIRTH"), nbirth(bd_seq, 0, T + bd_seq), qos=qos, pid=60_000)
    if qos:
        client.expect("PUBACK")
    return client


def collector(peer: Peer, name: str = "collector", version: int = 5, qos: int = 1) -> Client:
    client = peer.connect(name, version=version, clean=False, expiry=1000)
    if not client.connack.session_present:
        client.subscribe(f"spBv1.0/{peer.prefix}/#", qos=qos)
    return client


def seen(client: Client, count: int) -> list[Got]:
    return [client.take() for _ in range(count)]


def envelope(got: Got) -> dict[str, str]:
    return dict(got.props["user_property"])


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("away", [False, True])
def test_qos_0_of_a_node_comes_at_qos_1_births_first_and_untouched(peer: Peer, version: int, away: bool) -> None:
    client = collector(peer, version=version)
    if away:
        client.drop()
        peer.settle()
    edge = node(peer)
    device = payload(metric("x", 1, 7), time=T + 1, seq=1)
    edge.publish(topic(peer, "DBIRTH", "d"), device)
    for number in range(2, 40):
        edge.publish(topic(peer, "NDATA" if number % 2 else "DDATA", "" if number % 2 else "d"), data(number))
    edge.drop()
    if away:
        peer.settle()
        client = collector(peer, version=version)
    got = seen(client, 41)
    assert [one.payload for one in got] == [nbirth(0), device, *[data(number) for number in range(2, 40)], ndeath(0)]
    assert {one.qos for one in got} == {1}
    assert not any(one.retain or one.dup for one in got)
    if version == 4:
        assert not any(one.props for one in got)
        return
    ids = [int(envelope(one)["forebay-id"]) for one in got]
    assert ids == sorted(set(ids))
    assert [envelope(one)["forebay-qos"] for one in got] == ["0"] * 40 + ["1"]
    assert {envelope(one)["forebay-late"] for one in got} == {"0"}
    assert all(int(envelope(one)["forebay-received"]) > 0 for one in got)


def test_what_is_ingested_outlives_kill_9_with_ids_that_never_come_again(peer: Peer) -> None:
    collector(peer).drop()
    ids: list[int] = []
    for turn in range(3):
        edge = node(peer, turn, qos=1)
        edge.publish(topic(peer, "NDATA"), data(1, turn, T + turn + 1))
        edge.put(topic(peer, "NDATA"), data(2, turn, T + turn + 2), 1)  # acknowledged: what came before is kept too
        peer.restart()
    client = collector(peer)
    got = client.take_all()
    births = [n for n, one in enumerate(got) if one.topic == topic(peer, "NBIRTH")]
    assert [got[n].payload for n in births] == [nbirth(turn, 0, T + turn) for turn in range(3)]
    for turn, start in enumerate(births):
        after = [one.payload for one in got[start : start + 3]]
        assert after[1:] == [data(1, turn, T + turn + 1), data(2, turn, T + turn + 2)]
    ids = [int(envelope(one)["forebay-id"]) for one in got]
    assert ids == sorted(set(ids))


def test_two_collectors_get_the_same_ids(peer: Peer) -> None:
    first, second = collector(peer), collector(peer, "second")
    second.drop()
    peer.settle()
    edge = node(peer)
    for number in range(1, 10):
        edge.publish(topic(peer, "NDATA"), data(number))
    one = [(envelope(got)["forebay-id"], got.payload) for got in seen(first, 10)]
    other = [(envelope(got)["forebay-id"], got.payload) for got in seen(collector(peer, "second"), 10)]
    assert one == other


def test_a_subscription_of_qos_0_stays_at_qos_0(peer: Peer) -> None:
    client = collector(peer, qos=0)
    node(peer)
    got = client.expect("PUBLISH", qos=0)
    assert "user_property" not in got.props


def test_a_shared_group_of_persistent_sessions_gets_it_at_qos_1(peer: Peer) -> None:
    members = [peer.connect(f"m{n}", clean=False, expiry=1000) for n in range(2)]
    for member in members:
        member.subscribe(f"$share/{peer.prefix}/spBv1.0/{peer.prefix}/#", qos=1)
    edge = node(peer)
    edge.publish(topic(peer, "NDATA"), data(1))
    got = [one for member in members for one in member.take_all()]
    assert sorted(one.payload for one in got) == sorted([nbirth(0), data(1)])
    assert {one.qos for one in got} == {1}


@pytest.mark.settings({"bridge.enabled": False})
def test_switched_off_it_is_a_plain_broker(peer: Peer) -> None:
    client = collector(peer)
    edge = node(peer)
    edge.publish(topic(peer, "NDATA"), data(1))
    assert [client.expect("PUBLISH").qos for _ in range(2)] == [0, 0]
    late = peer.connect("late")
    late.subscribe("$sparkplug/#")
    late.expect_nothing()


@pytest.mark.settings({"bridge.death_timestamp": True})
def test_the_death_may_get_the_time_of_its_publication(peer: Peer) -> None:
    """[tck-id-conformance-mqtt-aware-ndeath-timestamp]"""
    client = collector(peer)
    node(peer).drop()
    got = seen(client, 2)[1]
    received = int(envelope(got)["forebay-received"])
    assert got.payload == ndeath(0, received)
    assert got.payload.startswith(b"\x08" + varint(received))


def test_the_latest_births_are_retained_as_certificates(peer: Peer) -> None:
    edge = node(peer)
    edge.put(topic(peer, "NBIRTH"), nbirth(0, 0, T + 5), 1)
    edge.put(topic(peer, "DBIRTH", "d"), payload(metric("x", 1), time=T + 6, seq=1), 1)
    late = peer.connect("late")
    late.subscribe(f"$sparkplug/certificates/spBv1.0/{peer.prefix}/#", qos=1)
    got = {one.topic.removeprefix("$sparkplug/certificates/"): one for one in late.take_all()}
    assert {name: one.payload for name, one in got.items()} == {
        topic(peer, "NBIRTH"): nbirth(0, 0, T + 5),
        topic(peer, "DBIRTH", "d"): payload(metric("x", 1), time=T + 6, seq=1),
    }
    assert all(one.retain for one in got.values())
    late.subscribe(f"spBv1.0/{peer.prefix}/#")
    late.expect_nothing()


@pytest.mark.settings({"bridge.command_expiry": "1s"})
def test_commands_that_waited_too_long_are_not_given(peer: Peer) -> None:
    edge = peer.connect("edge", clean=False, expiry=1000)
    edge.subscribe(topic(peer, "NCMD"), qos=1)
    edge.drop()
    host = peer.connect("host")
    host.put(topic(peer, "NCMD"), b"old", 1)
    peer.advance(2.2)
    host.put(topic(peer, "NCMD"), b"new", 1)
    edge = peer.connect("edge", clean=False, expiry=1000)
    edge.take(payload=b"new")
    edge.expect_nothing()
