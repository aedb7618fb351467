"""The broker's half goes through JSON, the report comes out of the other."""

import json
from typing import Any

from gateway.core.facts import facts
from gateway.core.report import status
from gateway.doctor.answer import report
from gateway.doctor.snapshot import Ask
from gateway.doctor.telling import told
from gateway.settings.table import Sources, load
from tests.core_rig import broker, connect, core_of


def read(told: dict[str, Any]) -> Any:
    """As it comes over the wire."""
    return json.loads(json.dumps(told, default=list))


def examined(
    clean: bool,
    topic: str = "line/1",
    qos: int = 1,
    nodes: Any = (),
    ask: Ask | None = None,
    sets: tuple[str, ...] = (),
    left: float = 1.0,
) -> dict[str, Any]:
    b = broker()
    client = connect(b, "historian", 4, clean=clean, keep_alive=30)
    client.subscribe("#", qos=1)
    plc = connect(b, "plc", 4, keep_alive=30)
    plc.put(topic, b"x" * 100, qos)
    found: dict[str, Any] = status(core_of(b), b.now)
    found["store"]["free_bytes"] = 1 << 40
    found["clock"] = {"synchronised": True}
    found["uplinks"] = []
    found["safe_mode"], found["read_only"] = None, None
    found["wear"] = {"life_left": left, "years_left": None, "day_bytes": None, "spares_low": False}
    settings = load(Sources(sets=sets), {})
    return report(read(told(facts(core_of(b), b.now), found, settings, nodes)), ask or Ask())


def test_a_right_one_and_a_wrong_one() -> None:
    assert examined(clean=False)["findings"] == []
    (finding,) = examined(clean=True)["findings"]
    assert finding["code"] == "collector_clean_session"


def test_what_is_asked_for_counts() -> None:
    assert examined(clean=False, ask=Ask(outage_s=60))["outage_s"] == 60


def test_the_collectors_that_are_declared_come_along() -> None:
    sets = ('collector=[{ name = "h", client_id = "nobody", topics = ["other/#", "#"] }]',)
    (finding,) = examined(clean=False, sets=sets)["findings"]
    assert finding["code"] == "collector_missing"


def test_worn_storage_is_told() -> None:
    (finding,) = examined(clean=False, left=0.1)["findings"]
    assert (finding["code"], finding["what"]) == ("flash_worn", "the storage is worn: 10 % of its life are left")


def test_nodes_come_with_their_step() -> None:
    topic = "spBv1.0/g/NDATA/n"
    found = examined(clean=False, topic=topic, qos=0, nodes=[{"node": "g/n", "qos": {"NDATA": [5, 0, 0]}}])
    (finding,) = found["findings"]
    assert (finding["code"], finding["severity"]) == ("sparkplug_qos0", "note")
    assert "probe" in finding["setting"]
