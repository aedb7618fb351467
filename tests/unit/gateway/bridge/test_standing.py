"""Which profile stands for a node, and which probe counts."""

import dataclasses
from typing import Any

from gateway.bridge.facts import NodeFacts
from gateway.bridge.ladder import Probed, Step
from gateway.bridge.standing import known, standing
from gateway.profiles import Native, Profile, parse


def profile(name: str, match: dict[str, Any], method: str = "documentation", verdict: str = "unknown") -> Profile:
    return parse(
        {
            "name": name, "title": name, "identity": {"vendor": "Acme", "model": "Press", "firmware": "any"},
            "match": match,
            "evidence": {
                "date": "2026-11-30", "method": method, "verdict": verdict, "confidence": "high", "source": [],
                "expires_on_firmware_change": True, "fallback": "ingest", "firmware_seen": "1.0",
            },
            "upgrade": {"possible": True, "text": "Set QoS to 1."},
        }
    )  # fmt: skip


FAMILY = profile("acme-press", {"make": ["acme"]})
PROBED = profile("plant-press", {"topic": ["plant/press"]}, "probe", "qos1_ram")
FACTS = NodeFacts("plant/press", make="Acme", qos={"NDATA": [0, 5, 0]})


def test_the_family_tells_what_to_set_and_the_probe_what_holds() -> None:
    assert known([FAMILY, PROBED], FACTS) == (FAMILY, Probed("qos1_ram", "2026-11-30", "1.0"))
    name, stands = standing([FAMILY, PROBED], FACTS)
    assert (name, stands.step, stands.source) == ("acme-press", Step.DEVICE, "probe")


def test_either_alone_will_do() -> None:
    assert known([PROBED], FACTS)[0] is PROBED
    assert known([FAMILY], FACTS) == (FAMILY, None)
    assert known([], FACTS) == (None, None)
    assert standing([], FACTS)[0] == ""


def test_a_probe_of_another_node_does_not_count() -> None:
    other = profile("plant-lathe", {"topic": ["plant/lathe"], "make": ["acme"]}, "probe", "qos1_ram")
    assert known([other], FACTS) == (other, None)
    assert standing([other], FACTS)[1].step is Step.INGEST


def test_the_gateways_own_host_id_goes_into_the_advice() -> None:
    stores = dataclasses.replace(FAMILY, native=Native(available=True, trigger=("primary_host",), how="Switch it on."))
    advice = standing([stores], FACTS, "gateway-1")[1].advice
    assert "Switch it on. The gateway's id is gateway-1." in [one.text for one in advice]
