"""What wrong passwords cost live traffic: QoS 1 messages at an even pace, without and with a flood of logins.

``python -m tests.bench.logins [LOGINS_PER_S] [SECONDS]`` prints one line of JSON: milliseconds from PUBLISH to delivery
(p50, p99) before, during and after, how many logins were tried, and the broker's CPU share. The flood and the traffic
are processes of their own.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from gateway import process
from gateway.auth import Passwords
from tests import wire_format as mqtt
from tests.harness import Broker, beside_env
from tests.wire import Wire

RATE: Final = 200  # live messages per second
PAYLOAD: Final = bytes(100)


async def login(port: int, number: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(mqtt.connect(f"guess{number}", 5, username="operator", password=f"wrong{number}"))
    answer = await reader.read(100)
    writer.close()
    return answer[3] if len(answer) > 3 else -1


async def flood(port: int, rate: int, seconds: float) -> dict[int, int]:
    """Logins at an even pace; how often each reason code came."""
    codes: dict[int, int] = {}
    tasks: set[asyncio.Task[int]] = set()

    def ended(task: asyncio.Task[int]) -> None:
        tasks.discard(task)
        code = -1 if task.exception() is not None else task.result()
        codes[code] = codes.get(code, 0) + 1

    start, number = time.monotonic(), 0
    while (passed := time.monotonic() - start) < seconds:
        while number < passed * rate:
            number += 1
            task = asyncio.create_task(login(port, number))
            tasks.add(task)
            task.add_done_callback(ended)
        await asyncio.sleep(0.002)
    if tasks:
        await asyncio.wait(tasks, timeout=10)
    return codes


def live(port: int, seconds: float) -> list[float]:
    """Milliseconds of each message on its way through, at RATE."""
    with (
        Wire.connect(port, "reader", username="live", password="secret") as reader,
        Wire.connect(port, "writer", username="live", password="secret") as writer,
    ):
        reader.subscribe("live/t", qos=1)
        taken: list[float] = []
        start = time.monotonic()
        for number in range(round(seconds * RATE)):
            time.sleep(max(0.0, start + number / RATE - time.monotonic()))
            begin = time.perf_counter()
            writer.publish("live/t", PAYLOAD, 1)
            reader.take(1)
            taken.append(1000 * (time.perf_counter() - begin))
            writer.wait_for(mqtt.PUBACK)
        return taken


def figures(taken: list[float]) -> dict[str, float]:
    ordered = sorted(taken)
    return {"p50": round(ordered[len(ordered) // 2], 3), "p99": round(ordered[int(len(ordered) * 0.99)], 3)}


def measure(rate: int, seconds: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        passwords = Passwords(data / "passwd")
        for name in ("live", "operator"):
            passwords.add(name, b"secret")
        with Broker(data) as broker:
            live(broker.port, 1)
            before = live(broker.port, seconds)
            line = [sys.executable, "-m", "tests.bench.logins", "flood", str(broker.port), str(rate), str(seconds)]
            attack = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=beside_env())
            cpu, at = broker.cpu_s(), time.monotonic()
            during = live(broker.port, seconds)
            share = (broker.cpu_s() - cpu) / (time.monotonic() - at)
            codes, _ = attack.communicate()
            after = live(broker.port, seconds)
    return {
        "before_ms": figures(before),
        "during_ms": figures(during),
        "after_ms": figures(after),
        "broker_cpu": round(share, 2),
        "codes": json.loads(codes),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["flood"]:
        os.nice(10)  # on a small machine it must not take the time of what is measured
        process.raise_descriptor_limit()
        print(json.dumps(asyncio.run(flood(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))))
    else:
        given = [*sys.argv[1:], *("1000", "10")[len(sys.argv) - 1 :]]
        print(json.dumps(measure(int(given[0]), float(given[1]))))
