"""The gateway is killed in mid-stream: data that only has aliases is still named, or its births are asked for, once."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, final

import pytest

from gateway.cli.control import ask
from tests import wire_format as mqtt
from tests.harness import Broker
from tests.spb_bytes import chunk, data, metric, nbirth, ndeath, number, payload
from tests.system.test_probe import environment, until
from tests.wire import Wire

T = 1_700_000_000_000
REBIRTH = chunk(1, b"Node Control/Rebirth") + number(4, 11) + number(14, 0)
NCMD = "spBv1.0/g/NCMD/e"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """With a collector that is away: births are on disk with their PUBACK."""
    with Broker(tmp_path / "data", {"bridge.reorder_timeout": "0.3s"}) as running:
        with Wire.connect(running.port, "collector", 4, clean=False) as collector:
            collector.subscribe("spBv1.0/#", qos=1)
        yield running


def edge(broker: Broker, bd_seq: int) -> Wire:
    """The node's connection; it listens to commands."""
    will = mqtt.Will("spBv1.0/g/NDEATH/e", ndeath(bd_seq), 1)
    link = Wire.connect(broker.port, "edge", 4, clean=True, will=will)
    link.subscribe(NCMD, qos=1)
    return link


def say_births(link: Wire, bd_seq: int, time: int = T) -> None:
    """And see them on disk."""
    link.publish_done("spBv1.0/g/NBIRTH/e", nbirth(bd_seq, 0, time, REBIRTH, metric("speed", 1, 1)), qos=1)
    link.publish_done("spBv1.0/g/DBIRTH/e/d", payload(metric("level", 1, 2), time=time, seq=1), qos=1)


@final
class Watch:
    """``forebay sparkplug watch`` as a process, and what it says."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._file = folder / "watch.out"
        line = [sys.executable, "-m", "gateway", "sparkplug", "watch", "-p", str(broker.port), "--json"]
        with self._file.open("ab") as out:
            self._process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(), cwd=folder
            )

    def rows(self) -> list[tuple[str, str | None, list[Any]]]:
        """Type, device, and the names of the metrics (their aliases, where they have none) of each message."""
        whole = self._file.read_text().rpartition("\n")[0]  # the last line may be half there
        lines = [json.loads(line) for line in whole.splitlines()]
        return [
            (row["type"], row["device"], [one.get("name", one.get("alias")) for one in row["metrics"]]) for row in lines
        ]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def watching(broker: Broker) -> bool:
    """Both its subscriptions are there."""
    rows = ask(broker.data_dir / "control.sock", {"cmd": "sessions"})
    return any(len(row["subscriptions"]) == 2 for row in rows)


def facts(broker: Broker) -> Any:
    return ask(broker.data_dir / "control.sock", {"cmd": "sparkplug_nodes"})[0]


def take_command(link: Wire) -> None:
    """The request for a rebirth."""
    command = link.wait_for(mqtt.PUBLISH)
    assert command["topic"] == NCMD
    assert b"Node Control/Rebirth" in command["payload"]


def talk(link: Wire, numbers: range) -> None:
    """Data of the node and its device, by alias alone."""
    for count in numbers:
        link.publish("spBv1.0/g/NDATA/e", data(2 * count % 256, count, T + 10 * count))
        device = payload(metric("", count, 2), time=T + 10 * count + 1, seq=(2 * count + 1) % 256)
        link.publish("spBv1.0/g/DDATA/e/d", device)


NAMED = [("NDATA", None, ["speed"]), ("DDATA", "d", ["level"])]


@pytest.mark.parametrize("born_again", [False, True])
def test_alias_only_data_after_a_kill(broker: Broker, tmp_path: Path, born_again: bool) -> None:
    with edge(broker, 0) as link:
        say_births(link, 0)
        talk(link, range(1, 20))
        broker.kill9()
    broker.start()
    with edge(broker, 1) as link, closing(Watch(broker, tmp_path)) as watch:
        until(lambda: watching(broker), broker.log)
        if born_again:
            say_births(link, 1, T + 200)
        talk(link, range(20 - 19 * born_again, 40))
        births = [("NBIRTH", None), ("DBIRTH", "d")] if born_again else []
        wanted = len(births) + 2 * (39 if born_again else 20)
        until(lambda: len(watch.rows()) == wanted, lambda: str(watch.rows()))
        rows = watch.rows()
        assert [row[:2] for row in rows[: len(births)]] == births
        assert rows[len(births) :] == NAMED * ((wanted - len(births)) // 2)
        if born_again:
            assert not [packet for packet in link.quiet(1) if packet.type == mqtt.PUBLISH]
            assert facts(broker)["rebirths_asked"] == 0
            return
        take_command(link)
        say_births(link, 1, T + 1000)
        until(lambda: facts(broker)["rebirths_answered"] == 1, broker.log)
        link.publish("spBv1.0/g/NDATA/e", data(2, 7, T + 1010))
        assert not [packet for packet in link.quiet(1) if packet.type == mqtt.PUBLISH]
        assert facts(broker)["rebirths_asked"] == 1
        until(lambda: watch.rows()[-3:] == [
            ("NBIRTH", None, ["bdSeq", "Node Control/Rebirth", "speed"]), ("DBIRTH", "d", ["level"]), NAMED[0],
        ], lambda: str(watch.rows()[-3:]))  # fmt: skip


def test_without_a_birth_on_disk_one_is_asked_for(broker: Broker, tmp_path: Path) -> None:
    """The gateway is new, the node is not: nothing names its data until it has answered."""
    with edge(broker, 3) as link, closing(Watch(broker, tmp_path)) as watch:
        until(lambda: watching(broker), broker.log)
        talk(link, range(1, 3))
        until(lambda: len(watch.rows()) == 4, lambda: str(watch.rows()))
        assert watch.rows() == [("NDATA", None, ["1"]), ("DDATA", "d", ["2"])] * 2
        take_command(link)
        say_births(link, 3, T + 50)
        link.publish("spBv1.0/g/NDATA/e", data(2, 7, T + 60))
        until(lambda: watch.rows()[-1:] == NAMED[:1], lambda: str(watch.rows()))
        assert facts(broker)["rebirths_asked"] == 1
