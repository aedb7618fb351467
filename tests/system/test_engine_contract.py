"""What every engine of the log of the APPLICATIONs holds, seen from outside: append, read, settle, commit, trim."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.control import ask
from tests import wire_format as mqtt
from tests.engines import KINDS, EngineRig, engine_rig
from tests.harness import Broker
from tests.wire import Wire
from tests.wire_format import Packet

WAIT_S = 60.0
OUTSIDE = [kind for kind in KINDS if kind != "sqlite"]


class Site:
    """A gateway and its engine, both running."""

    def __init__(self, kind: str, rig: EngineRig, folder: Path) -> None:
        self.kind, self.rig = kind, rig
        rig.start()
        self.gateway = Broker(folder / "gateway", rig.settings())
        self.gateway.start()
        if rig.outside:
            self.until(lambda: self.engine()["state"] == "up")

    def engine(self) -> dict[str, Any]:
        row: dict[str, Any] = self.status()["engine"]
        return row

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = ask(self.gateway.data_dir / "control.sock", {"cmd": "status"})
        return answer

    def until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + WAIT_S
        while not true():
            assert time.monotonic() < end, self.gateway.log()[-3000:]
            time.sleep(0.05)

    def application(self, name: str = "app-1", filter: str = "plant/#", present: int = 0) -> Wire:
        wire = Wire.connect(
            self.gateway.port,
            name,
            5,
            clean=False,
            props=[(mqtt.SESSION_EXPIRY, 3600)],
            present=present,
            timeout=WAIT_S,
        )
        if not present:
            wire.subscribe(filter, qos=1)
        return wire

    def publish(self, first: int, last: int, topic: str = "plant/a") -> None:
        """Each acknowledged before the next; a lost connection is the caller's to see."""
        with Wire.connect(self.gateway.port, "publisher", 5, timeout=WAIT_S) as wire:
            for n in range(first, last):
                assert wire.publish_done(topic, b"%d" % n)["code"] < 0x80
            wire.disconnect()

    def stored(self) -> int:
        """Messages that the log holds for somebody."""
        if self.rig.outside:
            return int(self.engine()["log"].get("messages", -1))
        return int(self.status()["store"]["segments"])


def numbers(packets: list[Packet]) -> list[int]:
    return [int(packet["payload"]) for packet in packets]


