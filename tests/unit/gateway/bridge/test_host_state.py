"""The gateway as a host that is online while its disk works: STATE as in 3.0 and 2.2, and nobody else's."""

import json
from typing import Any

import pytest

from gateway.bridge.host_state import KEY, HostState
from gateway.settings.bridge import state_topics
from tests.conformance.client import Client, Got
from tests.core_rig import broker, connect
from tests.memory import UTC_OFFSET_MS, MemoryBroker

NEW, OLD = "spBv1.0/STATE/forebay", "STATE/forebay"


class Station:
    """A gateway with its STATE, and a device that watches it."""

    def __init__(self) -> None:
        self.broker: MemoryBroker = broker(own_topics=state_topics("forebay"), error_hold_ms=600_000)
        self.host = HostState(self.broker.router.bridge, "")
        self.host.configure("forebay", self.broker.now)

    def tick(self) -> None:
        self.host.tick(self.broker.now)
        self.broker.pump()

    def device(self, name: str = "device") -> Client:
        client = connect(self.broker, name, clean=True)
        client.subscribe("spBv1.0/STATE/+", qos=1)
        client.subscribe("STATE/+", qos=1)
        return client

    def restart(self, host_id: str = "forebay") -> None:
        self.broker.advance(3000)
        known = self.broker.store.bridge.get(KEY, b"").decode()
        self.broker.limits.own_topics = state_topics(host_id)
        self.broker.crash()
        self.host = HostState(self.broker.router.bridge, known)
        self.host.configure(host_id, self.broker.now)
        self.tick()


def said(got: list[Got]) -> dict[str, Any]:
    return {one.topic: json.loads(one.payload) if one.topic == NEW else one.payload for one in got}


def test_online_as_soon_as_it_serves_retained_and_in_both_forms() -> None:
    station = Station()
    station.tick()
    at = station.broker.now + UTC_OFFSET_MS
    got = station.device().take_all()
    assert said(got) == {NEW: {"online": True, "timestamp": at}, OLD: b"ONLINE"}
    assert all(one.retain and one.qos == 1 for one in got)


def test_it_is_said_once() -> None:
    station = Station()
    station.tick()
    device = station.device()
    device.take_all()
    station.tick()
    device.expect_nothing()


def test_offline_while_the_disk_fails_so_that_the_device_stores_by_itself() -> None:
    station = Station()
    station.tick()
    device = station.device()
    device.take_all()
    station.broker.hold()
    connect(station.broker, "x", version=4, clean=True).publish("x", b"1", qos=1, retain=True)
    station.broker.fail()
    station.tick()
    assert said(device.take_all())[NEW]["online"] is False
    station.broker.release()
    station.broker.advance(2000)
    station.tick()
    found = said(device.take_all())
    assert (found[NEW]["online"], found[OLD]) == (True, b"ONLINE")


def test_a_stale_state_of_before_a_crash_is_replaced_by_a_newer_one() -> None:
    """Devices compare timestamps: the fresh one must not be older than what they may have seen."""
    station = Station()
    station.tick()
    before = station.broker.now + UTC_OFFSET_MS
    station.restart()
    state = said(station.device().take_all())[NEW]
    assert state["online"] is True
    assert state["timestamp"] > before


def test_the_word_of_2_2_has_no_time_and_is_that_of_this_session_alone() -> None:
    """Offline before the connections end, so that none is retained that an unfinished session would believe."""
    station = Station()
    station.tick()
    device = station.device()
    device.take_all()
    station.host.stop(station.broker.now)
    station.broker.pump()
    assert said(device.take_all())[OLD] == b"OFFLINE"


def test_nobody_else_says_it() -> None:
    station = Station()
    station.tick()
    for topic in (NEW, OLD):
        forger = connect(station.broker, "forger", clean=True)
        forger.publish(topic, b'{"online":false,"timestamp":9}', qos=1, retain=True)
        forger.expect("PUBACK", reason=0x87)
        client = Client(station.broker.open(), 5)
        client.send_connect("w", will=(topic, b"OFFLINE", 1, True))
        client.expect("CONNACK", reason=0x90)
    assert said(station.device().take_all())[OLD] == b"ONLINE"
    other = connect(station.broker, "other", clean=True)
    other.put("spBv1.0/STATE/another", b"{}", 1)


def test_another_id_takes_the_place_of_the_last_one() -> None:
    station = Station()
    station.tick()
    station.restart("renamed")
    found = {one.topic: one.payload for one in station.device().take_all()}
    assert json.loads(found[NEW])["online"] is False
    assert json.loads(found["spBv1.0/STATE/renamed"])["online"] is True
    assert (found[OLD], found["STATE/renamed"]) == (b"OFFLINE", b"ONLINE")
    station.restart("")
    found = {one.topic: one.payload for one in station.device().take_all()}
    assert found["STATE/renamed"] == b"OFFLINE"
    station.broker.advance(2000)
    assert KEY not in station.broker.store.bridge


def test_without_an_id_nothing_is_said() -> None:
    b = broker()
    host = HostState(b.router.bridge, "")
    host.configure("", b.now)
    host.tick(b.now)
    host.stop(b.now)
    assert not any("STATE" in topic for topic in b.store.retained)


@pytest.mark.parametrize(("id", "topics"), [("", []), ("forebay", [NEW, OLD])])
def test_the_topics(id: str, topics: list[str]) -> None:
    assert state_topics(id) == topics
