"""The bridge beside the core: rows, restarts, reports, and what is asked of it."""

import base64
from typing import Any

import pytest

from gateway.bridge.bridge import COUNTERS_MS, LOOKING_MS, Bridge, BridgeError
from gateway.core.nodes import ALIVE_KEY, NODES_MAX
from gateway.settings.table import Settings
from tests.core_rig import connect, core_of
from tests.plant import TOPIC, Plant, T, late
from tests.spb_bytes import data, metric, nbirth, payload

REBIRTH = metric("Node Control/Rebirth", 0, datatype=11)


class Bridged(Plant):
    """With a bridge that is called as the gateway calls it."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.bridge = self.made()

    def made(self) -> Bridge:
        alive = self.broker.store.meta.get(ALIVE_KEY, 0)
        assert isinstance(alive, int)
        bridge = Bridge(self.broker.router.bridge, list(self.broker.store.bridge.items()), alive)
        bridge.configure(Settings(), self.broker.now)
        return bridge

    def pass_on(self, seconds: float = 0) -> None:
        for _ in range(max(1, round(seconds))):
            self.bridge.tick(self.broker.now)
            self.broker.pump()
            self.broker.advance(1000 if seconds else 0)
        self.bridge.run(self.broker.now)

    def restart(self) -> None:
        self.broker.crash()
        self.bridge = self.made()
        self.collector = connect(self.broker, "collector")
        self.collector.take_all()

    def rows(self) -> list[str]:
        return sorted(key for key in self.broker.store.bridge if key.startswith("node "))


def test_what_is_known_of_a_node_is_on_disk_soon_after_it_changed() -> None:
    plant = Bridged()
    plant.say("NBIRTH", nbirth(0))
    plant.pass_on(3)
    assert plant.rows() == ["node g/e"]
    plant.restart()
    (row,) = plant.bridge.nodes()
    assert (row["node"], row["client_id"], row["connects"]) == ("g/e", "edge", 1)


def test_counters_are_stored_from_time_to_time_and_at_the_end() -> None:
    plant = Bridged()
    plant.say("NBIRTH", nbirth(0))
    plant.pass_on(2)
    plant.say("NDATA", data(1))
    plant.pass_on(COUNTERS_MS // 1000 + 3)
    plant.restart()
    assert next(plant.bridge.nodes())["qos"]["NDATA"] == [1, 0, 0]
    plant.come(1)
    plant.say("NBIRTH", nbirth(1, 0, T + 1))
    plant.say("NDATA", data(1, time=T + 2))
    plant.bridge.stop(plant.broker.now)
    plant.broker.advance(2000)
    plant.restart()
    assert next(plant.bridge.nodes())["qos"]["NDATA"] == [2, 0, 0]


def test_nothing_new_writes_nothing() -> None:
    plant = Bridged()
    plant.say("NBIRTH", nbirth(0))
    plant.pass_on(3)
    number = core_of(plant.broker).commit.number
    plant.pass_on(COUNTERS_MS // 1000 * 2)
    assert core_of(plant.broker).commit.number <= number + 1  # the counters of the broker itself


def test_alias_only_data_after_a_restart_is_named_by_the_birth_that_was_kept_or_asked_for_once() -> None:
    plant = Bridged()
    plant.edge.subscribe(TOPIC.format("NCMD"), qos=0)
    plant.say("NBIRTH", nbirth(0, 0, T, REBIRTH, metric("speed", 1, 1)))
    plant.pass_on(3)
    plant.restart()
    edge = connect(plant.broker, "edge", version=4, clean=True)  # goes on without a birth
    edge.subscribe(TOPIC.format("NCMD"), qos=0)
    assert late(plant.say("NDATA", data(9, time=T + 9), client=edge)) == "1"
    kept = core_of(plant.broker).nodes.sources[TOPIC.format("NBIRTH")].births
    assert [birth.payload for birth in kept] == [nbirth(0, 0, T, REBIRTH, metric("speed", 1, 1))]
    for number in range(10, 14):
        plant.say("NDATA", data(number, time=T + number), client=edge)
        plant.pass_on(1)
    (command,) = edge.take_all()
    assert command.topic == TOPIC.format("NCMD")
    plant.say("NBIRTH", nbirth(0, 0, T + 20, REBIRTH, metric("speed", 1, 1)), client=edge)
    plant.pass_on(30)
    assert edge.take_all() == []
    assert late(plant.say("NDATA", data(1, time=T + 30), client=edge)) == "0"


def test_the_report_lists_all_by_name_also_those_that_are_silent() -> None:
    plant = Bridged()
    for name in ("z", "a"):  # both on the connection of e
        plant.edge.publish(f"spBv1.0/g/NBIRTH/{name}", nbirth(0))
    plant.pass_on(3)
    plant.broker.store.bridge = {key: row for key, row in plant.broker.store.bridge.items() if key.startswith("node ")}
    plant.restart()
    assert [row["node"] for row in plant.bridge.nodes()] == ["g/a", "g/e", "g/z"]  # of e came a will
    plant.bridge.observer.changed.add("g/a")
    plant.pass_on(3)  # a silent one can be stored too
    assert {"node g/a", "node g/z"} <= set(plant.rows())


def test_a_row_that_makes_no_sense_is_a_note() -> None:
    plant = Bridged()
    plant.broker.store.bridge["node g/e"] = b"{"
    plant.restart()
    (note,) = plant.bridge.notes
    assert "g/e" in note


def test_rebirth_on_request() -> None:
    plant = Bridged()
    plant.edge.subscribe(TOPIC.format("NCMD"), qos=0)
    plant.say("NBIRTH", nbirth(0, 0, T, REBIRTH))
    plant.bridge.rebirth("g/e", plant.broker.now)
    plant.broker.pump()
    assert len(plant.edge.take_all()) == 1
    assert next(plant.bridge.nodes())["rebirths_asked"] == 1


@pytest.mark.parametrize(
    ("node", "births", "listens", "why"),
    [
        ("g/none", [], True, "never heard of"),
        ("g/e", [nbirth(0)], True, "has no Node Control/Rebirth"),
        ("g/e", [nbirth(0, 0, T, REBIRTH)], False, "listens to no command"),
    ],
)
def test_a_rebirth_that_cannot_be_asked_for_says_why(node: str, births: list[bytes], listens: bool, why: str) -> None:
    plant = Bridged()
    if listens:
        plant.edge.subscribe(TOPIC.format("NCMD"), qos=0)
    for birth in births:
        plant.say("NBIRTH", birth)
    with pytest.raises(BridgeError, match=why):
        plant.bridge.rebirth(node, plant.broker.now)


def test_settings_reach_the_timer() -> None:
    plant = Bridged()
    settings = Settings()
    settings.bridge_reorder_timeout, settings.bridge_rebirths_per_minute = 10_000, 60
    plant.bridge.configure(settings, plant.broker.now)
    plant.edge.subscribe(TOPIC.format("NCMD"), qos=0)
    plant.say("NBIRTH", nbirth(0, 0, T, REBIRTH))
    plant.say("NDATA", payload(metric("", 1, 1), time=T + 5, seq=5))
    plant.pass_on(8)
    assert plant.edge.take_all() == []
    plant.pass_on(5)
    assert len(plant.edge.take_all()) == 1


def test_totals_of_all_nodes() -> None:
    plant = Bridged()
    assert plant.bridge.totals()["nodes"] == 0
    plant.say("NBIRTH", nbirth(0))
    plant.pass_on(3)
    totals = plant.bridge.totals()
    assert (totals["nodes"], totals["online"], totals["seq_gaps"]) == (1, 1, 0)
    plant.restart()
    assert (plant.bridge.totals()["nodes"], plant.bridge.totals()["online"]) == (1, 0)


def test_values_begin_with_the_births_and_go_on_with_what_is_said() -> None:
    plant = Bridged()
    bridge = plant.bridge
    birth = nbirth(0)
    plant.say("NBIRTH", birth)
    plant.say("NDATA", data(1))
    first = bridge.values("g/e", 0, plant.broker.now)
    assert first["fresh"]
    assert first["said"] == [["NBIRTH", "", base64.b64encode(birth).decode()]]
    plant.say("NDATA", data(2))
    plant.say("NDATA", data(3))
    second = bridge.values("g/e", first["number"], plant.broker.now)
    assert not second["fresh"]
    assert [said[0] for said in second["said"]] == ["NDATA", "NDATA"]
    third = bridge.values("g/e", second["number"], plant.broker.now)
    assert (third["fresh"], third["said"]) == (False, [])


def test_two_who_look_each_get_all() -> None:
    plant = Bridged()
    plant.say("NBIRTH", nbirth(0))
    one = plant.bridge.values("g/e", 0, plant.broker.now)
    plant.say("NDATA", data(1))
    two = plant.bridge.values("g/e", 0, plant.broker.now)
    assert [said[0] for said in two["said"]] == ["NBIRTH"]
    missed = plant.bridge.values("g/e", one["number"], plant.broker.now)
    assert missed["fresh"]


def tapped(plant: Bridged) -> bool:
    return plant.node.tap is not None


def test_nothing_is_kept_once_nobody_looks_any_more() -> None:
    plant = Bridged()
    plant.say("NBIRTH", nbirth(0))
    number = plant.bridge.values("g/e", 0, plant.broker.now)["number"]
    plant.pass_on(LOOKING_MS // 1000 - 5)
    assert tapped(plant)
    plant.pass_on(10)
    assert not tapped(plant)
    plant.say("NDATA", data(1))
    assert plant.bridge.values("g/e", number, plant.broker.now)["fresh"]
    with pytest.raises(BridgeError, match="never heard of"):
        plant.bridge.values("g/nobody", 0, plant.broker.now)


def test_names_without_end_leave_room_for_nodes() -> None:
    plant = Bridged()
    plant.say("NBIRTH", nbirth(0))
    stranger = connect(plant.broker, "stranger", clean=True, expiry=0)
    stranger.put("spBv1.0/g/NDATA/x", data(1), 1)
    stranger.disconnect()
    plant.pass_on(COUNTERS_MS // 1000 + 3)
    assert plant.rows() == ["node g/e", "node g/x"]
    nodes = core_of(plant.broker).nodes
    for number in range(NODES_MAX - 2):
        assert nodes.source_of(f"spBv1.0/g/NDATA/n{number}") is not None
    plant.edge.put("spBv1.0/g/NDATA/one-more", data(1), 1)
    plant.pass_on(3)
    assert plant.rows() == ["node g/e"]
    assert "g/one-more" in nodes.by_key
    assert "g/x" not in {row["node"] for row in plant.bridge.nodes()}
    assert late(plant.say("NDATA", data(1, time=T + 1))) == "0"
