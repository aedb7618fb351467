"""``forebay collect`` is killed again and again: nothing is lost, and nothing twice that the gateway named."""

import asyncio
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from gateway.client import Client
from tests.harness import Broker
from tests.unit.gateway.cli.test_collect import WAIT_S, payloads, started, until, until_somebody_listens

COUNT = 1500
KILLS = 3
BATCH = 50


@pytest.mark.parametrize("name", ["m.db", "m.jsonl"])
async def test_a_killed_collector_loses_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    chance = random.Random(5)

    def start() -> subprocess.Popen[str]:
        return started(
            "t/#", "spBv1.0/#", "-o", path, "-p", broker.port, "--batch", BATCH, "--progress", 0
        )  # fmt: skip

    with Broker(tmp_path / "data") as broker:
        process = start()
        await until(lambda: (tmp_path / f"{name}.id").exists())
        client = Client("127.0.0.1", broker.port)
        await client.open()
        await until_somebody_listens(client, "t/first")

        async def publish() -> None:
            for number in range(COUNT):
                topic = "t/a" if number % 2 else "spBv1.0/g/NDATA/e"
                await client.send(topic, b"%d" % number)
                if number % 10 == 0:
                    await asyncio.sleep(0.01)

        publishing = asyncio.ensure_future(publish())
        for kill in range(1, KILLS + 1):
            await until(lambda kill=kill: len(payloads(path)) >= COUNT * kill // (KILLS + 2))  # type: ignore[misc]
            await asyncio.sleep(chance.random() * 0.1)
            process.kill()
            process.communicate()
            process = start()
        try:
            await publishing
            await client.close()
            await until(lambda: len(set(payloads(path))) == COUNT + 1)
        finally:
            process.terminate()
            process.communicate(timeout=WAIT_S)
    counts = Counter(payloads(path))
    assert set(counts) == {b"first", *(b"%d" % number for number in range(COUNT))}
    assert all(counts[b"%d" % number] == 1 for number in range(0, COUNT, 2)), "by their ingest ids"
    assert sum(counts.values()) - len(counts) <= KILLS * 2 * BATCH
