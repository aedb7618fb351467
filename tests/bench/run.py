"""Forebay beside mosquitto on one machine, alternating: the broker on one core, the load on another.

W1 QoS 0, 1 publisher -> 1 subscriber, pipelined; W2 QoS 0, 1 -> 50; W3 QoS 0, 50 -> 1; W4 QoS 1, 1 -> 1, sessions in
memory, 20 and 200 in flight. 64-byte payloads. Messages are counted where they are received (W2: at all subscribers).
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from tests.harness import Broker, Mosquitto, Server, build_c, gateway_root, mosquitto_version

PAYLOAD_BYTES = 64


class Workload(NamedTuple):
    name: str
    title: str
    qos: int
    publishers: int
    subscribers: int
    window: int  # QoS 1 publishes in flight
    ahead: int  # messages sent and not yet received; under every queue limit of both brokers
    target: float  # least ratio of the rates


WORKLOADS = (
    Workload("W1", "QoS 0, 1 -> 1", 0, 1, 1, 0, 8000, 20),
    Workload("W2", "QoS 0, 1 -> 50", 0, 1, 50, 0, 2000, 20),
    Workload("W3", "QoS 0, 50 -> 1", 0, 50, 1, 0, 8000, 10),
    Workload("W4/20", "QoS 1, 1 -> 1, window 20", 1, 1, 1, 20, 800, 2),
    Workload("W4/200", "QoS 1, 1 -> 1, window 200", 1, 1, 1, 200, 800, 0),
)


class Result(NamedTuple):
    rate: float  # messages per second, received
    cpu_s_per_million: float
    rss_bytes: int


def interpreted_modules() -> list[str]:
    """Modules that ought to be compiled and are not (mypyc falls back to the .py without a word)."""
    root = gateway_root() / "gateway"
    sources = [path for part in ("mqtt", "core") for path in sorted((root / part).glob("*.py"))]
    sources += [root / "net" / "connection.py"]
    names = [
        ".".join(path.relative_to(root.parent).with_suffix("").parts) for path in sources if path.stem != "__init__"
    ]
    specs = {name: importlib.util.find_spec(name) for name in names}
    return [name for name, spec in specs.items() if spec is None or not str(spec.origin).endswith(".so")]


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Processes started inside run on that core."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cores() -> tuple[int | None, int | None]:
    """One for the broker, one for the load; nothing is pinned where there is only one."""
    found = sorted(os.sched_getaffinity(0))
    return (found[0], found[-1]) if len(found) > 1 else (None, None)


def drive(load: Path, work: Workload, port: int, pid: int, warm_ms: int, run_ms: int) -> Result:
    """One run of the load against a broker that is already there."""
    line = [load, "run", port, work.qos, work.publishers, work.subscribers, PAYLOAD_BYTES, work.window, work.ahead]
    with pinned(cores()[1]):
        done = subprocess.run(
            [str(item) for item in [*line, warm_ms, run_ms, pid]],
            capture_output=True, text=True, check=False, timeout=(warm_ms + run_ms) / 1000 + 60,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{work.name}: {done.stderr.strip() or f'load ended with {done.returncode}'}")
    found: dict[str, Any] = json.loads(done.stdout)
    rss = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pid else 0
    return Result(found["messages"] / found["seconds"], found["cpu_s"] / max(found["messages"], 1) * 1e6, rss)


def server(kind: str, work: Workload, directory: Path) -> Server:
    if kind == "mosquitto":
        return Mosquitto(directory / kind, {"max_inflight_messages": max(work.window, 20)})
    return Broker(directory / kind, {"mqtt.max_inflight": max(work.window, 20)})


def measure(kind: str, load: Path, work: Workload, directory: Path, warm_ms: int, run_ms: int) -> Result:
    """One run against a fresh broker."""
    with tempfile.TemporaryDirectory(dir=directory) as fresh:
        broker = server(kind, work, Path(fresh))
        with pinned(cores()[0]):
            broker.start()
        with broker:
            return drive(load, work, broker.port, broker.pid, warm_ms, run_ms)


def ceiling(load: Path, work: Workload, run_ms: int) -> float:
    """What the load does against a relay that parses nothing (QoS 0, one publisher): messages per second."""
    with pinned(cores()[0]):
        relay = subprocess.Popen([load, "relay", str(work.subscribers)], stdout=subprocess.PIPE, text=True)
    try:
        assert relay.stdout is not None
        return drive(load, work, int(relay.stdout.readline()), 0, 200, run_ms).rate
    finally:
        relay.kill()
        relay.communicate()


def compare(kinds: Sequence[str], only: Sequence[str], rounds: int, warm_ms: int, run_ms: int) -> dict[str, Any]:
    """Medians over the rounds: workload -> kind -> figures; the brokers take turns."""
    runs: dict[str, dict[str, list[Result]]] = {}
    ceilings: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="forebay-bench-") as name:
        load = build_c(Path(__file__).with_name("load.c"), Path(name) / "load")
        for turn in range(rounds):
            for work in WORKLOADS:
                if only and work.name not in only:
                    continue
                for kind in kinds if turn % 2 == 0 else reversed(kinds):
                    print(f"  round {turn + 1}: {work.name} {kind}", file=sys.stderr)
                    result = measure(kind, load, work, Path(name), warm_ms, run_ms)
                    runs.setdefault(work.name, {}).setdefault(kind, []).append(result)
                if turn == 0 and work.qos == 0 and work.publishers == 1:
                    ceilings[work.name] = ceiling(load, work, run_ms)
    figures: dict[str, Any] = {}
    for workload, found in runs.items():
        figures[workload] = {
            kind: {
                "rate": statistics.median(one.rate for one in results),
                "rates": [round(one.rate) for one in results],
                "cpu_s_per_million": statistics.median(one.cpu_s_per_million for one in results),
                "rss_bytes": max(one.rss_bytes for one in results),
            }
            for kind, results in found.items()
        }
        if workload in ceilings:
            figures[workload]["load_ceiling"] = ceilings[workload]
    return figures


def show(figures: dict[str, Any], title: str, out: TextIO) -> bool:
    """Print the table; False when a ratio is under its target."""
    print(title, file=out)
    head = f"{'':8}{'':27}{'forebay':>12}{'mosquitto':>12}{'ratio':>8}{'target':>8}"
    print(head + f"{'CPU s/M':>9}{'mosq.':>8}{'ratio':>7}{'ceiling':>12}", file=out)
    good = True
    for work in WORKLOADS:
        found = figures.get(work.name)
        if not found:
            continue
        ours, theirs = found.get("forebay"), found.get("mosquitto")
        line = f"{work.name:8}{work.title:27}"
        line += "".join(f"{one['rate']:12,.0f}" if one else f"{'-':>12}" for one in (ours, theirs))
        ratio = ours["rate"] / theirs["rate"] if ours and theirs else None
        good = good and (ratio is None or ratio >= work.target)
        line += f"{ratio:8.1f}" if ratio is not None else f"{'-':>8}"
        line += f"{'>=' + format(work.target, 'g') if work.target else '':>8}"
        for one, width in ((ours, 9), (theirs, 8)):
            line += f"{one['cpu_s_per_million']:{width}.2f}" if one else f"{'-':>{width}}"
        cpu = theirs["cpu_s_per_million"] / max(ours["cpu_s_per_million"], 0.001) if ours and theirs else None
        line += f"{cpu:7.1f}" if cpu is not None else f"{'-':>7}"
        line += f"{found['load_ceiling']:12,.0f}" if "load_ceiling" in found else ""
        print(line, file=out)
    return good


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--quick", action="store_true", help="one round of one second each")
    parser.add_argument("--rounds", type=int, help="rounds (3); figures are medians")
    parser.add_argument("--seconds", type=float, help="seconds measured in a run (3)")
    parser.add_argument("--only", default="", help="workloads, as in W1,W4/20")
    parser.add_argument("--broker", choices=["forebay", "mosquitto"], help="measure one of the two")
    parser.add_argument("--check", action="store_true", help="exit 1 when a ratio is under its target")
    chosen = parser.parse_args(arguments)
    os.environ["PATH"] += ":/usr/sbin"
    kinds = [chosen.broker] if chosen.broker else ["mosquitto", "forebay"]
    for need in ["cc", *(["mosquitto"] if "mosquitto" in kinds else [])]:
        if not shutil.which(need):
            print(f"bench: {need} is not installed", file=sys.stderr)
            return 2
    if "forebay" in kinds and importlib.util.find_spec("gateway") is None:
        print(f"bench: {sys.executable} has no gateway to measure: install it, or set PYTHONPATH", file=sys.stderr)
        return 2
    slow = interpreted_modules() if "forebay" in kinds else []
    rounds = chosen.rounds or (1 if chosen.quick else 3)
    run_ms = round((chosen.seconds or (1 if chosen.quick else 3)) * 1000)
    figures = compare(kinds, [name for name in chosen.only.split(",") if name], rounds, min(500, run_ms), run_ms)
    build = "" if "forebay" not in kinds else " INTERPRETED" if slow else " compiled"
    versus = f"mosquitto {mosquitto_version()}" if shutil.which("mosquitto") else "no mosquitto"
    title = f"forebay{build}, {versus}, Python {platform.python_version()}, {os.cpu_count()} cores, "
    title += f"median of {rounds} x {run_ms / 1000:g} s, {PAYLOAD_BYTES}-byte payloads, messages/s"
    good = show(figures, title, sys.stdout)
    if slow:
        print(f"not compiled: {', '.join(slow)}")
    if chosen.json:
        chosen.json.write_text(json.dumps({"title": title, "interpreted": slow, "workloads": figures}, indent=1) + "\n")
    return 0 if good or not chosen.check else 1
