"""Forebay beside mosquitto on one machine, taking turns: the broker on one core, the load on the other."""

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
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bench import applications, engines, scale, sweep, uplinks
from tests.bench.measuring import Bench, Figures, interpreted_modules
from tests.bench.report import show
from tests.bench.workloads import AUTOSAVE, FOREBAY, INTERPRETED, MOSQUITTO, PAYLOAD_BYTES, Row, selected
from tests.harness import beside_env, mosquitto_version

SCALES = (
    "connections",
    "queued",
    "apps",
    "drain",
    "uplinks",
    "commits",
    "gil",
    "payloads",
    "sweep",
    "consume",
    "engines",
)

PACED_MORE: Final = 8  # rounds: what sleeps most of the time depends on who else the machine serves


def note(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def summary(runs: Sequence[Figures]) -> Figures:
    """Medians over the rounds."""
    rates = [one["messages"] / one["seconds"] for one in runs]
    messages = [max(one["messages"], 1) for one in runs]
    cpus = [one["cpu_s"] / n * 1e6 for one, n in zip(runs, messages, strict=True)]
    figures: Figures = {
        "rate": statistics.median(rates),
        "rates": [round(rate) for rate in rates],
        "cpu_s_per_million": statistics.median(cpus),
        "cpus": [round(cpu, 3) for cpu in cpus],
        "written_each": statistics.median(one["written"] / n for one, n in zip(runs, messages, strict=True)),
        "rss": max(one["rss"] for one in runs),
    }
    for what in ("delivery_us", "puback_us"):
        if what in runs[0]:
            figures[what] = [statistics.median(one[what][i] for one in runs) for i in range(3)]
            figures[f"{what}_p99s"] = [one[what][1] for one in runs]
    return figures


def compare(bench: Bench, rows: Sequence[Row], kinds: Sequence[str], rounds: int, run_ms: int) -> Figures:
    """All rows with all contestants, round by round; the order turns around each time."""
    runs: dict[str, dict[str, list[Figures]]] = {}
    ceilings: dict[str, float] = {}
    for turn in range(rounds + PACED_MORE if rounds > 1 else rounds):
        for row in rows:
            if turn >= rounds and "rate" not in row.load:
                continue
            taking_part = [kind for kind in row.kinds if kind in kinds]
            for kind in taking_part if turn % 2 == 0 else reversed(taking_part):
                note(f"round {turn + 1}: {row.name} {kind}")
                try:
                    found = bench.measure(kind, row, run_ms)
                except RuntimeError as error:
                    raise RuntimeError(f"{row.name} {kind}: {error}") from error
                runs.setdefault(row.name, {}).setdefault(kind, []).append(found)
    found_rows: dict[str, dict[str, Figures]] = {}
    for row in rows:
        for kind in (kind for kind in row.kinds if kind in runs.get(row.name, {})):
            figures = summary(runs[row.name][kind])
            if kind != AUTOSAVE:
                figures["syscalls_each"] = bench.syscalls(kind, row)
            found_rows.setdefault(row.name, {})[kind] = figures
        if row.load["qos"] == 0 and row.load["publishers"] == 1 and not row.load.get("rate"):
            ceilings[row.name] = bench.ceiling(row, run_ms)
    return {"rows": found_rows, "ceilings": ceilings}


def scales(bench: Bench, names: Sequence[str], kinds: Sequence[str], quick: bool) -> Figures:
    """Connections, the long queue, the interpreter lock, how many messages gather."""
    found: Figures = {"scale": {}, "gil": {}, "commits": {}, "payloads": {}, "sweep": {}, "consume": {}}
    for kind in kinds:
        if kind not in (FOREBAY, MOSQUITTO):
            continue
        if "connections" in names:
            note(f"connections {kind}")
            counts = (1000, 10_000)
            found["scale"].setdefault("connections", {})[kind] = scale.connections(bench, kind, counts)
        if "queued" in names:
            note(f"queued {kind}")
            found["scale"].setdefault("queued", {})[kind] = scale.queued(bench, kind, 100_000 if quick else 1_000_000)
    if "apps" in names and FOREBAY in kinds:
        note("apps")
        found["scale"]["apps"] = {FOREBAY: applications.readers(bench, 20_000 if quick else 100_000, 2000)}
    if "drain" in names and FOREBAY in kinds:
        note("drain")
        found["scale"]["drain"] = {FOREBAY: applications.drain(bench, 200_000 if quick else 1_000_000, 2000)}
    if "uplinks" in names and FOREBAY in kinds:
        note("uplinks")
        count = 200_000 if quick else 1_000_000
        found["scale"]["uplinks"] = {FOREBAY: {**uplinks.drain(bench, count), **uplinks.disk(bench, count // 10)}}
    if "engines" in names and FOREBAY in kinds:
        note("engines")
        found["scale"]["engines"] = engines.measure(bench, 20_000 if quick else 100_000)
    if "sweep" in names and FOREBAY in kinds:
        note("sweep")
        found["sweep"] = sweep.measure(bench, 500 if quick else 2000)
    small = "200000" if quick else "1000000"
    for name, module, *arguments in (
        ("gil", "gil"),
        ("payloads", "micro_sparkplug"),
        ("commits", "commits", small),
        ("consume", "consume", "50000" if quick else "200000"),
    ):
        if name in names and FOREBAY in kinds:
            note(name)
            found[name] = beside(bench, module, *arguments)
    return found


def beside(bench: Bench, module: str, *arguments: str) -> Figures:
    """The figures of a module that needs a process of its own."""
    env = {**beside_env(), "TMPDIR": str(bench.directory)}
    line = [sys.executable, "-m", f"tests.bench.{module}", *arguments]
    found: Figures = json.loads(subprocess.run(line, env=env, check=True, capture_output=True, text=True).stdout)
    return found


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument(
        "--quick", action="store_true", help="one round of 0.7 s each, 100,000 queued; 5 minutes in all"
    )
    parser.add_argument("--rounds", type=int, help="rounds (3); figures are medians")
    parser.add_argument("--seconds", type=float, help="seconds measured in a run (2)")
    parser.add_argument(
        "--only", default="", help=f"rows or groups, as in W1,paced; {', '.join(SCALES)} are names of their own"
    )
    parser.add_argument("--broker", choices=[FOREBAY, MOSQUITTO], help="measure one of the two")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    parser.add_argument("--dir", type=Path, help="the disk to measure on (the one of temporary files)")
    return parser.parse_args(arguments)


def title_of(kinds: Sequence[str], slow: Sequence[str], directory: Path, rounds: int, run_ms: int) -> str:
    build = "" if FOREBAY not in kinds else " INTERPRETED" if slow else " compiled"
    versus = f"mosquitto {mosquitto_version()}" if shutil.which("mosquitto") else "no mosquitto"
    kind = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=False).stdout
    return (
        f"forebay{build}, {versus}, Python {platform.python_version()}, {os.cpu_count()} cores, {kind.strip()} disk, "
        f"median of {rounds} x {run_ms / 1000:g} s, {PAYLOAD_BYTES}-byte payloads"
    )


def keep(figures: Figures, target: Path | None) -> None:
    if target is not None:
        target.write_text(json.dumps(figures, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = arguments_of(arguments)
    os.environ["PATH"] += ":/usr/sbin"
    kinds = [chosen.broker] if chosen.broker else [MOSQUITTO, FOREBAY, INTERPRETED, AUTOSAVE]
    for need in ["cc", *(["mosquitto"] if MOSQUITTO in kinds else [])]:
        if not shutil.which(need):
            print(f"bench: {need} is not installed", file=sys.stderr)
            return 2
    if FOREBAY in kinds and importlib.util.find_spec("gateway") is None:
        print(f"bench: {sys.executable} has no gateway to measure: install it, or set PYTHONPATH", file=sys.stderr)
        return 2
    slow = interpreted_modules() if FOREBAY in kinds else []
    rounds = chosen.rounds or (1 if chosen.quick else 3)
    run_ms = round((chosen.seconds or (0.7 if chosen.quick else 2)) * 1000)
    words = chosen.only.split(",")
    with tempfile.TemporaryDirectory(prefix="forebay-bench-", dir=chosen.dir) as name:
        bench = Bench(Path(name))
        figures: Figures = {"title": title_of(kinds, slow, Path(name), rounds, run_ms), "interpreted": slow}
        figures |= compare(bench, selected(chosen.only), kinds, rounds, run_ms)
        keep(figures, chosen.json)
        # the sweep alone takes minutes: --quick leaves it out unless it is named
        wanted = [one for one in SCALES if one in words or not (chosen.only or (chosen.quick and one == "sweep"))]
        figures |= scales(bench, wanted, kinds, chosen.quick)
    good = show(figures, sys.stdout)
    keep(figures, chosen.json)
    return 0 if good or not chosen.check else 1
