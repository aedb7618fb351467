"""The engines that keep the log of the APPLICATIONs side by side: publishing into it and draining it."""

import os
import tempfile
import time
from pathlib import Path
from typing import Final

from gateway.cli.control import ask
from tests.bench.applications import APPLICATIONS, GROUP, PAYLOAD_BYTES, WINDOW
from tests.bench.measuring import Bench, Figures
from tests.bench.workloads import FOREBAY
from tests.engines import KINDS, EngineRig, engine_rig
from tests.harness import Broker, Server, process_cpu_s
from tests.kafka import Kafka

START_S: Final = 60
TRICKLE: Final = {
    "publishers": 1,
    "first": 100,
    "rate": 10,
    "calm": 1,
}  # beside the drain, so that the load has a publisher


def measure(bench: Bench, count: int) -> Figures:
    """By engine: messages/s, CPU us of gateway and engine and bytes written for each; or "why" it is missing."""
    found: Figures = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory(dir=bench.directory, ignore_cleanup_errors=True) as folder:
            rig, why = engine_rig(kind, Path(folder))
            if rig is None:
                found[kind] = {"why": why}
                continue
            for server in servers(rig):
                if isinstance(server, Kafka):
                    server.quick = False  # as one that serves for long
            rig.start()
            try:
                found[kind] = one(bench, rig, count)
            finally:
                rig.kill9()
                rig.close()
    return found


def one(bench: Bench, rig: EngineRig, count: int) -> Figures:
    with bench.serving(FOREBAY, {**rig.settings(), **APPLICATIONS}, WINDOW) as broker:
        wait_up(broker)
        before = used(rig)
        put = bench.run_load(
            broker,
            {"qos": 1, "payload": PAYLOAD_BYTES, **GROUP, "away": 1, "messages": count, "warm_ms": 0, "order": 1},
        )
        between = used(rig)
        got = bench.run_load(
            broker,
            {
                "qos": 1,
                "payload": PAYLOAD_BYTES,
                "collectors": 1,
                "resume": 1,
                "messages": count,
                "warm_ms": 0,
                **TRICKLE,
            },
        )
        after = used(rig)
        return {
            "publish_rate": put["messages"] / put["seconds"],
            "publish_cpu_us": 1e6 * put["cpu_s"] / count,
            "publish_engine_cpu_us": 1e6 * (between[0] - before[0]) / count,
            "publish_written": (put["written"] + between[1] - before[1]) / count,
            "drain_rate": got["messages"] / got["seconds"],
            "drain_cpu_us": 1e6 * got["cpu_s"] / count,
            "drain_engine_cpu_us": 1e6 * (after[0] - between[0]) / count,
            "rss": broker.rss_bytes(),
            "engine_rss": sum(server.rss_bytes() for server in servers(rig)),
        }


def wait_up(broker: Server) -> None:
    """What is published before that is kept here first. TimeoutError."""
    assert isinstance(broker, Broker)
    end = time.monotonic() + START_S
    while ask(broker.data_dir / "control.sock", {"cmd": "status"})["engine"].get("state", "up") != "up":
        if time.monotonic() > end:
            raise TimeoutError(f"the engine is not up after {START_S} s")
        time.sleep(0.1)


def servers(rig: EngineRig) -> list[Server]:
    return list(rig.servers)


def used(rig: EngineRig) -> tuple[float, int]:
    """CPU seconds, and bytes written to the disk, of the engine's servers so far."""
    return sum(process_cpu_s(one.pid) for one in servers(rig)), sum(written(one.pid) for one in servers(rig))


def written(pid: int) -> int:
    if not os.access(f"/proc/{pid}/io", os.R_OK):
        return 0
    lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(lines["write_bytes"])
