"""The disk budget: publishers are pushed back, then the oldest goes, counted; other drops are counted as well."""

from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.harness import Broker
from tests.system.disks import (
    MIB,
    collector,
    drain,
    leave_behind,
    number_of,
    numbered,
    publish_until_stuck,
    session_drops,
    status,
    sys_value,
    until,
)
from tests.wire import Wire

PAYLOAD_BYTES = 32_768
BUDGET_BYTES = 12 * MIB
# what stands above the budget: the write-ahead log as a file, the spare, and what was taken in before it was seen
MARGIN_BYTES = 8 * MIB


def small(data: Path, **settings: object) -> Broker:
    told = {"store.max_bytes": BUDGET_BYTES, "store.min_free_bytes": 0, "sys_interval": "1s"}
    return Broker(data, told | {name.replace("_", ".", 1): value for name, value in settings.items()})


def disk_bytes(data: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in data.glob("forebay.db*"))


def publish_to_the_budget(broker: Broker, wire: Wire) -> int:
    """Publish one by one until it is not answered; the number of that one."""
    return publish_until_stuck(broker, wire, PAYLOAD_BYTES)


def test_a_collector_that_drains_in_time_loses_nothing(tmp_path: Path) -> None:
    with small(tmp_path / "data", store_push_back_s="60s") as broker:
        leave_behind(broker)
        with Wire.connect(broker.port, "p", 4) as publisher:
            stuck = publish_to_the_budget(broker, publisher)
            assert stuck * PAYLOAD_BYTES > BUDGET_BYTES // 2
            assert disk_bytes(tmp_path / "data") < BUDGET_BYTES + MARGIN_BYTES
            shown = status(broker)
            assert shown["store"]["full"] and shown["parked"] == 1 and shown["drops"] == {}
            publisher.send(mqtt.frame(0xC0, b""))
            publisher.expect_nothing(0.5)
            with collector(broker, 1) as wire:
                taken = [number_of(one) for one in drain(broker, wire)]
                publisher.wait_for(mqtt.PUBACK)
                publisher.wait_for(mqtt.PINGRESP)
                taken += [number_of(one) for one in drain(broker, wire)]
        assert taken == list(range(stuck + 1))
        until(lambda: not status(broker)["store"]["full"], "below the budget again")
        assert status(broker)["drops"] == {}
        until(lambda: (tmp_path / "data" / "forebay.db").stat().st_size < 6 * MIB, "the file shrinks")


@pytest.mark.timeout(240)
def test_where_nobody_drains_the_oldest_go_and_are_counted(tmp_path: Path) -> None:
    most = 0
    with small(tmp_path / "data", store_push_back_s="6s") as broker:
        leave_behind(broker)
        with Wire.connect(broker.port, "p", 5) as publisher:
            stuck = publish_to_the_budget(broker, publisher)
            publisher.wait_for(mqtt.PUBACK, code=0)
            last = stuck + 25
            for number in range(stuck + 1, last + 1):
                publisher.publish("t/q", numbered(number, PAYLOAD_BYTES), 1)
                publisher.wait_for(mqtt.PUBACK, code=0)
                most = max(most, disk_bytes(tmp_path / "data"))
        assert most < BUDGET_BYTES + MARGIN_BYTES, most
        until(lambda: not status(broker)["store"]["full"], "room again")
        dropped = status(broker)["drops"]["evicted"]
        assert dropped > 0 and status(broker)["drops"] == {"evicted": dropped}
        assert session_drops(broker, "collector") == {"evicted": dropped}
        until(lambda: sys_value(broker, "dropped/evicted") == str(dropped), "in $SYS")
        assert sys_value(broker, "sessions/collector/dropped/evicted") == str(dropped)
        assert "dropped" in broker.log()
        until(lambda: broker.log() and status(broker)["store"]["error"] is None, "no error")
        for stop in (broker.kill9, broker.sigterm):
            stop()
            broker.start()
            assert status(broker)["drops"]["evicted"] == dropped
            assert session_drops(broker, "collector") == {"evicted": dropped}
        with collector(broker, 1) as wire:
            taken = [number_of(one) for one in drain(broker, wire)]
        assert taken == list(range(dropped, last + 1))


def overflow(broker: Broker) -> None:
    """Ten for a memory session that holds three and has a window of one."""
    with Wire.connect(broker.port, "memory", 5, props=[(mqtt.RECEIVE_MAXIMUM, 1)]) as wire:
        wire.subscribe("t/q", qos=1)
        with Wire.connect(broker.port, "p") as publisher:
            for number in range(10):
                publisher.publish_done("t/q", b"%d" % number)
        until(lambda: status(broker)["drops"] == {"queue_full": 6}, f"queue_full 6: {status(broker)['drops']}")
        assert session_drops(broker, "memory") == {"queue_full": 6}
        until(lambda: sys_value(broker, "sessions/memory/dropped/queue_full") == "6", "of the session")


def expire(broker: Broker) -> None:
    leave_behind(broker)
    with Wire.connect(broker.port, "p", 5) as publisher:
        for number in range(10):
            publisher.publish_done("t/q", b"%d" % number, props=[(mqtt.MESSAGE_EXPIRY, 1)])


def offline(broker: Broker) -> None:
    leave_behind(broker)
    with Wire.connect(broker.port, "p", 5) as publisher:
        for number in range(10):
            publisher.publish("t/q", b"%d" % number, 0)
        publisher.ping()


@pytest.mark.parametrize(
    ("happen", "reason", "count", "kept"),
    [(overflow, "queue_full", 6, False), (expire, "expired", 10, True), (offline, "qos0_offline", 10, True)],
)
def test_a_drop_shows_with_its_reason_also_after_a_crash(
    tmp_path: Path, happen: object, reason: str, count: int, kept: bool
) -> None:
    assert callable(happen)
    settings = {"sys_interval": "300ms", "mqtt.max_mqueue_len": 3}
    with Broker(tmp_path / "data", settings) as broker:
        happen(broker)
        until(lambda: status(broker)["drops"].get(reason) == count, f"{reason} {count}: {status(broker)['drops']}")
        for _ in range(2):
            until(lambda: sys_value(broker, f"dropped/{reason}") == str(count), "in $SYS")
            assert status(broker)["drops"][reason] == count
            if kept:
                assert session_drops(broker, "collector") == {reason: count}
                assert sys_value(broker, f"sessions/collector/dropped/{reason}") == str(count)
            until(lambda: stored_drops(broker, reason) == count, "committed")
            broker.restart()


def stored_drops(broker: Broker, reason: str) -> int:
    """The counter as it is on disk."""
    import sqlite3

    connection = sqlite3.connect(f"file:{broker.data_dir}/forebay.db?mode=ro", uri=True)
    try:
        row = connection.execute(
            "SELECT value FROM counter WHERE sid = 0 AND name = ?", (f"dropped.{reason}",)
        ).fetchone()
    finally:
        connection.close()
    return int(row[0]) if row else 0
