"""The verdict on each flow."""

import dataclasses
from typing import Any

import pytest

from gateway.doctor.doctor import FLOWS_MAX
from gateway.doctor.snapshot import Lead
from tests.unit.gateway.doctor.scene import HISTORIAN, PLC, report, scene


def test_all_is_right() -> None:
    found = report(scene())
    assert found.findings == []
    (flow,) = found.flows
    assert (flow.publisher, flow.collector, flow.topics, flow.qos, flow.buffered) == (
        PLC, HISTORIAN, ("line/1",), 1, "yes",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "buffered", "because"),
    [
        ({"lead": {"qos": (0,)}}, "no", "plc publishes line/1 at QoS 0"),
        ({"collector": {"clean": True}, "keeper": {"persistent": False}}, "no",
         "historian connects with clean session"),
        ({"keeper": {"expiry_s": 60}}, "only_while", "only while the collector is away for less than 60 s"),
        ({"publisher": {"clean": True}, "gateway": {"durability": "os"}}, "only_while",
         "only while the machine has power, and the publisher reaches the gateway"),
        ({"collector": {"keep_alive_s": 0}}, "yes", "QoS, session, client id and limits agree"),
    ],
)  # fmt: skip
def test_yes_no_or_only_while(change: dict[str, Any], buffered: str, because: str) -> None:
    (flow,) = report(scene(**change)).flows
    assert flow.buffered == buffered
    assert flow.because.startswith(because)


def test_topics_with_the_same_way_are_one_flow() -> None:
    more = tuple(Lead(publisher=PLC, topic=f"line/{n}", qos=(1,), targets={HISTORIAN: 1}) for n in range(2, 9))
    (flow,) = report(scene(leads=more)).flows
    assert flow.topic_count == 8
    assert len(flow.topics) == 5


def test_the_worst_comes_first_and_each_once() -> None:
    snapshot = scene(lead={"qos": (0,)}, gateway={"durability": "os", "synchronised": False})
    found = report(snapshot)
    assert [f.severity for f in found.findings] == ["error", "warning", "note"]
    assert found.counts() == {"error": 1, "warning": 1, "note": 1}


def test_what_touches_only_others_is_not_told_of_a_flow() -> None:
    other = Lead(publisher="plc2", topic="line/9", qos=(0,), targets={HISTORIAN: 1})
    first = scene()
    clients = {**first.clients, "plc2": first.clients[PLC].__class__(client_id="plc2")}
    flows = report(scene(leads=(other,), clients=clients)).flows
    assert {flow.publisher: flow.findings for flow in flows} == {PLC: (), "plc2": ("publish_qos0",)}


def test_of_too_many_flows_the_buffered_ones_are_left_out_first() -> None:
    more = tuple(
        Lead(publisher=f"p{n}", topic=f"line/{n}", qos=(n % 2,), targets={HISTORIAN: 1}) for n in range(FLOWS_MAX)
    )
    plc = scene().clients[PLC]
    clients = {lead.publisher: dataclasses.replace(plc, client_id=lead.publisher) for lead in more}
    found = report(scene(leads=more, clients=clients))
    assert (len(found.flows), found.flows_left_out) == (FLOWS_MAX, 1)
    assert [flow.buffered for flow in found.flows] == ["no"] * (FLOWS_MAX // 2) + ["yes"] * (FLOWS_MAX // 2)
