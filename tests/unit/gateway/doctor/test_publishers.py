"""What a publisher loses while it is cut off, or by the QoS it publishes at."""

from typing import Any

import pytest

from gateway.doctor.snapshot import Lead
from tests.unit.gateway.doctor.scene import HISTORIAN, codes, only, report, scene

V5 = {"version": "5.0", "expiry_s": 0xFFFFFFFF}
NDATA = "spBv1.0/g/NDATA/n"


def test_qos_0() -> None:
    found = only(scene(lead={"qos": (0,)}))
    assert (found.code, found.severity, found.setting, found.machine) == (
        "publish_qos0", "error", "QoS = 1", "plc at 10.0.0.1",
    )  # fmt: skip
    assert "collector_away" in found.loses


def test_qos_0_that_the_gateway_raises_is_lost_on_the_link_alone() -> None:
    found = only(scene(lead={"qos": (0,)}, gateway={"upgrade_qos": True}))
    assert (found.severity, found.loses) == ("warning", ("gateway_down", "dead_link"))
    kept = only(scene(lead={"qos": (0,)}, gateway={"store_qos0": True}))
    assert "collector_away" not in kept.loses


def test_one_topic_of_several_at_qos_0() -> None:
    other = Lead(publisher="plc", topic="line/2", qos=(0,), targets={HISTORIAN: 1})
    found = report(scene(leads=(other,)))
    assert [f.topic for f in found.findings] == ["line/2"]
    assert {flow.topics[0]: flow.buffered for flow in found.flows} == {"line/1": "yes", "line/2": "no"}


def test_sparkplug_is_kept_from_its_arrival_on() -> None:
    lead = {"topic": NDATA, "qos": (0,), "sparkplug": True}
    found = only(scene(lead=lead))
    assert (found.code, found.severity, found.loses) == ("sparkplug_qos0", "note", ("gateway_down", "dead_link"))
    (flow,) = report(scene(lead=lead)).flows
    assert (flow.qos, flow.buffered) == (1, "only_while")
    off = only(scene(lead={**lead, "sparkplug": False}, gateway={"bridge": False}))
    assert (off.code, off.setting) == ("sparkplug_not_raised", "bridge.enabled = true")
    assert codes(scene(lead=lead, gateway={"bridge_elide": True})) == ["bridge_elide", "sparkplug_qos0"]


def test_what_the_ladder_says_of_a_node() -> None:
    lead = {"topic": NDATA, "qos": (0,), "sparkplug": True}
    node = {
        "node": "g/n", "client_id": "n1", "step": "ingest", "remains": "up to 45 s", "why": (),
        "advice": ["run a probe"],
    }  # fmt: skip
    found = only(scene(lead=lead, nodes=(node,)))
    assert (found.why, found.setting) == ("may still be lost: up to 45 s", "run a probe")
    stores = only(scene(lead=lead, nodes=({**node, "step": "native"},)))
    assert stores.loses == ()
    other = only(scene(lead=lead, nodes=({**node, "node": "g/other"},)))
    assert "ladder" in other.setting


@pytest.mark.parametrize(
    ("publisher", "code", "setting"),
    [
        ({"clean": True}, "publisher_clean_session", "clean session = false"),
        ({**V5, "expiry_s": 0}, "publisher_clean_session", "session expiry interval = 28800 (s) or more"),
        ({"assigned": True}, "publisher_random_id", "a fixed client id"),
        ({**V5, "message_expiry_s": 60}, "publisher_message_expiry",
         "message expiry interval = 28800 (s) or more, or none"),
        ({"client_id": "nodered_line1", "clean": True}, "publisher_drops_offline", "keep alive = 0"),
        ({"keep_alive_s": 0}, "keep_alive_off", "keep alive = 30 s"),
        ({"keep_alive_s": 600}, "keep_alive_long", "keep alive = 30 s"),
    ],
)  # fmt: skip
def test_what_a_publisher_loses(publisher: dict[str, Any], code: str, setting: str) -> None:
    found = only(scene(publisher=publisher))
    assert (found.code, found.setting, found.where) == (code, setting, "publisher")


def test_the_keep_alive_of_a_client_that_drops_offline() -> None:
    found = only(scene(publisher={"client_id": "nodered_line1", "keep_alive_s": 0}))
    assert (found.code, found.severity) == ("publisher_drops_offline", "note")


def test_a_library_that_keeps_whatever_its_session_says() -> None:
    assert codes(scene(publisher={"client_id": "mqttjs_line1", "clean": True})) == []


def test_the_keep_alive_of_a_collector() -> None:
    found = only(scene(collector={"keep_alive_s": 0}))
    assert (found.code, found.where, found.loses) == ("keep_alive_off", "collector", ())


def test_a_collector_that_takes_small_packets_only() -> None:
    found = only(scene(publisher={"largest": 5000}, collector={**V5, "max_packet": 4096}))
    assert (found.code, found.setting) == ("collector_max_packet", "maximum packet size = 10000 or more")


def test_a_topic_that_nobody_subscribes_to_is_a_note() -> None:
    other = Lead(publisher="plc", topic="spare/1", qos=(1,), targets={})
    found = report(scene(leads=(other,)))
    assert [(f.code, f.severity) for f in found.findings] == [("no_subscriber", "note")]
    assert found.flows[0].buffered == "yes"
