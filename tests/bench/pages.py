"""What open status pages cost the broker: full load without anybody who looks, and with twenty pages open.

``python -m tests.bench.pages [ROUNDS] [MS]`` prints a line of JSON for each row: messages per second of both (medians),
the median of the ratios of neighbouring runs, the share of a core that the page's process took, and events per second
that came to one page. The status page's process runs where the system puts it; broker and load have a core each.
"""

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.bench.measuring import Bench
from tests.bench.workloads import FOREBAY, ROWS, Row
from tests.harness import Server, beside_env, free_port, process_cpu_s
from tests.page import Page

PAGES: Final = 20
MEASURED: Final = ("W1", "W4/20", "on/20x20")
SETTLE_S: Final = 2.0  # for the first events


async def look(port: int, count: int) -> None:
    """Read the events of so many pages until the standard input ends, then tell how many came to each in a second."""

    async def one() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_048_576)
        writer.write(b"GET /live?view=overview HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        events = 0
        with contextlib.suppress(asyncio.CancelledError):
            while line := await reader.readline():
                events += line.startswith(b"event: view")
        writer.close()
        return events

    began = time.monotonic()
    pages = [asyncio.create_task(one()) for _ in range(count)]
    await asyncio.to_thread(sys.stdin.read)
    for page in pages:
        page.cancel()
    events = await asyncio.gather(*pages)
    print(sum(events) / count / (time.monotonic() - began))


def page_of(broker: Server) -> int:
    """The process beside the broker, let go of the broker's core."""
    (pid,) = (int(one) for one in Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split())
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), range(os.cpu_count() or 1))
    return pid


def measure(bench: Bench, row: Row, rounds: int, run_ms: int) -> dict[str, object]:
    """Turn about: alone, with pages, with pages, alone, ..."""
    port = free_port()
    rates: dict[bool, list[float]] = {False: [], True: []}
    ratios, shares, events = [], [], []
    with bench.serving(FOREBAY, {**row.forebay, "http.listen": f"127.0.0.1:{port}"}, row.inflight) as broker:
        Page(port).wait()
        page = page_of(broker)
        for turn in range(rounds):
            pair: dict[bool, float] = {}
            for looked_at in (False, True) if turn % 2 else (True, False):
                watch = subprocess.Popen(
                    [sys.executable, "-m", "tests.bench.pages", "look", str(port), str(PAGES if looked_at else 0)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=beside_env(),
                )  # fmt: skip
                time.sleep(SETTLE_S)
                cpu, began = process_cpu_s(page), time.monotonic()
                found = bench.run_load(broker, {**row.load, "run_ms": run_ms, "warm_ms": min(500, run_ms)})
                share = (process_cpu_s(page) - cpu) / (time.monotonic() - began)
                told, _ = watch.communicate()
                pair[looked_at] = found["messages"] / found["seconds"]
                rates[looked_at].append(pair[looked_at])
                if looked_at:
                    shares.append(share)
                    events.append(float(told))
            ratios.append(pair[True] / pair[False])
    return {
        "row": row.name, "alone": round(statistics.median(rates[False])),
        "pages": round(statistics.median(rates[True])),
        "ratio": round(statistics.median(ratios), 3), "page_cpu": round(statistics.median(shares), 3),
        "events_s": round(statistics.median(events), 2),
    }  # fmt: skip


def main(rounds: int, run_ms: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for row in ROWS:
            if row.name in MEASURED:
                print(json.dumps(measure(bench, row, rounds, run_ms)), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["look"]:
        asyncio.run(look(int(sys.argv[2]), max(int(sys.argv[3]), 0)) if int(sys.argv[3]) else asyncio.sleep(0))
    else:
        given = [*sys.argv[1:], *("5", "2000")[len(sys.argv) - 1 :]]
        main(int(given[0]), int(given[1]))
