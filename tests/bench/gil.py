"""The store's writer beside an event loop that never idles: what the interpreter lock costs a commit.

``python -m tests.bench.gil`` prints one line of JSON: milliseconds of a commit of 1,000 messages while the loop waits,
and while it forwards QoS 0 without end.
"""

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final, final

from gateway import process
from gateway.core.batch import Batch
from gateway.core.limits import Limits
from gateway.store.sqlite import Store
from tests.bench.core_rig import Rig

MESSAGES: Final = 1000
COMMITS: Final = 20
FLOOD: Final = 400  # QoS 0 messages in one read


@final
class Meter:
    """A store on the disk, its commits timed from the hand-over to the answer on the loop."""

    def __init__(self, path: Path) -> None:
        self.loop = asyncio.get_running_loop()
        self.done = asyncio.Event()
        self.spinning = False
        self.turns = 0
        self.store = Store(path, on_done=self._on_done, on_read=lambda _token, _rows: None)
        self.store.open()
        self.store.start()
        self.flood = Rig(Limits())
        self.frames = self.flood.publisher("flood", b"flood/topic", 0, bytes(64), FLOOD)
        self.flood.subscriber("taker", "flood/#", 0, False)

    def _on_done(self, _number: int, error: str | None) -> None:
        assert error is None, error
        self.loop.call_soon_threadsafe(self.done.set)

    def _spin(self) -> None:
        if self.spinning:
            self.turns += 1
            self.flood.feed("flood", self.frames)
            self.flood.take()
            self.loop.call_soon(self._spin)

    async def commit_ms(self, batch: Batch) -> float:
        self.done.clear()
        start = time.perf_counter()
        self.store.submit(batch)
        await self.done.wait()
        return (time.perf_counter() - start) * 1000

    async def run(self) -> dict[str, float]:
        batches = full_batches(2 * COMMITS)
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(COMMITS):
            for spinning in times:  # by turns: what slows the machine for a while slows both
                self.spinning = spinning
                self.loop.call_soon(self._spin)
                await asyncio.sleep(0.01)
                times[spinning].append(await self.commit_ms(batches.pop(0)))
        found: dict[str, float] = {}
        for spinning, name in ((False, "idle"), (True, "saturated")):
            found[f"{name}_ms"] = statistics.median(times[spinning])
            found[f"{name}_max_ms"] = max(times[spinning])
        assert self.turns > COMMITS
        self.spinning = False
        return {**found, "ratio": found["saturated_ms"] / found["idle_ms"]}


def full_batches(count: int) -> list[Batch]:
    """Batches of the core's own making with MESSAGES messages each."""
    rig = Rig(Limits())
    rig.subscriber("collector", "plant/#", 1, True)
    rig.commit()
    rig.leave("collector")
    rig.commit()
    batches = []
    frames = rig.publisher("machine", b"plant/line", 1, bytes(64), MESSAGES)
    for _ in range(count):
        rig.feed("machine", frames)
        batch = rig.commit()
        assert batch is not None
        assert len(batch.records) > MESSAGES * 64
        batches.append(batch)
    return batches


async def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        meter = Meter(Path(name) / "forebay.db")
        found = await meter.run()
        meter.store.close()
        return found


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=process.loop_factory()) as runner:
        process.settle()
        print(json.dumps(runner.run(measure())))
