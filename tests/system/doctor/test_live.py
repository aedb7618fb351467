"""Findings that need a remote, a disk or time: planted on gateways that run, each with the setting that it names."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.auth import Passwords
from gateway.cli.control import ask
from gateway.doctor.answer import report
from gateway.doctor.snapshot import Ask
from tests.harness import Broker
from tests.page import status_of
from tests.system.disks import MIB, fill, small_disk
from tests.system.doctor.drivers import Paho, wait_until
from tests.wire import Wire

AGES_S = 3000 * 365 * 86_400  # in which any rate fills any disk, but not the budget
DEVICE = "mqtt.persistent-session.device.persisted-messages"
CROOKED = {
    "mqtt.max_inflight": 2, "bridge.elide": True, f"{DEVICE}.limit": 5, "store.max_bytes": "1024TiB",
    "client_type": "app=application;max_bytes=1024",
}  # fmt: skip
RULES = (
    "allow readwrite #,deny write forebay/heartbeat/#;username=deaf,deny read orders/#;username=blind,"
    "allow readwrite $SYS/#"
)


def findings(broker: Broker, outage_s: int = 8 * 3600) -> dict[str, list[dict[str, Any]]]:
    """By code."""
    told = ask(broker.data_dir / "control.sock", {"cmd": "doctor"})
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in report(told, Ask(outage_s=outage_s, unacked_s=3600))["findings"]:
        found.setdefault(finding["code"], []).append(finding)
    return found


def wait_found(broker: Broker, *codes: str) -> dict[str, list[dict[str, Any]]]:
    wait_until(lambda: set(codes) <= findings(broker).keys(), f"findings {codes}")
    return findings(broker)


@pytest.fixture(scope="module")
def crooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """With clients of every kind that the tests below look for."""
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(tmp_path_factory.mktemp("crooked") / "data", CROOKED))
        devices = [
            Paho(broker.port, "slow", subscribe=("slow/#",), never_ack=True),
            Paho(broker.port, "away", subscribe=("away/#",)),
            Paho(broker.port, "app", subscribe=("app/#",)),
            Paho(broker.port, "host", subscribe=("spBv1.0/#",)),
        ]
        publishers = [Paho(broker.port, f"plc-{name}", f"{name}/x") for name in ("slow", "away", "app", "nobody")]
        publishers.append(Paho(broker.port, "node", "spBv1.0/g/NDATA/n", qos=0))
        for device in [*devices, *publishers]:
            device.open()
            stack.callback(device.close)
        devices[1].close()
        for publisher in publishers:
            for number in range(10 if publisher.client_id == "plc-away" else 6):
                publisher.publish(number)
            publisher.settle(range(6))
        devices[1].open()  # the oldest are dropped when their turn comes
        yield broker


def test_a_window_that_is_full_all_the_time(crooked: Broker) -> None:
    (found,) = wait_found(crooked, "window_small")["window_small"]
    assert (found["collector"], found["setting"], found["where"]) == ("slow", "mqtt.max_inflight = 1000", "gateway")


def test_a_queue_that_has_dropped(crooked: Broker) -> None:
    (found,) = wait_found(crooked, "messages_dropped")["messages_dropped"]
    assert (found["collector"], "5 queue_full" in found["what"]) == ("away", True)


def test_an_application_that_may_have_little_unread(crooked: Broker) -> None:
    (found,) = wait_found(crooked, "retention_bytes")["retention_bytes"]
    assert found["collector"] == "app"
    assert found["setting"].startswith('max_bytes = "') and "app" in found["setting"]


def test_sparkplug_that_a_crash_may_lose(crooked: Broker) -> None:
    found = wait_found(crooked, "bridge_elide", "sparkplug_qos0")
    assert [one["setting"] for one in found["bridge_elide"]] == ["bridge.elide = false"]
    assert found["sparkplug_qos0"][0]["severity"] == "note"


def test_topics_for_nobody_and_a_clock_that_nobody_sets(crooked: Broker) -> None:
    found = wait_found(crooked, "no_subscriber")
    assert [one["publisher"] for one in found["no_subscriber"]] == ["plc-nobody"]
    assert ("clock_unsynchronised" in found) is not status_of(crooked)["clock"]["synchronised"]


def test_a_disk_with_less_room_than_the_budget(crooked: Broker) -> None:
    wait_until(lambda: "disk_free" in findings(crooked, AGES_S), "a rate")
    (found,) = findings(crooked, AGES_S)["disk_free"]
    assert found["setting"] == "data_dir on a larger disk"
    assert "disk_free" not in findings(crooked)


def test_connections_that_fall_silent(crooked: Broker) -> None:
    for _ in range(3):
        assert "connection_silent" not in findings(crooked)
        with Wire.connect(crooked.port, "mute", keepalive=1) as wire:
            wire.expect_closed()
    (found,) = wait_found(crooked, "connection_silent")["connection_silent"]
    assert found["where"] == "network" and "mute" in found["machine"]


def test_a_store_that_takes_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8 * MIB) as disk:
        with Broker(disk / "data") as broker, Wire.connect(broker.port, "plc") as plc:
            with Wire.connect(broker.port, "historian", clean=False) as historian:
                historian.subscribe("t", qos=1)
            fill(disk / "other")
            (broker.data_dir / "forebay.db.spare").unlink(missing_ok=True)
            fill(disk / "other")
            for number in range(10):
                plc.publish("t", bytes(60_000), qos=1, pid=number + 1)
            (found,) = wait_found(broker, "store_fails")["store_fails"]
            assert found["setting"].startswith("the disk") and found["loses"] == ("always",)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A gateway with four uplinks to one broker, which lets one of them do all that it wants."""
    folder = tmp_path_factory.mktemp("uplinks")
    far = Broker(folder / "far", {"allow_anonymous": "false", "acl": RULES})
    far.data_dir.mkdir()
    for user in ("fine", "deaf", "blind"):
        Passwords(far.data_dir / "passwd").add(user, b"pw")
    rules = [{"direction": "out", "filter": "line/#", "qos": 1}, {"direction": "in", "filter": "orders/#", "qos": 1}]
    rows = [
        {
            "name": name, "addresses": [f"mqtt://127.0.0.1:{far.port}"], "user": name, "password": "pw", "rules": rules,
            "heartbeat": 1, "status_topics": "off",
        }
        for name in ("fine", "deaf", "blind", "shut")
    ]  # fmt: skip
    with far, Broker(folder / "here", {"uplink": json.dumps(rows)}) as here:
        yield here


def test_uplinks_that_do_not_hand_on(linked: Broker) -> None:
    found = wait_found(linked, "uplink_heartbeat", "uplink_denied", "uplink_refused")
    for code, name in (("uplink_heartbeat", "deaf"), ("uplink_denied", "blind"), ("uplink_refused", "shut")):
        assert [f"uplink {name} " in f"{one['what']} " for one in found[code]] == [True], found[code]
    assert found["uplink_refused"][0]["setting"] == "forebay uplink test shut"
    assert found["uplink_denied"][0]["where"] == "collector"
