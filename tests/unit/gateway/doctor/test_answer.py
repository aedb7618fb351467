"""The control command: what the broker says of itself goes in, the report comes out."""

from typing import Any

import pytest

from gateway.core.facts import facts
from gateway.core.report import status
from gateway.doctor.answer import answer
from gateway.settings import Sources, load
from tests.core_rig import broker, connect, core_of


def told(command: dict[str, Any], clean: bool, topic: str = "line/1", qos: int = 1, nodes: Any = ()) -> dict[str, Any]:
    b = broker()
    client = connect(b, "historian", 4, clean=clean, keep_alive=30)
    client.subscribe("#", qos=1)
    plc = connect(b, "plc", 4, keep_alive=30)
    plc.put(topic, b"x" * 100, qos)
    found: dict[str, Any] = status(core_of(b), b.now)
    found["store"]["free_bytes"] = 1 << 40
    found["clock"] = {"synchronised": True}
    settings = load(Sources(), {})
    return answer(command, facts(core_of(b), b.now), found, settings, nodes)


def test_a_right_one_and_a_wrong_one() -> None:
    assert told({}, clean=False)["findings"] == []
    (finding,) = told({}, clean=True)["findings"]
    assert finding["code"] == "collector_clean_session"


def test_what_is_asked_for_counts() -> None:
    assert told({"outage_s": 60}, clean=False)["outage_s"] == 60


@pytest.mark.parametrize("value", [0, -1, "8h", True, 1e12])
def test_a_wrong_number_is_one_line(value: object) -> None:
    with pytest.raises(ValueError, match="expected a number of seconds"):
        told({"outage_s": value}, clean=False)


def test_nodes_come_with_their_step() -> None:
    topic = "spBv1.0/g/NDATA/n"
    found = told({}, clean=False, topic=topic, qos=0, nodes=[{"node": "g/n", "qos": {"NDATA": [5, 0, 0]}}])
    (finding,) = found["findings"]
    assert (finding["code"], finding["severity"]) == ("sparkplug_qos0", "note")
    assert "probe" in finding["setting"]