@contextlib.contextmanager
def running(kind: str, folder: Path) -> Iterator[Site]:
    rig, why = engine_rig(kind, folder)
    if rig is None:
        pytest.skip(why)
    site = None
    try:
        site = Site(kind, rig, folder)
        yield site
    finally:
        if site is not None:
            site.gateway.kill9()
        rig.close()


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    with running(request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=OUTSIDE)
def outside(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    with running(request.param, tmp_path) as made:
        yield made


def test_what_is_acknowledged_is_there_after_a_crash_in_its_order(site: Site) -> None:
    site.application().close()
    site.publish(0, 200)
    site.gateway.restart()
    with site.application(present=1) as wire:
        assert numbers(wire.take(200, WAIT_S)) == list(range(200))


def test_a_reader_goes_on_where_it_stood(site: Site) -> None:
    wire = site.application()
    site.publish(0, 10)
    assert numbers(wire.take(10, WAIT_S)) == list(range(10))
    wire.disconnect()
    site.publish(10, 30)
    with site.application(present=1) as wire:
        assert numbers(wire.take(20, WAIT_S)) == list(range(10, 30))


def test_what_is_not_settled_comes_again_and_nothing_before_it(site: Site) -> None:
    wire = site.application()
    site.publish(0, 10)
    came = [wire.expect(mqtt.PUBLISH, WAIT_S) for _ in range(10)]
    assert numbers(came) == list(range(10))
    for n in (0, 1, 2, 6):
        wire.puback(came[n]["pid"])
    wire.ping()
    wire.disconnect()
    rest = [3, 4, 5, 7, 8, 9] if site.rig.single else [3, 4, 5, 6, 7, 8, 9]
    with site.application(present=1) as wire:
        assert numbers(wire.take(len(rest), WAIT_S)) == rest


def test_one_that_is_never_settled_holds_nobody_up(site: Site) -> None:
    with site.application("app-slow") as slow, site.application("app-1") as quick:
        site.publish(0, 50)
        first = slow.expect(mqtt.PUBLISH, WAIT_S)
        assert numbers([first]) == [0]
        assert numbers(quick.take(50, WAIT_S)) == list(range(50))
        if site.rig.single:
            assert numbers(slow.take(49, WAIT_S)) == list(range(1, 50))


def test_a_message_arrives_as_it_was_sent(site: Site) -> None:
    topics = ["plant/$x/a.b", "plant//*/>", "plant/ space / é", "plant/" + "l/" * 60 + "end", "plant/%25"]
    props = [(mqtt.CONTENT_TYPE, "text/x"), (mqtt.USER_PROPERTY, ("k", "v")), (mqtt.USER_PROPERTY, ("k", "w"))]
    with site.application() as wire, Wire.connect(site.gateway.port, "publisher", 5, timeout=WAIT_S) as publisher:
        for topic in topics:
            assert publisher.publish_done(topic, b"\x00\xff", props=props)["code"] == 0
        for topic in topics:
            (came,) = wire.take(1, WAIT_S)
            assert (came["topic"], came["payload"], came["qos"]) == (topic, b"\x00\xff", 1)
            assert came["props"] == props
        publisher.publish_done("plant/q2", b"two", qos=2)
        assert wire.take(1, WAIT_S)[0]["payload"] == b"two"


def test_an_expired_message_does_not_come(site: Site) -> None:
    site.application().close()
    with Wire.connect(site.gateway.port, "publisher", 5, timeout=WAIT_S) as publisher:
        publisher.publish_done("plant/a", b"1", props=[(mqtt.MESSAGE_EXPIRY, 1)])
        publisher.publish_done("plant/a", b"2")
        time.sleep(1.5)  # what expires has to
    with site.application(present=1) as wire:
        assert numbers(wire.take(1, WAIT_S)) == [2]


def test_a_filter_that_ends_brings_nothing_more_and_a_new_one_does(site: Site) -> None:
    with site.application(filter="plant/a") as wire:
        site.publish(0, 1)
        assert numbers(wire.take(1, WAIT_S)) == [0]
        wire.subscribe("plant/b", qos=1)
        wire.unsubscribe("plant/a")
        site.publish(1, 2, "plant/a")
        site.publish(2, 3, "plant/b")
        assert numbers(wire.take(1, WAIT_S)) == [2]


def test_a_fresh_start_has_nothing_of_before(site: Site) -> None:
    site.application().close()
    site.publish(0, 5)
    with Wire.connect(
        site.gateway.port, "app-1", 5, clean=True, props=[(mqtt.SESSION_EXPIRY, 3600)], present=0, timeout=WAIT_S
    ) as wire:
        wire.subscribe("plant/#", qos=1)
        site.publish(5, 6)
        assert numbers(wire.take(1, WAIT_S)) == [5]


def test_what_everybody_has_is_deleted(site: Site) -> None:
    if not site.rig.trims:
        pytest.skip(f"{site.kind} deletes by age and size alone")
    with site.application() as wire:
        site.publish(0, 50)
        wire.take(50, WAIT_S)
        site.until(lambda: site.stored() == 0)


def test_while_the_engine_is_down_all_waits_here_and_then_comes_in_order(outside: Site) -> None:
    with outside.application() as wire:
        outside.publish(0, 20)
        assert numbers(wire.take(20, WAIT_S)) == list(range(20))
        outside.rig.kill9()
        outside.publish(20, 60)
        row = outside.engine()
        assert row["state"] in ("down", "connecting")
        assert row["waiting"] + row["in_flight"] == 40
        outside.rig.start()
        assert [n for n in numbers(wire.take(40, WAIT_S)) if n >= 20] == list(range(20, 60))


def test_a_gateway_that_starts_without_its_engine_serves_all_the_same(outside: Site) -> None:
    outside.application().close()
    outside.rig.kill9()
    outside.gateway.restart()
    outside.publish(0, 20)
    outside.gateway.restart()
    outside.publish(20, 30)
    outside.rig.start()
    with outside.application(present=1) as wire:
        assert numbers(wire.take(30, WAIT_S)) == list(range(30))
