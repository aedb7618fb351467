"""What our clients take in from a broker that has it all: QoS 1, window 200, a handler that does nothing but settle.

``python -m tests.bench.consume COUNT`` prints one line of JSON: messages/s and CPU microseconds of the client for each,
for the client, for a consumer whose handler gets messages one by one or in batches, and for gmqtt alone. Broker and
client have a core each.
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
from gateway.consumer.app import Consumer, MqttFilter
from gateway.consumer.declaration import subscriptions
from tests.harness import Broker

WINDOW: Final = 200
BATCH: Final = 100
PAYLOAD: Final = bytes(64)
WAIT_S: Final = 120.0


async def filled(port: int, names: list[str], count: int) -> None:
    """Sessions of these names, with so many messages each."""
    for name in names:
        wanted = subscriptions(consumer(port, name, lambda count: None).registrations, 5)
        client = Client("127.0.0.1", port, client_id=name, clean=False, expiry_s=3600)
        await client.open()
        await client.subscribe([Subscription(f"{name}/#", identifier=wanted[0].identifier)])
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


def consumer(port: int, name: str, taken: Callable[[int], object], batch: int | None = None) -> Consumer:
    """``taken`` is told how many messages the handler got."""
    app = Consumer(f"mqtt://127.0.0.1:{port}", client_id=name, receive_maximum=WINDOW)

    async def one(message: object) -> None:
        taken(1)

    async def many(messages: list[object]) -> None:
        taken(len(messages))

    app.subscribe(MqttFilter(f"{name}/#"), batch=batch)(one if batch is None else many)
    return app


async def by_handler(port: int, count: int, name: str = "handler", batch: int | None = None) -> None:
    left = count

    def taken(number: int) -> None:
        nonlocal left
        left -= number
        if left <= 0:
            app.stop()

    app = consumer(port, name, taken, batch)
    await app.run()


async def by_batch(port: int, count: int) -> None:
    await by_handler(port, count, "batch", BATCH)


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
    settings = {"mqtt.max_inflight": WINDOW}
    with tempfile.TemporaryDirectory(prefix="consume-") as name, Broker(Path(name) / "data", settings) as broker:
        os.sched_setaffinity(broker.pid, cores[:1])
        os.sched_setaffinity(0, cores[-1:])
        asyncio.run(filled(broker.port, ["client", "handler", "batch", "gmqtt"], count))
        return {
            "client": timed(by_client, broker.port, count),
            "handler": timed(by_handler, broker.port, count),
            "batch": timed(by_batch, broker.port, count),
            "gmqtt": timed(by_gmqtt, broker.port, count),
        }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
