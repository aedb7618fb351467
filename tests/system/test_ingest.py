"""Nodes at QoS 0, collectors of paho, and a gateway that is killed in between: what was ingested comes to all.

One collector is away the whole time, another is there and comes back after each kill. Whatever the one has seen with an
ingest id the other must get too, under the same id, in the same order, births first.
"""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateway.bridge.observer import KEY
from gateway.cli.control import ask
from sparkplug.scan import Scan
from tests.harness import Broker

KILLS: Final = 3
NODES: Final = 3
SEED: Final = random.randrange(10**6)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data", {"bridge.reorder_timeout": "0.5s"}) as running:
        yield running


class Collector:
    """A plain persistent subscriber of spBv1.0/# at QoS 1; ``got`` is ingest id, topic and payload."""

    def __init__(self, name: str, port: int) -> None:
        self.got: list[tuple[int, str, bytes]] = []
        self.subscribed = False
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5)
        self.client.reconnect_delay_set(1, 1)
        self.client.on_connect = self.on_connect
        self.client.on_subscribe = self.on_subscribe
        self.client.on_message = self.on_message
        self.port = port

    def start(self) -> None:
        expiry = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        expiry.SessionExpiryInterval = 3600
        self.client.connect("127.0.0.1", self.port, clean_start=False, properties=expiry)
        self.client.loop_start()

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()
        for one in (self.client._sockpairR, self.client._sockpairW):  # paho leaves them to the collector of garbage
            if one is not None:
                one.close()
        self.client._sockpairR = self.client._sockpairW = None

    def on_connect(self, client: paho.Client, data: Any, flags: Any, code: Any, properties: Any) -> None:
        if not flags.session_present:
            client.subscribe("spBv1.0/#", 1)

    def on_subscribe(self, *_: Any) -> None:
        self.subscribed = True

    def on_message(self, client: paho.Client, data: Any, message: paho.MQTTMessage) -> None:
        assert message.qos == 1
        envelope = dict(message.properties.UserProperty)  # type: ignore[union-attr]
        self.got.append((int(envelope["forebay-id"]), message.topic, bytes(message.payload)))


def until(true: Callable[[], bool], what: str, wait_s: float = 60) -> None:
    end = time.monotonic() + wait_s
    while not true():
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.02)


def until_all_speak(collector: Collector, births: int) -> None:
    """Each node is born for so many times, and data has come since."""

    def spoke() -> bool:
        topics = [topic.split("/") for _, topic, _ in list(collector.got)]
        born = [at for at, topic in enumerate(topics) if topic[2] == "NBIRTH"]
        return len(born) >= births * NODES and len(topics) > born[-1] + 60

    until(spoke, "data of every node")


def known_on_disk(broker: Broker, restarts: int) -> bool:
    """Each node is there, and what is known of it is of after so many restarts: written now and then, not with each
    message."""
    connection = sqlite3.connect(f"file:{broker.data_dir}/forebay.db?mode=ro", uri=True)
    try:
        rows = connection.execute("SELECT data FROM bridge WHERE key LIKE ?", (KEY + "%",)).fetchall()
    finally:
        connection.close()
    facts = [json.loads(row[0]) for row in rows]
    windows = [len(one["facts"]["loss_windows"]) for one in facts if one["connected"]]
    return windows == [restarts] * NODES


def sessions(messages: list[tuple[int, str, bytes]]) -> dict[str, list[list[int]]]:
    """By node: the sequence numbers between one NBIRTH and the next, wills left out; [[]] what came before any."""
    found: dict[str, list[list[int]]] = {}
    scan = Scan()
    for _, topic, payload in messages:
        _, group, kind, edge = topic.split("/")[:4]
        known = found.setdefault(f"{group}/{edge}", [[]])
        assert scan.read(payload, False)
        if kind == "NBIRTH":
            known.append([])
        if kind not in ("NDEATH", "NCMD"):
            known[-1].append(scan.seq)
    return found


@pytest.mark.timeout(400)
def test_everything_ingested_comes_to_all_in_order_births_first(broker: Broker) -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    away, there = Collector("away", broker.port), Collector("there", broker.port)
    for collector in (away, there):
        collector.start()
        until(lambda collector=collector: collector.subscribed, "SUBACK")  # type: ignore[misc]
    away.stop()
    line = [sys.executable, "-m", "gateway", "sparkplug", "simulate", "--port", str(broker.port), "--json"]
    nodes = subprocess.Popen([*line, "--nodes", str(NODES), "--devices", "2", "--rate", "150"], stdout=subprocess.PIPE)
    try:
        for kill in range(KILLS):
            until_all_speak(there, kill + 1)
            until(lambda kill=kill: known_on_disk(broker, kill), "what is known of the nodes on disk")  # type: ignore[misc]
            time.sleep(chance.random() / 5)
            broker.kill9()
            broker.start()
        until_all_speak(there, KILLS + 1)
        until(lambda: known_on_disk(broker, KILLS), "what is known of the nodes after the last kill")
        rows = {row["node"]: row for row in ask(broker.data_dir / "control.sock", {"cmd": "sparkplug_nodes"})}
    finally:
        nodes.send_signal(signal.SIGINT)
        summary = json.loads(nodes.communicate(timeout=60)[0])

    def settled(*names: str) -> bool:
        """The nodes are gone, and nothing waits for these or is under way to them."""
        status = ask(broker.data_dir / "control.sock", {"cmd": "status"})
        rows = [ask(broker.data_dir / "control.sock", {"cmd": "session", "client_id": name}) for name in names]
        return status["connections"] == len(names) and not any(row["queue_messages"] + row["inflight"] for row in rows)

    until(lambda: settled("there"), "the end")
    away.start()
    until(lambda: settled("there", "away"), "what waited")
    there.stop()
    away.stop()

    all_ids = [id for id, _, _ in away.got]
    assert all_ids == sorted(set(all_ids)), "out of order, or twice"
    known = {id: (topic, payload) for id, topic, payload in away.got}
    for id, topic, payload in there.got:
        assert known.get(id) == (topic, payload), f"{id} was seen by one alone"
    assert {id for id, _, _ in there.got} == set(known)
    for node, parts in sessions(away.got).items():
        assert parts[0] == [], f"{node}: data before a birth"
        assert len(parts) == KILLS + 2, f"{node} was born {len(parts) - 1} times"
        for part in parts[1:]:
            assert part == [number % 256 for number in range(len(part))], f"{node}: a hole within a session"
        assert [window["why"] for window in rows[node]["loss_windows"]] == ["restart"] * KILLS
        assert rows[node]["rebirths_asked"] == 0
    assert summary["lost"] == 3 * KILLS
