"""What the pages show of Sparkplug nodes."""

from typing import Any

from gateway.bridge.facts import LossWindow, NodeFacts
from gateway.web import nodes
from gateway.web.values import NodeValues


def row(name: str = "presses/p7", **more: Any) -> dict[str, Any]:
    facts = NodeFacts(name, client_id="p7", mqtt_version=4, clean=True, connects=2, client_ids=1, keep_alive_s=30)
    facts.qos = {"NBIRTH": [1, 0, 0], "NDATA": [0, 1, 0]}
    facts.lost(LossWindow(1_700_000_000_000, 1_700_000_060_000, "connection"))
    found = {
        **facts.as_dict(), "connected": True, "born": True, "bd_seq": 3, "next_seq": None, "missing": [],
        "heard_ms": None, "late": 1, "repeated": 2, "unreadable": 0, "rebirth": True, "loss_open": None,
        "devices": {"axis": {"DDATA": [0, 4, 0]}},
    }  # fmt: skip
    return found | more


def test_the_tree_has_groups_nodes_and_devices() -> None:
    found = nodes.tree([row("a/1"), row("a/2", connected=False), row("b/1", born=False)], {}, "")
    assert [(group["group"], [node["edge"] for node in group["nodes"]]) for group in found["groups"]] == [
        ("a", ["1", "2"]),
        ("b", ["1"]),
    ]
    assert (found["online"], found["total"], found["more"]) == (1, 3, 0)
    states = [node["state"] for group in found["groups"] for node in group["nodes"]]
    assert states == ["online", "away", "connected, no birth yet"]
    assert found["groups"][0]["nodes"][0]["devices"] == ["axis"]


def test_a_long_list_is_cut() -> None:
    found = nodes.tree([row(f"g/{number}") for number in range(nodes.NODES_MAX + 7)], {}, "")
    assert found["more"] == 7


def test_a_node_says_what_may_be_lost_and_how_it_connects() -> None:
    found = nodes.node(row(), {}, "", NodeValues("presses/p7"))
    assert found["verdict"] in nodes.VERDICTS.values()
    assert found["step"] in nodes.STEPS.values()
    assert found["remains"]
    assert (found["version"], found["clean"], found["keep_alive"], found["qos"]) == ("MQTT 3.1.1", "clean", "30 s", "1")
    (window,) = found["windows"]
    assert window["why"] == "its connection ended"
    assert found["values"] == []
