"""``forebay sparkplug check`` against a running broker, with devices that do well and badly."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.client import Client, Delivery, Subscription
from tests.command import Forebay
from tests.harness import Broker, free_port
from tests.sparkplug_rig import Message, data, dbirth, metric, nbirth


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data") as running:
        yield running


class Checked:
    """What the command said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def ids(self, outcome: str) -> set[str]:
        return {
            one["id"].removeprefix("tck-id-") for one in json.loads(self.out)["findings"] if one["outcome"] == outcome
        }


async def checked(broker: Broker, answers: list[Message], *options: str, qos: int = 0, retain: bool = False) -> Checked:
    """Run the command; the node answers its request for a rebirth with these messages."""
    asked = asyncio.Event()

    def deliver(one: Delivery) -> None:
        asked.set()
        one.ack()

    node = Client("127.0.0.1", broker.port, deliver=deliver)
    await node.open()
    await node.subscribe([Subscription("spBv1.0/g/NCMD/e")])
    line = ["-m", "gateway", "sparkplug", "check", "g/e", "--rebirth", "--port", str(broker.port), *options]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *line, "--duration", "1.5", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        await asked.wait()
        for message in answers:
            await node.send(*message, qos, retain)
        out, err = await process.communicate()
    await node.close()
    assert process.returncode is not None
    return Checked(process.returncode, out.decode(), err.decode())


def now() -> int:
    import time

    return time.time_ns() // 1_000_000


def births(at: int) -> list[Message]:
    return [nbirth(at, metrics=[metric("speed", 1, 10, at)]), dbirth(at, 1, metrics=[metric("temp", 2, 20, at)])]


async def test_a_node_as_it_should_be_passes(broker: Broker) -> None:
    at = now()
    found = await checked(broker, [*births(at), data(at, 2, 5), data(at, 3, 6, device="d", alias=2)], "--json")
    assert (found.code, found.err) == (0, "")
    assert found.ids("fail") == set()
    passed = found.ids("pass")
    assert {"topics-nbirth-mqtt", "payloads-ndata-seq-inc", "payloads-dbirth-order"} <= passed
    assert "operational-behavior-data-commands-rebirth-action-2" in passed
    assert "message-flow-edge-node-birth-publish-will-message" in found.ids("not exercised")
    said = json.loads(found.out)
    assert (said["node"], said["messages"]) == ("g/e", 4)
    assert said["counts"]["pass"] == len(passed)


async def test_qos_retain_and_seq_are_seen_as_they_were_sent(broker: Broker) -> None:
    at = now()
    found = await checked(broker, [*births(at), data(at, 5, 5)], "--json", qos=1, retain=True)
    assert found.code == 1
    assert {"payloads-nbirth-qos", "payloads-nbirth-retain", "payloads-ndata-seq-inc"} <= found.ids("fail")


async def test_for_people_what_failed_is_shown_with_evidence(broker: Broker) -> None:
    at = now()
    found = await checked(broker, [*births(at), data(at, 7, 5)])
    assert found.code == 1
    assert "FAIL          MUST   tck-id-payloads-ndata-seq-inc: NDATA has the next seq" in found.out
    assert "NDATA of g/e: seq 7 after 1" in found.out
    assert "NOT EXERCISED" not in found.out
    assert found.out.splitlines()[-1].startswith("g/e: 3 messages checked against tck-ids: ")


async def test_a_value_that_did_not_change_is_shown_but_no_failure(broker: Broker) -> None:
    at = now()
    found = await checked(broker, [*births(at), data(at, 2, 10)], "--all")
    assert found.code == 0
    assert "FAIL          SHOULD tck-id-principles-rbe-recommended" in found.out
    assert "NOT EXERCISED MUST   tck-id-message-flow-edge-node-ncmd-subscribe" in found.out


def test_a_node_of_which_nothing_is_seen(broker: Broker, forebay: Forebay) -> None:
    done = forebay("sparkplug", "check", "g/e", "--duration", "0.2", "--port", str(broker.port))
    assert done.code == 1
    assert done.out.startswith("g/e: 0 messages")


@pytest.mark.parametrize("node", ["g", "g/", "/e", "g/e/d", "g+/e", ""])
def test_what_is_no_node_is_an_error_of_use(node: str, forebay: Forebay) -> None:
    done = forebay("sparkplug", "check", node)
    assert done.code == 2
    assert "expected GROUP/NODE" in done.err


def test_no_broker(forebay: Forebay) -> None:
    done = forebay("sparkplug", "check", "g/e", "--port", str(free_port()))
    assert done.code == 3
