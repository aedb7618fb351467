"""``forebay sparkplug watch``: live values under the names of births that came before it."""

import json
import threading
from pathlib import Path

import pytest

from tests.command import Forebay
from tests.harness import Broker
from tests.plant import TOPIC
from tests.spb_bytes import data, metric, nbirth
from tests.wire import Wire


def test_values_have_the_names_of_the_birth(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker, Wire.connect(broker.port, "edge", 4) as edge:
        edge.publish_done(TOPIC.format("NBIRTH"), nbirth(3, 0, 5, metric("speed", 1, 1)), qos=1)
        stop = threading.Event()

        def talk() -> None:
            number = 1
            while not stop.wait(0.05):
                edge.publish(TOPIC.format("NDATA"), data(number, 40 + number % 200))
                number = number % 255 + 1

        speaking = threading.Thread(target=talk)
        speaking.start()
        try:
            result = forebay("sparkplug", "watch", "-p", str(broker.port), "-n", "2", "--json")
            text = forebay("sparkplug", "watch", "g/e", "-p", str(broker.port), "-n", "1").out
        finally:
            stop.set()
            speaking.join()
        rows = [json.loads(line) for line in result.out.splitlines()]
        assert result.code == 0
        assert [(row["node"], row["device"], row["type"]) for row in rows] == [("g/e", None, "NDATA")] * 2
        assert {metric["name"] for row in rows for metric in row["metrics"]} == {"speed"}
        assert "NDATA g/e seq" in text
        assert "speed = " in text


@pytest.mark.parametrize("node", ["g/+", "a/b/c", "#"])
def test_a_node_that_is_none(forebay: Forebay, node: str) -> None:
    code, out, err = forebay("sparkplug", "watch", node)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_time_limit(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        assert forebay("sparkplug", "watch", "g", "-p", str(broker.port), "-w", "0.2") == (0, "", "")


def test_without_a_broker(forebay: Forebay) -> None:
    assert forebay("sparkplug", "watch", "-p", "1").code == 3
