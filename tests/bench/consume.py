"""What our client takes in from a broker that has it all: QoS 1, window 200, a handler that does nothing but settle.

``python -m tests.bench.consume COUNT`` prints one line of JSON: messages/s and CPU microseconds of the client for each,
for the client and for gmqtt alone. Broker and client have a core each.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import gmqtt

from gateway.client import Client, Delivery, Subscription
from tests.harness import Broker

WINDOW: Final = 200
PAYLOAD: Final = bytes(64)
WAIT_S: Final = 120.0


async def filled(port: int, names: list[str], count: int) -> None:
    """Sessions of these names, with so many messages each."""
    for name in names:
        client = Client("127.0.0.1", port, client_id=name, clean=False, expiry_s=3600)
        await client.open()
        await client.subscribe([Subscription(f"{name}/#")])
        await client.close()
    client = Client("127.0.0.1", port, max_inflight=1000)
    await client.open()
    for name in names:
        topics = [f"{name}/line{number}/value" for number in range(20)]
        for future in [await client.send(topics[number % 20], PAYLOAD) for number in range(count)]:
            await future
    await client.close()


async def by_client(port: int, count: int) -> None:
    ended = asyncio.Event()
    left = count

    def deliver(one: Delivery) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            ended.set()
        one.ack()

    client = Client(
        "127.0.0.1", port, client_id="client", clean=False, expiry_s=3600, receive_maximum=WINDOW, deliver=deliver
    )  # fmt: skip
    await client.open()
    await ended.wait()
    await client.close()


async def by_gmqtt(port: int, count: int) -> None:
    ended = asyncio.Event()
    left = count

    async def deliver(client: object, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> int:
        nonlocal left
        left -= 1
        if left == 0:
            ended.set()
        return 0

    client = gmqtt.Client(
        "gmqtt", clean_session=False, optimistic_acknowledgement=False, session_expiry_interval=3600,
        receive_maximum=WINDOW,
    )  # fmt: skip
    client.on_message = deliver
    await client.connect("127.0.0.1", port)
    await ended.wait()
    await client.disconnect()


def timed(take: Callable[[int, int], Awaitable[None]], port: int, count: int) -> dict[str, float]:
    async def run() -> None:
        async with asyncio.timeout(WAIT_S):
            await take(port, count)

    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(run())
    return {
        "rate": count / (time.perf_counter() - began),
        "cpu_us": (time.process_time() - cpu) / count * 1e6,
    }


def measure(count: int) -> dict[str, dict[str, float]]:
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="consume-") as name, Broker(Path(name) / "data") as broker:
        os.sched_setaffinity(broker.pid, cores[:1])
        os.sched_setaffinity(0, cores[-1:])
        asyncio.run(filled(broker.port, ["client", "gmqtt"], count))
        return {
            "client": timed(by_client, broker.port, count),
            "gmqtt": timed(by_gmqtt, broker.port, count),
        }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
