"""A data directory not as it was left: what can be kept is kept, the rest set aside, or one line says why not."""

import os
import random
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.harness import Broker
from tests.system.disks import collector, drain, leave_behind, number_of, numbered, status
from tests.wire import Wire

COUNT = 200
ASIDE = re.compile(r"forebay\.db\.damaged-\d{8}-\d{6}")


def filled(data: Path, clean: bool) -> Broker:
    """A broker that has stopped with a queue for its collector on disk."""
    with Broker(data) as broker:
        leave_behind(broker)
        with Wire.connect(broker.port, "p") as publisher:
            for number in range(COUNT):
                publisher.publish("t/q", numbered(number, 2000), 1)
            for _ in range(COUNT):
                publisher.expect(mqtt.PUBACK)
        if clean:
            assert broker.sigterm() == 0
        else:
            broker.kill9()
    broker.log_file.unlink()
    return broker


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def nothing(path: Path) -> None:
    os.truncate(path, 0)


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def odd(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1234)


def pages(path: Path) -> None:
    chance = random.Random(7)
    with path.open("r+b") as file:
        count = path.stat().st_size // 4096
        for page in chance.sample(range(count), min(count, 12)):
            file.seek(page * 4096)
            file.write(chance.randbytes(4096))


def first_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(random.Random(7).randbytes(4096))


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(7).randbytes(200_000))


@pytest.mark.parametrize(
    ("name", "harm", "clean", "whole"),
    [
        ("forebay.db", zeros, True, False),
        ("forebay.db", half, True, False),
        ("forebay.db", odd, True, False),
        ("forebay.db", pages, True, False),
        ("forebay.db", first_page, True, True),
        ("forebay.db", garbage, True, False),
        ("forebay.db", nothing, False, False),
        ("forebay.db", zeros, False, False),
        ("forebay.db", pages, False, False),
        ("forebay.db-wal", garbage, False, False),
        ("forebay.db-wal", zeros, False, False),
        ("forebay.db-wal", half, False, False),
    ],
)
def test_a_damaged_database_is_salvaged_and_served(
    tmp_path: Path, name: str, harm: Callable[[Path], None], clean: bool, whole: bool
) -> None:
    data = tmp_path / "data"
    broker = filled(data, clean)
    harm(data / name)
    with broker.start():
        with Wire.connect(broker.port, "live", 5, clean=False, props=[(mqtt.SESSION_EXPIRY, 60)]) as live:
            live.subscribe("live", qos=1)
            with Wire.connect(broker.port, "p") as publisher:
                publisher.publish_done("live", b"1")
            live.take(1)
        with collector(broker) as wire:
            seen = [number_of(one) for one in drain(broker, wire)]
            wire.subscribe("t/#", qos=1)
            assert seen == sorted(set(seen))
            with Wire.connect(broker.port, "p") as publisher:
                publisher.publish_done("t/q", numbered(COUNT, 100))
            assert number_of(wire.take(1)[0]["payload"]) == COUNT
        said = [line for line in broker.log().splitlines() if "set aside as" in line]
        aside = [path.name for path in data.iterdir() if ASIDE.match(path.name)]
        missing = COUNT - len(seen)
        # a log may hold all that the file had, and a log without its end looks like one that ended there
        if clean or (missing and harm is not half):
            assert said and aside, broker.log()
        assert all(ASIDE.search(line) for line in said), said
        if whole:
            assert seen == list(range(COUNT))
        known = status(broker)["drops"].get("damaged", 0)
        assert known <= missing
        assert "Traceback" not in broker.log()
        assert broker.sigterm() == 0
    before = broker.log().count("set aside")
    with broker.start():
        assert broker.log().count("set aside") == before, "the second start finds nothing to complain about"


def refused(broker: Broker, log: Path) -> str:
    """The one line with which it does not start, and exit code 1."""
    broker.log_file = log
    broker.start(wait=False)
    assert broker.process is not None
    assert broker.process.wait(60) == 1, broker.log()
    lines = broker.log().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_a_database_of_a_newer_schema_is_one_line_and_left_alone(tmp_path: Path) -> None:
    broker = filled(tmp_path / "data", True)
    database = tmp_path / "data" / "forebay.db"
    connection = sqlite3.connect(database)
    connection.execute("UPDATE meta SET value = 99 WHERE key IN ('store.schema', 'store.min_reader')")
    connection.commit()
    connection.close()
    before = database.read_bytes()
    line = refused(broker, tmp_path / "log")
    assert "newer version" in line and "forebay.db" in line
    assert database.read_bytes() == before


def test_a_newer_schema_that_this_version_may_read_serves(tmp_path: Path) -> None:
    broker = filled(tmp_path / "data", True)
    connection = sqlite3.connect(tmp_path / "data" / "forebay.db")
    connection.execute("UPDATE meta SET value = 99 WHERE key = 'store.schema'")
    connection.commit()
    connection.close()
    with broker.start(), collector(broker, 1) as wire:
        assert [number_of(one) for one in drain(broker, wire)] == list(range(COUNT))


def test_a_data_directory_in_use_is_one_line_and_the_other_goes_on(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as first:
        line = refused(Broker(tmp_path / "data"), tmp_path / "log")
        assert "in use by another broker" in line and str(first.pid) in line
        with Wire.connect(first.port) as wire:
            wire.ping()


@pytest.mark.parametrize("what", ["a file", "below a file"])
def test_a_data_directory_that_is_none_is_one_line(tmp_path: Path, what: str) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"")
    if what == "below a file":
        data = data / "below"
    said = refused(Broker(data), tmp_path / "log")
    assert str(data) in said
    assert "exists" in said or "ot a directory" in said, said
