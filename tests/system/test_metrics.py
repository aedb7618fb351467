"""The counters of /metrics after a run in which much went wrong, against the ledger and against what was seen."""

import random
import time
from pathlib import Path
from typing import Any

from tests import wire_format as mqtt
from tests.harness import Broker
from tests.page import WAIT_S, Page, broker_with_page, status_of, wait_for
from tests.wire import Wire
from tests.wire_format import WireError

NAMES = {
    "forebay_messages_received_total": ("received_qos{}", "qos", "012"),
    "forebay_messages_sent_total": ("sent_qos{}", "qos", "012"),
    "forebay_message_received_bytes_total": ("received_bytes_qos{}", "qos", "012"),
    "forebay_message_sent_bytes_total": ("sent_bytes_qos{}", "qos", "012"),
    "forebay_acknowledgements_received_total": ("{}_received", "type", ("puback", "pubrec", "pubrel", "pubcomp")),
    "forebay_acknowledgements_sent_total": ("{}_sent", "type", ("puback", "pubrec", "pubrel", "pubcomp")),
}
PLAIN = {
    "forebay_packets_received_total": "packets_received",
    "forebay_packets_sent_total": "packets_sent",
    "forebay_network_received_bytes_total": "bytes_received",
    "forebay_network_sent_bytes_total": "bytes_sent",
    "forebay_connections_accepted_total": "connections",
    "forebay_connections_refused_total": "connections_refused",
    "forebay_takeovers_total": "takeovers",
    "forebay_messages_unmatched_total": "no_subscriber",
}


def at_rest(page: Page, broker: Broker) -> tuple[dict[tuple[str, tuple[tuple[str, str], ...]], float], dict[str, Any]]:
    """Metrics and status of a moment between two statuses that are the same."""
    deadline = time.monotonic() + WAIT_S
    while True:
        status = status_of(broker)
        found = page.metrics()
        later = found["forebay_clock_gateway_seconds", ()] * 1000 >= status["clock"]["gateway_ms"]
        again = status_of(broker)
        for one in (status, again):
            one["queue"].pop("oldest_ms")
        if later and all(status[key] == again[key] for key in ("counters", "drops", "queue", "exact")):
            return found, status
        assert time.monotonic() < deadline, "never at rest"
        time.sleep(0.05)


def agrees(page: Page, broker: Broker, before: dict[str, Any]) -> dict[str, Any]:
    """Each counter of the page is what the ledger counted since ``before``."""
    found, status = at_rest(page, broker)
    counters, then = status["counters"], before["counters"]
    for name, (source, label, values) in NAMES.items():
        for value in values:
            key = source.format(value)
            assert found[name, ((label, value),)] == counters[key] - then[key], key
    for name, key in PLAIN.items():
        assert found[name, ()] == counters[key] - then[key], key
    for reason, count in status["drops"].items():
        assert found["forebay_messages_dropped_total", (("reason", reason),)] == count - before["drops"].get(reason, 0)
    for row, name in (("messages", "forebay_queue_messages"), ("bytes", "forebay_queue_bytes")):
        assert found[name, ()] == status["queue"][row]
    assert found["forebay_ledger_exact", ()] == status["exact"]
    assert found["forebay_store_commits_total", ()] <= status["store"]["commits"]
    return status


def chaos(broker: Broker, seed: int) -> int:
    """Publishers and a collector that come, go and break off; how many publishes were acknowledged at QoS 1."""
    chance, acknowledged = random.Random(seed), 0
    for turn in range(12):
        with Wire.connect(broker.port, f"machine-{chance.randrange(3)}", version=chance.choice((4, 5))) as machine:
            for _ in range(chance.randrange(1, 30)):
                qos = chance.randrange(3)
                topic, payload = f"plant/{chance.randrange(4)}", b"x" * chance.randrange(900)
                if qos:
                    machine.publish_done(topic, payload, qos)
                    acknowledged += qos == 1
                else:
                    machine.publish(topic, payload)
            machine.publish("nobody/listens", b"x")
            machine.ping()
            if turn % 4 == 3:
                machine.publish("plant/1", b"cut off", qos=1)  # nobody waits for this one's answer
        if turn % 3 == 1:
            with Wire.connect(broker.port, "collector", clean=False) as collector:
                collector.ping()
                for packet in list(collector.waiting):
                    if chance.random() < 0.8 and packet.type == mqtt.PUBLISH and packet["qos"] == 1:
                        collector.puback(packet["pid"])
                collector.ping()
        if turn % 5 == 4:
            with Wire.open(broker.port) as bad:
                bad.send(b"\x10\x02ab")
    return acknowledged


def settle(broker: Broker) -> None:
    """Everything that was sent has been read: the last one in is answered."""
    with Wire.connect(broker.port, "last") as wire:
        wire.publish_done("plant/0", b"", qos=2)
        wire.send(mqtt.disconnect(4))
        wire.expect_closed()


def test_counters_agree_with_the_ledger_after_a_chaotic_run(tmp_path: Path) -> None:
    broker, page = broker_with_page(tmp_path / "data", {"store.max_bytes": "2MiB", "store.push_back_s": 1})
    with broker:
        page.wait()
        with Wire.connect(broker.port, "collector", clean=False) as collector:
            collector.subscribe("plant/#", qos=1)
        nothing: dict[str, Any] = {"counters": dict.fromkeys(status_of(broker)["counters"], 0), "drops": {}}
        acknowledged = chaos(broker, 1)
        settle(broker)
        status = agrees(page, broker, nothing)
        assert status["counters"]["received_qos1"] >= acknowledged
        assert status["counters"]["no_subscriber"] > 0
        assert sum(status["drops"].values()) > 0

        chaos(broker, 2)
        broker.kill9()
        broker.start()
        page.wait()
        before = status_of(broker)
        assert not before["exact"]
        assert before["counters"]["received_qos1"] <= status["counters"]["received_qos1"] + 12 * 30
        acknowledged = chaos(broker, 3)
        settle(broker)
        status = agrees(page, broker, before)
        # of the run itself nothing is missing, crash before it or not
        assert status["counters"]["received_qos1"] - before["counters"]["received_qos1"] >= acknowledged

        assert broker.sigterm() == 0
        broker.start()
        page.wait()
        before = status_of(broker)
        settle(broker)
        agrees(page, broker, before)


def test_a_broken_line_is_no_metric(tmp_path: Path) -> None:
    """Client ids are taken as they come, whatever the text format makes of their characters."""
    broker, page = broker_with_page(tmp_path / "data")
    name = 'odd "name" {x="y"} # \\'
    with broker:
        page.wait()
        try:
            Wire.connect(broker.port, name, clean=False).close()
        except WireError as error:
            raise AssertionError("not admitted") from error
        key = "forebay_session_queue_messages", (("client_id", name),)
        wait_for(lambda: page.metrics().get(key) == 0, "its gauge is missing")
