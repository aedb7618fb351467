"""When a node is asked: after the reorder time, once, within the budget, and never for what came after all."""

from typing import Any

import pytest

from gateway.bridge.observer import Observer
from gateway.bridge.rebirths import Asking, can_rebirth
from sparkplug.payload import decode
from tests.conformance.client import Client
from tests.plant import TOPIC, Plant, T
from tests.spb_bytes import data, metric, ndeath
from tests.spb_bytes import nbirth as deaf_birth

REBIRTH = metric("Node Control/Rebirth", 0, datatype=11)


def nbirth(bd_seq: int, seq: int = 0, time: int = T) -> bytes:
    """Of a node that can be asked for another."""
    return deaf_birth(bd_seq, seq, time, REBIRTH)


class Asked(Plant):
    """The node listens to its commands."""

    def __init__(self, per_minute: int = 60, **limits: Any) -> None:
        super().__init__(**limits)
        self.observer = Observer()
        self.asking = Asking(self.broker.router.bridge, self.observer)
        self.asking.configure(2000, per_minute)
        self.edge.subscribe(TOPIC.format("NCMD"), qos=0)

    def pass_on(self, seconds: float = 0) -> None:
        """Time passes, with a tick each half second."""
        left = round(seconds * 1000)
        while True:
            for event in self.broker.router.bridge.take_events():
                self.observer.event(event)
                self.asking.event(event, self.broker.now)
            self.asking.tick(self.broker.now)
            self.broker.pump()
            if left <= 0:
                return
            self.broker.advance(min(500, left))
            left -= 500

    def commands(self, client: Client | None = None) -> int:
        return len((client or self.edge).take_all())

    def facts(self) -> Any:
        return self.observer.report(self.node)


def test_a_hole_that_stays_is_recorded_and_asked_for_once() -> None:
    plant = Asked()
    plant.say("NBIRTH", nbirth(0))
    first = plant.broker.now
    plant.broker.advance(100)
    plant.say("NDATA", data(4, time=T + 4))
    plant.pass_on(1.5)
    assert plant.commands() == 0
    plant.pass_on(1)
    (command,) = plant.edge.take_all()
    (asked,) = decode(command.payload).metrics
    assert (asked.name, asked.value, asked.alias, decode(command.payload).seq) == (
        "Node Control/Rebirth", True, None, None,
    )  # fmt: skip
    (window,) = plant.facts()["loss_windows"]
    assert (window["why"], window["messages"], window["to_ms"] - window["from_ms"]) == ("seq_gap", 3, 100)
    assert window["from_ms"] - first == window["to_ms"] - first - 100
    assert plant.facts()["seq_gaps"] == 1
    plant.say("NBIRTH", nbirth(0, 0, T + 9))
    plant.pass_on(60)
    assert plant.commands() == 0
    assert (plant.facts()["rebirths_asked"], plant.facts()["rebirths_answered"]) == (1, 1)


def test_a_hole_that_is_filled_in_time_is_none() -> None:
    plant = Asked()
    plant.say("NBIRTH", nbirth(0))
    plant.pass_on()
    plant.observer.changed.clear()
    plant.say("NDATA", data(2, time=T + 2))
    plant.say("NDATA", data(4, time=T + 4))
    plant.pass_on(1)
    gap = plant.observer.of("g/e").gap
    assert gap is not None
    assert gap[2] == 2
    assert plant.observer.changed == {"g/e"}
    plant.observer.changed.clear()
    plant.say("NDATA", data(1, time=T + 1))
    plant.say("NDATA", data(3, time=T + 3))
    plant.pass_on(10)
    assert plant.commands() == 0
    assert plant.facts()["loss_windows"] == []
    assert plant.observer.of("g/e").gap is None
    assert plant.observer.changed == {"g/e"}


def test_of_a_hole_that_is_filled_in_part_the_rest_is_recorded() -> None:
    plant = Asked()
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDATA", data(5, time=T + 5))
    plant.say("NDATA", data(2, time=T + 2))
    plant.pass_on(3)
    assert plant.facts()["loss_windows"][0]["messages"] == 3


def test_a_gap_longer_than_the_counter_is_told_by_time() -> None:
    """seq alone is blind to multiples of 256: the window says from when to when, and the number is the least."""
    plant = Asked()
    plant.say("NBIRTH", nbirth(0))
    plant.broker.advance(60_000)
    plant.say("NDATA", data(3, time=T + 60_000))
    plant.pass_on(3)
    (window,) = plant.facts()["loss_windows"]
    assert (window["messages"], window["to_ms"] - window["from_ms"]) == (2, 60_000)


