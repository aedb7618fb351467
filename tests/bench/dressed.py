"""What an appliance's dress costs: the same rows plain, and with a TLS listener, metrics, the status page and rules.

``python -m tests.bench.dressed [ROUNDS] [MS] [ROWS]`` prints a line of JSON for each row: messages per second of both
(medians), and dressed over plain for the rate, the broker's CPU for each message and the 99th percentile of the
delivery (medians of the ratios of neighbouring runs). Dressed: rules for every topic, a listener with TLS, metrics read
each second, one page that is looked at. The load comes by plain TCP both times: what TLS itself costs is OpenSSL's.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, final

from gateway.certificates import Authority
from gateway.cli.control import RefusedError, ask
from gateway.store.clock import read_clocks
from tests.bench.measuring import Bench, Figures
from tests.bench.pages import SETTLE_S, page_of
from tests.bench.workloads import FOREBAY, Row, selected
from tests.harness import Server, beside_env, free_port, process_cpu_s
from tests.page import Page

MEASURED: Final = "W1,W2,W3,W4/20,W4/200,off/20x20,off/50x200,off/20x1,off/1x1,W6/0,W6/1,W6/kept,W7,W8,W9"
SCRAPE_S: Final = 1.0  # between two readings of the metrics: fifteen times as often as is usual
RULES: Final = (
    {"deny": "write", "topic": "recipes/#"},
    {"deny": "readwrite", "topic": "load/secret/#", "client_id": "panel-*"},
    {"allow": "readwrite", "topic": "devices/%c/#"},
    {"allow": "readwrite", "topic": "load/#"},
    {"allow": "readwrite", "topic": "spBv1.0/#"},
)


def dress(folder: Path, port: int) -> dict[str, object]:
    """Settings; ``port`` is for HTTP. The plant's certificates are made in ``folder``."""
    authority = Authority(folder / "ca", read_clocks().wall_ms)
    if not authority.certificate.exists():
        authority.create("bench")
        authority.issue("gateway", server=True, hosts=("127.0.0.1",))
    issued = authority.folder / "issued"
    return {
        "listeners.tls": f"127.0.0.1:{free_port()}",
        "tls.cert": issued / "gateway.crt", "tls.key": issued / "gateway.key",
        "http.listen": f"127.0.0.1:{port}",
        "acl": ",".join(shown(rule) for rule in RULES),
    }  # fmt: skip


def shown(rule: dict[str, str]) -> str:
    """A rule as text of a setting."""
    action = next(iter(rule))
    more = "".join(f";{key}={rule[key]}" for key in ("username", "client_id") if key in rule)
    return f"{action} {rule[action]} {rule['topic']}{more}"


@final
class Dressed:
    """A broker in its dress, with one page open and metrics read each second; it stands still while others run."""

    def __init__(self, broker: Server, port: int) -> None:
        self.broker = broker
        self._http = Page(port).wait()
        self._page = page_of(broker)
        self._watch = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.pages", "look", str(port), "1"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=beside_env(),
        )  # fmt: skip
        self._ended, self._running = threading.Event(), threading.Event()
        self._running.set()
        self._scraping = threading.Thread(target=self._scrape)
        self._scraping.start()
        time.sleep(SETTLE_S)
        self.stand_still(True)

    def _scrape(self) -> None:
        while not self._ended.wait(SCRAPE_S):
            if self._running.wait():
                self._http.get("/metrics")

    def stand_still(self, still: bool) -> None:
        (self._running.clear if still else self._running.set)()
        for pid in (self.broker.pid, self._page):
            os.kill(pid, signal.SIGSTOP if still else signal.SIGCONT)
        time.sleep(0.1)

    def page_cpu_s(self) -> float:
        return process_cpu_s(self._page)

    def close(self) -> None:
        self.stand_still(False)
        self._ended.set()
        self._scraping.join()
        self._watch.communicate()


def measure(bench: Bench, row: Row, rounds: int, run_ms: int) -> Figures:
    """Turn about on two brokers: plain, dressed, dressed, plain, ...; short runs, since machines have their hours."""
    port = free_port()
    load = {**row.load, "run_ms": run_ms, "warm_ms": min(200, run_ms)}
    runs: dict[bool, list[Figures]] = {False: [], True: []}
    settings = {**row.forebay, **dress(bench.directory, port)}
    with (
        bench.serving(FOREBAY, row.forebay, row.inflight) as plain,
        bench.serving(FOREBAY, settings, row.inflight) as broker,
    ):
        dressed = Dressed(broker, port)
        try:
            for turn in range(rounds):
                for is_dressed in (False, True) if turn % 2 == 0 else (True, False):
                    dressed.stand_still(not is_dressed)
                    before = dressed.page_cpu_s()
                    found = bench.run_load(broker if is_dressed else plain, load)
                    found["page_cpu"] = (dressed.page_cpu_s() - before) / found["seconds"]
                    runs[is_dressed].append(found)
                    empty(broker if is_dressed else plain)
        finally:
            dressed.close()
    return compared(row, runs[False], runs[True])


def empty(broker: Server) -> None:
    """What the run has left would wait for ever."""
    control = broker.data_dir / "control.sock"
    for one in ask(control, {"cmd": "sessions"}):
        with contextlib.suppress(RefusedError):  # it has ended by itself
            ask(control, {"cmd": "remove", "client_id": one["client_id"]})


def compared(row: Row, plain: Sequence[Figures], dressed: Sequence[Figures]) -> Figures:
    found: Figures = {
        "row": row.name,
        "plain": round(statistics.median(map(rate, plain))),
        "dressed": round(statistics.median(map(rate, dressed))),
        "rate": ratio([rate(one) for one in dressed], [rate(one) for one in plain]),
        "cpu": ratio([cpu(one) for one in dressed], [cpu(one) for one in plain]),
        "page_cpu": round(statistics.mean(one["page_cpu"] for one in dressed), 3),
    }
    if "delivery_us" in plain[0]:
        found["p99"] = ratio([one["delivery_us"][1] for one in dressed], [one["delivery_us"][1] for one in plain])
    return found


def rate(one: Figures) -> float:
    return float(one["messages"] / one["seconds"])


def cpu(one: Figures) -> float:
    return float(one["cpu_s"] / max(one["messages"], 1))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3)


def main(given: Sequence[str]) -> None:
    """ROUNDS, MS, ROWS; each may be left out."""
    rounds, run_ms, names = [*given, *("15", "400", MEASURED)[len(given) :]][:3]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for row in selected(names):
            found: dict[str, Any] = measure(bench, row, int(rounds), int(run_ms))
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
