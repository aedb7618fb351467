"""Facts of nodes as their traffic shows them, over drops and restarts of the gateway."""

import json
from typing import Any

import pytest

from gateway.bridge.observer import RESTART_MARGIN_MS, Observer
from gateway.core.nodes import ALIVE_KEY
from tests.core_rig import connect
from tests.memory import UTC_OFFSET_MS
from tests.plant import TOPIC, Plant, T
from tests.spb_bytes import chunk, data, nbirth, ndeath, number, payload


class Watched(Plant):
    """With an observer that is told after each step."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.observer = Observer()

    def tell(self) -> dict[str, Any]:
        for event in self.broker.router.bridge.take_events():
            self.observer.event(event)
        return self.observer.report(self.node)

    @property
    def utc(self) -> int:
        return self.broker.now + UTC_OFFSET_MS

    def restart(self) -> None:
        """The gateway is killed; the observer goes on from the rows."""
        self.tell()
        port = self.broker.router.bridge
        for key in self.observer.changed:
            node = port.node(key)
            assert node is not None
            port.keep("node " + key, self.observer.row(node), self.broker.now)
        self.observer.changed.clear()
        self.broker.advance(2000)
        alive = self.broker.store.meta[ALIVE_KEY]
        assert isinstance(alive, int)
        self.broker.crash()
        self.observer = Observer()
        assert self.observer.load(list(self.broker.store.bridge.items()), alive) == []
        self.collector = connect(self.broker, "collector")
        self.collector.take_all()


def test_how_it_connects() -> None:
    plant = Watched()
    will = (TOPIC.format("NDEATH"), ndeath(7), 1, False)
    edge = connect(plant.broker, "press-4", version=4, clean=True, keep_alive=30, will=will)
    edge.publish(TOPIC.format("NBIRTH"), nbirth(7))
    found = plant.tell()
    assert {name: found[name] for name in ("client_id", "mqtt_version", "clean", "keep_alive_s", "will_qos")} == {
        "client_id": "press-4", "mqtt_version": 4, "clean": True, "keep_alive_s": 30, "will_qos": 1,
    }  # fmt: skip
    assert (found["bdseq_match"], found["bdseq_differ"], found["connects"], found["client_ids"]) == (1, 0, 1, 1)
    assert (found["connected"], found["born"], found["bd_seq"], found["next_seq"]) == (True, True, 7, 1)


@pytest.mark.parametrize(("clean", "expiry", "is_clean"), [(True, 0, True), (True, 60, False), (False, 60, False)])
def test_a_session_is_clean_when_nothing_of_it_is_kept(clean: bool, expiry: int, is_clean: bool) -> None:
    plant = Watched()
    edge = connect(plant.broker, "e", version=5, clean=clean, expiry=expiry)
    edge.publish(TOPIC.format("NBIRTH"), nbirth(7))
    assert plant.tell()["clean"] is is_clean


def test_a_will_on_another_topic_or_with_another_bd_seq() -> None:
    plant = Watched()
    edge = connect(plant.broker, "e", version=4, clean=True, will=("other", b"", 1, False))
    edge.publish(TOPIC.format("NBIRTH"), nbirth(7))
    assert plant.tell()["will_qos"] is None
    edge = connect(plant.broker, "e", version=4, clean=True, will=(TOPIC.format("NDEATH"), ndeath(6), 0, False))
    edge.publish(TOPIC.format("NBIRTH"), nbirth(7, 0, T + 1))
    found = plant.tell()
    assert (found["will_qos"], found["bdseq_match"], found["bdseq_differ"]) == (0, 0, 1)


def test_client_ids_are_counted_once_each() -> None:
    plant = Watched()
    for turn, name in enumerate(("a", "b", "a", "b")):
        plant.come(turn, name=name).publish(TOPIC.format("NBIRTH"), nbirth(turn, 0, T + turn))
        found = plant.tell()
    assert (found["connects"], found["client_ids"]) == (4, 2)


def test_make_model_and_firmware_of_the_birth() -> None:
    plant = Watched()
    texts = {"Properties/Hardware Make": "Acme", "Properties/Hardware Model": "P4", "Properties/FW": "1.2"}
    parts = [chunk(1, name.encode()) + number(4, 12) + chunk(15, text.encode()) for name, text in texts.items()]
    plant.edge.publish(TOPIC.format("NBIRTH"), nbirth(0, 0, T, *parts))
    found = plant.tell()
    assert (found["make"], found["model"], found["firmware"]) == ("Acme", "P4", "1.2")


def test_qos_by_message_type_and_device() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDATA", data(1), 0)
    plant.say("NDATA", data(2), 1)
    plant.edge.put("spBv1.0/g/DDATA/e/axis", data(3), 1)
    found = plant.tell()
    assert found["qos"] == {"NBIRTH": [1, 0, 0], "NDATA": [1, 1, 0], "DDATA": [0, 1, 0]}
    assert found["devices"] == {"axis": {"DDATA": [0, 1, 0]}}


def test_counts_go_on_over_a_restart() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDATA", data(1))
    plant.restart()
    plant.come(1)
    plant.say("NBIRTH", nbirth(1, 0, T + 1))
    plant.say("NDATA", data(1, time=T + 2))
    found = plant.tell()
    assert found["qos"] == {"NBIRTH": [2, 0, 0], "NDATA": [2, 0, 0], "NDEATH": [0, 1, 0]}
    assert found["connects"] == 2
    plant.restart()
    assert plant.observer.report(plant.node)["qos"]["NBIRTH"] == [2, 0, 0]


def test_a_loss_window_from_the_last_message_to_the_new_birth() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.broker.advance(1000)
    last = plant.utc
    plant.say("NDATA", data(1))
    plant.broker.advance(700)
    plant.edge.drop()
    found = plant.tell()
    assert found["loss_open"] == {"from_ms": last, "why": "connection"}
    assert found["loss_windows"] == []
    plant.broker.advance(5000)
    plant.collector.take_all()
    plant.come(1)
    plant.say("NBIRTH", nbirth(1, 0, T + 9))
    found = plant.tell()
    assert found["loss_open"] is None
    assert found["loss_windows"] == [
        {"from_ms": last, "to_ms": plant.utc, "why": "connection", "messages": None},
    ]


def test_before_any_data_is_counted_the_birth_tells_its_qos() -> None:
    """Counters are stored from time to time, births at once."""
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.restart()
    plant.come(1)
    plant.say("NBIRTH", nbirth(1, 0, T + 9))
    assert [window["why"] for window in plant.tell()["loss_windows"]] == ["restart"]


def test_data_of_qos_1_has_no_loss_window() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0), 1)
    plant.say("NDATA", data(1), 1)
    plant.edge.drop()
    plant.collector.take_all()
    plant.come(1)
    plant.say("NBIRTH", nbirth(1, 0, T + 9), 1)
    assert plant.tell()["loss_windows"] == []


def test_a_node_that_says_goodbye_loses_nothing() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDATA", data(1))
    plant.say("NDEATH", ndeath(0), 1)
    plant.edge.disconnect()
    assert plant.tell()["loss_open"] is None
    plant.come(1)
    plant.say("NBIRTH", nbirth(1, 0, T + 9))
    assert plant.tell()["loss_windows"] == []


def test_a_half_open_link_that_a_new_one_takes_the_place_of() -> None:
    """Another client id, so the old connection still stands when the new birth comes."""
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    last = plant.utc
    plant.say("NDATA", data(1))
    plant.tell()
    plant.broker.advance(3000)
    plant.come(1, name="another")
    plant.say("NBIRTH", nbirth(1, 0, T + 9))
    assert plant.tell()["loss_windows"] == [
        {"from_ms": last, "to_ms": plant.utc, "why": "connection", "messages": None}
    ]


def test_a_window_that_is_open_at_a_restart_is_closed_after_it() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDATA", data(1))
    last = plant.utc
    plant.edge.drop()
    plant.restart()
    plant.come(1)
    plant.say("NBIRTH", nbirth(1, 0, T + 9))
    (window,) = plant.tell()["loss_windows"]
    assert (window["from_ms"], window["why"]) == (last, "connection")


def test_a_restart_of_the_gateway_is_a_window_of_its_own() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDATA", data(1))
    alive = plant.utc
    plant.restart()
    plant.broker.advance(4000)
    plant.come(1)
    plant.say("NBIRTH", nbirth(1, 0, T + 9))
    assert plant.tell()["loss_windows"] == [
        {"from_ms": alive - RESTART_MARGIN_MS, "to_ms": plant.utc, "why": "restart", "messages": None}
    ]


def test_resent_on_a_later_connection_by_topic_and_hash_not_by_dup() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0), 1)
    plant.say("NDATA", data(1, time=T + 1), 1)
    plant.quiet("NDATA", data(1, time=T + 1), 1)
    assert plant.tell()["resends"] == 0  # on the same connection it is a fault of the device
    plant.edge.drop()
    plant.collector.take_all()
    plant.come(1)
    plant.quiet("NDATA", data(1, time=T + 1), 1)  # before the birth
    plant.say("NBIRTH", nbirth(1, 0, T + 9), 1)
    plant.quiet("NDATA", data(1, time=T + 1), 1)  # and after it
    found = plant.tell()
    assert (found["resends"], found["repeated"]) == (2, 3)


def test_historical_and_late_are_counted() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDATA", data(1, historical=True))
    found = plant.tell()
    assert (found["historical"], found["late"]) == (1, 1)


def test_a_hole_is_a_window_with_a_number() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.observer.hole(plant.node, 5, 9, 3)
    found = plant.tell()
    assert found["seq_gaps"] == 1
    assert found["loss_windows"] == [{"from_ms": 5, "to_ms": 9, "why": "seq_gap", "messages": 3}]


def test_a_gap_that_may_be_filled_is_a_window_when_the_gateway_is_killed_before() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.tell()
    plant.observer.gap(plant.node, (5, 9, 3))
    plant.restart()
    found = plant.tell()
    assert found["seq_gaps"] == 1
    assert found["loss_windows"] == [{"from_ms": 5, "to_ms": 9, "why": "seq_gap", "messages": 3}]
    plant.observer.changed.add("g/e")
    plant.restart()
    assert plant.tell()["seq_gaps"] == 1


def test_a_gap_that_was_filled_or_is_told_is_none_after_a_kill() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.tell()
    plant.observer.gap(plant.node, (5, 9, 3))
    plant.observer.gap(plant.node, None)
    plant.restart()
    assert plant.tell()["seq_gaps"] == 0
    plant.observer.gap(plant.node, (5, 9, 3))
    plant.observer.hole(plant.node, 5, 9, 2)
    plant.restart()
    assert plant.tell()["seq_gaps"] == 1


def test_rebirths_asked_and_answered() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.tell()
    plant.observer.asked("g/e")
    assert plant.tell()["rebirths_answered"] == 0
    plant.say("NBIRTH", nbirth(0, 0, T + 1))
    found = plant.tell()
    assert (found["rebirths_asked"], found["rebirths_answered"]) == (1, 1)


@pytest.mark.parametrize(
    "row", [b"", b"[]", b"{}", b'{"facts":{},"counts":{},"connected":false}', b'{"facts":3,"counts":{}}', b"\xff"]
)
def test_a_row_that_makes_no_sense_is_told(row: bytes) -> None:
    observer = Observer()
    (line,) = observer.load([("node g/e", row), ("birth 1 x", b"")], 0)
    assert "g/e" in line
    assert observer.nodes == {}


def test_a_row_is_json() -> None:
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.tell()
    row = json.loads(plant.observer.row(plant.node))
    assert row["facts"]["node"] == "g/e"
    assert (row["connected"], row["away"]) == (True, None)
    assert not plant.observer.counted(plant.node)
    plant.edge.put(TOPIC.format("NDATA"), payload(seq=1), 0)
    assert plant.observer.counted(plant.node)


def test_a_new_connection_may_have_another_qos() -> None:
    """Or a device that was set to QoS 1 would count as lossy for ever."""
    plant = Watched()
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDATA", data(1), 0)
    plant.tell()
    facts = plant.observer.of("g/e").facts
    assert facts.data_qos() == 0
    plant.edge.drop()
    plant.tell()
    assert len(facts.loss_windows) == 0
    plant.come(1)
    plant.edge.put(TOPIC.format("NBIRTH"), nbirth(1), 0)
    plant.tell()
    assert len(facts.loss_windows) == 1, "what was lost before came at QoS 0"
    plant.edge.put(TOPIC.format("NDATA"), data(1, 1), 1)
    plant.tell()
    assert facts.data_qos() == 1
