"""``forebay sparkplug nodes`` and ``rebirth``, against a running broker."""

import json
from pathlib import Path

from tests.command import Forebay
from tests.harness import Broker
from tests.plant import TOPIC
from tests.spb_bytes import data, metric, nbirth, ndeath
from tests.wire import Wire
from tests.wire_format import PUBLISH, Will

REBIRTH = metric("Node Control/Rebirth", 0, datatype=11)


def test_nodes_and_rebirth(forebay: Forebay, tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path / "data"))
    with Broker(tmp_path / "data") as broker:
        assert json.loads(forebay("sparkplug", "nodes", *folder, "--json").out) == []
        will = Will(TOPIC.format("NDEATH"), ndeath(3), 1, False)
        with Wire.connect(broker.port, "edge", 4, will=will) as edge:
            edge.subscribe(TOPIC.format("NCMD"))
            edge.publish_done(TOPIC.format("NBIRTH"), nbirth(3, 0, 5, REBIRTH), qos=1)
            edge.publish_done(TOPIC.format("NDATA"), data(4), qos=1)
            (row,) = json.loads(forebay("sparkplug", "nodes", *folder, "--json").out)
            assert (row["node"], row["connected"], row["will_qos"]) == ("g/e", True, 1)
            assert row["qos"] == {"NBIRTH": [0, 1, 0], "NDATA": [0, 1, 0]}
            line = forebay("sparkplug", "nodes", *folder).out.splitlines()[1]
            assert line.split()[:4] == ["g/e", "online", "edge", "1"]
            shown = forebay("sparkplug", "nodes", "g/e", *folder).out
            assert "will QoS 1" in shown
            assert "NDATA 0/1/0" in shown
            assert forebay("sparkplug", "rebirth", "g/e", *folder) == (0, "g/e: asked\n", "")
            packet = edge.wait_for(PUBLISH)
            assert packet["topic"] == TOPIC.format("NCMD")
        code, out, err = forebay("sparkplug", "nodes", "g/none", *folder)
        assert (code, out, err.count("\n")) == (1, "", 1)
        code, out, err = forebay("sparkplug", "rebirth", "g/e", *folder)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "not connected" in err


def test_switched_off_it_says_so(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data", {"bridge.enabled": False}):
        code, out, err = forebay("sparkplug", "nodes", "--data-dir", str(tmp_path / "data"))
    assert (code, out) == (1, "")
    assert "bridge.enabled" in err


def test_without_a_broker(forebay: Forebay, tmp_path: Path) -> None:
    assert forebay("sparkplug", "nodes", "--data-dir", str(tmp_path)).code == 3
