"""Each planted misconfiguration is found, with the setting that puts it right; then the outage is made, and what the
doctor has said would be lost is lost, and what it has not said is kept.

The outage: the collector goes, messages come, the gateway is killed, the publisher makes more, the gateway starts, the
collector comes back.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.control import ask
from gateway.doctor.answer import report
from gateway.doctor.snapshot import Ask
from tests.harness import Broker
from tests.system.doctor.drivers import Loop, Node, wait_until
from tests.system.doctor.planted import CASES, COMMON, Case, Plant, Site
from tests.system.drivers import install_npm

ASK = Ask(outage_s=8 * 3600, unacked_s=5)  # longer than a busy machine holds up one that answers
AWAY_S = 2.5  # longer than the limits that the cases set
AWAY, DOWN, LAST = range(100, 200), range(200, 205), 999
NOTICED_S = 1.1  # before that no rate is known
NOTHING_COMES = ("subscription_refused", "subscription_missing", "duplicate_client_id")  # not the last one, either
QUIET_S = 0.3  # after the last that is expected: what comes now would be too much

pytestmark = pytest.mark.timeout(400)


class Stage:
    """All plants, on as few gateways as can be, through one outage."""

    def __init__(self, folder: Path) -> None:
        self.site = Site(Loop(), Node())
        self.brokers: dict[str, Broker] = {}
        self.plants: dict[str, Plant] = {}
        self.reports: dict[str, dict[str, Any]] = {}
        self.faults: dict[str, str] = {}
        for case in CASES:
            key = case.name if case.settings else "common"
            if key not in self.brokers:
                self.brokers[key] = Broker(folder / key, {**COMMON, **case.settings})
        self.threads = ThreadPoolExecutor(8)

    def broker(self, case: Case) -> Broker:
        return self.brokers[case.name if case.settings else "common"]

    def each(self, work: Any) -> None:
        """For all cases at a time; a fault of one is told with its name and ends only that one."""

        def one(case: Case) -> None:
            try:
                work(case, self.plants[case.name])
            except Exception as error:
                self.faults[case.name] = repr(error)

        list(self.threads.map(one, CASES))

    def run(self) -> None:
        self.start_all()
        for case in CASES:
            self.site.port = self.broker(case).port
            self.plants[case.name] = case.build(self.site, case.name)
        self.each(start)
        time.sleep(NOTICED_S)
        with contextlib.suppress(AssertionError):  # told case by case
            wait_until(self.all_found, "all that was planted")
        self.each(leave)
        time.sleep(AWAY_S)
        for broker in self.brokers.values():
            broker.kill9()
        self.each(cut_off)
        self.start_all()
        self.each(lambda case, plant: come_back(case, plant, losses(self, case)))

    def all_found(self) -> bool:
        """Ask the doctors; some faults take a moment to show."""
        for name, broker in self.brokers.items():
            self.reports[name] = report(ask(broker.data_dir / "control.sock", {"cmd": "doctor"}), ASK)
        return all(not case.code or case.code in codes(self, case) for case in CASES)

    def report(self, case: Case) -> dict[str, Any]:
        return self.reports[case.name if case.settings else "common"]

    def start_all(self) -> None:
        """Two at a time: more would only take longer each."""
        with ThreadPoolExecutor(2) as starting:
            list(starting.map(lambda broker: broker.start(), self.brokers.values()))

    def close(self) -> None:
        for plant in self.plants.values():
            for device in (plant.publisher, plant.collector, *plant.others, *([plant.rival] if plant.rival else [])):
                with contextlib.suppress(Exception):
                    device.close()
        self.site.loop.close()
        self.site.node.close()
        self.threads.shutdown()
        for broker in self.brokers.values():
            broker.kill9()


def is_in(name: str, text: str) -> bool:
    """As a word: a name such as a05 may stand by chance within an id that the gateway has made up."""
    return re.search(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", text) is not None


def findings(stage: Stage, case: Case) -> list[dict[str, Any]]:
    """Those of this case: of its clients, and where the gateway is its own all."""
    report = stage.report(case)
    ids = {case.name}
    for flow in report["flows"]:  # a client id that is made up does not tell whose it is
        ends = (flow["publisher"], flow["collector"])
        if any(is_in(case.name, end) for end in ends):
            ids.update(ends)
    return [
        finding
        for finding in report["findings"]
        if case.settings or any(is_in(one, finding["publisher"]) or is_in(one, finding["collector"]) for one in ids)
    ]


def codes(stage: Stage, case: Case) -> list[str]:
    return [finding["code"] for finding in findings(stage, case) if finding["severity"] != "note"]


def losses(stage: Stage, case: Case) -> set[str]:
    return {loss for finding in findings(stage, case) for loss in finding["loses"]}


# One outage


def start(case: Case, plant: Plant) -> None:
    for device in plant.others:
        device.open()
    if plant.rival is not None:
        plant.rival.open()
    plant.collector.open()
    plant.publisher.open()
    for number in range(3):
        plant.publisher.publish(number, case.size)
    plant.publisher.settle(range(3))


def leave(case: Case, plant: Plant) -> None:
    plant.collector.close()
    if plant.rival is not None:
        plant.rival.close()
    numbers = range(AWAY.start, AWAY.start + case.count)
    for number in numbers:
        plant.publisher.publish(number, case.size)
    plant.publisher.settle(numbers)


def cut_off(case: Case, plant: Plant) -> None:
    wait_until(lambda: not plant.publisher.is_connected(), "the publisher knows that the gateway is gone")
    for number in DOWN:
        plant.publisher.publish(number)


def come_back(case: Case, plant: Plant, loses: set[str]) -> None:
    wait_until(plant.publisher.is_connected, "the publisher is back")
    if not loses & {"always", "gateway_down"}:
        plant.publisher.settle(DOWN)
    if plant.rival is not None:  # it gets what was for both
        plant.rival.open()
        wait_until(lambda: AWAY.start in plant.rival.received, "the rival has the queue")  # type: ignore[union-attr]
    if plant.returns is not None:
        plant.collector = plant.returns()
    plant.collector.open()
    plant.publisher.publish(LAST)
    wanted = kept(case, loses)
    if wanted:
        wait_until(lambda: wanted <= plant.collector.received.keys(), f"what is to be kept: {sorted(wanted)}")
    elif case.code not in NOTHING_COMES:
        wait_until(lambda: LAST in plant.collector.received, "what comes when all are there")
    time.sleep(QUIET_S)


def kept(case: Case, loses: set[str]) -> set[int]:
    """What must be with the collector in the end, by what the doctor has said."""
    if loses & {"always", "collector_away", "collector_away_too_long", "gateway_killed"}:
        return set()
    away = set(range(AWAY.start, AWAY.start + case.count))
    return away if "gateway_down" in loses else away | set(DOWN)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    reason = install_npm("mqtt")
    if reason:
        pytest.skip(reason)
    made = Stage(tmp_path_factory.mktemp("doctor"))
    try:
        made.run()
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.code or 'right'}")
def test_it_is_found_and_nothing_else(stage: Stage, case: Case) -> None:
    found = [finding for finding in findings(stage, case) if finding["severity"] != "note"]
    assert [finding["code"] for finding in found] == ([case.code] if case.code else [])
    if case.code:
        assert case.setting in found[0]["setting"]
        assert found[0]["where"] == case.where


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.code or 'right'}")
def test_the_outage_goes_as_it_says(stage: Stage, case: Case) -> None:
    assert case.name not in stage.faults, stage.faults[case.name]
    loses, got = losses(stage, case), stage.plants[case.name].collector.received
    away = set(range(AWAY.start, AWAY.start + case.count))
    if loses & {"always", "collector_away"} and case.code != "duplicate_client_id":
        assert not away & got.keys(), "some came, though the doctor said that all would be lost"
    elif loses & {"always", "collector_away_too_long"}:
        assert away - got.keys(), "all came, though the doctor said that some would be lost"
    else:
        assert away <= got.keys()
    if "gateway_down" in loses:
        assert not set(DOWN) & got.keys(), "what was made while the gateway was down came after all"
    elif not loses & {"always", "collector_away", "collector_away_too_long"}:
        assert set(DOWN) <= got.keys()


def test_nothing_is_said_of_all_on_the_common_gateway(stage: Stage) -> None:
    general = [f for f in stage.reports["common"]["findings"] if not f["publisher"] and not f["collector"]]
    assert [f["code"] for f in general if f["severity"] != "note"] == []


def test_the_exit_code_says_that_messages_are_lost(stage: Stage) -> None:
    assert stage.reports["common"]["counts"]["error"] > 10
