"""Who collects, and whose id is another each time."""

import dataclasses

from gateway.doctor.case import setting_span, span
from gateway.doctor.snapshot import Client, Keeper
from gateway.settings.collector import CollectorRule
from tests.unit.gateway.doctor.scene import HISTORIAN, PLC, case, scene


def test_a_device_that_waits_for_its_commands_is_no_collector() -> None:
    held = Keeper(client_id=PLC, persistent=False, subscriptions={"cmd/plc": 0})
    found = case(scene(keepers={PLC: held}))
    assert [keeper.client_id for keeper in found.collectors] == [HISTORIAN]
    wide = dataclasses.replace(held, subscriptions={"cmd/#": 0})
    assert len(case(scene(keepers={PLC: wide})).collectors) == 2


def test_tools_are_no_collectors() -> None:
    tool = Keeper(client_id="mosq-2Ab3Cd4Ef5Gh6Ij7Kl", persistent=False, subscriptions={"#": 0})
    assert len(case(scene(keepers={tool.client_id: tool})).collectors) == 1


def test_declared_by_a_pattern() -> None:
    rule = CollectorRule("h", "hist*", "telegraf", ())
    found = case(scene(gateway={"collectors": (rule,)}))
    assert found.rule(HISTORIAN) is rule
    assert found.product(HISTORIAN).name == "telegraf"
    assert found.rule(PLC) is None


def test_ids_of_one_machine_that_differ_in_their_end_are_drawn_by_lot() -> None:
    ids = [f"agent-7f3a9c2{n}" for n in range(3)]
    clients = {
        name: Client(client_id=name, peer=f"10.0.0.7:{n}", connected=n == 2, since_ms=900 - 100 * n, asked={"a/#": 1})
        for n, name in enumerate(ids)
    }
    found = case(scene(clients=clients))
    assert found.is_random(ids[2])
    there = {name: dataclasses.replace(client, connected=True) for name, client in clients.items()}
    assert not case(scene(clients=there)).is_random(ids[2]), "a fleet of devices"
    fleet = {**clients, ids[0]: dataclasses.replace(clients[ids[0]], since_ms=600)}
    assert not case(scene(clients=fleet)).is_random(ids[2]), "two that were there at a time"
    apart = {name: dataclasses.replace(client, peer=f"10.0.1.{name[-1]}:1") for name, client in clients.items()}
    assert not case(scene(clients=apart)).is_random(ids[2])


def test_who_has_left_long_ago_is_not_missed() -> None:
    gone = Client(client_id="spare", connected=False, since_ms=10, connects=2, asked={"line/#": 1})
    assert len(case(scene(clients={"spare": gone})).collectors) == 2
    long_ago, once = dataclasses.replace(gone, since_ms=90_000_000), dataclasses.replace(gone, connects=1)
    assert len(case(scene(clients={"spare": long_ago})).collectors) == 1
    assert len(case(scene(clients={"spare": once})).collectors) == 1, "somebody who looked in"


def test_times_for_people_and_for_settings() -> None:
    assert [span(s) for s in (2, 600, 28_800, 604_800)] == ["2 s", "10 min", "8 h", "7 d"]
    assert [setting_span(s) for s in (28_800, 90, 86_400, 5400)] == ["8h", "90s", "1d", "90m"]
