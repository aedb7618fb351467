"""One load against one broker: processes pinned to their cores, and what the kernel says of them."""

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, final

from tests.bench.workloads import AUTOSAVE, FOREBAY, INTERPRETED, MOSQUITTO, PAYLOAD_BYTES, SAVE_CHANGES, Row
from tests.harness import Broker, Mosquitto, Server, build_c, gateway_root

Figures = dict[str, Any]
NICE: Final = -20


def interpreted_modules() -> list[str]:
    """Modules that ought to be compiled and are not (mypyc falls back to the .py without a word)."""
    root = gateway_root()
    sources = [path for part in ("mqtt", "core") for path in sorted((root / "gateway" / part).glob("*.py"))]
    sources += [root / "gateway" / "net" / "connection.py", root / "sparkplug" / "scan.py"]
    names = [".".join(path.relative_to(root).with_suffix("").parts) for path in sources if path.stem != "__init__"]
    specs = {name: importlib.util.find_spec(name) for name in names}
    return [name for name, spec in specs.items() if spec is None or not str(spec.origin).endswith(".so")]


def interpreted_copy(directory: Path) -> Path:
    """A folder with the gateway but without its compiled modules."""
    target = directory / "interpreted"
    if not target.exists():
        shutil.copytree(gateway_root() / "gateway", target / "gateway", ignore=shutil.ignore_patterns("*.so", "__pyc*"))
    assert not list(target.rglob("*.so"))
    return target


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Processes started inside run on that core, before all others there where that is allowed."""
    before, nice = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, nice)


def cores() -> tuple[int | None, int | None]:
    """One for the broker, one for the load; nothing is pinned where there is only one."""
    found = sorted(os.sched_getaffinity(0))
    return (found[0], found[-1]) if len(found) > 1 else (None, None)


def urgent() -> tuple[str, ...]:
    """What makes a process go before the others on its core, where that is allowed: else its latencies are theirs."""
    line = ("chrt", "-f", "10")
    try:
        allowed = subprocess.run([*line, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return line if allowed else ()


@final
class Bench:
    """The load generator, and a directory on the disk that is measured."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.load = build_c(Path(__file__).with_name("load.c"), directory / "load", "-lm")

    def server(self, kind: str, data: Path, settings: Mapping[str, object], inflight: int) -> Server:
        """A contestant, not started yet. ``settings`` are in its own language."""
        if kind in (MOSQUITTO, AUTOSAVE):
            extra = SAVE_CHANGES if kind == AUTOSAVE else {}
            return Mosquitto(data / kind, {"max_inflight_messages": inflight, **settings, **extra})
        chosen = {"mqtt.max_inflight": inflight, "mqtt.receive_maximum": 1000, **settings}
        if kind == FOREBAY:
            return Broker(data / kind, chosen)
        assert kind == INTERPRETED
        return Broker(data / kind, chosen, root=interpreted_copy(self.directory))

    @contextmanager
    def serving(self, kind: str, settings: Mapping[str, object], inflight: int) -> Iterator[Server]:
        """A fresh broker on the first core; killed at the end, its data removed."""
        with tempfile.TemporaryDirectory(dir=self.directory, ignore_cleanup_errors=True) as fresh:
            broker = self.server(kind, Path(fresh), settings, inflight)
            with pinned(cores()[0]):
                broker.start()
            with broker:
                if kind == INTERPRETED and "(interpreted)" not in broker.log():
                    raise RuntimeError(f"the interpreted copy is not what runs:\n{broker.log()}")
                yield broker

    def start_load(self, broker: Server | None, load: Mapping[str, object], *prefix: str) -> subprocess.Popen[str]:
        """Begin a run of the load on the other core."""
        keys = {"payload": PAYLOAD_BYTES, **load}
        if broker is not None:
            keys |= {"port": broker.port, "pid": broker.pid}
        line = [*prefix, str(self.load), "run", *(f"{key}={value}" for key, value in keys.items())]
        with pinned(cores()[1]):
            return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_load(self, broker: Server | None, load: Mapping[str, object], *prefix: str) -> Figures:
        """One run of the load from begin to end."""
        return finished(self.start_load(broker, load, *prefix))

    def measure(self, kind: str, row: Row, run_ms: int) -> Figures:
        """One run of a row against a fresh broker."""
        settings = row.mosquitto if kind in (MOSQUITTO, AUTOSAVE) else row.forebay
        with self.serving(kind, settings, row.inflight) as broker:
            found = self.run_load(broker, {**row.load, "run_ms": run_ms, "warm_ms": min(500, run_ms)})
            return {**found, "rss": broker.rss_bytes()}

    def syscalls(self, kind: str, row: Row) -> float | None:
        """System calls of the broker for each message, in a run of its own; None where nothing can count them."""
        settings = row.mosquitto if kind in (MOSQUITTO, AUTOSAVE) else row.forebay
        with self.serving(kind, settings, row.inflight) as broker:
            report = self.directory / "syscalls"
            if shutil.which("perf"):
                count = [
                    "perf",
                    "stat",
                    "-x,",
                    "-e",
                    "raw_syscalls:sys_enter",
                    "-o",
                    str(report),
                    "-p",
                    str(broker.pid),
                ]
                try:
                    found = self.run_load(broker, {**row.load, "warm_ms": 0, "run_ms": 300}, *count)
                except RuntimeError:
                    return None
                counted = [line.split(",")[0] for line in report.read_text().splitlines() if "sys_enter" in line]
                return int(counted[0]) / found["total"] if counted and counted[0].isdigit() else None
            if not shutil.which("strace"):
                return None
            tracer = subprocess.Popen(["strace", "-c", "-f", "-o", str(report), "-p", str(broker.pid)])
            found = self.run_load(broker, {**row.load, "warm_ms": 0, "run_ms": 300})
            tracer.terminate()
            tracer.wait()
            total = report.read_text().splitlines()[-1].split()
            return int(total[3]) / found["total"] if total[-1:] == ["total"] else None

    def ceiling(self, row: Row, run_ms: int) -> float:
        """What the load does against a relay that parses nothing (QoS 0, one publisher): messages per second."""
        with pinned(cores()[0]):
            relay = subprocess.Popen(
                [self.load, "relay", str(round(row.load["collectors"]))], stdout=subprocess.PIPE, text=True
            )
        try:
            assert relay.stdout is not None
            found = self.run_load(None, {**row.load, "port": int(relay.stdout.readline()), "run_ms": run_ms})
            rate: float = found["messages"] / found["seconds"]
            return rate
        finally:
            relay.kill()
            relay.communicate()


def finished(load: subprocess.Popen[str]) -> Figures:
    """What a run of the load found, once it is over. RuntimeError when it failed."""
    out, errors = load.communicate(timeout=300)
    if load.returncode:
        raise RuntimeError(errors.strip() or f"the load ended with {load.returncode}")
    found: Figures = json.loads(out)
    return found
