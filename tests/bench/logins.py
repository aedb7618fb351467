"""What wrong passwords cost live traffic: QoS 1 messages at an even pace, without and with a flood of logins.

``python -m tests.bench.logins [LOGINS_PER_S] [SECONDS]`` prints one line of JSON: microseconds from PUBLISH to delivery
(p50, p99, p99.9) before, during and after, how many logins were tried, and the broker's CPU share. The broker, with
what it hashes, has one core; the traffic and, behind it, the flood the other.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gateway import process
from gateway.auth import Passwords
from tests import wire_format as mqtt
from tests.bench.applications import live
from tests.bench.measuring import Bench, cores, pinned
from tests.harness import Broker, beside_env


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


def measure(rate: int, seconds: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        bench, data = Bench(Path(folder)), Path(folder) / "data"
        Passwords(data / "passwd").add("operator", b"secret")
        broker = Broker(data, {"allow_anonymous": True})
        with pinned(cores()[0]):
            broker.start()
        with broker:
            live(bench, broker, 1000)
            before = live(bench, broker, round(seconds * 1000))
            line = [sys.executable, "-m", "tests.bench.logins", "flood", str(broker.port), str(rate), str(seconds)]
            with pinned(cores()[1]):
                attack = subprocess.Popen(
                    line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=beside_env()
                )
            assert attack.stdout is not None
            attack.stdout.readline()  # it has started, which costs more than what it does
            assert attack.stdin is not None
            attack.stdin.write("begin\n")
            attack.stdin.flush()
            cpu, at = broker.cpu_s(), time.monotonic()
            during = live(bench, broker, round(seconds * 1000))
            share = (broker.cpu_s() - cpu) / (time.monotonic() - at)
            codes, _ = attack.communicate()
            after = live(bench, broker, round(seconds * 1000))
    return {
        "before_us": before,
        "during_us": during,
        "after_us": after,
        "p99_ratio": round(2 * during[1] / (before[1] + after[1]), 2),
        "broker_cpu": round(share, 2),
        "codes": json.loads(codes),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["flood"]:
        # it runs only while nothing else does: for a low priority alone the load would wait to the end of its turn
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        process.raise_descriptor_limit()
        print("here", flush=True)
        sys.stdin.readline()
        print(json.dumps(asyncio.run(flood(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))))
    else:
        given = [*sys.argv[1:], *("1000", "10")[len(sys.argv) - 1 :]]
        print(json.dumps(measure(int(given[0]), float(given[1]))))
