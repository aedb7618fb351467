"""A disk that is really full: nothing acknowledged is lost, publishers wait, and it ends by itself."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.harness import Broker
from tests.system.disks import (
    MIB,
    collector,
    drain,
    fill,
    free_bytes,
    leave_behind,
    number_of,
    numbered,
    publish_until_stuck,
    small_disk,
    status,
    until,
)
from tests.wire import Wire

QUOTA_EXCEEDED = 0x97
PAYLOAD_BYTES = 32_768
DISK_BYTES = 12 * MIB


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK_BYTES) as folder:
        yield folder


def serving(disk: Path, log: Path, **settings: object) -> Broker:
    told = {"store.min_free_bytes": 0, "store.error_hold_s": "60s"}
    told |= {name.replace("_", ".", 1): value for name, value in settings.items()}
    broker = Broker(disk / "data", told)
    broker.log_file = log  # the disk is no place for it
    return broker


def stuck_at(broker: Broker, wire: Wire, first: int = 0) -> int:
    return publish_until_stuck(broker, wire, PAYLOAD_BYTES, first)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("by", ["another file", "the queue itself"])
def test_publishers_wait_for_room_and_everything_else_goes_on(
    disk: Path, tmp_path: Path, version: int, by: str
) -> None:
    with serving(disk, tmp_path / "log") as broker:
        leave_behind(broker)
        with Wire.connect(broker.port, "live") as live, Wire.connect(broker.port, "p", version) as publisher:
            live.subscribe("live", qos=1)
            publisher.publish_done("t/q", numbered(0, PAYLOAD_BYTES))
            filler = disk / "filler"
            fill(filler, 0 if by == "another file" else 4 * MIB)
            stuck = stuck_at(broker, publisher, 1)
            publisher.publish("t/q", numbered(stuck + 1, PAYLOAD_BYTES), 1)
            publisher.send(mqtt.frame(0xC0, b""))
            publisher.expect_nothing(1.5)  # not even the PINGRESP: it is read no further
            assert "full" in status(broker)["store"]["error"]
            with Wire.connect(broker.port, "other", version) as other:
                other.publish("live", b"0")
                live.expect(mqtt.PUBLISH, payload=b"0")
                other.publish_done("live", b"1")
                live.settle(live.expect(mqtt.PUBLISH, payload=b"1", qos=1))
            filler.unlink()
            for _ in range(2):
                assert publisher.wait_for(mqtt.PUBACK).fields.get("code", 0) == 0
            publisher.wait_for(mqtt.PINGRESP)
            until(lambda: status(broker)["store"]["error"] is None, "the error is over")
            assert status(broker)["drops"] == {}
            publisher.publish_done("t/q", numbered(stuck + 2, PAYLOAD_BYTES))
            broker.restart()
        with collector(broker, 1) as wire:
            assert [number_of(one) for one in drain(broker, wire)] == list(range(stuck + 3))
        assert "Traceback" not in broker.log()


def test_what_a_forced_read_only_disk_takes_is_not_kept(disk: Path, tmp_path: Path) -> None:
    """SysRq+u leaves open files writable, and their fsync says yes without writing: here a mount above the folder."""
    with serving(disk, tmp_path / "log") as broker:
        leave_behind(broker)
        data = str(broker.data_dir)
        with Wire.connect(broker.port, "p", 5) as publisher, Wire.connect(broker.port, "live") as live:
            live.subscribe("live", qos=1)
            publisher.publish_done("t/q", numbered(0, 100))
            subprocess.run(["mount", "--bind", data, data], check=True)
            try:
                subprocess.run(["mount", "-o", "remount,bind,ro", data], check=True)
                publisher.publish("t/q", numbered(1, 100), 1)
                publisher.expect_nothing(2)
                assert "read-only" in status(broker)["store"]["error"]
                with Wire.connect(broker.port, "other") as other:
                    other.publish_done("live", b"0")
                live.settle(live.expect(mqtt.PUBLISH, payload=b"0", qos=1))
            finally:
                subprocess.run(["umount", data], check=True)
            assert publisher.wait_for(mqtt.PUBACK).fields.get("code", 0) == 0
            broker.kill9()
            broker.start()
        with collector(broker, 1) as wire:
            assert [number_of(one) for one in drain(broker, wire)] == [0, 1]
        assert "Traceback" not in broker.log()


def test_after_the_hold_v5_is_refused_and_311_closed(disk: Path, tmp_path: Path) -> None:
    with serving(disk, tmp_path / "log", store_error_hold_s="8s") as broker:
        leave_behind(broker)
        with (
            Wire.connect(broker.port, "five", 5) as five,
            Wire.connect(broker.port, "four", 4) as four,
            Wire.connect(broker.port, "twice", 5) as twice,
        ):
            fill(disk / "filler")
            stuck = stuck_at(broker, five)
            waiting = twice.publish("t/q", numbered(900_001, PAYLOAD_BYTES), 2)
            four.publish("t/q", numbered(900_002, PAYLOAD_BYTES), 1)
            five.wait_for(mqtt.PUBACK, code=QUOTA_EXCEEDED)
            twice.wait_for(mqtt.PUBREC, pid=waiting, code=QUOTA_EXCEEDED)
            four.expect_closed()
            until(lambda: status(broker)["drops"].get("disk", 0) >= 2, "the drops are counted")
            (disk / "filler").unlink()
            until(lambda: status(broker)["store"]["error"] is None, "the error is over")
            with Wire.connect(broker.port, "four", 4) as again:
                again.publish("t/q", numbered(stuck + 1, PAYLOAD_BYTES), 1, dup=True, pid=1)
                again.expect(mqtt.PUBACK, pid=1)
            five.publish_done("t/q", numbered(stuck + 2, PAYLOAD_BYTES))
            counted = status(broker)["drops"]
            broker.restart()
        assert status(broker)["drops"] == counted
        with collector(broker, 1) as wire:
            expected = [*range(stuck), stuck + 1, stuck + 2]
            assert [number_of(one) for one in drain(broker, wire)] == expected


def test_what_is_drained_makes_room_by_itself(disk: Path, tmp_path: Path) -> None:
    """The queue filled the disk: taking from it is what ends that."""
    with serving(disk, tmp_path / "log") as broker:
        leave_behind(broker)
        with Wire.connect(broker.port, "p", 5) as publisher:
            stuck = stuck_at(broker, publisher)
            with collector(broker, 1) as wire:
                taken = [number_of(one) for one in drain(broker, wire)]
                publisher.wait_for(mqtt.PUBACK, code=0)
                taken += [number_of(one) for one in drain(broker, wire)]
        assert taken == list(range(stuck + 1))
        until(lambda: status(broker)["store"]["error"] is None, "the error is over")


def test_it_starts_on_a_full_disk_and_keeps_what_is_stored(disk: Path, tmp_path: Path) -> None:
    with serving(disk, tmp_path / "log") as broker:
        leave_behind(broker)
        with Wire.connect(broker.port, "p", 5) as publisher:
            stuck = stuck_at(broker, publisher)
            for stop in (broker.kill9, broker.sigterm):
                stop()
                fill(disk / "filler")
                broker.start()
                with Wire.connect(broker.port, "other") as other, Wire.connect(broker.port, "live") as live:
                    live.subscribe("live", qos=1)
                    other.publish_done("live", b"1")
                    live.take(1)
        (disk / "filler").unlink()
        with collector(broker, 1) as wire:
            seen = [number_of(one) for one in drain(broker, wire)]
        assert seen[:stuck] == list(range(stuck))
        assert seen[stuck:] in ([], [stuck])


def test_the_space_for_others_is_left_to_them(disk: Path, tmp_path: Path) -> None:
    kept = 3 * MIB
    with serving(disk, tmp_path / "log", store_min_free_bytes=kept) as broker:
        leave_behind(broker)
        with Wire.connect(broker.port, "p", 5) as publisher:
            stuck = stuck_at(broker, publisher)
            assert kept <= free_bytes(disk) < kept + 3 * MIB
            assert "full" in status(broker)["store"]["error"]
            with collector(broker, 1) as wire:
                taken = [number_of(one) for one in drain(broker, wire)]
                publisher.wait_for(mqtt.PUBACK, code=0)
                taken += [number_of(one) for one in drain(broker, wire)]
        assert taken == list(range(stuck + 1))
        until(lambda: status(broker)["store"]["error"] is None, "the error is over")
        assert free_bytes(disk) >= kept