def test_a_new_birth_ends_the_wait_but_not_the_record() -> None:
    plant = Asked()
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDATA", data(3, time=T + 3))
    plant.pass_on(0.5)
    plant.say("NBIRTH", nbirth(0, 0, T + 9))
    plant.pass_on(10)
    assert plant.commands() == 0
    assert plant.facts()["loss_windows"][0]["messages"] == 2


def test_data_before_a_birth_waits_a_moment_for_it() -> None:
    plant = Asked()
    plant.say("NDATA", data(1))
    plant.pass_on(1)
    plant.say("NBIRTH", nbirth(0))
    plant.pass_on(10)
    assert plant.commands() == 0


def test_data_without_a_birth_is_asked_for_one_with_growing_pauses() -> None:
    """Also what a gateway sees that was started in mid-stream."""
    plant = Asked()
    plant.say("NDATA", data(1))
    for number in range(2, 50):
        plant.say("NDATA", data(number))
        plant.pass_on(0.5)
    first = plant.commands()
    assert 1 <= first <= 4
    plant.pass_on(600)
    assert plant.commands() <= 6


def test_a_birth_in_doubt_is_asked_for_again() -> None:
    """NBIRTH after NDEATH with the same bdSeq."""
    plant = Asked()
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDEATH", ndeath(0), 1)
    plant.pass_on()
    plant.say("NBIRTH", nbirth(0, 0, T + 5))
    plant.pass_on(1)
    assert plant.commands() == 1
    plant.say("NBIRTH", nbirth(0, 0, T + 6))
    plant.pass_on(20)
    assert plant.commands() == 0


def test_a_stale_death_and_an_old_birth_ask_for_nothing() -> None:
    plant = Asked()
    plant.say("NBIRTH", nbirth(1, 0, T + 9))
    plant.say("NDEATH", ndeath(0), 1)
    plant.say("NBIRTH", nbirth(0, 0, T), 1)
    plant.pass_on(10)
    assert plant.commands() == 0


def test_a_node_whose_holes_never_end_is_left_in_peace() -> None:
    plant = Asked()
    plant.say("NBIRTH", nbirth(0))
    asked = 0
    for turn in range(1, 100):
        plant.say("NDATA", data(5, time=T + 1000 * turn + 5))
        plant.pass_on(3)
        if plant.commands():
            asked += 1
            plant.say("NBIRTH", nbirth(0, 0, T + 1000 * turn + 9))
            plant.pass_on()
        else:
            plant.node.expected = 1
    assert 2 <= asked <= 9


def test_the_budget_of_all_nodes_bounds_a_storm() -> None:
    plant = Asked(per_minute=6)
    clients = []
    for number in range(40):
        client = plant.come(0, name=f"edge{number}")
        client.subscribe(f"spBv1.0/g/NCMD/e{number}", qos=0)
        client.publish(f"spBv1.0/g/NDATA/e{number}", data(7))
        clients.append(client)
    plant.pass_on(3)
    assert sum(plant.commands(client) for client in clients) == 10
    plant.pass_on(60)
    assert sum(plant.commands(client) for client in clients) == 6


def test_without_a_budget_nobody_is_asked_and_holes_are_still_recorded() -> None:
    plant = Asked(per_minute=0)
    plant.say("NBIRTH", nbirth(0))
    plant.say("NDATA", data(4, time=T + 4))
    plant.pass_on(30)
    assert plant.commands() == 0
    assert plant.facts()["seq_gaps"] == 1


def test_a_node_that_listens_to_no_command_is_not_asked_again_and_again() -> None:
    plant = Asked()
    plant.edge.unsubscribe(TOPIC.format("NCMD"))
    plant.say("NDATA", data(1))
    plant.pass_on(60)
    assert plant.facts()["rebirths_asked"] == 0


@pytest.mark.parametrize(("more", "can"), [((), False), ((REBIRTH,), True)])
def test_whether_a_node_can_be_asked(more: tuple[bytes, ...], can: bool) -> None:
    plant = Asked()
    plant.say("NDATA", data(1))
    assert can_rebirth(plant.node)  # nothing says that it cannot
    plant.say("NBIRTH", deaf_birth(0, 0, T, *more))
    assert can_rebirth(plant.node) is can
    plant.say("NDATA", data(3, time=T + 3))
    plant.pass_on(10)
    assert bool(plant.commands()) is can
