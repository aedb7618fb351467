"""kill -9 of a consumer at every step of retry_after: each message is handled at least once, none is lost.

The steps are the packets of an undisturbed run, one after another, each before or after it passed, and those inside the
process. What follows is the same consumer again, or a second one that takes the session over while the first still
hangs. FOREBAY_LONG=1 tries each step in all four ways, and QoS 2; else the ways take turns.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, final

import pytest

from tests import wire_format as mqtt
from tests.harness import Broker, Mosquitto, Server
from tests.recorder import Recorder
from tests.waiting import until
from tests.wire import Wire
from tests.wire_format import Packet

CLIENT: Final = Path(__file__).parent / "clients" / "retrier.py"
LONG: Final = bool(os.environ.get("FOREBAY_LONG"))
TIMEOUT_S: Final = 120.0
MESSAGES: Final = 2
AT_ONCE: Final = 4
INSIDE: Final = {
    "forebay": ["handler"],
    "mosquitto": ["handler", "before add", "after add", "before remove", "after remove"],
}

pytestmark = pytest.mark.timeout(600 if LONG else 500)


@pytest.fixture(scope="module", params=["forebay", "mosquitto"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp(request.param) / "data"
    if request.param == "mosquitto" and shutil.which("mosquitto") is None:
        pytest.skip("mosquitto is not installed")
    with Broker(place) if request.param == "forebay" else Mosquitto(place, {"persistence": True}) as started:
        yield started


@final
class Run:
    """One client id: consumers behind a recorder, one after another."""

    def __init__(self, broker: Server, recorder: Recorder, path: Path, name: str, qos: int) -> None:
        self.broker, self.recorder, self.path, self.name, self.qos = broker, recorder, path / name, name, qos
        self.path.mkdir()
        self.notes = self.path / "notes"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, step: str = "") -> "subprocess.Popen[bytes]":
        arguments = [str(self.recorder.port), self.name, f"{self.name}/t", str(self.qos)]
        with (self.path / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(CLIENT), *arguments, str(self.path / "journal"), str(self.notes), step],
                env=Broker(self.path).environment(), cwd=self.path, stderr=log,
            )  # fmt: skip
        self.processes.append(process)
        return process

    async def until(self, true: Callable[[], object]) -> None:
        try:
            await until(true, TIMEOUT_S)
        except TimeoutError:
            trace = "\n".join(self.recorder.trace)
            raise AssertionError(f"{self.name}\n{trace}\n{(self.path / 'log').read_text()}") from None

    def prepare(self) -> None:
        """The session with its subscription, and messages that wait in it."""
        topic = f"{self.name}/t"
        kept = [(mqtt.SESSION_EXPIRY, 3600)]
        with Wire.connect(self.broker.port, self.name, version=5, clean=False, props=kept) as wire:
            wire.subscribe(topic, qos=self.qos)
            wire.disconnect()
        with Wire.connect(self.broker.port, version=5) as wire:
            for number in range(MESSAGES):
                wire.publish_done(topic, b"m%d" % number, self.qos)

    def done(self) -> set[str]:
        """Messages whose second or later attempt was handled, and how often each was tried."""
        return set(self.notes.read_text().split("\n")) if self.notes.exists() else set()

    def all_done(self) -> bool:
        tried = [line.split() for line in self.done() if line]
        return {name for name, attempt in tried if int(attempt) > 1} >= {f"m{n}" for n in range(MESSAGES)}

    async def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def packets(run: Run) -> list[str]:
    return [line for line in run.recorder.trace if line != "connect"]


async def disturbed(
    broker: Server, path: Path, name: str, qos: int, step: "int | str", passes: bool, takeover: bool
) -> None:
    """Kill the consumer at this packet, or this step of its own; then somebody goes on."""
    async with Recorder(broker.port) as recorder:
        run = Run(broker, recorder, path, name, qos)
        try:
            run.prepare()
            reached = asyncio.Event()
            first: list[subprocess.Popen[bytes]] = []

            def gate(line: str, packet: Packet) -> bool:
                if len(packets(run)) != step or reached.is_set():
                    return True
                first[0].send_signal(signal.SIGSTOP if takeover else signal.SIGKILL)
                reached.set()
                return passes

            recorder.gate = gate
            first.append(run.start(step if isinstance(step, str) else ""))
            await run.until(lambda: reached.is_set() or first[0].poll() is not None)
            if takeover and isinstance(step, int):
                before = recorder.connections
                run.start()
                await run.until(lambda: recorder.connections > before)
                first[0].kill()
            else:
                run.start()
            await run.until(run.all_done)
        finally:
            await run.end()


async def undisturbed(broker: Server, path: Path, qos: int) -> int:
    """How many packets there are."""
    async with Recorder(broker.port) as recorder:
        run = Run(broker, recorder, path, f"calm{qos}", qos)
        try:
            run.prepare()
            process = run.start()
            await run.until(run.all_done)
            process.terminate()
            await run.until(lambda: process.poll() is not None)
            assert sum(line.startswith(("out PUBACK d", "out PUBREC d")) for line in packets(run)) >= 4
            return len(packets(run))
        finally:
            await run.end()


@pytest.mark.parametrize("qos", [1, 2] if LONG else [1])
async def test_nothing_is_lost_at_any_step(broker: Server, tmp_path: Path, qos: int) -> None:
    count = await undisturbed(broker, tmp_path, qos)
    kind = "forebay" if isinstance(broker, Broker) else "mosquitto"
    cases: list[tuple[int | str, bool, bool]] = [(step, True, False) for step in INSIDE[kind]]
    for step in range(1, count + 1):
        for passes in (False, True) if LONG else (step % 2 == 0,):
            takeovers = (False, True) if LONG else (step % 4 < 2,)
            cases += [(step, passes, takeover) for takeover in takeovers]
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, case: tuple[int | str, bool, bool]) -> None:
        async with gate:
            await disturbed(broker, tmp_path, f"k{qos}-{number}", qos, *case)

    results = await asyncio.gather(*[one(n, case) for n, case in enumerate(cases)], return_exceptions=True)
    failed = [(case, error) for case, error in zip(cases, results, strict=True) if error is not None]
    assert failed == []
